"""The generated reference is what the ODS files say today, and files that pages name are there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
PAGES = (*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md"))
SOURCES = ("benchmarks", "examples", "include", "lib", "python", "test", "tools")
NAMED = re.compile(r"`([\w./-]+\.(?:py|cpp|h|td|mlir))`")
"""Files that a page names, from the root, or by the end of the path."""


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


def missing(text: str, files: set[str]) -> list[str]:
    """What a page names that is not there."""
    ends = {"/" + name for name in files}
    named = {name for name in NAMED.findall(text) if not name.startswith(("/", "."))}
    return sorted(n for n in named if not any(end.endswith("/" + n) for end in ends))


def test_files_that_pages_name_are_there() -> None:
    files = {
        str(path.relative_to(ROOT))
        for folder in SOURCES
        for path in (ROOT / folder).rglob("*.*")
        if path.is_file()
    }
    text = "`pipeline/verify.py` and `pipeline/gone.py`"
    assert missing(text, files) == ["pipeline/gone.py"]
    for page in PAGES:
        if page.name != "CHANGELOG.md":  # says what was
            assert not missing(page.read_text(), files), page
