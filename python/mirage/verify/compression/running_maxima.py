"""Whether the sums of a loop depend on the order of its steps through running maxima.

In an online softmax they do not: each step adds a value with a factor ``exp(-m)``, where ``m`` is
the maximum so far, and the accumulator is rescaled to the maximum of the next step. What a step
contributes in the end carries ``exp(-m_final)``, whatever the position of the step. Any other use
of a running maximum makes steps with equal data contribute differently, depending on what came
before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf

from mirage.semantics.scalar import BinaryFn, UnaryFn
from mirage.semantics.ugraph import (
    AccumulateFn,
    Broadcast,
    Cast,
    Contraction,
    Loop,
    Mask,
    Matmul,
    Op,
    Reduce,
    Reshape,
    RunningMax,
    Slice,
    Structure,
    Transpose,
    Value,
    all_ops,
)


@dataclass(frozen=True)
class _Power:
    """The value is ``exp(-m)`` to this power, times a factor without ``m``."""

    of: int


class _Maximum:
    """The value is ``m`` itself, possibly in another shape."""


class _Shifted:
    """The value is a term without ``m``, minus ``m``."""


class _Other:
    """The value depends on ``m`` in another way."""


_Use = _Power | _Maximum | _Shifted | _Other
_NONE = _Power(0)


def order_matters(loop: Loop) -> bool:
    """Return whether equal steps of ``loop`` may contribute differently to a sum; ``False`` is
    certain."""
    return any(_matters(loop, same) for same in _maxima(loop))


def _maxima(loop: Loop) -> Iterable[tuple[Value, ...]]:
    """Return the running maxima of a loop, each with its copies that have leading sizes of 1 added
    or dropped.
    """
    source: dict[Value, Value] = {}
    groups: dict[tuple[Value, tuple[int, ...]], tuple[Value, ...]] = {}
    for op in loop.body:
        if isinstance(op, (Reshape, Cast)) and _trailing(op.operands[0]) == _trailing(op.result):
            source[op.result] = source.get(op.operands[0], op.operands[0])
        elif isinstance(op, RunningMax):
            (x,) = op.operands
            key = (source.get(x, x), _trailing(x))
            groups[key] = (*groups.get(key, ()), op.result)
    return groups.values()


def _trailing(value: Value) -> tuple[int, ...]:
    """Return the shape without leading ones."""
    shape = value.shape
    while shape and shape[0] == 1:
        shape = shape[1:]
    return shape


def _matters(loop: Loop, maxima: tuple[Value, ...]) -> bool:
    uses: dict[Value, _Use] = {}
    shape = _trailing(maxima[0])
    for op in loop.body:
        if isinstance(op, RunningMax) and op.result in maxima:
            uses[op.result] = _Maximum()
            continue
        if isinstance(op, Structure):
            inside = (v for inner in all_ops(op.inside) for v in inner.operands)
            free = all(uses.get(v, _NONE) == _NONE for v in (*inside, *op.ends))
            uses.update(dict.fromkeys(op.results, _NONE if free else _Other()))
            continue
        uses[op.result] = _use(op, uses, shape)
    for a in loop.accumulators:
        use = uses.get(a.value, _NONE)
        # The last step differs from the others, and the maximum of all running maxima is the last
        # one.
        if a.fn is AccumulateFn.LAST or (a.fn is AccumulateFn.MAX and isinstance(use, _Maximum)):
            continue
        if use != _Power(1 if a.rescale in maxima else 0):
            return True
    return False


def _use(op: Op, uses: Mapping[Value, _Use], shape: tuple[int, ...]) -> _Use:
    """Return how the result of an op depends on ``m``. Since ``m`` is broadcast, its ``shape``
    (without leading ones) belongs to the last dimensions of every value that it meets.
    """
    xs = [uses.get(v, _NONE) for v in op.operands]
    if all(x == _NONE for x in xs):
        return _NONE
    if isinstance(op, (Cast, Broadcast)):
        return xs[0]
    if isinstance(op, (Reshape, Transpose, Slice)):
        kept = op.renames and _trailing(op.operands[0]) == _trailing(op.result)
        return xs[0] if kept or not shape else _Other()
    if isinstance(op, Mask):
        keeps = op.fill == 0.0 if isinstance(xs[0], _Power) else op.fill == -inf
        return xs[0] if keeps and isinstance(xs[0], (_Power, _Shifted)) else _Other()
    if op.function is UnaryFn.EXP and isinstance(xs[0], _Shifted):
        return _Power(1)
    if op.function is BinaryFn.SUB and isinstance(xs[1], _Maximum):
        return _Shifted() if xs[0] == _NONE else _Other()
    powers = [x.of for x in xs if isinstance(x, _Power)]
    if len(powers) < len(xs) or _gathers(op, powers, shape):
        return _Other()
    return _power(op, powers)


def _gathers(op: Op, powers: list[int], shape: tuple[int, ...]) -> bool:
    """Return whether the op combines elements with different ``m``."""
    back: list[int] = []  # dimensions from the end
    if isinstance(op, Contraction):
        for v, dims, power in zip(op.operands, op.over, powers, strict=True):
            back += [len(v.shape) - d for d in dims] * (power != 0)
    return any(b <= len(shape) and shape[-b] != 1 for b in back)


def _power(op: Op, powers: list[int]) -> _Use:
    if isinstance(op, Matmul) or op.function is BinaryFn.MUL:
        return _Power(sum(powers))
    if op.function is BinaryFn.DIV:
        return _Power(powers[0] - powers[1])
    if isinstance(op, Reduce) or op.function is UnaryFn.NEG:
        return _Power(powers[0])
    keeps = (BinaryFn.ADD, BinaryFn.SUB, BinaryFn.MAX, BinaryFn.MIN)
    if op.function in keeps and powers[0] == powers[1]:
        return _Power(powers[0])
    return _Other()
