"""CONTRIBUTING's recipe for a chip, followed on a copy of the tree: the table is compiled there,
and Python finds the chip's card, whose kernels are searched for. (The code generator depends only
on the abilities in the chip's row.)"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from recipes import ROOT, follow, steps_of

STEPS = steps_of("Add a chip")
TABLE = "lib/Target"
MODULE = "python/bindings/TargetModule.cpp"
TEST = "test/python/cost/test_target.py"
SHARED = "libnanobind-mirage.so"

PROGRAM = """
from mirage.cost import target_for
from mirage.cost.target import CHIPS, target_of_device
from mirage.search import SearchLimits, superoptimize
from mirage.workloads import get

assert "sm_87" in CHIPS, CHIPS
card = target_for("sm_87")
assert card is target_for("orin") is target_of_device((8, 7), "Orin (nvgpu)"), card
graph = get("softmax_n1024").graph()
(best, *_) = superoptimize(graph, card, SearchLimits(candidates=2)).candidates
(faster, *_) = superoptimize(graph, target_for("a100"), SearchLimits(candidates=2)).candidates
assert best.cost.time > faster.cost.time > 0
print("found")
"""


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a copy of the files that the recipe changes, follow the recipe and compile the table."""
    import mirage._target as compiled  # says where the build is

    there = Path(str(compiled.__file__))
    commands = there.parents[2] / "compile_commands.json"
    assert commands.exists(), "run `make build` first"
    tree = tmp_path_factory.mktemp("tree")
    shutil.copytree(ROOT / "include/mirage/Target", tree / "include/mirage/Target")
    shutil.copytree(ROOT / TABLE, tree / TABLE)
    for file in (MODULE, TEST):
        (tree / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / file, tree / file)
    for step in STEPS:
        follow(step, tree)
    entries = json.loads(commands.read_text())
    entry = next(e for e in entries if e["file"].endswith(MODULE))
    words = shlex.split(entry["command"])
    compiler = next(i for i, word in enumerate(words) if not word.endswith("ccache"))
    flags = words[compiler + 1 : words.index("-o")]
    (tree / "mirage").mkdir()
    done = subprocess.run(
        [words[compiler], f"-I{tree / 'include'}", *flags, "-O0", "-shared",
         *sorted((tree / TABLE).glob("*.cpp")), tree / MODULE, there.parent / "_mlir_libs" / SHARED,
         f"-Wl,-rpath,{there.parent / '_mlir_libs'}", "-o", tree / "mirage" / there.name],
        cwd=entry["directory"], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    # The first folder of the package has the compiled modules, and adds the others.
    for module in ("__init__.py", "lazy_names.py"):
        shutil.copy(ROOT / "python/mirage" / module, tree / "mirage")
    return tree


def run(scratch: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    import mirage._target as compiled

    folders = [str(scratch), str(ROOT / "python"), str(Path(str(compiled.__file__)).parents[1])]
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=scratch,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(folders)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_recipe_touches_one_file_beside_its_test() -> None:
    assert {step.file for step in STEPS} == {f"{TABLE}/Chip.cpp", TEST}


def test_the_new_chip_is_found_and_searched_for(scratch: Path) -> None:
    done = run(scratch, "-c", PROGRAM)
    assert done.stdout.strip() == "found", done.stdout + done.stderr


def test_its_numbers_are_compared(scratch: Path) -> None:
    """The tests of the table pass with all steps, and fail without those in the test's file."""
    table = ("-m", "pytest", "-qx", "-p", "no:cacheprovider", "-k", "guide or sheets", TEST)
    done = run(scratch, *table)
    assert done.returncode == 0, done.stdout + done.stderr
    for step in STEPS:
        if step.file == TEST:
            path = scratch / TEST
            whole = path.read_text()
            path.write_text(whole.replace(step.text, ""))
            try:
                assert run(scratch, *table).returncode == 1, step
            finally:
                path.write_text(whole)
