"""The ops with plain attributes only. Their classes determine the conversion: the fields are the
attributes, and ``Tile`` at the start of a name means that it is the tile-level variant of another
op.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, get_type_hints

from mirage.mlir_io import attributes as a
from mirage.semantics import argsort as argsort
from mirage.semantics import integer_totals as integer_totals  # registers their op classes
from mirage.semantics import integers as integers
from mirage.semantics import positions as positions
from mirage.semantics import row_updates as row_updates
from mirage.semantics.integer_formula import Formula
from mirage.semantics.scalar import BinaryFn, CumulateFn, ReduceFn, UnaryFn
from mirage.semantics.ugraph import Op, TileMap

_CODECS: dict[Any, a.Codec] = {
    UnaryFn: a.UNARY,
    BinaryFn: a.BINARY,
    ReduceFn: a.REDUCE,
    CumulateFn: a.CUMULATE,
    bool: a.FLAG,
    int: a.INTEGER,
    float: a.FLOAT,
    tuple[int, ...]: a.INTEGERS,
    tuple[str, ...]: a.NAMES,
    TileMap: a.MAP,
    Formula: a.FORMULA,
}


@dataclass(frozen=True)
class Row:
    """An op: its class, its name without the dialect, and its fields that are attributes of the
    same names."""

    kind: type[Op]
    mnemonic: str
    fields: tuple[tuple[str, a.Codec], ...]


@cache
def row_of(kind: type[Op]) -> Row | None:
    """Return the row of an op; None for ops that have more than plain attributes."""
    hints = get_type_hints(kind)
    own = [f.name for f in fields(kind) if f.name not in ("operands", "results")]
    codecs = [_CODECS.get(hints[name]) for name in own]
    if any(codec is None for codec in codecs):
        return None
    name = re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__.removeprefix("Tile")).lower()
    return Row(kind, name, tuple((n, c) for n, c in zip(own, codecs, strict=True) if c is not None))


def row_named(name: str) -> Row | None:
    """Return the row of a name such as ``kernel.reduce``; None if there is none."""
    dialect, _, mnemonic = name.partition(".")
    for row in rows(in_block=dialect == "block"):
        if row.mnemonic == mnemonic:
            return row
    return None


def rows(*, in_block: bool) -> Iterator[Row]:
    """Yield the rows of the ops that may occur at one level."""
    for kind in _all(Op):
        row = row_of(kind) if (kind.in_block if in_block else kind.in_kernel) else None
        if row is not None:
            yield row


def _all(kind: type[Op]) -> Iterator[type[Op]]:
    for other in kind.__subclasses__():
        yield other
        yield from _all(other)
