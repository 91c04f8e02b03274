"""The values of a program whose rounding decides about a step.

A kernel continues in f32 where the program rounds to 16 bits, and is more exact for it. But
``(x / s).round()`` of f16 numbers depends on the rounding of the quotient: about one element in a
hundred is another integer without it. So a kernel rounds such values as the program does: those
that the argument of a step function (a floor, a comparison, an integer) is computed from, up to
sums, whose roundings depend on the order of summation. In f32 they are the quotients: a product
with the rounded inverse may be another number.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mirage.semantics.scalar import BinaryFn, UnaryFn
from mirage.semantics.ugraph import (
    Contraction,
    Elementwise,
    KernelGraph,
    Movement,
    Op,
    Source,
    Value,
    View,
)

_COMPARISONS = (BinaryFn.LT, BinaryFn.LE, BinaryFn.EQ, BinaryFn.NE)
_STEPS = (UnaryFn.FLOOR, BinaryFn.FLOOR_DIV, BinaryFn.REMAINDER)
_EXACT = (
    UnaryFn.NEG, UnaryFn.ABS, UnaryFn.FLOOR, BinaryFn.MAX, BinaryFn.MIN, BinaryFn.KEEP,
    BinaryFn.COPYSIGN, *_COMPARISONS,
)  # fmt: skip
"""Functions whose results have no more digits than their arguments."""


def deciding_roundings(graph: KernelGraph) -> frozenset[Value]:
    """Return the computed values of 16 bits that kernels must round, and the quotients that they
    must not compute as products, in a graph of primitive ops."""
    makers = {v: op for op in graph.ops for v in op.results}
    left = [v for op in graph.ops for v in _arguments_of_steps(op, makers)]
    seen: set[Value] = set()
    found: set[Value] = set()
    while left:
        value = left.pop()
        op = makers.get(value)
        if op is None or value in seen:
            continue
        seen.add(value)
        if op.function is BinaryFn.DIV or (value.dtype.is_half and _rounds(op)):
            found.add(value)
        if isinstance(op, Elementwise | View) or not _adds(op):
            left += op.operands
    return frozenset(found)


def _arguments_of_steps(op: Op, makers: Mapping[Value, Op]) -> Iterator[Value]:
    """Yield the floating-point arguments of a step function. A number has the same sign before and
    after it is rounded, so comparisons with zero are left out."""
    to_integer = isinstance(op, Elementwise) and op.converts and op.result.dtype.is_number
    zero = op.function in _COMPARISONS and any(_is_zero(v, makers) for v in op.operands)
    if to_integer or op.function in _STEPS or (op.function in _COMPARISONS and not zero):
        yield from (v for v in op.operands if not v.dtype.is_integer)


def _is_zero(value: Value, makers: Mapping[Value, Op]) -> bool:
    op = makers.get(value)
    while isinstance(op, View) or (isinstance(op, Elementwise) and op.identity):
        op = makers.get(op.operands[0])
    return op is not None and op.number == 0


def _rounds(op: Op) -> bool:
    """Return whether a result of 16 bits may have fewer digits than its computation."""
    if isinstance(op, Movement | View | Source) or op.function in _EXACT:
        return any(v.dtype is not op.results[0].dtype for v in op.operands)
    return not isinstance(op, Contraction) or _adds(op)


def _adds(op: Op) -> bool:
    return isinstance(op, Contraction) and op.sums
