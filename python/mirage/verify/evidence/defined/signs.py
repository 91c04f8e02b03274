"""The signs that a value can have for any inputs: an arithmetic that runs beside float64.

A set of signs is a number of four bits: negative, zero, positive, and minus infinity (the fill
value of masks; it counts as negative too). Each rule gives at least the signs that are possible for
any operands with the given sets.
"""

from __future__ import annotations

import numpy as np

from mirage.semantics.scalar import BINARY, Array, BinaryFn, ReduceFn, UnaryFn

NEG, ZERO, POS, LEAST = 1, 2, 4, 8
ANY = NEG | ZERO | POS
_SAME = (UnaryFn.TANH, UnaryFn.SILU, UnaryFn.GELU, UnaryFn.GELU_TANH)
"""The functions that have the sign of their argument."""


def has(signs: Array, what: int) -> Array:
    """Return where one of the signs ``what`` is possible."""
    return (signs & what) != 0


def coded(negative: Array, zero: Array, positive: Array, least: Array | bool = False) -> Array:
    """Return the code of a set of signs."""
    code = NEG * negative + ZERO * zero + POS * positive + LEAST * np.asarray(least)
    return np.asarray(code, np.uint8)


def of_number(value: float) -> Array:
    """Return the sign of one number."""
    least = value == float("-inf")
    return coded(np.asarray(value < 0), np.asarray(value == 0), np.asarray(value > 0), least)


def of_unary(fn: UnaryFn, x: Array) -> Array:
    """Return the possible signs of a unary function of each element."""
    n, z, p, least = (has(x, bit) for bit in (NEG, ZERO, POS, LEAST))
    no = np.zeros_like(z)
    match fn:
        case UnaryFn.NEG:
            return np.where(least, ANY | LEAST, coded(p, z, n)).astype(np.uint8)
        case UnaryFn.ABS | UnaryFn.SQUARE:
            return coded(no, z, n | p)
        case UnaryFn.EXP:  # at minus infinity it is 0
            return coded(no, least, ~no)
        case UnaryFn.SQRT | UnaryFn.RELU:
            return coded(no, z | n, p)
        case UnaryFn.RECIPROCAL:
            return coded(n, least, p)
        case UnaryFn.SIGMOID:
            return coded(no, least, ~no)
        case UnaryFn.RSQRT:
            return coded(no, no, ~no)
        case UnaryFn.NOT:
            return coded(no, ~no, ~no)
        case UnaryFn.BIAS:  # it is zero for what is certainly true
            return coded(n | z, p, no, n | z)
        case UnaryFn.FLOOR:
            return coded(n, z | p, p, least)
        case UnaryFn.LOG1P:  # minus infinity has none
            return np.where(least, ANY | LEAST, coded(n, z, p)).astype(np.uint8)
        case _ if fn in _SAME:
            return coded(n, z | least, p)
        case _:
            return np.where(least, ANY | LEAST, ANY).astype(np.uint8)


def of_binary(fn: BinaryFn, a: Array, b: Array) -> Array:
    """Return the possible signs of a binary function of each pair of elements; for powers see
    :func:`of_power`."""
    a, b = np.broadcast_arrays(a, b)
    an, az, ap, al = (has(a, bit) for bit in (NEG, ZERO, POS, LEAST))
    bn, bz, bp, bl = (has(b, bit) for bit in (NEG, ZERO, POS, LEAST))
    if BINARY[fn].truth:
        return np.full(a.shape, ZERO | POS, np.uint8)
    match fn:
        case BinaryFn.ADD:
            return coded(an | bn, (az & bz) | (an & bp) | (ap & bn), ap | bp, al | bl)
        case BinaryFn.SUB:
            found = coded(an | bp, (az & bz) | (an & bn) | (ap & bp), ap | bn, al)
            return np.where(bl, ANY | LEAST, found).astype(np.uint8)
        case BinaryFn.MUL | BinaryFn.DIV:
            zero = az | (bz if fn is BinaryFn.MUL else bl)
            found = coded((an & bp) | (ap & bn), zero, (an & bn) | (ap & bp))
            return np.where(al | (bl & (fn is BinaryFn.MUL)), ANY | LEAST, found).astype(np.uint8)
        case BinaryFn.MAX:
            below_a, below_b = an | az, bn | bz
            return coded(an & bn, (az & below_b) | (bz & below_a), ap | bp, al & bl)
        case BinaryFn.MIN:
            above_a, above_b = ap | az, bp | bz
            return coded(an | bn, (az & above_b) | (bz & above_a), ap & bp, al | bl)
        case BinaryFn.KEEP:
            never, always = a == ZERO, ~az
            return np.where(never, ZERO, np.where(always, b, b | ZERO)).astype(np.uint8)
        case _:
            return np.full(a.shape, ANY | LEAST, np.uint8)


def of_power(base: Array, exponent: Array) -> Array:
    """Return the possible signs of powers whose exponents are known numbers."""
    even = (exponent % 2 == 0) & np.isfinite(exponent)
    n, z, p = (has(base, bit) for bit in (NEG, ZERO, POS))
    no = np.zeros_like(z)
    found = np.where(even, coded(no, z, n | p), coded(n, z, p))
    return np.where(has(base, LEAST), ANY | LEAST, found).astype(np.uint8)


def of_reduction(fn: ReduceFn, x: Array, dims: tuple[int, ...]) -> Array:
    """Return the possible signs of sums or maxima along dimensions, which keep size 1."""

    def some(bit: int) -> Array:
        return np.asarray(has(x, bit).any(axis=dims, keepdims=True))

    def all_have(bit: int) -> Array:
        return np.asarray(has(x, bit).all(axis=dims, keepdims=True))

    if fn is ReduceFn.SUM:
        zero = all_have(ZERO) | (some(NEG) & some(POS))
        return coded(some(NEG), zero, some(POS), some(LEAST))
    return coded(all_have(NEG), some(ZERO) & all_have(NEG | ZERO), some(POS), all_have(LEAST))


def of_product(a: Array, b: Array) -> Array:
    """Return the possible signs of a matrix product."""

    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    shape = (*batch, a.shape[-2], b.shape[-1])

    def some(first: Array, second: Array) -> Array:
        if first.all():  # both may have any sign, like inputs: no product is needed
            found = second.any(axis=-2, keepdims=True)
        elif second.all():
            found = first.any(axis=-1, keepdims=True)
        elif not first.any() or not second.any():
            found = np.zeros((1, 1), dtype=bool)
        else:
            return np.matmul(first.astype(np.float32), second.astype(np.float32)) > 0
        return np.broadcast_to(found, shape)

    an, az, ap = (has(a, bit) for bit in (NEG, ZERO, POS))
    bn, bz, bp = (has(b, bit) for bit in (NEG, ZERO, POS))
    negative, positive = some(an, bp) | some(ap, bn), some(an, bn) | some(ap, bp)
    zero = ~some(~az, ~bz) | (negative & positive)
    least = has(a, LEAST).any() or has(b, LEAST).any()
    found = coded(negative, zero, positive)
    return np.full_like(found, ANY | LEAST) if least else found
