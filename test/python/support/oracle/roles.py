"""How a program uses its inputs, which says what numbers the oracle gives it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from mirage.semantics.positions import Gather, TileGather
from mirage.semantics.ugraph import (
    Binary,
    Broadcast,
    Cast,
    Constant,
    KernelGraph,
    Launch,
    Matmul,
    Op,
    Reshape,
    Slice,
    Transpose,
    Value,
    all_ops,
)

SMALL = 8
"""The bound of whole numbers that do not name rows."""
_MOVES = (Reshape, Transpose, Broadcast, Slice, Cast)
_COMPARISONS = frozenset({"lt", "le", "eq"})
_LARGEST = 1 << 24
"""Larger constants are bounds of types, or stand for infinity."""


@dataclass(frozen=True)
class Role:
    """How a program uses an input: the scale at which its products stay about as large as their
    operands, whether it has one number for each channel, whether it is only added, the number of
    rows that it may choose from, and the constants of the program if it is a whole number that is
    compared, and no row depends on it."""

    scale: float
    gain: bool
    added: bool
    rows: int
    compared: tuple[int, ...]


def roles(graph: KernelGraph) -> list[Role]:
    """Return the role of each input."""
    moved: dict[Value, set[Value]] = {v: {v} for v in graph.inputs}
    users: dict[Value, list[tuple[Op, int]]] = {v: [] for v in graph.inputs}
    for op in graph.ops:
        sources = [moved.get(v, set[Value]()) for v in op.operands]
        if isinstance(op, _MOVES):
            moved[op.result] = sources[0]
            continue
        for place, found in enumerate(sources):
            for v in found:
                users[v].append((op, place))
    compared = _compared(graph)
    return [_role(v, users[v], graph, compared.get(v, ())) for v in graph.inputs]


def _role(
    v: Value, users: Sequence[tuple[Op, int]], graph: KernelGraph, compared: tuple[int, ...]
) -> Role:
    scale, tables = 1.0, list[int]()
    for op, place in users:
        if isinstance(op, Matmul) and place == 1:
            scale = min(scale, op.operands[1].shape[-2] ** -0.5)
        if isinstance(op, Gather) and place == 1:
            tables.append(op.operands[0].shape[0])
        if isinstance(op, Launch):
            inner = [x for x in all_ops(op.body.ops) if isinstance(x, TileGather)]
            tables += [x.operands[0].shape[0] for x in inner]
    channels = bool(v.shape) and v.shape[-1] > 1 and v.type.size == v.shape[-1]
    added = bool(users) and all(isinstance(op, Binary) and op.fn.value == "add" for op, _ in users)
    return Role(scale, channels, added, min(tables, default=SMALL), compared)


def _compared(graph: KernelGraph) -> dict[Value, tuple[int, ...]]:
    """Return the whole numbers among the inputs that are compared and do not lead to the number of
    a row, with the program's constants that are whole."""
    sources: dict[Value, set[Value]] = {
        v: {v} for v in graph.inputs if v.dtype.is_integer and v.dtype.value != "i1"
    }
    found, rows, constants = set[Value](), set[Value](), {0}
    for op in graph.ops if sources else ():
        of = set[Value]().union(*(sources.get(v, ()) for v in op.operands))
        if isinstance(op, Launch) or op.names_rows is not None:
            rows |= of
        elif isinstance(op, Binary) and op.fn.value in _COMPARISONS:
            found |= of
        elif isinstance(op, Constant) and _whole(op.value):
            constants.add(int(op.value))
        for v in op.results:
            sources[v] = of
    return dict.fromkeys(found - rows, tuple(sorted(constants)))


def _whole(value: Fraction | float) -> bool:
    exact = isinstance(value, int | Fraction)
    return exact and value.denominator == 1 and abs(value) < _LARGEST
