"""The generated reference agrees with the ODS files; files, links and options that pages name
exist."""

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
    """Return files that a page names and that do not exist."""
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
        if page.name != "CHANGELOG.md":  # describes the past
            assert not missing(page.read_text(), files), page


def anchors(page: str) -> set[str]:
    """The places of a page that a link can name: its headings, and those with a name of their
    own."""
    heads = re.findall(r"^#+ (.*)$", page, re.M)
    plain = (re.sub(r"[^\w\- ]", "", head.strip().lower()) for head in heads)
    return {head.replace(" ", "-") for head in plain} | set(re.findall(r'<a id="([^"]+)"', page))


def broken_links(page: Path, text: str) -> list[str]:
    """The links of a page to files, or to places in pages, that do not exist."""
    broken: list[str] = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if not link.startswith("http"):
            path, _, place = link.partition("#")
            file = page.parent / path if path else page
            ok = file.exists() and (not place or place in anchors(file.read_text()))
            broken += [] if ok else [link]
    return broken


def unknown_options(text: str) -> list[str]:
    """The options in commands of a page that neither the script nor what it imports has."""
    unknown: list[str] = []
    for script, rest in re.findall(r"(?<!/)(benchmarks/\w+\.py)((?: [^`\n#|]*)?)", text):
        code = (ROOT / script).read_text()
        for module in re.findall(r"^(?:from|import) (\w+)", code, re.M):
            beside = ROOT / f"benchmarks/{module}.py"
            code += beside.read_text() if beside.exists() else ""
        options = re.findall(r"--[a-z][a-z-]*", rest)
        unknown += [f"{script} {each}" for each in options if f'"{each}"' not in code]
    return unknown


def test_links_and_commands_of_pages_are_right() -> None:
    page = ROOT / "docs/search.md"
    assert broken_links(page, "[a](gone.md) [b](search.md#gone)") == ["gone.md", "search.md#gone"]
    assert unknown_options("benchmarks/search.py --gone") == ["benchmarks/search.py --gone"]
    for path in (*PAGES, ROOT / "benchmarks/README.md"):
        text = path.read_text()
        assert not broken_links(path, text), path
        if path.name != "CHANGELOG.md":
            assert not unknown_options(text.replace("\\\n", " ")), path
