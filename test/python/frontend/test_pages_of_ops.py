"""Every op that is imported has a row in the docs, and every row an op."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from mirage.frontend.torch_import.rows.op_table import TABLE
from mirage.semantics.scalar import BINARY, UNARY

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "torch-ops.md"
REFERENCE = ROOT / "docs" / "reference"


def rows() -> list[tuple[str, str, str]]:
    """Names, meaning and limits of each row."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    cells = (re.split(r"(?<!\\)\|", line)[1:-1] for line in lines if line.startswith("| `"))
    return [(a.strip(), b.strip(), c.strip()) for a, b, c in cells]


def test_every_op_has_one_row_with_its_meaning() -> None:
    named = Counter(name for names, _, _ in rows() for name in re.findall(r"`([^`]+)`", names))
    assert set(named) == {op.split(".")[1] for op in TABLE if not op.startswith("mirage_import.")}
    assert max(named.values()) == 1
    assert all(meaning for _, meaning, _ in rows())


def test_every_function_of_scalars_is_in_the_reference() -> None:
    """The reference of both levels that people write contains it."""
    for level in ("kernel", "block"):
        text = (REFERENCE / f"{level}.md").read_text(encoding="utf-8")
        missing = [fn.value for fn in (*UNARY, *BINARY) if not re.search(rf"\b{fn.value}\b", text)]
        assert not missing, level
