"""The README's tables say what was measured."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import readme


def test_tables_are_those_of_the_results() -> None:
    text = (readme.ROOT / "README.md").read_text()
    assert len(readme.TABLE.findall(text)) >= 3
    assert readme.written(text) == text
