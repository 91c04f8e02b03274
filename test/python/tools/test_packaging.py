"""What a package leaves out."""

from __future__ import annotations

from pathlib import Path

import tomllib
from pathspec import GitIgnoreSpec

ROOT = Path(__file__).parents[3]


def test_no_source_is_left_out_of_a_package() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["scikit-build"]
    left_out = GitIgnoreSpec.from_lines(settings["sdist"]["exclude"])
    sources = [p.relative_to(ROOT).as_posix() for p in (ROOT / "python").rglob("*.py")]
    assert "python/mirage/semantics/builder.py" in sources
    assert not list(left_out.match_files(sources))
    assert left_out.match_file("build/bin/mirage-opt")
