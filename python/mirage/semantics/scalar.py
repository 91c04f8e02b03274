"""Scalar functions and element types: the one table that every part of the compiler reads.

An op of any of the three dialects names a scalar function; what the function *means* stands here
and only here (the MLIR enums in ``ScalarOps.td`` carry the same names, and a test compares the
two). Adding a function means adding one enum case, one row of a table below and one row of the
lowering table in C++.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class DType(enum.Enum):
    """Element type of a tensor or tile; the value is the MLIR spelling."""

    F16 = "f16"
    BF16 = "bf16"
    F32 = "f32"
    F64 = "f64"

    @property
    def bytes(self) -> int:
        """Size of one element in bytes."""
        return {"f16": 2, "bf16": 2, "f32": 4, "f64": 8}[self.value]

    @property
    def is_half(self) -> bool:
        """Whether tensor cores take the type as an operand with f32 accumulation."""
        return self in (DType.F16, DType.BF16)

    def round(self, x: Array) -> Array:
        """``x`` (any float array) rounded to this type, in float64 (round to nearest even)."""
        if self is DType.F64:
            return np.asarray(x, dtype=np.float64)
        with np.errstate(over="ignore"):
            return np.asarray(x).astype(self.numpy).astype(np.float64)

    @property
    def numpy(self) -> np.dtype[Any]:
        """NumPy's dtype (bfloat16 through ``ml_dtypes``)."""
        if self is DType.BF16:
            import ml_dtypes

            return np.dtype(ml_dtypes.bfloat16)
        return np.dtype({"f16": "float16", "f32": "float32", "f64": "float64"}[self.value])


class UnaryFn(enum.Enum):
    """Functions of one scalar; the value is the MLIR spelling."""

    NEG = "neg"
    ABS = "abs"
    EXP = "exp"
    LOG = "log"
    SQRT = "sqrt"
    RSQRT = "rsqrt"
    RECIPROCAL = "reciprocal"
    SQUARE = "square"
    SIGMOID = "sigmoid"
    SILU = "silu"
    GELU = "gelu"
    GELU_TANH = "gelu_tanh"
    RELU = "relu"
    TANH = "tanh"


class BinaryFn(enum.Enum):
    """Functions of two scalars; the value is the MLIR spelling."""

    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    POW = "pow"
    MAX = "max"
    MIN = "min"


class ReduceFn(enum.Enum):
    """Associative and commutative reductions; the value is the MLIR spelling."""

    SUM = "sum"
    MAX = "max"


class Algebra(enum.Enum):
    """How equivalence reasoning may treat a unary function."""

    RING = "ring"  # a polynomial in its argument: neg, square
    FIELD = "field"  # a rational function: reciprocal
    EXP = "exp"  # turns sums into products
    OPAQUE = "opaque"  # uninterpreted: equal arguments give equal results, no more is known


@dataclass(frozen=True)
class UnaryInfo:
    """One row of the table of unary functions."""

    algebra: Algebra
    evaluate: Callable[[Array], Array]
    flops: int  # relative cost on the ordinary floating-point pipe, per element
    special: int  # instructions on the special-function unit, per element


def _gelu(x: Array) -> Array:
    erf: Callable[[Any], Any] = np.vectorize(math.erf, otypes=[np.float64])
    return 0.5 * x * (1.0 + erf(x / math.sqrt(2.0)))


def _gelu_tanh(x: Array) -> Array:
    return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


def _sigmoid(x: Array) -> Array:
    return 0.5 * (1.0 + np.tanh(0.5 * x))


UNARY: dict[UnaryFn, UnaryInfo] = {
    UnaryFn.NEG: UnaryInfo(Algebra.RING, np.negative, 1, 0),
    UnaryFn.ABS: UnaryInfo(Algebra.OPAQUE, np.abs, 1, 0),
    UnaryFn.EXP: UnaryInfo(Algebra.EXP, np.exp, 1, 1),
    UnaryFn.LOG: UnaryInfo(Algebra.OPAQUE, np.log, 1, 1),
    UnaryFn.SQRT: UnaryInfo(Algebra.OPAQUE, np.sqrt, 0, 1),
    UnaryFn.RSQRT: UnaryInfo(Algebra.OPAQUE, lambda x: 1.0 / np.sqrt(x), 0, 1),
    UnaryFn.RECIPROCAL: UnaryInfo(Algebra.FIELD, lambda x: 1.0 / x, 0, 1),
    UnaryFn.SQUARE: UnaryInfo(Algebra.RING, np.square, 1, 0),
    UnaryFn.SIGMOID: UnaryInfo(Algebra.OPAQUE, _sigmoid, 2, 2),
    UnaryFn.SILU: UnaryInfo(Algebra.OPAQUE, lambda x: x * _sigmoid(x), 3, 2),
    UnaryFn.GELU: UnaryInfo(Algebra.OPAQUE, _gelu, 20, 1),
    UnaryFn.GELU_TANH: UnaryInfo(Algebra.OPAQUE, _gelu_tanh, 8, 1),
    UnaryFn.RELU: UnaryInfo(Algebra.OPAQUE, lambda x: np.maximum(x, 0.0), 1, 0),
    UnaryFn.TANH: UnaryInfo(Algebra.OPAQUE, np.tanh, 0, 1),
}

BINARY: dict[BinaryFn, Callable[[Array, Array], Array]] = {
    BinaryFn.ADD: np.add,
    BinaryFn.SUB: np.subtract,
    BinaryFn.MUL: np.multiply,
    BinaryFn.DIV: np.divide,
    BinaryFn.POW: np.power,
    BinaryFn.MAX: np.maximum,
    BinaryFn.MIN: np.minimum,
}

REDUCE: dict[ReduceFn, Callable[..., Array]] = {ReduceFn.SUM: np.sum, ReduceFn.MAX: np.max}

REDUCE_IDENTITY: dict[ReduceFn, float] = {ReduceFn.SUM: 0.0, ReduceFn.MAX: -math.inf}
