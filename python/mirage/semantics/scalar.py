"""Scalar functions: the one table that every part of the compiler reads.

An op of any of the three dialects names a scalar function; its *meaning* is defined here and only
here. The MLIR enums in ``ScalarOps.td`` have the same names, and the facts that passes in C++ need;
a test compares them with the rows below. Adding a function means one enum case there, one member
and one row here, and one case of the lowering in C++ (CONTRIBUTING).

Functions act on elements of the types of ``element_types``, which this module re-exports.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mirage.semantics.eight_bits import rounded_to_e4m3, rounded_to_e5m2
from mirage.semantics.element_types import Array as Array
from mirage.semantics.element_types import DType as DType
from mirage.semantics.element_types import Spelled

if TYPE_CHECKING:
    from mirage.semantics.builder import Builder
    from mirage.semantics.ugraph import Value


class UnaryFn(Spelled):
    """Functions of one scalar; the value is the MLIR spelling. The members are in the order of
    their numbers in ``ScalarOps.td``, as are those of binary functions."""

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
    NOT = "not"
    BIAS = "bias"
    FLOOR = "floor"
    SIN = "sin"
    COS = "cos"
    ROUND_E4M3 = "round_e4m3"
    ROUND_E5M2 = "round_e5m2"
    LOG1P = "log1p"


class BinaryFn(Spelled):
    """Functions of two scalars; the value is the MLIR spelling."""

    ADD = "add"
    SUB = "sub"
    MUL = "mul"
    DIV = "div"
    POW = "pow"
    MAX = "max"
    MIN = "min"
    LT = "lt"
    LE = "le"
    EQ = "eq"
    NE = "ne"
    AND = "and"
    OR = "or"
    XOR = "xor"
    FLOOR_DIV = "floor_div"
    REMAINDER = "remainder"
    KEEP = "keep"
    COPYSIGN = "copysign"


class ReduceFn(Spelled):
    """Associative and commutative reductions; the value is the MLIR spelling."""

    SUM = "sum"
    MAX = "max"


class CumulateFn(Spelled):
    """The functions by which a cumulation combines elements; the value is the MLIR spelling. All
    are associative and commutative."""

    SUM = "sum"
    MAX = "max"
    PROD = "prod"


class Algebra(enum.Enum):
    """How equivalence reasoning may treat a unary function."""

    RING = "ring"  # a polynomial in its argument: neg, square
    FIELD = "field"  # a rational function: reciprocal
    EXP = "exp"  # turns sums into products
    OPAQUE = "opaque"  # uninterpreted: equal arguments give equal results, no more is known


class RealDomain(enum.Enum):
    """Where a function is defined and finite, among the real numbers."""

    ALL = "all"
    NONNEGATIVE = "nonnegative"
    POSITIVE = "positive"
    NONZERO = "nonzero"
    ABOVE_MINUS_ONE = "above -1"

    def contains(self, x: float) -> bool:
        """Return whether the function is defined and finite at ``x``."""
        return {
            RealDomain.ALL: True,
            RealDomain.NONNEGATIVE: x >= 0,
            RealDomain.POSITIVE: x > 0,
            RealDomain.NONZERO: x != 0,
            RealDomain.ABOVE_MINUS_ONE: x > -1,
        }[self]


Definition = Callable[["Builder", "Value"], "Value"]
"""The definition of a function in terms of simpler ones: it emits ops on a value and returns the
result."""

BinaryDefinition = Callable[["Builder", "Value", "Value"], "Value"]
"""A definition of a function of two values."""

Call = tuple[str, tuple[tuple[str, object], ...]]
"""An overload of PyTorch's ``aten`` ops that computes a function, and its further arguments."""


@dataclass(frozen=True, kw_only=True)
class UnaryInfo:
    """One row of the table of unary functions: every fact about one except its lowering (C++)."""

    algebra: Algebra
    evaluate: Callable[[Array], Array]
    """The meaning of the function, in float64."""
    flops: int
    """The relative cost on the ordinary floating-point pipe, per element."""
    special: int
    """The instructions on the special-function unit, per element."""
    call: Call
    zero_at_zero: bool = False
    domain: RealDomain = RealDomain.ALL
    degree: int | None = None
    """The degree, if the function is a polynomial (:attr:`Algebra.RING`)."""
    definition: Definition | None = None
    logic: bool = False
    """Whether its argument is a truth value."""
    truth: bool = False
    """Whether its value is a truth value."""
    increasing: bool = False
    """Whether the function is strictly increasing wherever it is defined."""
    rounds_to: DType | None = None
    """The 8-bit type to which the function rounds, which is the element type of its results. Such
    roundings are coarse and part of a program's meaning, so they are functions like others and are
    never dropped."""

    @property
    def closed(self) -> bool:
        """Whether the function is finite at the border of its domain too, so that a limit of
        arguments at which it is finite is such an argument itself."""
        return self.domain in (RealDomain.ALL, RealDomain.NONNEGATIVE)


@dataclass(frozen=True, kw_only=True)
class BinaryInfo:
    """One row of the table of binary functions."""

    evaluate: Callable[[Array, Array], Array]
    call: Call
    infix: str | None = None
    """The infix operator that people write between the operands."""
    flops: int = 1
    special: int = 0
    commutes: bool = False
    zero_at_zero: bool = False
    """Whether the function is zero where both operands are."""
    zero_at_either: bool = False
    """Whether the function is zero where one operand is, for any finite value of the other."""
    total: bool = True
    """Whether the function is finite at all finite operands, overflow aside."""
    truth: bool = False
    """Whether its value is true (1) or false (0); a tensor of its values has elements of i1."""
    logic: bool = False
    """Whether its operands are truth values."""
    definition: BinaryDefinition | None = None
    """The definition of the function of fractions in terms of simpler ones."""


def _floor_of_quotient(b: Builder, x: Value, y: Value) -> Value:
    return b.unary(UnaryFn.FLOOR, b.binary(BinaryFn.DIV, x, y))


def _truth(function: Callable[..., Any]) -> Callable[[Array, Array], Array]:
    """Wrap a function so that its truth values become the numbers 0 and 1."""
    return lambda a, b: np.asarray(function(a, b)).astype(np.result_type(a, b, np.float32))


def _logic(function: Callable[..., Any]) -> Callable[[Array, Array], Array]:
    """Wrap a function of truth values so that its operands and results are the numbers 0 and 1."""
    return _truth(lambda a, b: function(np.not_equal(a, 0), np.not_equal(b, 0)))


def _gelu(x: Array) -> Array:
    """Computed in the type of ``x``, as in PyTorch: far below zero ``1 + erf`` has few digits."""
    erf: Callable[[Any], Any] = np.vectorize(math.erf, otypes=[np.asarray(x).dtype])
    return 0.5 * x * (1.0 + erf(x / math.sqrt(2.0)))


def _gelu_tanh(x: Array) -> Array:
    return 0.5 * x * (1.0 + np.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))


def _sigmoid(x: Array) -> Array:
    """Computed as in PyTorch: small results keep their digits, which ``1 + tanh`` loses."""
    with np.errstate(over="ignore"):  # the result is zero
        return 1.0 / (1.0 + np.exp(-x))


def conversion(dtype: DType) -> tuple[tuple[str, object], ...]:
    """Return the further arguments of PyTorch's conversion to a type."""
    options = ("layout", "device", "pin_memory", "memory_format")
    plain = tuple((name, None) for name in options)
    return (("dtype", ("dtype", dtype.value)), ("non_blocking", False), *plain)


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
        algebra=Algebra.EXP, evaluate=np.exp, flops=1, special=1, increasing=True,
        call=("exp.default", ()),
    ),
    UnaryFn.LOG: UnaryInfo(
        algebra=Algebra.OPAQUE, evaluate=np.log, flops=1, special=1,
        domain=RealDomain.POSITIVE, increasing=True, call=("log.default", ()),
    ),
    UnaryFn.LOG1P: UnaryInfo(  # its lowering keeps the digits of arguments near 0
        algebra=Algebra.OPAQUE, evaluate=np.log1p, flops=12, special=2,
        zero_at_zero=True, domain=RealDomain.ABOVE_MINUS_ONE, increasing=True,
        call=("log1p.default", ()),
        definition=lambda b, x: b.unary(
            UnaryFn.LOG, b.binary(BinaryFn.ADD, x, b.constant(1.0))
        ),
    ),
    UnaryFn.SQRT: UnaryInfo(
        algebra=Algebra.OPAQUE, evaluate=np.sqrt, flops=0, special=1,
        zero_at_zero=True, domain=RealDomain.NONNEGATIVE, increasing=True,
        call=("sqrt.default", ()),
    ),
    UnaryFn.RSQRT: UnaryInfo(
        algebra=Algebra.OPAQUE, evaluate=lambda x: 1.0 / np.sqrt(x), flops=0, special=1,
        domain=RealDomain.POSITIVE, call=("rsqrt.default", ()),
        definition=lambda b, x: b.unary(UnaryFn.RECIPROCAL, b.unary(UnaryFn.SQRT, x)),
    ),
    UnaryFn.RECIPROCAL: UnaryInfo(
        algebra=Algebra.FIELD, evaluate=lambda x: 1.0 / x, flops=0, special=1,
        domain=RealDomain.NONZERO, call=("reciprocal.default", ()),
    ),
    UnaryFn.SQUARE: UnaryInfo(
        algebra=Algebra.RING, degree=2, evaluate=np.square, flops=1, special=0,
        zero_at_zero=True, call=("square.default", ()),
    ),
    UnaryFn.SIGMOID: UnaryInfo(
        algebra=Algebra.OPAQUE, evaluate=_sigmoid, flops=2, special=2, increasing=True,
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
        zero_at_zero=True, increasing=True, call=("tanh.default", ()),
    ),
    UnaryFn.NOT: UnaryInfo(  # the argument is a truth value
        algebra=Algebra.OPAQUE, evaluate=lambda x: np.equal(x, 0).astype(np.asarray(x).dtype),
        flops=1, special=0, logic=True, truth=True, call=("logical_not.default", ()),
    ),
    # The number that a mask adds to a score: zero where it is true (1), minus infinity where it is
    # false (0).
    UnaryFn.BIAS: UnaryInfo(
        algebra=Algebra.OPAQUE, evaluate=lambda x: np.where(np.greater(x, 0), 0.0, -np.inf),
        flops=1, special=0, domain=RealDomain.POSITIVE, logic=True, call=("log.default", ()),
    ),
    UnaryFn.FLOOR: UnaryInfo(
        algebra=Algebra.OPAQUE, evaluate=np.floor, flops=1, special=0,
        zero_at_zero=True, call=("floor.default", ()),
    ),
    UnaryFn.SIN: UnaryInfo(
        algebra=Algebra.OPAQUE, evaluate=np.sin, flops=20, special=0,
        zero_at_zero=True, call=("sin.default", ()),
    ),
    UnaryFn.COS: UnaryInfo(
        algebra=Algebra.OPAQUE, evaluate=np.cos, flops=20, special=0, call=("cos.default", ()),
    ),
    UnaryFn.ROUND_E4M3: UnaryInfo(
        algebra=Algebra.OPAQUE, evaluate=rounded_to_e4m3,
        flops=4, special=0, zero_at_zero=True, rounds_to=DType.F8E4M3,
        call=("_to_copy.default", conversion(DType.F8E4M3)),
    ),
    UnaryFn.ROUND_E5M2: UnaryInfo(
        algebra=Algebra.OPAQUE, evaluate=rounded_to_e5m2,
        flops=4, special=0, zero_at_zero=True, rounds_to=DType.F8E5M2,
        call=("_to_copy.default", conversion(DType.F8E5M2)),
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
    BinaryFn.LT: BinaryInfo(
        evaluate=_truth(np.less), infix="<", zero_at_zero=True, truth=True,
        call=("lt.Tensor", ()),
    ),
    BinaryFn.LE: BinaryInfo(
        evaluate=_truth(np.less_equal), infix="<=", truth=True, call=("le.Tensor", ()),
    ),
    BinaryFn.EQ: BinaryInfo(
        evaluate=_truth(np.equal), infix="==", commutes=True, truth=True,
        call=("eq.Tensor", ()),
    ),
    BinaryFn.NE: BinaryInfo(
        evaluate=_truth(np.not_equal), infix="!=", commutes=True, zero_at_zero=True, truth=True,
        call=("ne.Tensor", ()),
    ),
    BinaryFn.AND: BinaryInfo(
        evaluate=_logic(np.logical_and), commutes=True, zero_at_zero=True, zero_at_either=True,
        truth=True, logic=True, call=("logical_and.default", ()),
    ),
    BinaryFn.OR: BinaryInfo(
        evaluate=_logic(np.logical_or), commutes=True, zero_at_zero=True,
        truth=True, logic=True, call=("logical_or.default", ()),
    ),
    BinaryFn.XOR: BinaryInfo(
        evaluate=_logic(np.logical_xor), commutes=True, zero_at_zero=True,
        truth=True, logic=True, call=("logical_xor.default", ()),
    ),
    # Rounded towards minus infinity; the remainder has the sign of the divisor, as in Python.
    BinaryFn.FLOOR_DIV: BinaryInfo(
        evaluate=np.floor_divide, flops=12, special=1, total=False,
        call=("floor_divide.default", ()),
        definition=_floor_of_quotient,
    ),
    BinaryFn.REMAINDER: BinaryInfo(
        evaluate=np.mod, infix="%", flops=12, special=1, total=False, call=("remainder.Tensor", ()),
        definition=lambda b, x, y: b.binary(
            BinaryFn.SUB, x, b.binary(BinaryFn.MUL, y, _floor_of_quotient(b, x, y))
        ),
    ),
    # ``keep(p, x)``: x where p is true, otherwise 0, even if x is NaN or infinite.
    BinaryFn.KEEP: BinaryInfo(
        evaluate=lambda p, x: np.where(np.not_equal(p, 0), x, 0.0),
        zero_at_zero=True, zero_at_either=True, call=("where.ScalarOther", (("other", 0),)),
    ),
    # The sign bit of the second operand, which distinguishes zeros.
    BinaryFn.COPYSIGN: BinaryInfo(
        evaluate=np.copysign, zero_at_zero=True, call=("copysign.Tensor", ()),
    ),
}  # fmt: skip

REDUCE: dict[ReduceFn, Callable[..., Array]] = {ReduceFn.SUM: np.sum, ReduceFn.MAX: np.max}

ROUNDING_TO = {row.rounds_to: fn for fn, row in UNARY.items() if row.rounds_to is not None}
"""The functions that round to 8-bit types, by the type."""
