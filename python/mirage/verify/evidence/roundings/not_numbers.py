"""NaN among the inputs: where a candidate must give a NaN, and where it must give a number.

The identities of real numbers say nothing about NaN, and people write the same program with and
without zeros that are multiplied: a product with a triangle of ones or a running sum, a product
with a row that is one at a place or a lookup, an average over a mask or a choice. A NaN times such
a zero is NaN, and in the other form it is not read at all. PyTorch has both forms of attention
itself: its fused kernels leave masked scores out, and its composed ones add minus infinity to them.
So a candidate may do either, and two things remain:

*A NaN must not be lost.* Where the reference gives NaN, the candidate must not give a number,
unless the reference would give one if the zeros of tensors, and the minus infinity of masks (or a
large negative number in its place), removed the elements that they meet, or unless the row of the
result has a NaN in another place (sorts differ in where they put it).

*What the caller leaves out must stay out.* If the reference gives a number only because it chooses
by a mask of truth values, a length, or by asking whether a number is NaN, then the candidate must
give a number, too: the elements may be uninitialised memory. A choice by positions alone is a
triangle, a choice of one place is a lookup, and one that compares floats was not made with NaN in
mind. Elements that no output of the reference reads (:func:`never_read`) are left out, too.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from mirage.semantics.domain import Float64, Planes, map_planes
from mirage.semantics.evaluation.evaluate import Sampled
from mirage.semantics.indexing.indices import Region, whole
from mirage.semantics.ops.tensor_ops import Binary
from mirage.semantics.region import demand, region_shape
from mirage.semantics.scalar import Array, BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import Elementwise, KernelGraph, Op, Value
from mirage.verify.evidence.roundings.input_roles import least
from mirage.verify.evidence.roundings.row_errors import NEGLIGIBLE
from mirage.verify.evidence.samples.floats import Yardstick, outputs_of
from mirage.verify.evidence.samples.sampled_outputs import Sample

_LEAST = -1.7e308
"""The number that replaces the minus infinity that a mask adds; its sum with a score is also about
this number."""
_FAR = 0.125
"""The difference, relative to the largest number of an output, that is not a rounding error."""
_TIMES = 8.0
"""The multiple of the reference's error, and of a negligible one, that the error of an element may
be that is a number by choice: it is one of few, so their errors are not compared as those of other
rows are."""
_EQUALITIES = (BinaryFn.EQ, BinaryFn.NE)


class LeftOut(Yardstick):
    """float64 in which masks replace elements instead of adding to them, and zeros in tensors
    remove the elements that they multiply. Zero constants do not: nobody writes them as a mask."""

    def unary(self, fn: UnaryFn, x: Planes, dtype: DType) -> Planes:
        y = super().unary(fn, x, dtype)
        if fn is not UnaryFn.BIAS:
            return y
        return (np.where(np.isneginf(y[0]), _LEAST, y[0]),)

    def binary(self, fn: BinaryFn, a: Planes, b: Planes, dtype: DType) -> Planes:
        y = super().binary(fn, a, b, dtype)
        if fn in (BinaryFn.ADD, BinaryFn.SUB):
            added = b[0] if fn is BinaryFn.ADD else -b[0]
            left_out = _far_below(a[0], dtype) | _far_below(added, dtype)
            return (np.where(left_out & np.isnan(y[0]), _LEAST, y[0]),)
        if fn is BinaryFn.MUL:
            zero = _zeros(a[0]) | _zeros(b[0])
            return (np.where(zero & np.isnan(y[0]), 0.0, y[0]),)
        return y

    def matmul(self, a: Planes, b: Planes, dtype: DType) -> Planes:
        missing = [np.isnan(x[0]) for x in (a, b)]
        numbers = [np.where(m, 0.0, x[0]) for m, x in zip(missing, (a, b), strict=True)]
        weights = [(m | (x[0] != 0.0)).astype(float) for m, x in zip(missing, (a, b), strict=True)]
        nans = [m.astype(float) for m in missing]
        met = np.matmul(nans[0], weights[1]) + np.matmul(weights[0], nans[1])
        return (np.where(met > 0.0, np.nan, np.matmul(*numbers)),)


def _in_rows(x: Array) -> Array:
    """Return the rows that have a true element."""
    return np.asarray(x.any(-1)) if x.ndim else x


def _far_below(x: Array, dtype: DType) -> Array:
    """Return where a mask adds minus infinity, or a large negative number in its place."""
    return (x <= least(dtype)) & (x.size > 1)


def _zeros(x: Array) -> Array:
    return (x == 0.0) & (x.size > 1)


class Reached(Float64):
    """float64 in which everything that is computed from a NaN is NaN, including truth values of
    comparisons and rows that are looked up with it. Only elements that a choice leaves out, and
    comparisons of a value with itself, are numbers."""

    def unary(self, fn: UnaryFn, x: Planes, dtype: DType) -> Planes:
        (y,) = super().unary(fn, x, dtype)
        return (np.where(np.isnan(x[0]), np.nan, y),)

    def binary(self, fn: BinaryFn, a: Planes, b: Planes, dtype: DType) -> Planes:
        (y,) = super().binary(fn, a, b, dtype)
        if fn is BinaryFn.KEEP:
            return (np.where(np.isnan(a[0]), np.nan, np.where(a[0] == 0.0, 0.0, y)),)
        if fn in _EQUALITIES and _same(a[0], b[0]):
            return (y,)
        return (np.where(np.isnan(a[0]) | np.isnan(b[0]), np.nan, y),)

    def cut(self, x: Planes, given: DType, dtype: DType) -> Planes | None:
        found = super().cut(x, given, dtype)
        return found and (np.where(np.isnan(x[0]), np.nan, found[0]),)

    def rows(self, table: Planes, places: Planes) -> Planes | None:
        (at,) = places
        unknown = np.isnan(at)
        if not unknown.any():
            return None
        inside = (at >= 0) & (at < len(table[0]))
        found = map_planes(lambda p: p[np.where(inside, at, 0).astype(np.int64)], table)
        kept = inside.reshape(inside.shape + (1,) * (table[0].ndim - 1))
        return (np.where(kept, found[0], np.nan),)


class Replaced(Reached):
    """An arithmetic like :class:`Reached`, except that a NaN is not infinite: ``nan_to_num`` also
    asks for that."""

    def binary(self, fn: BinaryFn, a: Planes, b: Planes, dtype: DType) -> Planes:
        if fn in _EQUALITIES and any(x.size == 1 and np.isinf(x).all() for x in (a[0], b[0])):
            return Float64.binary(self, fn, a, b, dtype)
        return super().binary(fn, a, b, dtype)


def _same(a: Array, b: Array) -> bool:
    """Return whether two arrays are the same memory."""
    return a.shape == b.shape and a.strides == b.strides and a.ctypes.data == b.ctypes.data


def without_choices(graph: KernelGraph, known: Collection[int]) -> KernelGraph:
    """Return ``graph`` without the choices that a caller makes by truth values and integers: what
    is kept by them is multiplied by the truth value. The numbers in the inputs ``known`` are not a
    caller's choice, and neither is one place of several; masks that leave out scores may also add
    to them. Questions whether a value is NaN become comparisons."""
    given = {v for i, v in enumerate(graph.inputs) if i not in known}
    choices = {v for v in given if v.dtype is DType.I1}  # and the values computed from them
    made = {v: op for op in graph.ops for v in op.results}
    added = {_uncast(op.operands[0], made) for op in graph.ops if op.function is UnaryFn.BIAS}
    ops: list[Op] = []
    for op in graph.ops:
        depends = [v in given for v in op.operands]
        if any(depends):
            given.update(op.results)
        if op.function in (BinaryFn.LT, BinaryFn.LE, *_EQUALITIES):
            picks = op.function in _EQUALITIES and not all(depends)
            chosen = any(depends) and not picks and op.operands[0].dtype.is_integer
        else:
            chosen = any(v in choices for v in op.operands)
        if chosen:
            choices.update(op.results)
        ops.append(_without_choice(op, choices - added))
    return replace(graph, ops=tuple(ops))


def _uncast(v: Value, made: Mapping[Value, Op]) -> Value:
    """Return the value of which ``v`` is a conversion."""
    op = made.get(v)
    return _uncast(op.operands[0], made) if isinstance(op, Elementwise) and op.identity else v


def _without_choice(op: Op, choices: Collection[Value]) -> Op:
    if not isinstance(op, Elementwise):
        return op
    if op.function is BinaryFn.KEEP and op.operands[0] in choices:
        return Binary(op.operands, op.results, BinaryFn.MUL)
    if op.function in _EQUALITIES and op.operands[0] is op.operands[1]:
        order = BinaryFn.LE if op.function is BinaryFn.EQ else BinaryFn.LT  # the same for numbers
        return Binary(op.operands, op.results, order)
    return op


def read_by(graph: KernelGraph) -> Mapping[Value, Region]:
    """Return the regions of values that the outputs of ``graph`` depend on, for any contents of the
    inputs: slices leave elements out."""
    return demand(graph, [whole(len(y.shape)) for y in graph.outputs]).regions


def never_read(value: Value, have: Region, read: Mapping[Value, Region]) -> Array:
    """Return which elements of the region ``have`` of an input are not among those that are
    ``read``."""
    found = np.ones(region_shape(have, value.shape), dtype=bool)
    if value not in read:
        return found
    for dim, (wanted, there) in enumerate(zip(read[value], have, strict=True)):
        if wanted is not None:
            places = np.arange(value.shape[dim]) if there is None else there
            along = [1] * found.ndim
            along[dim] = -1
            found = found & np.isin(places, wanted, kind="table").reshape(along)
    return ~found


@dataclass(frozen=True)
class NotNumbers:
    """The results that a NaN among some inputs requires of candidates of ``graph``; the numbers in
    the inputs ``known`` are part of the program."""

    graph: KernelGraph
    inputs: Sequence[Sampled]
    sample: Sample
    known: Collection[int]

    def lost(self, number: int, exact: Array, reference: Array, candidate: Array) -> str:
        """Say what the candidate's output ``number`` has lost, or return ""."""
        dtype = self.graph.outputs[number].dtype
        if dtype.is_integer:
            wrong = reference != candidate
            if dtype is not DType.I1:  # a place that is found by comparisons may be any place
                wrong = wrong & ~np.isnan(self._reached[number])
            return "another whole number" if wrong.any() else ""
        numbers = np.isfinite(candidate)
        lost = np.isnan(reference) & ~np.isnan(candidate) & np.isnan(self._left_out[number])
        if (_in_rows(lost) & ~_in_rows(np.isnan(candidate))).any():
            return "a NaN among the inputs is lost"
        known = np.isfinite(reference)
        if (known & ~numbers & self._chosen[number]).any():
            return "not a number where the reference leaves a NaN out"
        size = np.abs(reference[known]).max(initial=0.0)
        with np.errstate(invalid="ignore"):  # infinite numbers are not compared
            off = np.minimum(np.abs(exact - candidate), np.abs(reference - candidate))
            own = np.abs(exact - reference)[known & np.isfinite(exact)].max(initial=0.0)
            near = _TIMES * (own + NEGLIGIBLE[dtype] * size)
            if (known & numbers & self._replaced[number] & (off > near)).any():
                return "another number where the reference leaves a NaN out"
            others = known & numbers & (off > _FAR * size)
        if not others.any():
            return ""
        ranked = np.isnan(self._reached[number])
        picked = np.isin(np.abs(candidate[others]), self._sizes)
        return "" if ranked[others].all() and picked.all() else "another number"

    @cached_property
    def _sizes(self) -> Array:
        """The magnitudes of the elements of the inputs, one of which a rank picks."""
        return np.concatenate([np.abs(x.planes[0]).ravel() for x in self.inputs])

    @cached_property
    def _left_out(self) -> list[Array]:
        return outputs_of(self.graph, 0, LeftOut(), self.inputs, self.sample)

    @cached_property
    def _reached(self) -> list[Array]:
        return outputs_of(self.graph, 0, Reached(), self.inputs, self.sample)

    @cached_property
    def _chosen(self) -> list[Array]:
        """Where the reference gives a number only because of a choice, or because it reads no
        NaN."""
        read = read_by(self.graph)
        each = zip(self.graph.inputs, self.sample.inputs, self.inputs, strict=True)
        if not any((np.isnan(x.planes[0]) & ~never_read(v, h, read)).any() for v, h, x in each):
            return [np.ones(y.shape, dtype=bool) for y in self._reached]
        return self._by_choice(Reached())

    @cached_property
    def _replaced(self) -> list[Array]:
        """Where the reference gives a number in place of a NaN because of a choice."""
        return self._by_choice(Replaced())

    def _by_choice(self, domain: Reached) -> list[Array]:
        graph = without_choices(self.graph, self.known)
        found, others = (
            outputs_of(g, 0, domain, self.inputs, self.sample) for g in (self.graph, graph)
        )
        return [np.isnan(y) & ~np.isnan(x) for x, y in zip(found, others, strict=True)]
