"""The element types of tensors and tiles: what they represent, and how numbers are rounded to
them.
"""

from __future__ import annotations

import enum
import re
from typing import Any

import numpy as np

from mirage.semantics.eight_bits import rounded_to_e4m3, rounded_to_e5m2
from mirage.semantics.half import rounded_to_half

Array = np.ndarray[Any, Any]


class Spelled(enum.Enum):
    """An enum of names in the IR: a member's value is its MLIR spelling. Members are hashed by
    identity, since they are hashed often: this is several times as fast as ``Enum``'s hash of the
    name."""

    __hash__ = object.__hash__


class DType(Spelled):
    """The element type of a tensor or tile; the value is the MLIR spelling."""

    F16 = "f16"
    BF16 = "bf16"
    F32 = "f32"
    F64 = "f64"
    F8E4M3 = "f8E4M3FN"
    """8 bits, 3 of them for the fraction: numbers up to 448, no infinities."""
    F8E5M2 = "f8E5M2"
    """8 bits, 2 of them for the fraction: the upper half of an f16."""
    I1 = "i1"
    """Truth values; one byte each in memory, as PyTorch has them."""
    I8 = "i8"
    I16 = "i16"
    I32 = "i32"
    I64 = "i64"

    def __init__(self, spelling: str) -> None:
        self.bits = int(re.findall(r"\d+", spelling)[0])
        """Digits of an element: the first number of its spelling."""
        self.bytes = max(1, self.bits // 8)
        """Size of one element in bytes."""
        self.is_integer = spelling.startswith("i")
        """Whether elements are integers; truth values count as 0 and 1."""
        self.is_number = self.is_integer and spelling != "i1"
        """Whether elements are integers other than truth values."""
        self.is_half = spelling in ("f16", "bf16")
        """Whether tiles of the type are operands of tensor cores, with f32 accumulation."""
        self.is_eight_bits = spelling.startswith("f8")
        """Whether elements are floats of 8 bits: memory holds them as such, tiles as f16."""

    def cuts(self, given: DType) -> bool:
        """Return whether a conversion from ``given`` to this type may change a number that is not a
        fraction of a float: an integer type may not represent it."""
        if not self.is_integer or self is given:
            return False
        return not given.is_integer or given.bits > self.bits

    def holds(self, given: DType) -> bool:
        """Return whether this type represents all numbers of a float type."""
        if self is given:
            return True
        return not (self.is_integer or given.is_integer) and self.bits > given.bits

    @property
    def in_tile(self) -> DType:
        """The type of a tile that is loaded from a tensor of this type: whole numbers and truth
        values become f32, which represents them exactly up to 2^24; floats of 8 bits become f16,
        which represents all of them."""
        if self.is_eight_bits:
            return DType.F16
        return DType.F32 if self.is_integer else self

    @property
    def computed(self) -> DType:
        """The result type of ops that compute with elements of this type."""
        return DType.F32 if self.is_eight_bits else self

    def round(self, x: Array) -> Array:
        """Round ``x`` (any float array) to this type, to nearest even, and return it in float64.
        For integer types ``x`` is returned unchanged: results of integer ops are whole and never
        overflow."""
        if self is DType.F64 or self.is_integer:
            return np.asarray(x, dtype=np.float64)
        with np.errstate(over="ignore"):
            x = np.asarray(x)
            if self is DType.F16 and x.dtype == np.float32:
                return rounded_to_half(x).astype(np.float64)
            if self.is_eight_bits:
                return np.asarray(_ROUNDED[self](x), dtype=np.float64)
            return x.astype(self.numpy).astype(np.float64)

    @property
    def largest(self) -> float:
        """The largest number of a type of floats."""
        import ml_dtypes

        return float(ml_dtypes.finfo(self.numpy).max)

    @property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype (bfloat16 and floats of 8 bits come from ``ml_dtypes``)."""
        if self in _OTHER_FLOATS:
            import ml_dtypes

            return np.dtype(getattr(ml_dtypes, _OTHER_FLOATS[self]))
        if self is DType.I1:
            return np.dtype(np.bool_)
        return np.dtype(("int" if self.is_integer else "float") + self.value[1:])


_OTHER_FLOATS = {
    DType.BF16: "bfloat16",
    DType.F8E4M3: "float8_e4m3fn",
    DType.F8E5M2: "float8_e5m2",
}
"""The types that NumPy does not have, by their names in ``ml_dtypes``."""

_ROUNDED = {DType.F8E4M3: rounded_to_e4m3, DType.F8E5M2: rounded_to_e5m2}
"""The roundings to floats of 8 bits, which are scalar functions as well."""
