"""Rows of a tensor that go to other places, looked up by index instead of copied several times.

A roll of an image, which is then divided into windows, joins slices along one dimension, and slices
of that along another; each join is a copy of the whole tensor, and so is padding along two
dimensions, or a part of rows that are looked up. If what is moved is always a whole row, each row
of the result is a row of the source (or zeros), whose number is known when the program is imported:
one lookup, which the kernels that read the result make where they load it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import gcd, prod

import numpy as np

from mirage.frontend.torch_import.known_tensors.known_indices import KnownIntegers
from mirage.semantics.builder import Builder
from mirage.semantics.domain import Float64, Planes
from mirage.semantics.positions import gather, index_of
from mirage.semantics.scalar import Array, BinaryFn, DType
from mirage.semantics.substitute import with_operands, without_dead_ops
from mirage.semantics.ugraph import KernelGraph, Movement, Op, Value

PIECES = 4
"""The fewest pieces of joins that a lookup replaces: each of them is a copy."""
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


def rows_by_index(
    graph: KernelGraph, held: Mapping[Value, Array], hold: Callable[[Array], Value]
) -> KernelGraph:
    """Return ``graph`` with lookups in place of chains of joins, and of parts of looked up rows;
    the same object if there are none. ``held`` are known inputs, and ``hold`` makes one."""
    chains, build = _Chains(graph, KnownIntegers(graph, held)), Builder()
    same: dict[Value, Value] = {}
    for op in graph.ops:
        moved = chains.moved(op) if chains.is_end(op) else None
        if moved is not None:
            same[op.result] = _looked_up(build, moved, op.result, same, hold)
            continue
        operands = tuple(same.get(v, v) for v in op.operands)
        build.ops.append(with_operands(op, operands))
    if not same:
        return graph
    outputs = tuple(same.get(v, v) for v in graph.outputs)
    return without_dead_ops(KernelGraph(graph.name, graph.inputs, tuple(build.ops), outputs))


class _Chains:
    """The chains of movements, and of lookups by known indices, in a graph."""

    def __init__(self, graph: KernelGraph, known: KnownIntegers) -> None:
        self.known, self.outputs = known, graph.outputs
        self.makers = {v: op for op in graph.ops for v in op.results}
        self.readers: dict[Value, list[Op]] = {}
        for op in graph.ops:
            for v in op.operands:
                self.readers.setdefault(v, []).append(op)

    def is_end(self, op: Op) -> bool:
        """Return whether something other than a movement reads the result of a movement."""
        if not isinstance(op, Movement):
            return False
        readers = self.readers.get(op.result, ())
        return op.result in self.outputs or not all(isinstance(r, Movement) for r in readers)

    def moved(self, op: Op) -> _Moved | None:
        """Return the rows that the chain to ``op`` moves; None if they are not rows, or if a lookup
        is not worthwhile."""
        size, dtype = op.result.type.size, op.result.dtype
        if not 0 < size <= MOST_ELEMENTS or dtype not in _TYPES:
            return None
        chain = [*self._to(op)]
        if not self._is_worthwhile(op, chain):
            return None
        made = {link.result for link in chain}
        leaves = dict.fromkeys(v for link in chain for v in _moved_by(link) if v not in made)
        numbers = {v: self.makers[v].number if v in self.makers else None for v in leaves}
        sources = [v for v in leaves if numbers[v] is None]
        if len(sources) != 1 or any(n for n in numbers.values()):
            return None
        (source,) = sources
        if source.dtype is not dtype or not 0 < source.type.size <= MOST_ELEMENTS:
            return None
        places = self._places(op, chain, source)
        return None if np.isnan(places).any() else _rows(source, places.astype(np.int64))

    def _to(self, op: Op) -> Iterator[Op]:
        """Yield the ops of the chain to ``op``, once each, operands first."""
        seen: set[Op] = set()
        pending: list[tuple[Op, bool]] = [(op, False)]
        while pending:
            at, done = pending.pop()
            if done:
                yield at
            elif at not in seen:
                seen.add(at)
                pending.append((at, True))
                found = (self.makers.get(v) for v in _moved_by(at))
                pending += [(maker, False) for maker in found if maker and self._is_link(maker)]

    def _is_link(self, op: Op) -> bool:
        index = index_of(op)
        return isinstance(op, Movement) or (index is not None and self.known.of(index) is not None)

    def _is_worthwhile(self, op: Op, chain: list[Op]) -> bool:
        """Return whether a chain copies several pieces, none of which is stored in any case, or
        takes a part of looked up rows."""
        inside = set(chain)
        joins = [link for link in chain if link.joined_along is not None]
        if any(
            link is not op
            and (link.result in self.outputs or not inside.issuperset(self.readers[link.result]))
            for link in joins
        ):
            return False
        takes = any(link.cut_at is not None for link in chain)
        looks_up = any(index_of(link) is not None for link in chain)
        return sum(len(join.operands) for join in joins) >= PIECES or (takes and looks_up)

    def _places(self, op: Op, chain: list[Op], source: Value) -> Array:
        """Return for each element of the result of ``op`` its place in the source; -1 for a zero,
        and NaN outside."""
        places: dict[Value, Planes] = {
            source: (np.arange(source.type.size, dtype=np.float64).reshape(source.shape),)
        }
        for link in chain:
            xs = [places.get(v, (np.full(v.shape, -1.0),)) for v in _moved_by(link)]
            index = index_of(link)
            if index is not None:
                numbers = self.known.of(index)
                assert numbers is not None
                xs.append((numbers.astype(np.float64),))
            places[link.result] = link.compute(Float64(), xs, 0, link.result.shape)
        return np.asarray(places[op.result][0])


def _moved_by(op: Op) -> tuple[Value, ...]:
    """Return the operands whose elements an op moves: not the indices of a lookup."""
    return op.operands if index_of(op) is None else op.operands[:1]


def _rows(source: Value, places: Array) -> _Moved | None:
    """Return the places as places of rows; None if the rows are too short."""
    length = gcd(source.shape[-1], places.shape[-1]) if source.shape and places.shape else 1
    least = LEAST_BYTES // source.dtype.bytes
    for parts in range(1, length // least + 1):
        each = length // parts
        if length % parts or each * source.dtype.bytes % ALIGNED:
            continue
        rows = places.reshape(-1, each)
        first = rows[:, :1]
        whole = np.where(first < 0, -1, first + np.arange(each))
        if np.array_equal(whole, rows) and not np.any((first >= 0) & (first % each != 0)):
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
    rows = (prod(source.shape) // length, length)
    table = source if source.shape == rows else b.reshape(source, rows)
    index = np.maximum(numbers, 0).astype(np.int32).reshape(lead)
    found = gather(b, table, hold(index))
    if (numbers < 0).any():
        inner = hold((numbers >= 0).reshape((*lead, 1)))
        found = b.binary(BinaryFn.KEEP, inner, found)
    return found if found.shape == shape else b.reshape(found, shape)
