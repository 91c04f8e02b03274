"""The inputs whose rows a program averages.

A product with weights that are never negative (the exponentials of an attention) is an average of
rows, and the average of equal rows is that row, whatever the weights are. So the reference is exact
there, and an error in the sum of the weights is the same in all elements, where no other error
hides it.
"""

from __future__ import annotations

from collections.abc import Mapping

from mirage.semantics.scalar import UNARY, Array, BinaryFn, UnaryFn
from mirage.semantics.ugraph import Contraction, Elementwise, KernelGraph, Op, Value, View

_NEVER_NEGATIVE = (UnaryFn.EXP, UnaryFn.SIGMOID, UnaryFn.SQUARE, UnaryFn.ABS, UnaryFn.SQRT)
_KEEP_SIGNS = (
    BinaryFn.ADD, BinaryFn.MUL, BinaryFn.DIV, BinaryFn.MIN, UnaryFn.RECIPROCAL, UnaryFn.RSQRT,
)  # fmt: skip


def averaged_inputs(graph: KernelGraph, fixed: Mapping[int, Array]) -> set[int]:
    """Return the inputs whose rows (a row is the last dimension) are multiplied by weights that are
    never negative, and added. ``fixed`` are the values of inputs that are known."""
    makers = {v: op for op in graph.ops for v in op.results}
    source = {v: i for i, v in enumerate(graph.inputs) if len(v.shape) > 1}
    known = {graph.inputs[i]: bool((x >= 0).all()) for i, x in fixed.items()}
    found: set[int] = set()
    for op in graph.ops:
        looks = isinstance(op, View) or (isinstance(op, Elementwise) and op.identity)
        if looks and op.operands[0] in source:
            source[op.results[0]] = source[op.operands[0]]
        elif isinstance(op, Contraction) and len(op.operands) == 2:
            weights, rows = op.operands
            if rows in source and _never_negative(weights, makers, known):
                found.add(source[rows])
    return found


def _never_negative(value: Value, makers: Mapping[Value, Op], known: dict[Value, bool]) -> bool:
    """Return whether no element of a value is certainly negative by the functions it is made of."""
    if value not in known:
        known[value] = False
        op = makers.get(value)
        known[value] = op is not None and _by_op(op, makers, known)
    return known[value]


def _by_op(op: Op, makers: Mapping[Value, Op], known: dict[Value, bool]) -> bool:
    if op.number is not None:
        return op.number >= 0
    fn = op.function
    if fn in _NEVER_NEGATIVE or any(v.dtype.is_integer for v in op.results):
        return True
    if isinstance(fn, UnaryFn) and UNARY[fn].truth:
        return True
    if fn is BinaryFn.MAX:
        return any(_never_negative(v, makers, known) for v in op.operands)
    if fn is BinaryFn.KEEP:
        return _never_negative(op.operands[1], makers, known)
    moves = isinstance(op, View | Contraction) or (isinstance(op, Elementwise) and op.identity)
    if not (moves or fn in _KEEP_SIGNS) or not op.operands:
        return False
    return all(_never_negative(v, makers, known) for v in op.operands)
