"""Entries depend on all relevant files: a changed file means another version."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from mirage.cache import KINDS, kind_version, version_of
from mirage.cache.versions import RESTS_ON

SOURCES = Path(__file__).parents[3] / "python" / "mirage"

PRINT = """
import sys
sys.path.insert(0, sys.argv[1])
sys.path = [p for p in sys.path if "python_packages" not in p and not p.endswith("/python")]
sys.path.insert(0, sys.argv[1])
import mirage
mirage.__path__ = [sys.argv[1] + "/mirage"]
from mirage.cache import KINDS, kind_version
print(*(kind_version(kind) for kind in sorted(KINDS)))
"""


def versions(folder: Path) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", PRINT, str(folder)], capture_output=True, text=True, check=True
    )
    return dict(zip(sorted(KINDS), done.stdout.split(), strict=True))


def test_a_changed_file_is_another_version(tmp_path: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__", "*.so*")
    shutil.copytree(SOURCES, tmp_path / "mirage", ignore=ignored)
    before = versions(tmp_path)
    for file, changed in (
        ("verify/evidence/proofs/proof.py", {"search", "program", "class", "verdict"}),
        ("verify/arithmetic/symbolic.py", {"search", "program", "class", "verdict"}),
        ("search/kernel/solver.py", {"search", "program"}),
        ("emulator/ops/wgmma.py", {"program", "class", "check"}),
        ("compiler/collect.py", {"search", "program", "check", "code"}),
        ("cli/main.py", set()),
        ("torch/on_host.py", {"import"}),
        ("frontend/torch_import/rows/reductions/ranking.py", {"import"}),
    ):
        path = tmp_path / "mirage" / file
        path.write_text(path.read_text() + "\n# changed\n")
        after = versions(tmp_path)
        assert {kind for kind in KINDS if before[kind] != after[kind]} == changed, file
        before = after


def test_every_kind_has_a_version() -> None:
    assert set(RESTS_ON) == set(KINDS)
    assert len({kind_version(kind) for kind in KINDS}) == len(KINDS)


def test_a_package_that_is_not_there() -> None:
    with pytest.raises(ValueError, match="got 'verfy'"):
        version_of("verfy")
