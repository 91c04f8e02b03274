"""Who imports whom: the contract in `pyproject.toml` holds, says what the documentation draws, and
notices what it forbids.
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
    """`make lint`'s check of the tree in ``folder``."""
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
        "mirage.search.kernel.derive",
        "mirage.verify.verifier -> mirage.search.kernel.derive",
    ),
    "runtime/artifact.py": (
        "mirage.semantics.scalar",
        "mirage.runtime.artifact -> mirage.semantics.scalar",
    ),
    "emulator/machine/cohort.py": ("mirage.emulator.machine.machine", ".cohort -> .machine"),
    "frontend/block_graph.py": (
        "mirage.pipeline.options",
        "mirage.frontend.block_graph -> mirage.pipeline.options",
    ),
}
"""Of a file a module that it must not import, and what the check says then."""


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
    assert "3 broken" in done.stdout


def test_the_documentation_draws_the_contract() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    drawn = re.search(r"<!-- layers -->\n```\n(.*?)```", text, re.S)
    assert drawn is not None, "docs/architecture.md has no picture of the layers"
    rows = [row.split("   ")[0].split() for row in drawn[1].splitlines()]
    (layers,) = (c["layers"] for c in contracts() if c["type"] == "layers")
    assert rows == [layer.replace("|", " ").split() for layer in layers]
    packages = {
        p.name for p in (ROOT / "python" / "mirage").iterdir() if (p / "__init__.py").exists()
    }
    rows_of_tree = re.findall(r"^  (\w+/(?:  \w+/)?)  ", text, re.M)
    described = {name.strip("/") for row in rows_of_tree for name in row.split()}
    assert packages <= described, f"not in the tree: {sorted(packages - described)}"
