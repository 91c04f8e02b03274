"""Scalar functions and element types: the one table that every part of the compiler reads.

An op of any of the three dialects names a scalar function; what the function *means* stands here
and only here. The MLIR enums in ``ScalarOps.td`` carry the same names, and the facts that passes in
C++ need; a test compares them with the rows below. Adding a function means one enum case there, one
member and one row here, and one case of the lowering in C++ (CONTRIBUTING).
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from mirage.semantics.builder import Builder
    from mirage.semantics.ugraph import Value

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


class Domain(enum.Enum):
    """Where a function is defined and finite, among the real numbers."""

    ALL = "all"
    NONNEGATIVE = "nonnegative"
    POSITIVE = "positive"
    NONZERO = "nonzero"

    def contains(self, x: float) -> bool:
        """Whether the function is defined and finite at ``x``."""
        return {
            Domain.ALL: True,
            Domain.NONNEGATIVE: x >= 0,
            Domain.POSITIVE: x > 0,
            Domain.NONZERO: x != 0,
        }[self]


Definition = Callable[["Builder", "Value"], "Value"]
"""A function written out in simpler ones: emits ops on a value and returns the result."""

Call = tuple[str, tuple[tuple[str, object], ...]]
"""An overload of PyTorch's ``aten`` ops that computes a function, and its further arguments."""


@dataclass(frozen=True, kw_only=True)
class UnaryInfo:
    """One row of the table of unary functions: every fact about one, but its lowering (C++)."""

    algebra: Algebra
    evaluate: Callable[[Array], Array]
    """Its meaning, in float64."""
    flops: int
    """Relative cost on the ordinary floating-point pipe, per element."""
    special: int
    """Instructions on the special-function unit, per element."""
    call: Call
    zero_at_zero: bool = False
    domain: Domain = Domain.ALL
    degree: int | None = None
    """Of a polynomial (:attr:`Algebra.RING`)."""
    definition: Definition | None = None

    @property
    def closed(self) -> bool:
        """Whether it is finite at the border of its domain too: a limit of arguments at which it is
        finite is another one."""
        return self.domain in (Domain.ALL, Domain.NONNEGATIVE)


@dataclass(frozen=True, kw_only=True)
class BinaryInfo:
    """One row of the table of binary functions."""

    evaluate: Callable[[Array, Array], Array]
    call: Call
    infix: str | None = None
    """What people write between the operands."""
    flops: int = 1
    special: int = 0
    commutes: bool = False
    zero_at_zero: bool = False
    """Zero where both operands are."""
    zero_at_either: bool = False
    """Zero where one operand is, whatever finite number the other may be."""
    total: bool = True
    """Finite at all finite operands, overflow aside."""


def _gelu(x: Array) -> Array:
    erf: Callable[[Any], Any] = np.vectorize(math.erf, otypes=[np.float64])
    return 0.5 * x * (1.0 + erf(x / math.sqrt(2.0)))


def _gelu_tanh(x: Array) -> Array:
    return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


def _sigmoid(x: Array) -> Array:
    return 0.5 * (1.0 + np.tanh(0.5 * x))


UNARY: dict[UnaryFn, UnaryInfo] = {
    UnaryFn.NEG: UnaryInfo(
        algebra=Algebra.RING, degree=1, evaluate=np.negative, flops=1, special=0,
        zero_at_zero=True, call=("neg.default", ()),
    ),
    UnaryFn.ABS: UnaryInfo(
        algebra=Algebra.OPAQUE, evaluate=np.abs, flops=1, special=0,
        zero_at_zero=True, call=("abs.default", ()),
    ),
    UnaryFn.EXP: UnaryInfo(
        algebra=Algebra.EXP, evaluate=np.exp, flops=1, special=1, call=("exp.default", ()),
    ),
    UnaryFn.LOG: UnaryInfo(
        algebra=Algebra.OPAQUE, evaluate=np.log, flops=1, special=1,
        domain=Domain.POSITIVE, call=("log.default", ()),
    ),
    UnaryFn.SQRT: UnaryInfo(
        algebra=Algebra.OPAQUE, evaluate=np.sqrt, flops=0, special=1,
        zero_at_zero=True, domain=Domain.NONNEGATIVE, call=("sqrt.default", ()),
    ),
    UnaryFn.RSQRT: UnaryInfo(
        algebra=Algebra.OPAQUE, evaluate=lambda x: 1.0 / np.sqrt(x), flops=0, special=1,
        domain=Domain.POSITIVE, call=("rsqrt.default", ()),
        definition=lambda b, x: b.unary(UnaryFn.RECIPROCAL, b.unary(UnaryFn.SQRT, x)),
    ),
    UnaryFn.RECIPROCAL: UnaryInfo(
        algebra=Algebra.FIELD, evaluate=lambda x: 1.0 / x, flops=0, special=1,
        domain=Domain.NONZERO, call=("reciprocal.default", ()),
    ),
    UnaryFn.SQUARE: UnaryInfo(
        algebra=Algebra.RING, degree=2, evaluate=np.square, flops=1, special=0,
        zero_at_zero=True, call=("square.default", ()),
    ),
    UnaryFn.SIGMOID: UnaryInfo(
        algebra=Algebra.OPAQUE, evaluate=_sigmoid, flops=2, special=2,
        call=("sigmoid.default", ()),
    ),
    UnaryFn.SILU: UnaryInfo(
        algebra=Algebra.OPAQUE, evaluate=lambda x: x * _sigmoid(x), flops=3, special=2,
        zero_at_zero=True, call=("silu.default", ()),
        definition=lambda b, x: b.binary(BinaryFn.MUL, x, b.unary(UnaryFn.SIGMOID, x)),
    ),
    UnaryFn.GELU: UnaryInfo(
        algebra=Algebra.OPAQUE, evaluate=_gelu, flops=20, special=1,
        zero_at_zero=True, call=("gelu.default", (("approximate", "none"),)),
    ),
    UnaryFn.GELU_TANH: UnaryInfo(
        algebra=Algebra.OPAQUE, evaluate=_gelu_tanh, flops=8, special=1,
        zero_at_zero=True, call=("gelu.default", (("approximate", "tanh"),)),
    ),
    UnaryFn.RELU: UnaryInfo(
        algebra=Algebra.OPAQUE, evaluate=lambda x: np.maximum(x, 0.0), flops=1, special=0,
        zero_at_zero=True, call=("relu.default", ()),
        definition=lambda b, x: b.binary(BinaryFn.MAX, x, b.constant(0.0)),
    ),
    UnaryFn.TANH: UnaryInfo(
        algebra=Algebra.OPAQUE, evaluate=np.tanh, flops=0, special=1,
        zero_at_zero=True, call=("tanh.default", ()),
    ),
}  # fmt: skip

BINARY: dict[BinaryFn, BinaryInfo] = {
    BinaryFn.ADD: BinaryInfo(
        evaluate=np.add, infix="+", commutes=True, zero_at_zero=True,
        call=("add.Tensor", (("alpha", 1),)),
    ),
    BinaryFn.SUB: BinaryInfo(
        evaluate=np.subtract, infix="-", zero_at_zero=True,
        call=("sub.Tensor", (("alpha", 1),)),
    ),
    BinaryFn.MUL: BinaryInfo(
        evaluate=np.multiply, infix="*", commutes=True, zero_at_zero=True, zero_at_either=True,
        call=("mul.Tensor", ()),
    ),
    BinaryFn.DIV: BinaryInfo(
        evaluate=np.divide, infix="/", flops=8, special=1, total=False, call=("div.Tensor", ()),
    ),
    BinaryFn.POW: BinaryInfo(
        evaluate=np.power, infix="**", flops=8, special=1, total=False,
        call=("pow.Tensor_Tensor", ()),
    ),
    BinaryFn.MAX: BinaryInfo(
        evaluate=np.maximum, commutes=True, zero_at_zero=True,
        call=("maximum.default", ()),
    ),
    BinaryFn.MIN: BinaryInfo(
        evaluate=np.minimum, commutes=True, zero_at_zero=True,
        call=("minimum.default", ()),
    ),
}  # fmt: skip

REDUCE: dict[ReduceFn, Callable[..., Array]] = {ReduceFn.SUM: np.sum, ReduceFn.MAX: np.max}

REDUCE_IDENTITY: dict[ReduceFn, float] = {ReduceFn.SUM: 0.0, ReduceFn.MAX: -math.inf}
