"""Tensors that are compared with themselves are read from memory.

A rank is a count of comparisons of one tensor's elements with each other, and an arg-max looks for
the elements that equal their maximum. Such counts jump where numbers are equal. If the two sides of
a comparison were computed separately, in sums of another order or before and after rounding, then
an element might not equal itself, and each of two elements might precede the other. Tests of a
kernel with other numbers cannot reveal that. So compared tensors are passed between parts: both
sides, and all values that depend on which of them is larger, load the same bits.
"""

from __future__ import annotations

from mirage.semantics.scalar import BINARY, BinaryFn, ReduceFn, UnaryFn
from mirage.semantics.ugraph import Boundary, KernelGraph, Op, Source, Structure, Value, View

_EXACT = (
    UnaryFn.NEG, UnaryFn.ABS, UnaryFn.RELU, UnaryFn.FLOOR,
    BinaryFn.MAX, BinaryFn.MIN, BinaryFn.KEEP, ReduceFn.MAX,
)  # fmt: skip
"""Functions that choose among numbers, change signs or clamp: they round nothing."""


def compared_with_itself(graph: KernelGraph) -> frozenset[Value]:
    """Return the computed values of ``graph``, other than integers, whose elements are compared
    with elements of the same tensor, directly or after steps that round nothing."""
    made = {v: op for op in graph.ops for v in op.results}
    origins: dict[Value, frozenset[Value]] = {}

    def origin(value: Value) -> frozenset[Value]:
        """Return the computed tensors whose elements those of ``value`` are, unchanged."""
        if value not in origins:
            op = made.get(value)
            if value.dtype.is_integer or op is None or isinstance(op, Source):
                origins[value] = frozenset()
            elif isinstance(op, View) or op.function in _EXACT:
                origins[value] = frozenset[Value]().union(*map(origin, op.operands))
            else:
                origins[value] = frozenset((value,))
        return origins[value]

    found: set[Value] = set()
    for op in graph.ops:
        if _compares(op) and op.operands[0] is not op.operands[1]:
            found |= frozenset.intersection(*map(origin, op.operands))
    return frozenset(v for v in found if not isinstance(made[v], Boundary | Structure))


def _compares(op: Op) -> bool:
    fn = op.function
    return isinstance(fn, BinaryFn) and BINARY[fn].truth and not BINARY[fn].logic
