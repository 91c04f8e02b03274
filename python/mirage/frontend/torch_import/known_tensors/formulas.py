"""Tensors computed at import that can be written as a formula: one number everywhere, positions
along a dimension (multiplied, divided, or their remainders), or a repetition of these. Kernels
compute them instead of reading them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import torch

from mirage.frontend.torch_import.rows.lowering import Lowering
from mirage.semantics.numbers import as_number
from mirage.semantics.ops.op import TensorType, Value
from mirage.semantics.positions import MAX_POSITIONS, iota
from mirage.semantics.scalar import Array, BinaryFn, DType

_LEAST = 2
"""The fewest positions for which a formula is worthwhile."""


def as_formula(
    b: Lowering, data: torch.Tensor, result: TensorType, *, compared: bool
) -> Value | None:
    """Return the ops that give ``data`` (which may be repeated by strides of 0); None if it is not
    a formula. Quotients and remainders of positions are formulas where the integers are only
    ``compared``; elsewhere (as indices) they are read."""
    if not data.numel():
        return None
    narrow = data
    for dim, (size, stride) in enumerate(zip(data.shape, data.stride(), strict=True)):
        if size > 1 and stride == 0:
            narrow = narrow.narrow(dim, 0, 1)
    found = _uniform(b, narrow, result) or _positions(b, narrow, result.dtype, compared)
    if found is None:
        return None
    return found if found.shape == result.shape else b.broadcast(found, result.shape)


def _uniform(b: Lowering, data: torch.Tensor, result: TensorType) -> Value | None:
    first = data.reshape(-1)[0]
    if not bool((data == first).all()):  # NaN is equal to nothing
        return None
    number = float(first)
    exact = Fraction(number) if torch.isfinite(first) else number
    return b.filled(as_number(exact), result)


def _positions(b: Lowering, data: torch.Tensor, dtype: DType, compared: bool) -> Value | None:
    found = line_along(data)
    if found is None or not (found.is_straight or (compared and _is_small(data))):
        return None
    return b.reshaped(found.emitted(b, data.numel(), dtype), tuple(data.shape))


def _is_small(data: torch.Tensor) -> bool:
    """Return whether kernels compute with such integers."""
    return bool((data.abs() < MAX_POSITIONS).all())


def line_along(data: torch.Tensor) -> Line | None:
    """Return the line that a tensor of integers is along its only dimension larger than one."""
    size = data.numel()
    if data.dtype not in (torch.int32, torch.int64) or size not in data.shape:
        return None
    return line_of(data.reshape(-1).cpu().numpy()) if _LEAST <= size <= MAX_POSITIONS else None


@dataclass(frozen=True)
class Line:
    """The integers ``step * x + start``, where ``x`` is each position ``i``, or ``floor((i + ahead)
    / run)`` where equal integers form runs, or either of these for ``i % period``."""

    step: int
    start: int
    run: int = 1
    ahead: int = 0
    period: int | None = None

    @property
    def is_straight(self) -> bool:
        """Whether the integers are evenly spaced."""
        return self.run == 1 and self.period is None

    def of(self, i: Array) -> Array:
        """Return the integers at some positions."""
        if self.period is not None:
            i = i % self.period
        return np.asarray((i + self.ahead) // self.run * self.step + self.start)

    def moved(self, by: int) -> Line:
        """Return the line that starts ``by`` positions before this one (which has no period)."""
        runs, ahead = divmod(self.ahead - by, self.run)
        return replace(self, start=self.start + runs * self.step, ahead=ahead)

    def emitted(self, b: Lowering, size: int, dtype: DType) -> Value:
        """Emit the integers at the first ``size`` positions."""
        x = iota(b, (size,), 0, dtype)
        for fn, number, neutral in (
            (BinaryFn.REMAINDER, self.period, None),
            (BinaryFn.ADD, self.ahead, 0),
            (BinaryFn.FLOOR_DIV, self.run, 1),
            (BinaryFn.MUL, self.step, 1),
            (BinaryFn.ADD, self.start, 0),
        ):
            if number is not None and number != neutral:
                x = b.combine(fn, x, as_number(number))
        return x


def line_of(data: Array) -> Line | None:
    """Return a vector of integers as a line; None if it is not one."""
    for period in (None, _period(data)):
        part = data[:period]
        found = _runs(part) if len(part) >= _LEAST else None
        if found is None:
            continue
        found = replace(found, period=period)
        if np.array_equal(found.of(np.arange(len(data))), data):
            return found
    return None


def _runs(data: Array) -> Line | None:
    """Return the line that the first two runs of equal integers determine."""
    changes = (np.flatnonzero(data[1:] != data[:-1]) + 1).tolist()
    if not changes:
        return None
    first, second = changes[0], (changes[1] if len(changes) > 1 else len(data))
    run = max(second - first, first)
    return Line(int(data[first]) - int(data[0]), int(data[0]), run, run - first)


def _period(data: Array) -> int | None:
    """Return the distance at which the first two integers are repeated; None if they are not."""
    if len(data) < 2:
        return None
    again = (data[1:-1] == data[0]) & (data[2:] == data[1]) & (data[:-2] != data[0])
    return int(again.argmax()) + 1 if again.any() else None
