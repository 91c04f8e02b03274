"""Every registered pass has a lit test, and one for the IR that it refuses, if there is any; the
reference documents every pass."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from mirage.compiler.compile import PASSES

ROOT = Path(__file__).parents[3]
TOOL = ROOT / ".venv/bin/mirage-opt"


def registered() -> list[str]:
    listed = subprocess.run([TOOL, "--help"], capture_output=True, text=True, check=True).stdout
    return sorted(set(re.findall(r"--(mirage-[a-z0-9-]+)", listed)))


def run_lines() -> dict[Path, str]:
    """Yield the commands of each lit test."""
    files = [p for p in (ROOT / "test").rglob("*.mlir") if "Inputs" not in p.parts]
    return {
        p: "\n".join(line for line in p.read_text().splitlines() if "RUN:" in line) for p in files
    }


def with_preconditions() -> list[str]:
    """Passes whose ODS states what must hold before."""
    names: list[str] = []
    for path in [*(ROOT / "include").rglob("*Passes.td")]:
        for name, body in re.findall(r'Pass<"([a-z0-9-]+)".*?\{(.*?)\n\}', path.read_text(), re.S):
            if "Precondition:" in body and "Precondition: none" not in body:
                names.append(name)
    return sorted(names)


NAMED = run_lines()
# These need the results of other passes; they ignore all other IR.
ACCEPT_ALL = {"mirage-kernels-to-launches", "mirage-set-tensor-maps"}


def names_pass(commands: str, name: str) -> bool:
    return re.search(rf"{re.escape(name)}(?![a-z0-9-])", commands) is not None


def test_there_are_passes() -> None:
    assert set(PASSES) <= set(registered())
    assert len(with_preconditions()) >= 8


@pytest.mark.parametrize("name", registered())
def test_each_pass_is_named(name: str) -> None:
    assert [p for p, commands in NAMED.items() if names_pass(commands, name)]


@pytest.mark.parametrize("name", [n for n in with_preconditions() if n not in ACCEPT_ALL])
def test_refusals_are_tested(name: str) -> None:
    refusing = [p for p in NAMED if p.stem.endswith("-invalid")]
    assert [p for p in refusing if names_pass(NAMED[p], name)]


def test_the_reference_has_all_passes() -> None:
    declared: set[str] = set()
    for path in (ROOT / "include").rglob("*Passes.td"):
        declared |= set(re.findall(r'Pass<"([a-z0-9-]+)"', path.read_text()))
    pages = "\n".join(p.read_text() for p in (ROOT / "docs/reference").glob("*-passes.md"))
    assert {name for name in declared if f"`-{name}`" not in pages} == set()
