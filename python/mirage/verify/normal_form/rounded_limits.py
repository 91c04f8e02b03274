"""Roundings of numbers that were limited before, as limits of rounded numbers.

Rounding down and rounding to the nearest whole number keep the order of numbers, so the rounded
maximum of two numbers is the maximum of both, rounded: ``round(max(x, c)) = max(round(x),
round(c))``, and likewise for a minimum, and for the maximum that is negated in ``ceil``. They are
written in this form if one of the two is a constant, which is then rounded exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction

from mirage.semantics.builder import Builder
from mirage.semantics.nearest_whole import nearest_whole
from mirage.semantics.numbers import Number, as_number
from mirage.semantics.scalar import BinaryFn, UnaryFn
from mirage.semantics.substitute import with_operands, without_dead_ops
from mirage.semantics.ugraph import KernelGraph, Op, Value

_OTHER = {BinaryFn.MAX: BinaryFn.MIN, BinaryFn.MIN: BinaryFn.MAX}


class Step:
    """A function that keeps the order of numbers and has whole values."""

    def __init__(
        self, write: Callable[[Builder, Value], Value], of: Callable[[Fraction], int]
    ) -> None:
        self.write, self.of = write, of


_DOWN = Step(lambda b, x: b.unary(UnaryFn.FLOOR, x), math.floor)
_NEAREST = Step(nearest_whole, round)  # at a half: ties to even


def with_limits_outside(graph: KernelGraph) -> KernelGraph:
    """Return a program of primitive ops in which constant limits are applied to rounded numbers."""
    if not any(op.function is UnaryFn.FLOOR for op in graph.ops):
        return graph
    makers = {op.result: op for op in graph.ops if len(op.results) == 1}
    ops: list[Op] = []
    names: dict[Value, Value] = {}
    for op in graph.ops:
        step = rounding_step(op, makers)
        found = None if step is None else _limited(*step, makers)
        if found is None:
            ops.append(with_operands(op, tuple(names.get(v, v) for v in op.operands)))
            continue
        b = Builder()
        value = found(b)
        names[op.result] = value if value.type == op.result.type else b.cast(value, op.result.dtype)
        ops += (with_operands(new, tuple(names.get(v, v) for v in new.operands)) for new in b.ops)
    if not names:
        return graph
    outputs = tuple(names.get(v, v) for v in graph.outputs)
    return without_dead_ops(KernelGraph(graph.name, graph.inputs, tuple(ops), outputs))


def rounding_step(op: Op, makers: Mapping[Value, Op]) -> tuple[Step, Value] | None:
    """Return the rounding whose last op this is, and what is rounded."""
    if op.function is UnaryFn.FLOOR:
        return _DOWN, op.operands[0]
    floor = makers.get(op.operands[0]) if op.function is BinaryFn.ADD else None
    if floor is None or floor.function is not UnaryFn.FLOOR:
        return None
    (x,) = floor.operands
    b = Builder()
    whole = nearest_whole(b, x)
    pattern = {new.result: new for new in b.ops}
    return (_NEAREST, x) if _are_alike(op.result, whole, makers, pattern) else None


def _are_alike(x: Value, y: Value, makers: Mapping[Value, Op], pattern: Mapping[Value, Op]) -> bool:
    """Return whether ``x`` is computed in the same way as ``y``."""
    first, second = makers.get(x), pattern.get(y)
    if second is None:
        return x is y
    if first is None or type(first) is not type(second) or first.function is not second.function:
        return False
    pairs = zip(first.operands, second.operands, strict=True)
    return first.number == second.number and all(
        _are_alike(a, c, makers, pattern) for a, c in pairs
    )


def _limited(
    step: Step, x: Value, makers: Mapping[Value, Op], negative: bool = False
) -> Callable[[Builder], Value] | None:
    """Return how to write a rounded number, or the rounded ``negative`` of it, with limits by
    constants outside; None if it has none."""
    op = makers.get(x)
    if op is not None and op.function is UnaryFn.NEG:
        return _limited(step, op.operands[0], makers, not negative)
    if op is None or op.function not in _OTHER:
        return None
    fn = _OTHER[op.function] if negative else op.function
    numbers = [None if (m := makers.get(v)) is None else _rational(m.number) for v in op.operands]
    if all(n is None for n in numbers):
        return None

    def written(b: Builder, v: Value, number: Fraction | None) -> Value:
        if number is not None:
            return b.constant(step.of(-number if negative else number), x.dtype.computed)
        inner = _limited(step, v, makers, negative)
        if inner is not None:
            return inner(b)
        return step.write(b, b.unary(UnaryFn.NEG, v) if negative else v)

    return lambda b: b.binary(
        fn, *(written(b, v, n) for v, n in zip(op.operands, numbers, strict=True))
    )


def _rational(number: Number | None) -> Fraction | None:
    found = None if number is None else as_number(number)
    return found if isinstance(found, Fraction) else None
