"""Rows of a tensor that go to other places, looked up by index instead of copied several times.

A roll of an image, which is then divided into windows, joins slices along one dimension, and slices
of that along another; each join is a copy of the whole tensor, and so is padding along two
dimensions. If what is moved is always a whole row, each row of the result is a row of the source
(or zeros), whose number is known when the program is imported: one lookup, which the kernels that
read the result make where they load it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import gcd, prod

import numpy as np
import torch

from mirage.semantics.builder import Builder
from mirage.semantics.domain import Float64, Planes
from mirage.semantics.positions import gather
from mirage.semantics.scalar import Array, BinaryFn, DType
from mirage.semantics.substitute import with_operands, without_dead_ops
from mirage.semantics.ugraph import KernelGraph, Movement, Op, Value

PIECES = 4
"""The fewest pieces of joins that a lookup takes the place of: each of them is a copy."""
LEAST_BYTES = 64
"""The fewest bytes of a row: an index is small beside it."""
ALIGNED = 16
MOST_ELEMENTS = 1 << 25
_TYPES = (DType.F16, DType.BF16, DType.F32)


@dataclass(frozen=True)
class _Moved:
    """Rows of ``length`` elements of ``source``; those with a negative number are zeros."""

    source: Value
    length: int
    numbers: Array


def rows_by_index(graph: KernelGraph, hold: Callable[[torch.Tensor], Value]) -> KernelGraph:
    """Return ``graph`` with lookups in place of chains of joins; the same object if there are none.
    ``hold`` makes a tensor that is known at import an input."""
    makers = {v: op for op in graph.ops for v in op.results}
    readers: dict[Value, list[Op]] = {}
    for op in graph.ops:
        for v in op.operands:
            readers.setdefault(v, []).append(op)
    build, same = Builder(), dict[Value, Value]()
    tables: dict[bytes, Value] = {}

    def held(data: Array) -> Value:
        key = f"{data.dtype}{data.shape}".encode() + data.tobytes()
        if key not in tables:
            tables[key] = hold(torch.from_numpy(data))
        return tables[key]

    for op in graph.ops:
        is_read = op.results and _is_end(op, readers, graph.outputs)
        chain = [*_chain(op, makers)] if is_read else []
        moved = _moved(op, chain, makers, readers, graph.outputs)
        if moved is not None:
            same[op.result] = _looked_up(build, moved, op.result, same, held)
            continue
        operands = tuple(same.get(v, v) for v in op.operands)
        build.ops.append(op if operands == op.operands else with_operands(op, operands))
    if not same:
        return graph
    outputs = tuple(same.get(v, v) for v in graph.outputs)
    return without_dead_ops(KernelGraph(graph.name, graph.inputs, tuple(build.ops), outputs))


def _is_end(op: Op, readers: Mapping[Value, list[Op]], outputs: tuple[Value, ...]) -> bool:
    """Return whether something other than a movement reads the result of a movement."""
    if not isinstance(op, Movement):
        return False
    others = (r for r in readers.get(op.result, ()) if not isinstance(r, Movement))
    return op.result in outputs or any(True for _ in others)


def _chain(op: Op, makers: Mapping[Value, Op]) -> Iterator[Op]:
    """Yield the movements that lead to the result of ``op``, once each, operands first."""
    seen: set[Op] = set()
    pending: list[tuple[Op, bool]] = [(op, False)]
    while pending:
        at, done = pending.pop()
        if done:
            yield at
        elif at not in seen:
            seen.add(at)
            pending.append((at, True))
            found = (makers.get(v) for v in at.operands)
            pending += [(maker, False) for maker in found if isinstance(maker, Movement)]


def _moved(
    op: Op, chain: list[Op], makers: Mapping[Value, Op], readers: Mapping[Value, list[Op]],
    outputs: tuple[Value, ...],
) -> _Moved | None:  # fmt: skip
    """Return the rows that a chain moves; None if it is not worthwhile, or not rows."""
    joins = [link for link in chain if link.joined_along is not None]
    if (
        sum(len(join.operands) for join in joins) < PIECES
        or op.result.type.size > MOST_ELEMENTS
        or op.result.dtype not in _TYPES
    ):
        return None
    inside = set(chain)
    if any(
        link is not op and (link.result in outputs or not inside.issuperset(readers[link.result]))
        for link in joins
    ):
        return None  # it is stored in any case
    made = {link.result for link in chain}
    leaves = dict.fromkeys(v for link in chain for v in link.operands if v not in made)
    numbers = {v: makers[v].number if v in makers else None for v in leaves}
    sources = [v for v in leaves if numbers[v] is None]
    if len(sources) != 1 or any(n for n in numbers.values()):
        return None
    (source,) = sources
    if source.dtype is not op.result.dtype or source.type.size > MOST_ELEMENTS:
        return None
    return _rows(source, _places(op, chain, source))


def _places(op: Op, chain: list[Op], source: Value) -> Array:
    """Return for each element of the result of ``op`` its place in the source; -1 for a zero."""
    known: dict[Value, Planes] = {
        source: (np.arange(source.type.size, dtype=np.float64).reshape(source.shape),)
    }
    for link in chain:
        xs = [known.get(v, (np.full(v.shape, -1.0),)) for v in link.operands]
        known[link.result] = link.compute(Float64(), xs, 0, link.result.shape)
    return np.asarray(known[op.result][0]).astype(np.int64)


def _rows(source: Value, places: Array) -> _Moved | None:
    """Return the rows of which ``places`` consist; None if they are too short."""
    length = gcd(source.shape[-1], places.shape[-1]) if source.shape and places.shape else 1
    least = LEAST_BYTES // source.dtype.bytes
    for parts in range(1, length // least + 1):
        each = length // parts
        if length % parts or each * source.dtype.bytes % ALIGNED:
            continue
        rows = places.reshape(-1, each)
        first = rows[:, :1]
        whole = np.where(first < 0, -1, first + np.arange(each))
        if np.array_equal(whole, rows) and not np.any((first >= 0) & (first % each)):
            return _Moved(source, each, np.where(first < 0, -1, first // each)[:, 0])
    return None


def _looked_up(
    b: Builder, moved: _Moved, result: Value, same: Mapping[Value, Value],
    hold: Callable[[Array], Value],
) -> Value:  # fmt: skip
    """Emit the rows, in the shape of ``result``."""
    shape, length, numbers = result.shape, moved.length, moved.numbers
    lead = shape[:-1] if shape[-1] == length else (numbers.size,)
    source = same.get(moved.source, moved.source)
    table = b.reshape(source, (prod(source.shape) // length, length))
    index = np.maximum(numbers, 0).astype(np.int32).reshape(lead)
    rows = gather(b, table, hold(index))
    if (numbers < 0).any():
        inner = hold((numbers >= 0).reshape((*lead, 1)))
        rows = b.binary(BinaryFn.KEEP, inner, rows)
    return rows if rows.shape == shape else b.reshape(rows, shape)
