"""Values that may be infinite although all inputs are numbers.

Masks add minus infinity, and running maxima start there. Values computed from these may be infinite
as well, except for exponentials, truth values, and functions that are bounded by 1. A value that
may be infinite is not an arbitrary number: ``where(m == -inf, 0, m)`` is ``m`` for all numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mirage.semantics.scalar import BINARY, UNARY, BinaryFn, ReduceFn, UnaryFn
from mirage.semantics.ugraph import Elementwise, KernelGraph, Op, Structure, Value, View, all_ops

_BELOW, _ABOVE = frozenset({-1}), frozenset({1})
_BOUNDED = (UnaryFn.SIGMOID, UnaryFn.TANH)
_FOLLOW = (BinaryFn.ADD, BinaryFn.MAX, BinaryFn.MIN, BinaryFn.KEEP, ReduceFn.SUM, ReduceFn.MAX)
_Signs = frozenset[int]


def may_be_infinite(graph: KernelGraph) -> set[Value]:
    """Return the values of a program that may be infinite."""
    found: dict[Value, _Signs] = {}
    _follow(graph.ops, found, {v: op for op in all_ops(graph.ops) for v in op.results})
    return {v for v, signs in found.items() if signs}


def _follow(ops: Sequence[Op], found: dict[Value, _Signs], makers: Mapping[Value, Op]) -> None:
    for op in ops:
        given = [found.get(v, frozenset[int]()) for v in op.operands]
        if isinstance(op, Structure):
            every = frozenset[int]().union(*given)
            found.update(dict.fromkeys(op.defines, every))
            _follow(op.inside, found, makers)
            ends = (found.get(v, frozenset[int]()) for v in op.ends)
            signs = frozenset[int]().union(*ends)
        else:
            signs = _signs(op, given, makers)
        found.update(dict.fromkeys(op.results, signs))


def _signs(op: Op, given: list[_Signs], makers: Mapping[Value, Op]) -> _Signs:
    """Return the signs of infinity that a result may have."""
    fn = op.function
    if op.number is not None:
        infinite = abs(float(op.number)) == float("inf")
        return (_ABOVE if op.number > 0 else _BELOW) if infinite else frozenset()
    if fn is UnaryFn.BIAS:
        return _BELOW
    if not any(given) or fn in _BOUNDED or _is_truth(op):
        return frozenset()
    if fn is UnaryFn.EXP:
        return given[0] & _ABOVE
    if fn is UnaryFn.NEG:
        return _opposite(given[0])
    if fn is BinaryFn.SUB:
        x, y = op.operands
        return given[0] if _is_maximum(y, x, makers) else given[0] | _opposite(given[1])
    if fn in _FOLLOW or isinstance(op, View) or (isinstance(op, Elementwise) and op.identity):
        return frozenset[int]().union(*given)
    return _ABOVE | _BELOW


def _is_truth(op: Op) -> bool:
    fn = op.function
    return (fn in UNARY and UNARY[fn].truth) or (fn in BINARY and BINARY[fn].truth)


def _opposite(signs: _Signs) -> _Signs:
    return frozenset(-s for s in signs)


def _is_maximum(m: Value, x: Value, makers: Mapping[Value, Op]) -> bool:
    """Return whether ``m`` is the maximum of the elements of ``x``: if it is minus infinity, their
    difference is not defined."""
    while (op := makers.get(m)) is not None:
        if op.function is ReduceFn.MAX:
            return op.operands[0] is x
        if not (isinstance(op, View) or (isinstance(op, Elementwise) and op.identity)):
            break
        m = op.operands[0]
    return False
