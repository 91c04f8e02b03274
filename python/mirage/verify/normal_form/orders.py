"""Orders that functions preserve: the largest value of an increasing function is its value at the
largest number, and two of its values compare like their arguments. An exponential, even if it is
divided by a number of the row or has one subtracted, is larger where its argument is larger. So the
places of the largest probabilities are those of the largest scores, and the largest probability is
the exponential of the largest score, divided in the same way. A divisor of a row that is not
negative is positive wherever the quotient is defined.
"""

from __future__ import annotations

import numpy as np

from mirage.semantics.builder import Builder
from mirage.semantics.domain import Float64
from mirage.semantics.scalar import UNARY, BinaryFn, ReduceFn, UnaryFn
from mirage.semantics.ugraph import Contraction, Elementwise, Op, Value, View
from mirage.verify.normal_form.reading import Reading

_COMPARISONS = (BinaryFn.LT, BinaryFn.LE, BinaryFn.EQ, BinaryFn.NE)
_MOST = 1 << 22
"""The most elements whose origins are determined."""


def largest_rule(reading: Reading, op: Op) -> Value | None:
    """Return how to write a maximum along dimensions along which a function is increasing; None for
    other ops."""
    if op.function is not ReduceFn.MAX or not isinstance(op, Contraction):
        return None
    (dims,) = op.over
    return _largest(reading, op.operands[0], dims)


def _largest(reading: Reading, x: Value, dims: tuple[int, ...]) -> Value | None:
    op = reading.makers.get(x)
    if not isinstance(op, Elementwise) or (step := _increasing(reading, op)) is None:
        return None
    inner, place = step
    others = [v for i, v in enumerate(op.operands) if i != place]
    if inner.shape != x.shape or any(_varies(v, x, dims) for v in others):
        return None
    found = _largest(reading, inner, dims)
    if found is None:
        found = reading.write(lambda b: b.reduce(ReduceFn.MAX, inner, dims))
    operands = tuple(found if i == place else v for i, v in enumerate(op.operands))
    return reading.apply(op, operands)


def _varies(v: Value, x: Value, dims: tuple[int, ...]) -> bool:
    """Return whether an operand of ``x`` has several elements along some of the dimensions."""
    lead = len(x.shape) - len(v.shape)
    return any(d >= lead and v.shape[d - lead] != 1 for d in dims)


def _increasing(reading: Reading, op: Elementwise) -> tuple[Value, int] | None:
    """Return the operand in which an op is increasing for any other operands, and its position."""
    fn = op.function
    if op.identity and not op.cuts:
        return op.operands[0], 0
    if isinstance(fn, UnaryFn):
        return (op.operands[0], 0) if UNARY[fn].increasing else None
    shape = op.results[0].shape
    for place in (0, 1) if fn in (BinaryFn.ADD, BinaryFn.MUL) else (0,):
        if len(op.operands) != 2 or op.operands[place].shape != shape:
            continue
        other = op.operands[1 - place]
        whole = place == 0 and other.shape == shape and op.operands[1].shape == shape
        if whole and fn in (BinaryFn.ADD, BinaryFn.MUL):
            continue  # it may be either, and neither is shared
        if fn in (BinaryFn.ADD, BinaryFn.SUB):
            return op.operands[place], place
        if fn is BinaryFn.DIV and reading.certain.not_negative(other):
            return op.operands[place], place
        if fn is BinaryFn.MUL and _is_positive_where_defined(reading, other):
            return op.operands[place], place
    return None


def _is_positive_where_defined(reading: Reading, x: Value) -> bool:
    op = reading.makers.get(x)
    if op is not None and op.function is UnaryFn.RECIPROCAL:
        return reading.certain.not_negative(op.operands[0])
    return reading.certain.is_positive(x)


# ---- comparisons


def compared_rule(reading: Reading, op: Op) -> Value | None:
    """Return how to write a comparison of two values of the same increasing function; None for
    other ops."""
    if op.function not in _COMPARISONS or len(op.operands) != 2:
        return None
    sides = op.operands[0], op.operands[1]
    found: Value | None = None
    while True:
        inner = _inside(reading, *sides)
        if inner is None and (turned := _negatives(reading, *sides)) is not None:
            inner = turned[::-1]  # the larger one has the smaller negative
        if inner is None:
            inner = _constant_inside(reading, *sides)
        if inner is None:
            return found
        sides = inner
        found = reading.apply(op, sides)


def _constant_inside(reading: Reading, a: Value, b: Value) -> tuple[Value, Value] | None:
    """Return both sides, with a constant moved into the function that both sides have: ``c (e /
    s)`` is ``(c e) / s``, and ``c e^x`` is ``e^(x + log c)``."""
    for place, (x, other) in enumerate(((a, b), (b, a))):
        made, its = reading.makers.get(x), reading.makers.get(_shown(reading, other)[0])
        if made is None or its is None or made.function is not BinaryFn.MUL:
            continue
        for inner, factor in (made.operands, made.operands[::-1]):
            number, op = reading.certain.number(factor), reading.makers.get(inner)
            if number is None or number <= 0 or op is None or inner.shape != x.shape:
                continue
            if op.function is not its.function:
                continue
            moved = _moved_inside(reading, op, factor)
            if moved is not None:
                return (moved, b) if place == 0 else (a, moved)
    return None


def _moved_inside(reading: Reading, op: Op, factor: Value) -> Value | None:
    if op.function is BinaryFn.DIV and op.operands[0].shape == op.results[0].shape:
        top = reading.write(lambda b: b.binary(BinaryFn.MUL, op.operands[0], factor))
        return reading.apply(op, (top, op.operands[1]))
    if op.function is UnaryFn.EXP:

        def shifted(b: Builder) -> Value:
            return b.binary(BinaryFn.ADD, op.operands[0], b.unary(UnaryFn.LOG, factor))

        return reading.apply(op, (reading.write(shifted),))
    return None


def _negatives(reading: Reading, a: Value, b: Value) -> tuple[Value, Value] | None:
    """Return the values whose negatives the sides are."""
    shown = _shown(reading, a), _shown(reading, b)
    makers = [reading.makers.get(x) for x, _ in shown]
    if any(op is None or op.function is not UnaryFn.NEG for op in makers):
        return None
    first, second = (
        _through(reading, op.operands[0], views)
        for op, (_, views) in zip(makers, shown, strict=True)
        if op is not None
    )
    return first, second


def _inside(reading: Reading, a: Value, b: Value) -> tuple[Value, Value] | None:
    """Return the arguments if both sides are the same increasing function of them, else None."""
    (x, seen), (y, other) = _shown(reading, a), _shown(reading, b)
    first, second = reading.makers.get(x), reading.makers.get(y)
    if not isinstance(first, Elementwise) or not isinstance(second, Elementwise):
        return None
    if type(first) is not type(second) or first.function is not second.function:
        return None
    steps = _increasing(reading, first), _increasing(reading, second)
    if steps[0] is None or steps[1] is None or steps[0][1] != steps[1][1]:
        return None
    (inner, place), (its, _) = steps[0], steps[1]
    for i, (u, v) in enumerate(zip(first.operands, second.operands, strict=True)):
        if i != place and not (u is v and _same_places(u, (x, seen, a), (y, other, b))):
            return None
    if inner.shape != x.shape or its.shape != y.shape:
        return None
    return _through(reading, inner, seen), _through(reading, its, other)


def _shown(reading: Reading, x: Value) -> tuple[Value, list[View]]:
    """Return the value whose elements ``x`` has, and the views in between, the first one first."""
    views: list[View] = []
    while isinstance(op := reading.makers.get(x), View):
        views.insert(0, op)
        x = op.operands[0]
    return x, views


def _through(reading: Reading, x: Value, views: list[View]) -> Value:
    for view in views:
        x = reading.apply(view, (x,))
    return x


_Side = tuple[Value, list[View], Value]


def _same_places(shared: Value, first: _Side, second: _Side) -> bool:
    """Return whether both sides have the same element of an operand at each place where they are
    compared. To check this, the views are run on elements that are their own numbers."""
    if shared.type.size == 1:
        return True
    places: list[np.ndarray[tuple[int, ...], np.dtype[np.float64]]] = []
    for x, views, side in (first, second):
        if max(x.type.size, side.type.size) > _MOST:
            return False
        at = np.arange(shared.type.size, dtype=np.float64).reshape(shared.shape)
        at = np.broadcast_to(at, x.shape)
        for view in views:
            (at,) = view.compute(Float64(), [(at,)], 0, view.results[0].shape)
        places.append(at)
    shape = np.broadcast_shapes(*(at.shape for at in places))
    if int(np.prod(shape)) > _MOST:
        return False
    one, other = (np.broadcast_to(at, shape) for at in places)
    return bool((one == other).all())
