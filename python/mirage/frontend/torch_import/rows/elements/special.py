"""Rows of the error function, and of inverse trigonometric and hyperbolic functions.

Each is a polynomial near 0, and elsewhere it is built from functions that kernels have: the tail of
the error function is GELU's (``x Phi(x)`` divided by ``x``), an arc tangent is four times the arc
tangent of the angle halved twice (``tan(a / 2) = tan(a) / (1 + sqrt(1 + tan(a)^2))``). As functions
of real numbers they are within 2^-44 of the exact functions; the rounding of their steps adds a few
units in the last place of f32. The sign of a zero is ignored.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from mirage.frontend.torch_import.rows.elements.comparisons import choose
from mirage.frontend.torch_import.rows.elements.floors_and_remainders import sign_of
from mirage.frontend.torch_import.rows.lowering import Lowering, Row, wide
from mirage.frontend.torch_import.rows.torch_call import Call, Unsupported
from mirage.semantics.numbers import Number
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import Value

_ERF = (
    1.1283791670954937,
    -0.37612638902805995,
    0.11283791658494288,
    -0.02686616904550174,
    0.005223967168492157,
    -0.0008547933034086241,
    0.00012046249627667885,
    -1.4794918585486345e-05,
    1.5305782417183794e-06,
    -1.0467819350912507e-07,
)
"""``erf(x) / x`` by powers of ``x^2``, up to 1: interpolated at Chebyshev nodes, off by 2.1e-14."""
_ATAN = tuple((-1) ** n / (2 * n + 1) for n in range(9))
"""``atan(x) / x`` by powers of ``x^2``: up to ``tan(pi / 16)`` off by 1.4e-14."""


def _function(made: Row) -> Row:
    """Return a row that computes in f32 at least, for integers too."""

    def row(b: Lowering, c: Call) -> Value:
        values = [wide(b, x) if isinstance(x, Value) else x for x in c.args]
        dtypes = {x.dtype for x in values if isinstance(x, Value)}
        if len(dtypes) > 1:  # PyTorch computes both in the wider type
            values = [b.typed(x, DType.F64) if isinstance(x, Value) else x for x in values]
        y = made(b, Call(c.op, tuple(values), c.results, c.used))
        assert isinstance(y, Value)
        return b.typed(y, c.result.dtype)

    return row


def _odd(b: Lowering, x: Value, coefficients: Sequence[float]) -> Value:
    """Return ``x P(x^2)``."""
    square = b.unary(UnaryFn.SQUARE, x)
    y = b.combine(BinaryFn.MUL, square, coefficients[-1])
    for coefficient in reversed(coefficients[1:-1]):
        y = b.binary(BinaryFn.MUL, b.combine(BinaryFn.ADD, y, coefficient), square)
    return b.binary(BinaryFn.MUL, b.combine(BinaryFn.ADD, y, coefficients[0]), x)


def _bounded(b: Lowering, x: Value, most: Number) -> Value:
    """Clamp ``x`` to ``[-most, most]``."""
    return b.combine(BinaryFn.MAX, b.combine(BinaryFn.MIN, x, most), -most)


def _error(*, complement: bool) -> Row:
    """Return ``erf(x)`` or its complement ``1 - erf(x)``, whose tail is as precise."""
    most = 12.0  # the complement is less than any f32 there

    def row(b: Lowering, c: Call) -> Value:
        x = c.value(0)
        size = b.combine(BinaryFn.MIN, b.unary(UnaryFn.ABS, x), most)
        near = _odd(b, _bounded(b, x, 1.0), _ERF)
        scaled = b.combine(BinaryFn.MUL, b.combine(BinaryFn.MAX, size, 1.0), math.sqrt(2.0))
        tail = b.unary(UnaryFn.GELU, b.unary(UnaryFn.NEG, scaled))
        tail = b.binary(BinaryFn.DIV, b.combine(BinaryFn.MUL, tail, -2.0), scaled)
        is_near = b.combine(BinaryFn.LT, size, 1.0)
        if complement:
            far = b.combine(BinaryFn.SUB, 2.0, tail)
            far = choose(b, b.combine(BinaryFn.LT, x, 0), far, tail, x.dtype)
            near = b.combine(BinaryFn.SUB, 1.0, near)
        else:
            far = b.binary(BinaryFn.MUL, sign_of(b, x), b.combine(BinaryFn.SUB, 1.0, tail))
        return choose(b, is_near, near, far, x.dtype)

    def noted(b: Lowering, c: Call) -> Value:
        y = _function(row)(b, c)
        assert isinstance(y, Value)
        b.errors[y] = c.value(0), complement
        return y

    return noted


def _largest(x: Value) -> float:
    """Return a number whose square is representable, and beyond which the angle rounds to a right
    angle."""
    return 1e150 if x.dtype is DType.F64 else 1e18


def _small_angle(b: Lowering, x: Value) -> Value:
    """Return the arc tangent of ``x`` in [0, 1]."""
    for _ in range(2):
        root = b.combine(BinaryFn.ADD, b.unary(UnaryFn.SQUARE, x), 1.0)
        x = b.binary(BinaryFn.DIV, x, b.combine(BinaryFn.ADD, b.unary(UnaryFn.SQRT, root), 1.0))
    return b.combine(BinaryFn.MUL, _odd(b, x, _ATAN), 4.0)


def _arc_tangent(b: Lowering, c: Call) -> Value:
    x = c.value(0)
    size = b.combine(BinaryFn.MIN, b.unary(UnaryFn.ABS, x), _largest(x))
    least = b.combine(BinaryFn.MAX, b.unary(UnaryFn.SQUARE, size), 1.0)
    # the arc tangent of size, or of 1 / size
    angle = _small_angle(b, b.binary(BinaryFn.DIV, size, least))
    other = b.combine(BinaryFn.SUB, math.pi / 2, angle)
    angle = choose(b, b.combine(BinaryFn.LE, size, 1.0), angle, other, x.dtype)
    return b.binary(BinaryFn.MUL, sign_of(b, x), angle)


def angle_of(b: Lowering, y: Value, x: Value) -> Value:
    """Return the angle from the ray through (1, 0) to the one through ``(x, y)``, between -pi and
    pi."""
    high, across = (b.unary(UnaryFn.ABS, _bounded(b, v, _largest(v) ** 2)) for v in (y, x))
    least, most = b.binary(BinaryFn.MIN, high, across), b.binary(BinaryFn.MAX, high, across)
    most = b.combine(BinaryFn.MAX, most, 2.0**-126)
    angle = _small_angle(b, b.binary(BinaryFn.DIV, least, most))
    steep = b.binary(BinaryFn.LT, across, high)
    angle = choose(b, steep, b.combine(BinaryFn.SUB, math.pi / 2, angle), angle, x.dtype)
    left = b.combine(BinaryFn.LT, x, 0)
    angle = choose(b, left, b.combine(BinaryFn.SUB, math.pi, angle), angle, x.dtype)
    below = b.combine(BinaryFn.LT, y, 0)
    return choose(b, below, b.unary(UnaryFn.NEG, angle), angle, x.dtype)


def _beside(b: Lowering, x: Value) -> Value:
    """Return ``sqrt(1 - x^2)``."""
    below, above = b.combine(BinaryFn.SUB, 1.0, x), b.combine(BinaryFn.ADD, x, 1.0)
    return b.unary(UnaryFn.SQRT, b.binary(BinaryFn.MUL, below, above))


def _tangent(b: Lowering, c: Call) -> Value:
    x = c.value(0)
    return b.binary(BinaryFn.DIV, b.unary(UnaryFn.SIN, x), b.unary(UnaryFn.COS, x))


def _cosh(b: Lowering, c: Call) -> Value:
    """Return ``2 exp(|x| / 2 - log 2) exp(|x| / 2)`` plus the small exponential; this overflows
    only where cosh does."""
    half = b.combine(BinaryFn.MUL, b.unary(UnaryFn.ABS, c.value(0)), 0.5)
    root = b.unary(UnaryFn.EXP, half)
    large = b.binary(BinaryFn.MUL, b.combine(BinaryFn.MUL, root, 0.5), root)
    down = b.unary(UnaryFn.EXP, b.combine(BinaryFn.MUL, half, -2.0))
    return b.binary(BinaryFn.ADD, large, b.combine(BinaryFn.MUL, down, 0.5))


def _atanh(b: Lowering, c: Call) -> Value:
    """Return ``(log(1 + x) - log(1 - x)) / 2``, in a form in which neither part loses digits to the
    other."""
    x = c.value(0)
    above, below = b.unary(UnaryFn.LOG1P, x), b.unary(UnaryFn.LOG1P, b.unary(UnaryFn.NEG, x))
    return b.combine(BinaryFn.MUL, b.binary(BinaryFn.SUB, above, below), 0.5)


def _asinh(b: Lowering, c: Call) -> Value:
    """Return ``log(x + sqrt(1 + x^2))`` for ``x >= 0``, and its opposite for others. If ``u`` and
    ``s`` are the smaller and the larger one of ``x`` and 1, and ``w = u / s``, that is ``log(s) +
    log(1 + u + w^2 / (1 + sqrt(1 + w^2)))``: no square is too large, and no digits cancel."""
    x = c.value(0)
    least, most = _beside_one(b, b.unary(UnaryFn.ABS, x))
    square = b.unary(UnaryFn.SQUARE, b.binary(BinaryFn.DIV, least, most))
    root = b.unary(UnaryFn.SQRT, b.combine(BinaryFn.ADD, square, 1.0))
    more = b.binary(BinaryFn.DIV, square, b.combine(BinaryFn.ADD, root, 1.0))
    near = b.unary(UnaryFn.LOG1P, b.binary(BinaryFn.ADD, least, more))
    size = b.binary(BinaryFn.ADD, b.unary(UnaryFn.LOG, most), near)
    return b.binary(BinaryFn.MUL, sign_of(b, x), size)


def _acosh(b: Lowering, c: Call) -> Value:
    """Return ``log(x + sqrt(x^2 - 1)) = log(x) + log(1 + sqrt((x - 1) / x (1 + 1 / x)))``. If ``u``
    and ``s`` are the smaller and the larger one of ``x - 1`` and 1, then ``(x - 1) / x`` is
    ``u / (1 / s + u)``: no square is too large, and no digits cancel."""
    x = c.value(0)
    over = b.combine(BinaryFn.SUB, x, 1.0)
    least, most = _beside_one(b, over)
    below = b.binary(BinaryFn.ADD, b.unary(UnaryFn.RECIPROCAL, most), least)
    share = b.binary(BinaryFn.DIV, least, below)
    more = b.combine(BinaryFn.ADD, b.unary(UnaryFn.RECIPROCAL, x), 1.0)
    root = b.unary(UnaryFn.SQRT, b.binary(BinaryFn.MUL, share, more))
    first, second = (b.unary(UnaryFn.LOG1P, v) for v in (over, root))
    return b.binary(BinaryFn.ADD, first, second)


def _beside_one(b: Lowering, x: Value) -> tuple[Value, Value]:
    """Return the smaller and the larger one of ``x`` and 1."""
    return b.combine(BinaryFn.MIN, x, 1.0), b.combine(BinaryFn.MAX, x, 1.0)


_NEAR = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
         -0.00125372503, -0.00417768164, 0.246640727, 1.50140941)  # fmt: skip
_FAR = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
        -0.0076224613, 0.00943887047, 1.00167406, 2.83297682)  # fmt: skip


def _inverse_error(b: Lowering, c: Call) -> Value:
    """Return the inverse error function, by two polynomials of ``-log(1 - x^2)`` and of its root,
    within 4 ulp of f32 (M. Giles, Approximating the erfinv function, GPU Computing Gems 2, 2011).
    """
    x = c.value(0)
    if x.dtype is DType.F64:
        raise Unsupported("the inverse error function in f64")
    below, above = b.combine(BinaryFn.SUB, 1.0, x), b.combine(BinaryFn.ADD, x, 1.0)
    w = b.unary(UnaryFn.NEG, b.unary(UnaryFn.LOG, b.binary(BinaryFn.MUL, below, above)))
    is_near = b.combine(BinaryFn.LT, w, 5.0)
    near = _polynomial(b, b.combine(BinaryFn.SUB, b.combine(BinaryFn.MIN, w, 5.0), 2.5), _NEAR)
    bounded = b.combine(BinaryFn.MIN, b.combine(BinaryFn.MAX, w, 5.0), _LARGEST_LOG)
    far = _polynomial(b, b.combine(BinaryFn.SUB, b.unary(UnaryFn.SQRT, bounded), 3.0), _FAR)
    inside = b.binary(BinaryFn.MUL, choose(b, is_near, near, far, x.dtype), x)
    infinite = b.combine(BinaryFn.MUL, x, math.inf)
    end = b.combine(BinaryFn.EQ, b.unary(UnaryFn.ABS, x), 1.0)
    y = choose(b, end, infinite, inside, x.dtype)
    none = b.binary(BinaryFn.SUB, w, b.combine(BinaryFn.MIN, w, _LARGEST_LOG))  # NaN where w is
    return b.binary(BinaryFn.ADD, y, b.binary(BinaryFn.KEEP, b.binary(BinaryFn.NE, w, w), none))


_LARGEST_LOG = 20.0
"""A bound on ``-log(1 - x^2)`` for all ``x`` below 1 in f32."""


def _polynomial(b: Lowering, x: Value, factors: Sequence[float]) -> Value:
    """Return ``factors[0] x^n + … + factors[n]``."""
    y = b.combine(BinaryFn.MUL, x, factors[0])
    for factor in factors[1:-1]:
        y = b.binary(BinaryFn.MUL, b.combine(BinaryFn.ADD, y, factor), x)
    return b.combine(BinaryFn.ADD, y, factors[-1])


def _hypotenuse(b: Lowering, c: Call) -> Value:
    """``op(x, y)``: the larger operand times a root, so that no square overflows. For equal
    operands (both may be zero, or infinite) the quotient is 1."""
    x, y = (b.unary(UnaryFn.ABS, c.value(i)) for i in (0, 1))
    least, most = b.binary(BinaryFn.MIN, x, y), b.binary(BinaryFn.MAX, x, y)
    same = b.binary(BinaryFn.EQ, x, y)
    above, below = (choose(b, same, 1.0, v, most.dtype) for v in (least, most))
    square = b.unary(UnaryFn.SQUARE, b.binary(BinaryFn.DIV, above, below))
    root = b.unary(UnaryFn.SQRT, b.combine(BinaryFn.ADD, square, 1.0))
    return b.binary(BinaryFn.MUL, most, root)


def _x_log_y(b: Lowering, c: Call) -> Value:
    """``op(x, y)``: ``x log(y)``, which is zero where ``x`` is, unless ``y`` is NaN."""
    x, y = c.operand(0), c.operand(1)
    if not isinstance(y, Value):
        if y <= 0 or not isinstance(x, Value):
            raise Unsupported(f"a logarithm of {float(y):g}")
        return b.combine(BinaryFn.MUL, x, math.log(y))
    product = b.combine(BinaryFn.MUL, x, b.unary(UnaryFn.LOG, y))
    if not isinstance(x, Value):
        return product
    kept = b.binary(BinaryFn.OR, b.combine(BinaryFn.NE, x, 0), b.binary(BinaryFn.NE, y, y))
    return b.binary(BinaryFn.KEEP, kept, product)


def _log_of_sum(factor: float) -> Row:
    """``op(x, y)``: the logarithm of the sum of two exponentials of ``factor`` times ``x`` and
    ``y``, divided by the factor. It is the larger operand plus the contribution of the other one.
    The difference of equal operands is zero, also if these are infinite."""

    def row(b: Lowering, c: Call) -> Value:
        xs = [c.value(i) for i in (0, 1)]
        if factor != 1.0:
            xs = [b.combine(BinaryFn.MUL, x, factor) for x in xs]
        most = b.binary(BinaryFn.MAX, *xs)
        apart = b.binary(BinaryFn.KEEP, b.binary(BinaryFn.NE, *xs), b.binary(BinaryFn.SUB, *xs))
        small = b.unary(UnaryFn.EXP, b.unary(UnaryFn.NEG, b.unary(UnaryFn.ABS, apart)))
        total = b.binary(BinaryFn.ADD, most, b.unary(UnaryFn.LOG1P, small))
        return total if factor == 1.0 else b.combine(BinaryFn.MUL, total, 1.0 / factor)

    return row


def _other_than_nan(fn: BinaryFn) -> Row:
    """Apply ``fn`` to two numbers; if only one is a number, return it."""

    def row(b: Lowering, c: Call) -> Value:
        x, y = (b.typed(c.value(i), c.result.dtype) for i in (0, 1))
        if c.result.dtype is DType.I1:
            return b.binary(BinaryFn.OR if fn is BinaryFn.MAX else BinaryFn.AND, x, y)
        both = b.binary(fn, x, y)
        if x.dtype.is_integer:
            return both
        first, second = b.binary(BinaryFn.EQ, x, x), b.binary(BinaryFn.EQ, y, y)
        other = choose(b, first, x, y, x.dtype)
        return choose(b, b.binary(BinaryFn.AND, first, second), both, other, x.dtype)

    return row


SPECIAL: dict[str, Row] = {
    "aten.erf": _error(complement=False),
    "aten.erfinv": _function(_inverse_error),
    "aten.erfc": _error(complement=True),
    "aten.special_erfc": _error(complement=True),
    "aten.atan": _function(_arc_tangent),
    "aten.atan2": _function(lambda b, c: angle_of(b, c.value(0), c.value(1))),
    "aten.asin": _function(lambda b, c: angle_of(b, c.value(0), _beside(b, c.value(0)))),
    "aten.acos": _function(lambda b, c: angle_of(b, _beside(b, c.value(0)), c.value(0))),
    "aten.tan": _function(_tangent),
    "aten.cosh": _function(_cosh),
    "aten.asinh": _function(_asinh),
    "aten.acosh": _function(_acosh),
    "aten.atanh": _function(_atanh),
    "aten.hypot": _function(_hypotenuse),
    "aten.xlogy.Tensor": _function(_x_log_y),
    "aten.xlogy.Scalar_Other": _function(_x_log_y),
    "aten.xlogy.Scalar_Self": _function(_x_log_y),
    "aten.logaddexp": _function(_log_of_sum(1.0)),
    "aten.logaddexp2": _function(_log_of_sum(math.log(2.0))),
    "aten.fmax": _other_than_nan(BinaryFn.MAX),
    "aten.fmin": _other_than_nan(BinaryFn.MIN),
}
"""Torch ops for which kernels have no function, and their definitions."""
