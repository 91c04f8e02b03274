"""The roles of a program's inputs that decide which numbers are tried in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mirage.semantics.numbers import as_number, nearest
from mirage.semantics.scalar import Array, BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import (
    Contraction,
    Elementwise,
    KernelGraph,
    Matmul,
    Op,
    Value,
    View,
)


def natural_scales(graph: KernelGraph) -> list[float]:
    """Return, for each input, a scale at which sums of products stay about as large as their
    summands: one over the square root of their length for the right operand of a product.
    """
    source: dict[Value, Value] = {v: v for v in graph.inputs}
    scales = dict.fromkeys(graph.inputs, 1.0)
    for op in graph.ops:
        if _looks(op) and op.operands[0] in source:
            source[op.result] = source[op.operands[0]]
        if isinstance(op, Matmul):
            weight = source.get(op.operands[1])
            if weight is not None:
                scales[weight] = min(scales[weight], op.operands[1].shape[-2] ** -0.5)
    return [scales[v] for v in graph.inputs]


def gains_of(graph: KernelGraph) -> dict[int, int]:
    """Return the inputs that have one number for each channel, with the number of channels. Inputs
    that are themselves rows are left out."""
    reduced = _reduced_rows(graph)
    return {
        i: v.shape[-1]
        for i, v in enumerate(graph.inputs)
        if v.shape and v.shape[-1] > 1 and v.type.size == v.shape[-1] and v not in reduced
    }


def reduced_channels(graph: KernelGraph) -> set[int]:
    """Return the inputs of one row whose elements, or functions of them, are reduced with each
    other."""
    return {i for i, v in enumerate(graph.inputs) if v in _reduced_rows(graph, beside=True)}


def _reduced_rows(graph: KernelGraph, beside: bool = False) -> set[Value]:
    """Return the inputs of one row that are reduced; with ``beside``, also those that are reduced
    together with the rows of larger values."""
    inside = {v: {v} for v in graph.inputs if v.shape and v.type.size == v.shape[-1]}
    found: set[Value] = set()
    for op in graph.ops:
        own = set[Value]().union(*(inside.get(v, set()) for v in op.operands))
        if isinstance(op, Contraction) and len(op.operands) == 1:
            found |= own
        elif isinstance(op, View | Elementwise):
            size = op.result.type.size
            inside[op.result] = {v for v in own if beside or v.type.size == size}
    return found


def least(dtype: DType) -> float:
    """Return the largest number that counts as minus infinity among the numbers of a type."""
    return -(2.0**15) if dtype is DType.F16 else -(2.0**29)


def may_be_masks(graph: KernelGraph, contents: Mapping[int, Array] = {}) -> set[int]:
    """Return the inputs that may hold minus infinity: those that are only added to something,
    compared, or passed to an exponential, and so are the sums, which may be scaled or masked.

    Inputs are left out if they meet large numbers, which masks of the program, or of a tensor that
    it holds, add or subtract in place of minus infinity: where the inputs mask the rest of a row,
    those numbers decide its result."""
    state = {v: {i} for i, v in enumerate(graph.inputs)}  # the inputs of which a value is a view
    sums: dict[Value, set[int]] = {}  # and those of which it is a sum
    numbers = {op.results[0] for op in graph.ops if op.number is not None}
    found = set(range(len(graph.inputs))) - _meeting_large_numbers(graph, contents)
    for op in graph.ops:
        if _looks(op):
            state[op.result] = state.get(op.operands[0], set())
            sums[op.result] = sums.get(op.operands[0], set())
            continue
        scaled = op.function is BinaryFn.KEEP or (
            op.function in (BinaryFn.MUL, BinaryFn.DIV) and not numbers.isdisjoint(op.operands)
        )
        for place, v in enumerate(op.operands):
            if not _takes_masks(op, place):
                found -= state.get(v, set())
                found -= set() if scaled else sums.get(v, set())
        if scaled or op.function in (BinaryFn.ADD, BinaryFn.SUB, BinaryFn.MAX):
            parts = [*(sums.get(v, set()) for v in op.operands)]
            parts += [] if scaled else [state.get(v, set()) for v in op.operands]
            sums[op.result] = set[int]().union(*parts)
    return found


def _meeting_large_numbers(graph: KernelGraph, contents: Mapping[int, Array]) -> set[int]:
    """Return the inputs that are added to large numbers, or compared with them, before any other
    function is taken."""
    large = {v for i, x in contents.items() if _is_large(x, (v := graph.inputs[i]).dtype)}
    numbers = {
        op.results[0]
        for op in graph.ops
        if op.number is not None
        and _is_large(np.asarray(nearest(as_number(op.number))), op.results[0].dtype)
    }
    carried = {v: {i} for i, v in enumerate(graph.inputs)}
    found = set[int]()
    for op in graph.ops:
        own = set[int]().union(*(carried.get(v, set()) for v in op.operands))
        if op.function is BinaryFn.MUL and numbers.intersection(op.operands):
            large.update(op.results)
        elif _looks(op) or op.function in _CARRY:
            carried.update((v, own) for v in op.results)
            if large.intersection(op.operands):
                large.update(op.results)
                found |= own
    return found


def _is_large(x: Array, dtype: DType) -> bool:
    return bool((np.isfinite(x) & (np.abs(x) >= -least(dtype))).any())


def rows_meet(graph: KernelGraph) -> set[int]:
    """Return the inputs of which several rows (a row is the last dimension) are reduced together:
    in a reduction over another dimension, after a reshape that joins rows, or in a reduction of a
    product's results for each row (the scores of all keys, the columns of a norm after a product).
    """
    found: set[int] = set()
    rows = _rows_of(graph)
    for op in graph.ops:
        inside = _of_operands(op, rows)
        if isinstance(op, Contraction) and len(op.operands) == 1:
            (x,), last = inside, len(op.operands[0].shape) - 1
            if any(d != last for d in op.over[0]):
                found |= x.moved
            found |= set[int]().union(*(x.along[d] for d in op.over[0]))
        merges = isinstance(op, View) and op.source_dims() is None  # or splits
        if merges and op.result.shape[-1:] > op.operands[0].shape[-1:]:
            found |= inside[0].moved
    return found


def rows_compared(graph: KernelGraph, together: Sequence[int]) -> set[int]:
    """Return the inputs of which several rows are compared with each other, through one element or
    a few of each row. ``together`` says, for each output, how many of its last dimensions are
    compared together."""
    found: set[int] = set()
    # columns of a product count as rows only of a transposed operand; otherwise all weights would
    rows = _rows_of(graph, turned=False)
    for v, dims in zip(graph.outputs, together, strict=True):
        along = rows.get(v, _Rows.none(len(v.shape))).along
        found |= set[int]().union(*along[len(along) - dims :])
    return found


def _rows_of(graph: KernelGraph, turned: bool = True) -> dict[Value, _Rows]:
    """Return where the rows of inputs are in each value; with ``turned``, it is not known whether
    they are the rows or the columns of a product's operands."""
    rows = {v: _Rows.of(i, len(v.shape)) for i, v in enumerate(graph.inputs)}
    for op in graph.ops:
        inside = _of_operands(op, rows)
        for v in op.results:
            rows[v] = _through(op, v, inside, turned)
    return rows


def _of_operands(op: Op, rows: Mapping[Value, _Rows]) -> list[_Rows]:
    return [rows.get(v, _Rows.none(len(v.shape))) for v in op.operands]


@dataclass(frozen=True)
class _Rows:
    """The rows of inputs in a value: for each dimension, the inputs whose rows it counts; and the
    inputs whose elements the value has, moved or as arguments of functions."""

    along: tuple[frozenset[int], ...]
    moved: frozenset[int]

    @staticmethod
    def of(number: int, rank: int) -> _Rows:
        own = frozenset((number,))
        return _Rows((*(own,) * (rank - 1), frozenset[int]())[-rank:] if rank else (), own)

    @staticmethod
    def none(rank: int) -> _Rows:
        return _Rows((frozenset(),) * rank, frozenset())


def _through(op: Op, result: Value, inside: Sequence[_Rows], turned: bool) -> _Rows:
    """Return where the rows are in the result of an op."""
    rank, nothing = len(result.shape), frozenset[int]()
    if isinstance(op, Contraction) and len(op.operands) == 2:
        a, b = (x.along for x in inside)
        batch = [_common([x[:-2] for x in (a, b)], rank - 2, d) for d in range(rank - 2)]
        ends = a[-2], b[-1]
        if turned:
            # a row of one product's operand is a column of another's: it is unknown which of them a
            # caller passes
            ends = (a[-2] | inside[0].moved, b[-1] | inside[1].moved)
        return _Rows((*batch, *ends), nothing)
    if isinstance(op, View):
        dims = op.source_dims()
        along = inside[0].along
        if dims is None:
            return _Rows((nothing.union(*along),) * rank, inside[0].moved)
        return _Rows(
            tuple(along[dims[d]] if d in dims else nothing for d in range(rank)), inside[0].moved
        )
    if isinstance(op, Elementwise):
        along = [_common([x.along for x in inside], rank, d) for d in range(rank)]
        return _Rows(tuple(along), nothing.union(*(x.moved for x in inside)))
    if isinstance(op, Contraction) and len(op.operands) == 1 and rank == len(inside[0].along):
        kept = (nothing if d in op.over[0] else x for d, x in enumerate(inside[0].along))
        return _Rows(tuple(kept), nothing)
    return _Rows.none(rank)


def _common(values: Sequence[Sequence[frozenset[int]]], rank: int, d: int) -> frozenset[int]:
    """Return the inputs whose rows lie along a dimension, of values that are aligned at the last
    dimension."""
    places = ((x, d - rank + len(x)) for x in values)
    return frozenset[int]().union(*(x[at] for x, at in places if at >= 0))


def _looks(op: Op) -> bool:
    """Return whether the result has the elements of the operand, in other places or another
    type."""
    return isinstance(op, View) or (isinstance(op, Elementwise) and op.identity)


def _takes_masks(op: Op, place: int) -> bool:
    return op.function in _MASKED or (op.function is BinaryFn.SUB and place == 0)


_CARRY = (
    BinaryFn.ADD, BinaryFn.SUB, BinaryFn.MAX, BinaryFn.MIN, BinaryFn.KEEP, ReduceFn.MAX,
    UnaryFn.NEG,
)  # fmt: skip

_MASKED = (BinaryFn.ADD, BinaryFn.MAX, ReduceFn.MAX, UnaryFn.EXP)
