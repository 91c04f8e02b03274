"""Masks computed at import that let each row see one interval of the columns.

Such a mask (a triangle, a band, blocks along the diagonal, documents that follow one another) is
the comparison of positions with two integers for each row: the first and the last column that it
sees. Kernels compute the comparison instead of reading the mask, and leave out steps that the
integers show to be empty.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

import numpy as np
import torch

from mirage.frontend.torch_import.known_tensors.formulas import Line, line_of
from mirage.frontend.torch_import.rows.elements.comparisons import bias
from mirage.frontend.torch_import.rows.lowering import Lowering
from mirage.semantics.ops.op import TensorType, Value
from mirage.semantics.positions import MAX_POSITIONS, iota
from mirage.semantics.scalar import Array, BinaryFn, DType

Hold: TypeAlias = "Callable[[Array], Value]"
"""A function that makes integers an input of the program, which holds them."""


@dataclass(frozen=True)
class Intervals:
    """The first and the last column that each row sees, of ``size`` columns; the last one is just
    before the first if it sees none. The arrays have the shape of the mask, with one column."""

    first: Array
    last: Array
    size: int


def intervals_of(mask: torch.Tensor) -> Intervals | None:
    """Return the intervals that the rows of a mask see: where truth values are true, and where
    floats are zero rather than minus infinity. None for other masks."""
    if mask.dtype is torch.bool:
        seen = mask
    elif mask.is_floating_point():
        seen = mask == 0
        if not bool((seen | (mask == -torch.inf)).all()):
            return None
    else:
        return None
    size = mask.shape[-1] if mask.ndim > 1 else 0
    if not 1 < size < MAX_POSITIONS:
        return None
    true = seen.cpu().numpy()
    first = true.argmax(-1, keepdims=True)
    last = size - 1 - true[..., ::-1].argmax(-1, keepdims=True)
    some = true.any(-1, keepdims=True)
    if (last[some] == size - 1).all():  # one integer suffices
        first = np.where(some, first, size)
    else:
        last = np.where(some, last, -1)
    if not np.array_equal(true.sum(-1, keepdims=True), last + 1 - first):
        return None
    return Intervals(first, last, size)


def as_comparison(b: Lowering, found: Intervals, result: TensorType, hold: Hold) -> Value:
    """Emit a mask of the type ``result`` that lets rows see the given intervals."""
    rank = len(result.shape)
    columns = iota(b, (found.size,), 0)
    columns = b.reshaped(columns, (1,) * (rank - 1) + (found.size,))
    parts: list[Value] = []
    if found.first.any():
        first = _bound(b, found.first, (0, found.size), hold)
        parts.append(b.binary(BinaryFn.LE, first, columns))
    if (found.last < found.size - 1).any():
        last = _bound(b, found.last, (-1, found.size - 1), hold)
        parts.append(b.binary(BinaryFn.LE, columns, last))
    if not parts:
        return b.filled(1 if result.dtype is DType.I1 else 0, result)
    seen = reduce(lambda x, y: b.binary(BinaryFn.AND, x, y), parts)
    seen = b.spread(seen, result.shape)
    return seen if result.dtype is DType.I1 else bias(b, seen, result.dtype)


def _bound(b: Lowering, numbers: Array, limits: tuple[int, int], hold: Hold) -> Value:
    """Return integers that bound the columns: as a number if they are equal, and as a line if they
    form one within the ``limits``, beyond which all integers mean the same."""
    if (numbers == numbers.flat[0]).all():
        one = (1,) * numbers.ndim
        return b.filled(int(numbers.flat[0]), TensorType(one, DType.I64))
    if numbers.size in numbers.shape:
        line = _line_within(numbers.reshape(-1), limits)
        if line is not None:
            return b.reshaped(line.emitted(b, numbers.size, DType.I64), numbers.shape)
    return hold(numbers.astype(np.int32))


def _line_within(numbers: Array, limits: tuple[int, int]) -> Line | None:
    """Return the line that integers are wherever they are not at a limit; there, the line may lie
    beyond it."""
    low, high = limits
    free = np.flatnonzero((low < numbers) & (numbers < high))
    inner = [(int(free[0]), int(free[-1]) + 1)] if len(free) else []
    for start, stop in ((0, len(numbers)), *inner):
        line = line_of(numbers[start:stop])
        if line is None or line.period is not None:
            continue
        line = line.moved(start)
        if np.array_equal(np.clip(line.of(np.arange(len(numbers))), low, high), numbers):
            return line
    return None
