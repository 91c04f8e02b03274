"""CONTRIBUTING's recipe for a scalar function, followed on a copy of the tree.

Each step names a file and a line, and gives what comes after the line. All that needs no new build
of the compiler runs on the copy: the tests of the table, evaluation, import from PyTorch, search,
cost and verification of a program that uses the function; its lowering is compiled, not linked.
"""

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

LLVM = Path("/usr/lib/llvm-22")
TABLE = "include/mirage/Dialect/Common/ScalarOps.td"
LOWERING = "lib/Conversion/ThreadToNVVM/ScalarFunctions.cpp"

PROGRAM = """
import torch
from mirage.cost import H200
from mirage.frontend.torch_import import from_torch
from mirage.search import SearchLimits, superoptimize
from mirage.semantics.scalar import UnaryFn
from mirage.semantics.ugraph import Launch, Unary, all_ops
from mirage.transforms.partition.calls import as_calls
from mirage.verify import verify

class Module(torch.nn.Module):
    def forward(self, x, w):
        return torch.erf(x) @ w

def test_program():
    imported = from_torch(Module(), torch.zeros(16, 64).half(), torch.zeros(64, 32).half())
    graph = imported.program.graph
    assert any(isinstance(op, Unary) and op.fn is UnaryFn.ERF for op in graph.ops), graph.ops
    assert any(op.target == "aten.erf.default" for op in as_calls(graph).ops)
    limits = SearchLimits(candidates=1, plans=4, columns=20, samples=1, derivations=1)
    (best,) = superoptimize(graph, H200, limits).candidates
    (launch,) = (op for op in best.graph.ops if isinstance(op, Launch))
    assert any(isinstance(op, Unary) and op.fn is UnaryFn.ERF for op in all_ops(launch.body.ops))
    verdict = verify(graph, best.graph)
    assert verdict.accepted, verdict
"""


STEPS = steps_of("Add a scalar function")


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a copy of the files that the recipe changes, and follow the recipe."""
    tree = tmp_path_factory.mktemp("tree")
    ignore = shutil.ignore_patterns("*.pyc.*")  # files that another process is writing
    shutil.copytree(ROOT / "python/mirage", tree / "python/mirage", ignore=ignore)
    shutil.copytree(ROOT / "include/mirage/Dialect/Common", tree / "include/mirage/Dialect/Common")
    shutil.copytree(ROOT / "lib/Conversion/ThreadToNVVM", tree / "lib/Conversion/ThreadToNVVM")
    for test in ("semantics/test_scalar.py", "thread/test_elementwise.py"):
        (tree / "test/python" / test).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "test/python" / test, tree / "test/python" / test)
    (tree / "test/python/whole").mkdir()
    (tree / "test/python/whole/test_program.py").write_text(PROGRAM)
    for step in STEPS:
        follow(step, tree)
    return tree


def run(scratch: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    import mirage._target as compiled  # its folder has the compiled modules of the package

    folders = [str(scratch / "python"), str(Path(str(compiled.__file__)).parents[1])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # none is used
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=scratch, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_recipe_touches_at_most_four_files() -> None:
    assert 1 < len({step.file for step in STEPS}) <= 4


def test_the_table_holds_with_the_new_function(scratch: Path) -> None:
    """And a program that uses it goes from PyTorch through search and cost to a verdict."""
    folders = ("test/python/semantics", "test/python/whole")  # PyTorch is imported once
    done = run(scratch, "-m", "pytest", "-q", "-p", "no:cacheprovider", *folders)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_step_that_is_left_out_is_noticed(scratch: Path) -> None:
    """Without any one of the steps the tests of the table fail, or those of the lowering for its
    range."""
    pytest_run = ("-m", "pytest", "-qx", "-p", "no:cacheprovider", "-k", "not pytorch")
    for step in STEPS:
        path = scratch / step.file
        whole = path.read_text()
        assert step.text in whole
        if step.file.endswith("test_elementwise.py"):
            continue  # test_unary looks up the range of each function
        path.write_text(whole.replace(step.text, ""))
        try:
            done = run(scratch, *pytest_run, "test/python/semantics")
        finally:
            path.write_text(whole)
        assert done.returncode != 0, step


def test_the_lowering_compiles(scratch: Path) -> None:
    """The generated enums have the new case, and the switch over them handles it."""
    import mirage._target as compiled

    commands = Path(str(compiled.__file__)).parents[2] / "compile_commands.json"
    assert commands.exists(), "run `make build` first"
    generated = scratch / "generated"
    header = generated / "mirage/Dialect/Common/ScalarOpsEnums.h.inc"
    header.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(
        [LLVM / "bin/mlir-tblgen", "-gen-enum-decls", f"-I{LLVM}/include", scratch / TABLE,
         "-o", header],
        check=True,
    )  # fmt: skip
    # Like any file of the library: with unity builds this one has no command of its own.
    entries = json.loads(commands.read_text())
    entry = next(e for e in entries if "MirageConversion.dir" in e["command"])
    words = shlex.split(entry["command"])
    compiler = next(i for i, word in enumerate(words) if not word.endswith("ccache"))
    flags = words[compiler + 1 : words.index("-o")]
    done = subprocess.run(
        [words[compiler], f"-I{generated}", *flags, "-fsyntax-only", "-Werror=switch",
         scratch / LOWERING],
        cwd=entry["directory"], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
