"""Faults of rounding: programs that are equal, or nearly equal, over the real numbers but not in
floating point. A cast is moved, a value is kept in 16 bits, factors are in another order, a maximum
is left out or moved, an epsilon is in another place, a variance is computed in one pass, or a
difference is multiplied out.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Binary,
    Cast,
    Constant,
    KernelGraph,
    LayerNorm,
    Load,
    Loop,
    Mask,
    Matmul,
    Op,
    Reduce,
    RmsNorm,
    RunningMax,
    Softmax,
    Unary,
    Value,
)

from faults.fault import (
    Change,
    Fault,
    NotApplicable,
    Scope,
    Site,
    again,
    sites,
    with_accumulator,
    with_tail,
)
from faults.moments import moment_faults

ROUNDING = frozenset(
    {
        "cast earlier",
        "cast later",
        "eps moved",
        "maximum left out",
        "maximum moved",
        "multiplied out",
        "scaling in another order",
        "stored in 16 bits",
        "variance in one pass",
    }
)
"""All kinds of faults of rounding."""

_HALVES = (DType.F16, DType.BF16)
_COMPUTING = (Binary, Unary, Matmul, Reduce, Mask)


def rounding_faults(graph: KernelGraph, rng: random.Random) -> Iterator[Fault]:
    """Yield all faults of rounding in a graph; some have random constants."""
    for site in sites(graph):
        yield from _casts(site, rng)
        yield from _factors(site, rng)
        yield from _epsilons(site)
        yield from _maxima(site, rng)
        yield from moment_faults(site)


# ---- casts


def narrowed(b: Builder, x: Value, dtype: DType) -> Value:
    """Return ``x`` rounded to ``dtype``, as a value of its own type."""
    if x.dtype.is_integer:
        raise NotApplicable
    return b.cast(b.cast(x, dtype), x.dtype) if x.dtype is not dtype else x


def _casts(site: Site, rng: random.Random) -> Iterator[Fault]:
    op = site.op
    dtype = rng.choice(_HALVES)
    if isinstance(op, _COMPUTING):
        for i, v in enumerate(op.operands):
            if v.dtype in (DType.F32, DType.F64) and v.shape:
                what = f"operand {i} of {_name(op)} in {dtype.value}"
                yield Fault("cast earlier", what, op, lambda s, i=i: _with(s, site, i, dtype))
        if op.result.dtype is not dtype and not op.result.dtype.is_integer:
            what = f"{_name(op)} in {dtype.value}"
            yield Fault(
                "stored in 16 bits",
                what,
                op,
                lambda s: narrowed(s.builder, again(s, site.in_block), dtype),
            )
    if isinstance(op, Load) and op.result.dtype is DType.F32:
        yield Fault(
            "stored in 16 bits",
            f"what is loaded in {dtype.value}",
            op,
            lambda s: narrowed(s.builder, again(s, True), dtype),
        )
    if isinstance(op, Cast) and op.result.dtype in _HALVES:
        if site.in_block:
            yield Fault("cast later", op.result.dtype.value, op, lambda s: s.operands[0])
        other = DType.BF16 if op.result.dtype is DType.F16 else DType.F16
        yield Fault(
            "stored in 16 bits",
            f"{other.value} for {op.result.dtype.value}",
            op,
            lambda s: s.builder.cast(s.builder.cast(s.operands[0], other), op.result.dtype),
        )
    if isinstance(op, Loop):
        for i, a in enumerate(op.accumulators):
            if a.fn is AccumulateFn.SUM and a.value.dtype is DType.F32:
                yield Fault(
                    "stored in 16 bits",
                    f"summands {i} in {dtype.value}",
                    op,
                    lambda s, i=i: with_tail(op, i, lambda b, x: narrowed(b, x, dtype)),
                )


def _with(s: Scope, site: Site, i: int, dtype: DType) -> Value:
    operands = list(s.operands)
    operands[i] = narrowed(s.builder, operands[i], dtype)
    return again(s, site.in_block, tuple(operands))


def _name(op: Op) -> str:
    fn = op.function
    return type(op).__name__.lower() if fn is None else fn.value


# ---- factors


def _factors(site: Site, rng: random.Random) -> Iterator[Fault]:
    """Write ``(a @ b) c`` as ``(a c) @ b``, and ``(a b) c`` as ``(a c) b``: a small intermediate
    value may become too large for 16 bits."""
    op = site.op
    if not isinstance(op, Binary) or op.fn is not BinaryFn.MUL:
        return
    dtype = rng.choice([None, *_HALVES])
    kept = "" if dtype is None else f" in {dtype.value}"
    for i in (0, 1):
        inner, factor = site.maker(op.operands[i]), op.operands[1 - i]
        if isinstance(inner, Matmul) and _per_row(factor, inner.operands[0]):
            yield Fault(
                "scaling in another order",
                f"before the product{kept}",
                op,
                lambda s, m=inner, i=i: _scaled_before(s, m, 1 - i, dtype),
            )
        if isinstance(inner, Binary) and inner.fn is BinaryFn.MUL:
            for j in (0, 1):
                yield Fault(
                    "scaling in another order",
                    f"by another factor first{kept}",
                    op,
                    lambda s, m=inner, i=i, j=j: _exchanged(s, m, 1 - i, j, dtype),
                )
        if isinstance(inner, Loop):
            number = inner.results.index(op.operands[i])
            constant = site.maker(factor)
            if isinstance(constant, Constant):
                yield _scaled_inside(op, i, inner, number, constant, dtype)
    for i in (0, 1):
        power = rng.choice([2.0**12, 2.0**-12, 2.0**20])
        yield Fault(
            "scaling in another order",
            f"operand {i} times {power:g}{kept}, and back",
            op,
            lambda s, i=i, p=power: _there_and_back(s, site, i, p, dtype),
        )


def _per_row(factor: Value, a: Value) -> bool:
    return not factor.shape or (len(factor.shape) <= len(a.shape) and factor.shape[-1] == 1)


def _kept(b: Builder, x: Value, dtype: DType | None) -> Value:
    return x if dtype is None else narrowed(b, x, dtype)


def _scaled_before(s: Scope, m: Matmul, factor: int, dtype: DType | None) -> Value:
    a, b = (s.rebuilt(v) for v in m.operands)
    x = _kept(s.builder, s.builder.binary(BinaryFn.MUL, a, s.operands[factor]), dtype)
    return s.builder.matmul(x, b)


def _exchanged(s: Scope, m: Binary, factor: int, other: int, dtype: DType | None) -> Value:
    a, b = s.rebuilt(m.operands[other]), s.rebuilt(m.operands[1 - other])
    x = _kept(s.builder, s.builder.binary(BinaryFn.MUL, a, s.operands[factor]), dtype)
    return s.builder.binary(BinaryFn.MUL, x, b)


def _there_and_back(s: Scope, site: Site, i: int, power: float, dtype: DType | None) -> Value:
    b, operands = s.builder, list(s.operands)
    large = b.binary(BinaryFn.MUL, operands[i], b.constant(power))
    operands[i] = _kept(b, large, dtype)
    return b.binary(BinaryFn.MUL, again(s, site.in_block, tuple(operands)), b.constant(1 / power))


def _scaled_inside(
    op: Binary, i: int, loop: Loop, number: int, constant: Constant, dtype: DType | None
) -> Fault:
    def inside(b: Builder, x: Value) -> Value:
        factor = b.constant(constant.value, constant.result.dtype)
        return _kept(b, b.binary(BinaryFn.MUL, x, factor), dtype)

    return Fault(
        "scaling in another order",
        f"inside of the loop{'' if dtype is None else f' in {dtype.value}'}",
        op,
        lambda s: s.operands[i],
        ((loop, lambda s: with_tail(loop, number, inside)),),
    )


# ---- constants


def _of_other_constants(site: Site, op: Softmax) -> Iterator[Fault]:
    """A maximum that is left out next to a different constant that compiles to the same number:
    this must not hide the fault."""
    for constant in site.made.values():
        if (other := _of_same_digits(constant)) is not None:
            yield Fault(
                "maximum left out",
                f"softmax, and {float(other):.3g} of the same digits",
                op,
                lambda s: _plain_softmax(s, op),
                ((constant, _made(constant, other)),),
            )


def _of_same_digits(op: Op) -> Fraction | None:
    """Return a number next to a constant that no type of a kernel distinguishes from it."""
    if not isinstance(op, Constant) or op.result.dtype.is_integer:
        return None
    if not isinstance(op.value, Fraction) or op.value.denominator == 1:
        return None
    return op.value * (1 + Fraction(1, 2**40))


def _made(op: Op, value: Fraction) -> Change:
    dtype = op.results[0].dtype
    return lambda s: s.builder.constant(value, dtype)


# ---- epsilons


def _epsilons(site: Site) -> Iterator[Fault]:
    op = site.op
    if isinstance(op, (RmsNorm, LayerNorm)):
        for factor in (0.0, 0.5, 2.0, 1e-6):
            eps = op.eps * factor
            yield Fault(
                "eps moved",
                f"times {factor:g}",
                op,
                lambda s, e=eps: replace(op, operands=s.operands, eps=e),
            )
    if isinstance(op, Binary) and op.fn is BinaryFn.ADD:
        inner, eps = site.maker(op.operands[0]), site.maker(op.operands[1])
        scaled = isinstance(inner, Binary) and inner.fn is BinaryFn.MUL
        if isinstance(eps, Constant) and scaled:
            for exact in (False, True):
                yield Fault(
                    "eps moved",
                    "into the sum, scaled" if exact else "into the sum",
                    op,
                    lambda s, m=inner, e=eps, x=exact: _into_the_sum(s, site, m, e, x),
                )
    if isinstance(op, Unary) and op.fn in (UnaryFn.RSQRT, UnaryFn.SQRT):
        inner = site.maker(op.operands[0])
        if isinstance(inner, Binary) and inner.fn is BinaryFn.ADD:
            for root in (False, True):
                yield Fault(
                    "eps moved",
                    "behind the root" if root else "behind all",
                    op,
                    lambda s, m=inner, r=root: _behind(s, m, r),
                )


def _into_the_sum(s: Scope, site: Site, m: Binary, eps: Constant, exact: bool) -> Value:
    b = s.builder
    x, c = (s.rebuilt(v) for v in m.operands)
    factor = site.maker(m.operands[1])
    value = eps.value
    if exact:
        if not isinstance(factor, Constant) or not factor.value:
            raise NotApplicable
        value = Fraction(eps.value) / Fraction(factor.value)
    summed = b.binary(BinaryFn.ADD, x, b.constant(value, eps.result.dtype))
    return b.binary(BinaryFn.MUL, summed, c)


def _behind(s: Scope, m: Binary, root: bool) -> Value:
    b = s.builder
    x, eps = (s.rebuilt(v) for v in m.operands)
    assert isinstance(s.op, Unary)
    if root and s.op.fn is UnaryFn.RSQRT:
        below = b.binary(BinaryFn.ADD, b.unary(UnaryFn.SQRT, x), b.unary(UnaryFn.SQRT, eps))
        return b.unary(UnaryFn.RECIPROCAL, below)
    return b.binary(BinaryFn.ADD, b.unary(s.op.fn, x), eps)


# ---- maxima


def _maxima(site: Site, rng: random.Random) -> Iterator[Fault]:
    op = site.op
    if isinstance(op, Softmax):
        yield Fault("maximum left out", "softmax", op, lambda s: _plain_softmax(s, op))
        yield from _of_other_constants(site, op)
    if isinstance(op, RunningMax):
        loop = site.loop
        assert loop is not None
        rescaled = [i for i, a in enumerate(loop.accumulators) if a.rescale is op.result]

        def without(s: Scope) -> Loop:
            changed = loop
            for i in rescaled:
                a = loop.accumulators[i]
                changed = with_accumulator(changed, i, Accumulator(a.fn, a.value))
            return changed

        yield Fault(
            "maximum left out",
            "running",
            op,
            lambda s: _nothing(s.builder, s.operands[0]),
            ((loop, without),),
        )
    largest = isinstance(op, Reduce) and op.fn is ReduceFn.MAX
    if largest:
        yield Fault(
            "maximum left out",
            "of a row",
            op,
            lambda s: _nothing(s.builder, again(s, site.in_block)),
        )
    if largest or isinstance(op, RunningMax):
        for constant in (0.0, -1e4):
            yield Fault(
                "maximum moved",
                f"at least {constant:g}",
                op,
                lambda s, c=constant: _changed(s, site, BinaryFn.MAX, c),
            )
        constant = rng.choice([8.0, 14.0, 30.0, -8.0, -14.0, -30.0, 200.0])
        yield Fault(
            "maximum moved",
            f"by {constant:g}",
            op,
            lambda s: _changed(s, site, BinaryFn.ADD, constant),
        )


def _nothing(b: Builder, x: Value) -> Value:
    """Return zeros in place of ``x``."""
    return b.binary(BinaryFn.KEEP, b.constant(0.0), x)


def _changed(s: Scope, site: Site, fn: BinaryFn, constant: float) -> Value | Op:
    b = s.builder
    if isinstance(s.op, RunningMax):
        x = b.binary(fn, s.operands[0], b.constant(constant))
        return replace(s.op, operands=(x,), results=(Value(x.type),))
    return b.binary(fn, again(s, site.in_block), b.constant(constant))


def _plain_softmax(s: Scope, op: Softmax) -> Value:
    b, x = s.builder, s.operands[0]
    wide = x if x.dtype in (DType.F32, DType.F64) else b.cast(x, DType.F32)
    e = b.unary(UnaryFn.EXP, wide)
    y = b.binary(BinaryFn.DIV, e, b.reduce(ReduceFn.SUM, e, (op.dim,)))
    return y if y.dtype is x.dtype else b.cast(y, x.dtype)
