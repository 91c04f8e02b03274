"""The contract on imports in `pyproject.toml`: it holds, agrees with the documentation, and detects
forbidden imports.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    tomllib = pytest.importorskip("tomli")

ROOT = Path(__file__).parents[3]
_LINT = "from importlinter.cli import lint_imports_command; lint_imports_command()"


def check_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run `make lint`'s check of the tree in ``folder``."""
    return subprocess.run(
        [sys.executable, "-c", _LINT, "--no-cache"],
        cwd=folder,
        env={"PYTHONPATH": ":".join((str(folder / "python"), *sys.path)), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )


def contracts() -> list[dict[str, Any]]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return settings["tool"]["importlinter"]["contracts"]


def test_every_import_goes_down() -> None:
    done = check_imports(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_one_call_upward_is_sanctioned() -> None:
    ignored = {line for c in contracts() for line in c.get("ignore_imports", ())}
    assert ignored == {"mirage.frontend.program -> mirage.pipeline.optimize"}


WRONG = {
    "semantics/ugraph.py": ("mirage.cost.target", "mirage.semantics.ugraph -> mirage.cost.target"),
    "verify/verifier.py": (
        "mirage.search.kernel.derivations.derive",
        "mirage.verify.verifier -> mirage.search.kernel.derivations.derive",
    ),
    "runtime/serialization/artifact.py": (
        "mirage.semantics.scalar",
        "mirage.runtime.serialization.artifact -> mirage.semantics.scalar",
    ),
    "runtime/arguments/overlaps.py": (
        "mirage.runtime.dispatch.plan",
        "mirage.runtime.arguments.overlaps -> mirage.runtime.dispatch.plan",
    ),
    "search/kernel/problems/growth.py": (
        "mirage.search.kernel.estimates.sizing",
        "mirage.search.kernel.problems.growth -> mirage.search.kernel.estimates.sizing",
    ),
    "emulator/machine/cohort.py": ("mirage.emulator.machine.machine", ".cohort -> .machine"),
    "frontend/block_graph.py": (
        "mirage.pipeline.options",
        "mirage.frontend.block_graph -> mirage.pipeline.options",
    ),
}
"""For each file, a module that it must not import, and the message of the check."""


def test_wrong_imports_are_noticed(tmp_path: Path) -> None:
    shutil.copytree(
        ROOT / "python" / "mirage",
        tmp_path / "python" / "mirage",
        ignore=shutil.ignore_patterns("__pycache__", "bin", "*.so*"),
    )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for file, (module, _) in WRONG.items():
        changed = tmp_path / "python" / "mirage" / file
        changed.write_text(changed.read_text() + f"\nimport {module}\n")
    done = check_imports(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    missed = {file: said for file, (_, said) in WRONG.items() if said not in done.stdout}
    assert not missed, done.stdout
    assert "5 broken" in done.stdout


def test_the_documentation_draws_the_contract() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    drawn = re.search(r"<!-- layers -->\n```\n(.*?)```", text, re.S)
    assert drawn is not None, "docs/architecture.md has no picture of the layers"
    rows = [row.split("   ")[0].split() for row in drawn[1].splitlines()]
    (layers,) = (c["layers"] for c in contracts() if c.get("containers") == ["mirage"])
    assert rows == [layer.replace("|", " ").split() for layer in layers]
    packages = set(rooms(ROOT / "python" / "mirage"))
    assert packages == {
        p.name for p in (ROOT / "python" / "mirage").iterdir() if (p / "__init__.py").exists()
    }
    described = described_packages(text)
    assert packages == set(described)
    missing: list[str] = []
    for name in packages:
        inside = rooms(ROOT / "python" / "mirage" / name)
        if name == "transforms":  # whose modules are each a rewrite
            inside += [p.stem for p in (ROOT / "python/mirage/transforms").glob("[a-z]*.py")]
        missing += [f"{name}/{x}" for x in inside if not re.search(rf"\b{x}\b", described[name])]
    assert not missing, "the tree says nothing of these"


def rooms(folder: Path) -> list[str]:
    """Return the sub-folders that contain sources."""
    sources = [p.relative_to(folder) for kind in ("py", "c") for p in folder.rglob(f"*.{kind}")]
    return sorted({p.parts[0] for p in sources if len(p.parts) > 1})


def described_packages(text: str) -> dict[str, str]:
    """Return the text about each package in the documentation's tree."""
    tree = re.search(r"\npython/mirage/\n(.*?)\n\w", text, re.S)
    assert tree is not None, "docs/architecture.md has no tree"
    said: dict[str, str] = {}
    for names, what in re.findall(r"^  ((?:\w+/ +)+)(.*(?:\n   +.*)*)", tree[1], re.M):
        said.update((name.strip("/"), what) for name in names.split())
    return said


def test_each_pass_has_a_stage_of_its_name() -> None:
    """A pass is a thin layer over a function of the pipeline (`CONTRIBUTING.md`), which the tree
    names."""
    stages = described_packages((ROOT / "docs" / "architecture.md").read_text())["pipeline"]
    for path in (ROOT / "python/mirage/passes").glob("*.py"):
        text = path.read_text()
        if "PythonPass(" in text and path.stem != "registry":
            assert f"mirage.pipeline.{path.stem} import" in text, path.name
            assert re.search(rf"\b{path.stem}\b", stages), path.name
