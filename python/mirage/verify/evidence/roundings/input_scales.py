"""The powers of two between which the scales of inputs lie.

The tensors of a model have different scales, limited only by their types. Numbers of 8 bits that
are scaled further are all zero, or all the largest number, and results that are computed from them
show no error.
"""

from __future__ import annotations

from mirage.semantics.scalar import DType

LOWEST, HIGHEST = -14, 12
"""The ends for inputs of any type."""
WIDEST = (-30, 20)
"""The ends for types with more range than f16: models in bf16 have activations that f16 cannot
represent."""
_OF_TYPE = {DType.F16: (-14, 12), DType.F8E5M2: (-14, 12), DType.F8E4M3: (-6, 5)}
"""The ends for narrow types: the smallest normal number, and one that is several times below the
largest, as normally distributed numbers are rarely more than five times their scale."""


def box_of(dtype: DType, widest: tuple[int, int] = (LOWEST, HIGHEST)) -> tuple[int, int]:
    """Return the ends of the scales of an input: at most ``widest``, and those of its type."""
    low, high = _OF_TYPE.get(dtype, widest)
    return max(low, widest[0]), min(high, widest[1])


def within(scale: float, dtype: DType) -> float:
    """Return the scale next to ``scale`` at which a type of 8 bits has numbers; other types have
    them at all scales that are tried."""
    if dtype not in (DType.F8E4M3, DType.F8E5M2):
        return scale
    low, high = _OF_TYPE[dtype]
    return min(max(scale, 2.0**low), 2.0**high)
