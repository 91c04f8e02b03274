"""The generated reference is what the ODS files say today."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_the_reference_is_up_to_date() -> None:
    done = subprocess.run(
        [sys.executable, "tools/generate-docs.py", "--check", "docs/reference"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_stale_page_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "kernel.md").write_text("old\n")
    done = subprocess.run(
        [sys.executable, "tools/generate-docs.py", "--check", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "kernel.md" in done.stderr
    assert "make docs" in done.stderr
