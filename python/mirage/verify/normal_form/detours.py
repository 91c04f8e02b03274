"""Values that are the same as others, read as these.

``(x + x) / 2``, ``-(-x)``, ``1 x``, ``max(x, x)``, and a tensor that is cut and joined again, are
``x``. Rules for running maxima, masks and steps that are left out look at how a value is computed,
so both programs are read without such detours. Each value is a multiple of another one by a power
of two, which floating point computes exactly (except next to the ends of its range), and a value
that is 1 times another one of the same type is that one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from fractions import Fraction
from math import isinf

from mirage.semantics.numbers import nearest
from mirage.semantics.ops.kinds import is_cast
from mirage.semantics.scalar import BinaryFn, UnaryFn
from mirage.semantics.substitute import rename_graph
from mirage.semantics.ugraph import Elementwise, KernelGraph, Op, Structure, Value

Multiple = tuple[Value, Fraction]


def without_detours(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` without values that are the same as others; the same object if there are
    none."""
    found = _Found()
    found.add(graph.ops)
    if not found.same:
        return graph
    kept = replace(graph, ops=_without(graph.ops, found.same.keys()))
    return rename_graph(kept, found.same)


def _without(ops: tuple[Op, ...], gone: Collection[Value]) -> tuple[Op, ...]:
    kept: list[Op] = []
    for op in ops:
        if isinstance(op, Structure):
            kept.append(op.rebuilt(_without(op.inside, gone), lambda v: v))
        elif not (op.results and op.results[0] in gone):
            kept.append(op)
    return tuple(kept)


class _Found:
    """The values that are the ``same`` as others, which are computed in the same list of ops."""

    def __init__(self) -> None:
        self.same: dict[Value, Value] = {}
        self.numbers: dict[Value, Fraction] = {}
        self.makers: dict[Value, Op] = {}

    def add(self, ops: tuple[Op, ...]) -> None:
        multiples: dict[Value, Multiple] = {}
        for op in ops:
            if isinstance(op, Structure):
                self.add(op.inside)
                continue
            if len(op.results) != 1:
                continue
            (result,) = op.results
            self.makers[result] = op
            if op.number is not None and not isinf(nearest(op.number)):
                self.numbers[result] = Fraction(op.number)
                continue
            base, times = self._multiple(op, multiples) or (result, Fraction(1))
            here = base in multiples and self._root(base) is base
            if base is not result and times == 1 and base.type == result.type and here:
                self.same[result] = base
            multiples[result] = base, times

    def _root(self, v: Value) -> Value:
        return self.same.get(v, v)

    def _multiple(self, op: Op, known: Mapping[Value, Multiple]) -> Multiple | None:
        """Return what the result is a multiple of; None if nothing is known."""
        xs = [known.get(v) for v in op.operands]
        match op.function:
            case UnaryFn.NEG if xs[0] is not None:
                return _times(xs[0], Fraction(-1))
            case BinaryFn.ADD | BinaryFn.SUB:
                return self._sum(op.function, *xs)
            case BinaryFn.MAX | BinaryFn.MIN if op.operands[0] is op.operands[1]:
                return xs[0]
            case BinaryFn.MUL:
                for x, v in ((xs[0], op.operands[1]), (xs[1], op.operands[0])):
                    if x is not None and v in self.numbers and x[0].shape == op.result.shape:
                        return _times(x, self.numbers[v])
            case _:
                pass
        if is_cast(op) and xs[0] is not None and _is_exact(op, xs[0]):
            return xs[0]
        return self._joined(op, known)

    def _sum(self, fn: BinaryFn, x: Multiple | None, y: Multiple | None) -> Multiple | None:
        if x is None or y is None or x[0] is not y[0]:
            return None
        times = x[1] + y[1] if fn is BinaryFn.ADD else x[1] - y[1]
        return _times((x[0], Fraction(1)), times)

    def _joined(self, op: Op, known: Mapping[Value, Multiple]) -> Multiple | None:
        """Return the value that is cut into parts, and joined again."""
        dim = op.joined_along
        parts = [self.makers.get(v) for v in op.operands]
        if dim is None or not parts:
            return None
        at, whole = 0, None
        for part in parts:
            if part is None or part.cut_at is None:
                return None
            (source,) = part.operands
            start = tuple(at if d == dim else 0 for d in range(len(source.shape)))
            if (whole is not None and source is not whole) or part.cut_at != start:
                return None
            whole, at = source, at + part.result.shape[dim]
        return known.get(whole) if whole is not None and whole.type == op.result.type else None


def _times(x: Multiple, c: Fraction) -> Multiple | None:
    """Return a multiple of a multiple, if floating point computes it exactly."""
    times = x[1] * c
    parts = abs(times.numerator), times.denominator
    exact = times != 0 and all(n & (n - 1) == 0 for n in parts)
    return (x[0], times) if exact else None


def _is_exact(op: Elementwise, x: Multiple) -> bool:
    """Return whether a conversion changes no number of a multiple of a value."""
    (given,), dtype = op.operands, op.result.dtype
    if op.cuts or given.dtype.is_integer or dtype.is_integer:
        return False
    return (dtype.bits >= given.dtype.bits and not dtype.is_half) or dtype is x[0].dtype
