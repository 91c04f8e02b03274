"""The ops that kernel graphs and block graphs have in common, as methods."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from fractions import Fraction
from numbers import Real
from typing import Generic, TypeVar

from mirage.frontend.dtypes import as_dtype
from mirage.frontend.errors import ForeignValueError, GraphShapeError, GraphTypeError
from mirage.frontend.handles import Handle, Scalar
from mirage.frontend.location import user_location
from mirage.semantics.builder import Builder, ShapeError
from mirage.semantics.numbers import Number
from mirage.semantics.scalar import ROUNDING_TO, BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import Value

H = TypeVar("H", bound=Handle)
Emit = Callable[[Builder, tuple[Value, ...]], Value]

POWERS: dict[Number, UnaryFn] = {
    2.0: UnaryFn.SQUARE,
    0.5: UnaryFn.SQRT,
    -0.5: UnaryFn.RSQRT,
    -1.0: UnaryFn.RECIPROCAL,
}
"""The exponents that have a function of their own."""


def constant_for(build: Builder, number: Number, other: Value) -> Value:
    """Make a constant to combine with ``other``: it has the type of ``other`` or, in blocks, the
    type of computation (f32 or f64).
    """
    wide = build.in_block and other.dtype is not DType.F64
    return build.constant(number, DType.F32 if wide else other.dtype.computed)


class GraphOps(ABC, Generic[H]):
    """Methods that each append one op and return its result.

    Operands are handles of this graph; where two operands are taken, one may be a number. Element
    types of the operands must agree (:meth:`cast` converts). Raises :class:`GraphShapeError`,
    :class:`GraphTypeError` or :class:`ForeignValueError`, with the line of the caller."""

    _handle: type[H]

    @abstractmethod
    def _append(self, what: str, operands: tuple[H, ...], emit: Emit) -> H:
        """Append the op that ``emit`` builds from the operands' values."""

    def _apply(self, what: str, operands: Sequence[object], emit: Emit) -> H:
        handles = tuple(self._own(what, x) for x in operands)
        try:
            return self._append(what, handles, emit)
        except ShapeError as error:
            raise GraphShapeError(f"{what}: {error}", user_location()) from None

    def _own(self, what: str, x: object) -> H:
        if not isinstance(x, self._handle):
            expected = self._handle.__name__.lower()
            raise GraphTypeError(
                f"{what}: expected a {expected} of this graph, got {type(x).__name__}",
                user_location(),
            )
        if x.graph is not self:
            where = "" if x.location is None else f" (made at {x.location})"
            raise ForeignValueError(
                f"{what}: expected a value of this graph, got {x!r} of another{where}",
                user_location(),
            )
        return x

    @staticmethod
    def _same_type(what: str, *values: Value) -> None:
        if all(v.dtype.is_eight_bits for v in values):
            return  # results of both types are f32
        if len({v.dtype for v in values}) > 1:
            got = " and ".join(str(v.type) for v in values)
            raise GraphTypeError(
                f"{what}: expected operands of one element type, got {got}; use cast",
                user_location(),
            )

    @staticmethod
    def _number(what: str, x: object) -> Number:
        if isinstance(x, bool) or not isinstance(x, Real):
            raise GraphTypeError(
                f"{what}: expected a number, got {type(x).__name__}", user_location()
            )
        return x if isinstance(x, Fraction) else float(x)

    @staticmethod
    def _integers(what: str, xs: object) -> tuple[int, ...]:
        try:
            if isinstance(xs, Sequence):
                return tuple(operator.index(x) for x in xs)  # pyright: ignore[reportUnknownVariableType]
            return (operator.index(xs),)  # pyright: ignore[reportArgumentType]
        except TypeError:
            raise GraphTypeError(
                f"{what}: expected integers, got {xs!r}", user_location()
            ) from None

    @classmethod
    def _integer(cls, what: str, x: object) -> int:
        (number,) = cls._integers(what, (x,))
        return number

    # ---- element by element

    def unary(self, fn: UnaryFn, x: H) -> H:
        """Apply ``fn`` to each element."""
        return self._apply(fn.value, [x], lambda b, v: b.unary(fn, v[0]))

    def binary(self, fn: BinaryFn, a: H | Scalar, b: H | Scalar) -> H:
        """Apply ``fn`` to each pair of elements, with NumPy broadcasting; one of the two may be a
        number.
        """
        what = fn.value
        if not isinstance(a, Handle) and not isinstance(b, Handle):
            raise GraphTypeError(
                f"{what}: expected at least one tensor or tile, got two numbers", user_location()
            )
        if not isinstance(a, Handle):
            left = self._number(what, a)
            return self._apply(
                what, [b], lambda build, v: build.binary(fn, constant_for(build, left, v[0]), v[0])
            )
        if not isinstance(b, Handle):
            right = self._number(what, b)
            return self._apply(
                what, [a], lambda build, v: build.binary(fn, v[0], constant_for(build, right, v[0]))
            )

        def emit(build: Builder, v: tuple[Value, ...]) -> Value:
            if not build.in_block:
                self._same_type(what, *v)
            return build.binary(fn, v[0], v[1])

        return self._apply(what, [a, b], emit)

    def add(self, a: H | Scalar, b: H | Scalar) -> H:
        """Return ``a + b``."""
        return self.binary(BinaryFn.ADD, a, b)

    def sub(self, a: H | Scalar, b: H | Scalar) -> H:
        """Return ``a - b``."""
        return self.binary(BinaryFn.SUB, a, b)

    def mul(self, a: H | Scalar, b: H | Scalar) -> H:
        """Return ``a * b``."""
        return self.binary(BinaryFn.MUL, a, b)

    def div(self, a: H | Scalar, b: H | Scalar) -> H:
        """Return ``a / b``."""
        return self.binary(BinaryFn.DIV, a, b)

    def maximum(self, a: H | Scalar, b: H | Scalar) -> H:
        """Return the elementwise maximum of two operands."""
        return self.binary(BinaryFn.MAX, a, b)

    def minimum(self, a: H | Scalar, b: H | Scalar) -> H:
        """Return the elementwise minimum of two operands."""
        return self.binary(BinaryFn.MIN, a, b)

    def pow(self, a: H | Scalar, b: H | Scalar) -> H:
        """Return ``a ** b``; squares, roots and reciprocals become those functions."""
        fn = None if isinstance(b, Handle) else POWERS.get(self._number("pow", b))
        if fn is not None and isinstance(a, Handle):
            return self.unary(fn, a)
        return self.binary(BinaryFn.POW, a, b)

    def neg(self, x: H) -> H:
        """Return ``-x``."""
        return self.unary(UnaryFn.NEG, x)

    def abs(self, x: H) -> H:
        """Return the absolute value of ``x``."""
        return self.unary(UnaryFn.ABS, x)

    def exp(self, x: H) -> H:
        """Return ``e ** x``."""
        return self.unary(UnaryFn.EXP, x)

    def log(self, x: H) -> H:
        """Return the natural logarithm of ``x``."""
        return self.unary(UnaryFn.LOG, x)

    def log1p(self, x: H) -> H:
        """``log(1 + x)``, which loses no digits of an ``x`` near 0."""
        return self.unary(UnaryFn.LOG1P, x)

    def sqrt(self, x: H) -> H:
        """Return the square root of ``x``."""
        return self.unary(UnaryFn.SQRT, x)

    def rsqrt(self, x: H) -> H:
        """Return ``1 / sqrt(x)``."""
        return self.unary(UnaryFn.RSQRT, x)

    def reciprocal(self, x: H) -> H:
        """Return ``1 / x``."""
        return self.unary(UnaryFn.RECIPROCAL, x)

    def square(self, x: H) -> H:
        """Return ``x * x``."""
        return self.unary(UnaryFn.SQUARE, x)

    def sigmoid(self, x: H) -> H:
        """Return ``1 / (1 + exp(-x))``."""
        return self.unary(UnaryFn.SIGMOID, x)

    def silu(self, x: H) -> H:
        """Return ``x * sigmoid(x)``."""
        return self.unary(UnaryFn.SILU, x)

    def gelu(self, x: H, approximate: str = "none") -> H:
        """Return the Gaussian error linear unit of ``x``; ``approximate="tanh"`` is the usual
        approximation, as in PyTorch.
        """
        fns = {"none": UnaryFn.GELU, "tanh": UnaryFn.GELU_TANH}
        if approximate not in fns:
            raise GraphTypeError(
                f"gelu: expected approximate 'none' or 'tanh', got {approximate!r}", user_location()
            )
        return self.unary(fns[approximate], x)

    def relu(self, x: H) -> H:
        """Return ``max(x, 0)``."""
        return self.unary(UnaryFn.RELU, x)

    def tanh(self, x: H) -> H:
        """Return the hyperbolic tangent of ``x``."""
        return self.unary(UnaryFn.TANH, x)

    def floor(self, x: H) -> H:
        """Return the greatest integer that is not above ``x``."""
        return self.unary(UnaryFn.FLOOR, x)

    def round_e4m3(self, x: H) -> H:
        """Round ``x`` to float8_e4m3fn, which is the element type of the resulting tensor."""
        return self.unary(UnaryFn.ROUND_E4M3, x)

    def round_e5m2(self, x: H) -> H:
        """Round ``x`` to float8_e5m2, which is the element type of the resulting tensor."""
        return self.unary(UnaryFn.ROUND_E5M2, x)

    def sin(self, x: H) -> H:
        """Return the sine of ``x``."""
        return self.unary(UnaryFn.SIN, x)

    def cos(self, x: H) -> H:
        """Return the cosine of ``x``."""
        return self.unary(UnaryFn.COS, x)

    def not_(self, x: H) -> H:
        """Return the negation of a truth value."""
        return self.unary(UnaryFn.NOT, x)

    def bias(self, x: H) -> H:
        """Return the bias that a mask of numbers adds to scores: 0 where it is 1, minus infinity
        where it is 0."""
        return self.unary(UnaryFn.BIAS, x)

    def keep(self, mask: H, x: H) -> H:
        """Return ``x`` where the mask is true and 0 elsewhere, even where ``x`` is infinite or
        NaN."""
        return self._apply("keep", [mask, x], lambda b, v: b.binary(BinaryFn.KEEP, v[0], v[1]))

    def clamp(self, x: H, min: Scalar | None = None, max: Scalar | None = None) -> H:
        """Limit ``x`` to ``[min, max]``; a limit may be missing."""
        if min is None and max is None:
            raise GraphTypeError("clamp: expected min, max or both, got neither", user_location())
        if min is not None and max is not None and min > max:
            raise GraphShapeError(
                f"clamp: expected min <= max, got {min} and {max}", user_location()
            )
        if min is not None:
            x = self.maximum(x, min)
        return x if max is None else self.minimum(x, max)

    def cast(self, x: H, dtype: object) -> H:
        """Convert ``x`` to ``dtype``; conversion to an 8-bit type rounds."""
        wanted: DType = as_dtype(dtype)

        def emit(build: Builder, v: tuple[Value, ...]) -> Value:
            if wanted.is_eight_bits and v[0].dtype is not wanted:
                return build.unary(ROUNDING_TO[wanted], v[0])
            return build.cast(v[0], wanted)

        return self._apply("cast", [x], emit)

    # ---- contraction and reduction

    def matmul(self, a: H, b: H, *, tf32: bool = False) -> H:
        """Multiply matrices: ``[..., m, k] x [..., k, n] -> [..., m, n]``; leading dimensions
        broadcast. With ``tf32``, factors of f32 are rounded to TF32 (11 significant bits)."""

        def emit(build: Builder, v: tuple[Value, ...]) -> Value:
            self._same_type("matmul", *v)
            return build.matmul(v[0], v[1], tf32=tf32)

        return self._apply("matmul", [a, b], emit)

    def reduction(self, x: H, dim: int | Sequence[int], fn: str = "sum") -> H:
        """Return the sum (or with ``fn="max"`` the maximum) over one or more dimensions, which keep
        size 1."""
        fns = {f.value: f for f in ReduceFn}
        if fn not in fns:
            raise GraphTypeError(
                f"reduction: expected fn in {sorted(fns)}, got {fn!r}", user_location()
            )
        dims = self._integers("reduction", dim)
        if not dims:
            raise GraphShapeError(
                "reduction: expected at least one dimension, got none", user_location()
            )
        return self._apply("reduction", [x], lambda b, v: b.reduce(fns[fn], v[0], dims))

    def sum(self, x: H, dim: int | Sequence[int]) -> H:
        """Return the sum over one or more dimensions, which keep size 1."""
        return self.reduction(x, dim, "sum")

    def max(self, x: H, dim: int | Sequence[int]) -> H:
        """Return the maximum over one or more dimensions, which keep size 1."""
        return self.reduction(x, dim, "max")

    # ---- views

    def transpose(self, x: H, *permutation: int) -> H:
        """Reorder dimensions: dimension ``i`` of the result is dimension ``permutation[i]`` of
        ``x``. Without a permutation, the last two dimensions are exchanged.
        """
        rank = len(self._own("transpose", x).shape)
        order = self._integers("transpose", permutation or (*range(rank - 2), rank - 1, rank - 2))
        normal = tuple(d + rank if -rank <= d < 0 else d for d in order)
        return self._apply("transpose", [x], lambda b, v: b.transpose(v[0], normal))

    def reshape(self, x: H, shape: Sequence[int]) -> H:
        """Give the same elements another shape, in row-major order; one size may be -1."""
        sizes = self._integers("reshape", shape)
        total = self._own("reshape", x).value.type.size
        if sizes.count(-1) == 1:
            known = -1
            for n in sizes:
                known *= n
            if known > 0 and total % known == 0:
                sizes = tuple(total // known if n == -1 else n for n in sizes)
        return self._apply("reshape", [x], lambda b, v: b.reshape(v[0], sizes))

    def broadcast(self, x: H, shape: Sequence[int]) -> H:
        """Repeat dimensions of size 1 and missing leading dimensions."""
        sizes = self._integers("broadcast", shape)
        return self._apply("broadcast", [x], lambda b, v: b.broadcast(v[0], sizes))
