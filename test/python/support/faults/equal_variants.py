"""Changes that change nothing, which a verifier must accept: operands that are commuted, sums and
products that are associated differently or divided in two, factors that are moved where that is
exact, functions that are written in terms of others, data that is moved back and forth, and blocks
in another order.

They are :class:`fault.Fault` objects like those that do change something; the oracle decides
whether the result is numerically as good as before.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BINARY, UNARY, BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import (
    Binary,
    KernelGraph,
    Launch,
    Load,
    Matmul,
    Reduce,
    Softmax,
    Unary,
    Value,
)

from faults.fault import Fault, NotApplicable, Scope, Site, again, sites

_ASSOCIATIVE = (BinaryFn.ADD, BinaryFn.MUL, BinaryFn.MAX)


def equal_variants(graph: KernelGraph, rng: random.Random) -> Iterator[Fault]:
    """Yield all equal variants of a graph."""
    for site in sites(graph):
        op = site.op
        if isinstance(op, Binary):
            yield from _binary(site, op, rng)
        if isinstance(op, Unary):
            yield from _unary(op)
        if isinstance(op, Matmul):
            yield from _products(op)
        if isinstance(op, Reduce):
            yield from _reductions(op)
        if isinstance(op, Softmax):
            yield Fault("written out", "softmax", op, lambda s, o=op: _softmax(s, o))
        if isinstance(op, Launch) and len(op.grid) > 1:
            order = tuple(rng.sample(op.grid, len(op.grid)))
            yield Fault(
                "blocks in another order",
                ", ".join(a.name for a in order),
                op,
                lambda s, o=op, g=order: replace(o, operands=s.operands, grid=g),
            )
        if isinstance(op, (Binary, Unary, Load, Matmul, Reduce)):
            yield from _there_and_back(site, rng)


# ---- functions of two


def _binary(site: Site, op: Binary, rng: random.Random) -> Iterator[Fault]:
    if BINARY[op.fn].commutes:
        yield Fault(
            "commuted",
            op.fn.value,
            op,
            lambda s: s.builder.binary(op.fn, s.operands[1], s.operands[0]),
        )
    if op.fn in _ASSOCIATIVE:
        for i in (0, 1):
            inner = site.maker(op.operands[i])
            if isinstance(inner, Binary) and inner.fn is op.fn:
                j = rng.choice((0, 1))
                yield Fault(
                    "reassociated",
                    op.fn.value,
                    op,
                    lambda s, m=inner, i=i, j=j: _reassociated(s, m, 1 - i, j),
                )
    if op.fn is BinaryFn.MUL:
        for i in (0, 1):
            inner = site.maker(op.operands[i])
            if isinstance(inner, Binary) and inner.fn in (BinaryFn.ADD, BinaryFn.SUB):
                yield Fault(
                    "factor moved",
                    f"into {inner.fn.value}",
                    op,
                    lambda s, m=inner, i=i: _distributed(s, m, 1 - i),
                )
            if isinstance(inner, Matmul) and not op.operands[1 - i].shape:
                yield Fault(
                    "factor moved",
                    "into a product",
                    op,
                    lambda s, m=inner, i=i: _into_product(s, m, 1 - i),
                )
    if op.fn is BinaryFn.SUB:
        yield Fault(
            "written out",
            "sub",
            op,
            lambda s: s.builder.binary(
                BinaryFn.ADD, s.operands[0], s.builder.unary(UnaryFn.NEG, s.operands[1])
            ),
        )
    if op.fn is BinaryFn.DIV:
        yield Fault(
            "written out",
            "div",
            op,
            lambda s: s.builder.binary(
                BinaryFn.MUL, s.operands[0], s.builder.unary(UnaryFn.RECIPROCAL, s.operands[1])
            ),
        )


def _reassociated(s: Scope, m: Binary, rest: int, j: int) -> Value:
    b = s.builder
    x, y = s.rebuilt(m.operands[j]), s.rebuilt(m.operands[1 - j])
    return b.binary(m.fn, x, b.binary(m.fn, y, s.operands[rest]))


def _distributed(s: Scope, m: Binary, factor: int) -> Value:
    b, c = s.builder, s.operands[factor]
    x, y = (b.binary(BinaryFn.MUL, s.rebuilt(v), c) for v in m.operands)
    return b.binary(m.fn, x, y)


def _into_product(s: Scope, m: Matmul, factor: int) -> Value:
    a, b = (s.rebuilt(v) for v in m.operands)
    wide = a if a.dtype in (DType.F32, DType.F64) else s.builder.cast(a, DType.F32)
    y = s.builder.matmul(s.builder.binary(BinaryFn.MUL, wide, s.operands[factor]), b)
    return y if y.dtype is s.op.result.dtype else s.builder.cast(y, s.op.result.dtype)


# ---- functions of one

_WRITTEN: dict[UnaryFn, Callable[[Builder, Value], Value]] = {
    UnaryFn.SQUARE: lambda b, x: b.binary(BinaryFn.MUL, x, x),
    UnaryFn.NEG: lambda b, x: b.binary(BinaryFn.MUL, x, b.constant(-1.0)),
    UnaryFn.RECIPROCAL: lambda b, x: b.binary(BinaryFn.DIV, b.constant(1.0), x),
    **{fn: row.definition for fn, row in UNARY.items() if row.definition is not None},
}


def _unary(op: Unary) -> Iterator[Fault]:
    definition = _WRITTEN.get(op.fn)
    if definition is None:
        return

    def written(s: Scope) -> Value:
        x = s.operands[0]
        half = not s.builder.in_block and x.dtype.is_half
        y = definition(s.builder, s.builder.cast(x, DType.F32) if half else x)
        return y if y.dtype is op.result.dtype else s.builder.cast(y, op.result.dtype)

    yield Fault("written out", op.fn.value, op, written)


def _softmax(s: Scope, op: Softmax) -> Value:
    b, x = s.builder, s.operands[0]
    wide = x if x.dtype in (DType.F32, DType.F64) else b.cast(x, DType.F32)
    most = b.reduce(ReduceFn.MAX, wide, (op.dim,))
    e = b.unary(UnaryFn.EXP, b.binary(BinaryFn.SUB, wide, most))
    inverse = b.unary(UnaryFn.RECIPROCAL, b.reduce(ReduceFn.SUM, e, (op.dim,)))
    y = b.binary(BinaryFn.MUL, e, inverse)
    return y if y.dtype is x.dtype else b.cast(y, x.dtype)


# ---- products and sums


def _flipped(b: Builder, x: Value) -> Value:
    rank = len(x.shape)
    return b.transpose(x, (*range(rank - 2), rank - 1, rank - 2))


def _products(op: Matmul) -> Iterator[Fault]:
    yield Fault(
        "transposed product",
        "",
        op,
        lambda s: _flipped(
            s.builder,
            s.builder.matmul(
                _flipped(s.builder, s.operands[1]), _flipped(s.builder, s.operands[0])
            ),
        ),
    )
    k = op.operands[0].shape[-1]
    if k > 1 and op.result.dtype in (DType.F32, DType.F64):  # no partial sum in 16 bits
        yield Fault("sum cut in two", "matmul", op, lambda s: _two_products(s, k // 2))


def _two_products(s: Scope, h: int) -> Value:
    x, y = s.operands
    b, k = s.builder, x.shape[-1]
    parts: list[Value] = []
    for a, e in ((0, h), (h, k)):
        left = _part(b, x, len(x.shape) - 1, a, e)
        parts.append(b.matmul(left, _part(b, y, len(y.shape) - 2, a, e)))
    return b.binary(BinaryFn.ADD, *parts)


def _part(b: Builder, x: Value, dim: int, start: int, end: int) -> Value:
    sizes = [end - start if d == dim else n for d, n in enumerate(x.shape)]
    return b.slice(x, tuple(start if d == dim else 0 for d in range(len(sizes))), tuple(sizes))


def _reductions(op: Reduce) -> Iterator[Fault]:
    (x,) = op.operands
    exact = op.fn is ReduceFn.MAX or op.result.dtype in (DType.F32, DType.F64)
    dim = op.dims[0]
    if exact and x.shape[dim] > 1:
        yield Fault("sum cut in two", op.fn.value, op, lambda s: _two_reductions(s, op, dim))
    if exact and len(op.dims) > 1:
        yield Fault(
            "reassociated",
            f"{op.fn.value} over one dimension after the other",
            op,
            lambda s: s.builder.reduce(
                op.fn, s.builder.reduce(op.fn, s.operands[0], op.dims[:1]), op.dims[1:]
            ),
        )


def _two_reductions(s: Scope, op: Reduce, dim: int) -> Value:
    b, x = s.builder, s.operands[0]
    h, n = x.shape[dim] // 2, x.shape[dim]
    parts = (b.reduce(op.fn, _part(b, x, dim, a, e), op.dims) for a, e in ((0, h), (h, n)))
    return b.binary(BinaryFn.ADD if op.fn is ReduceFn.SUM else BinaryFn.MAX, *parts)


# ---- there and back


def _twice(b: Builder, x: Value) -> Value:
    return b.unary(UnaryFn.NEG, b.unary(UnaryFn.NEG, x))


def _joined(b: Builder, x: Value) -> Value:
    dim = len(x.shape) - 1
    if dim < 0 or x.shape[dim] < 2:
        raise NotApplicable
    h = x.shape[dim] // 2
    return b.concat((_part(b, x, dim, 0, h), _part(b, x, dim, h, x.shape[dim])), dim)


def _flat(b: Builder, x: Value) -> Value:
    if len(x.shape) < 2:
        raise NotApplicable
    return b.reshape(b.reshape(x, (x.type.size,)), x.shape)


def _turned(b: Builder, x: Value) -> Value:
    if len(x.shape) < 2:
        raise NotApplicable
    order = tuple(reversed(range(len(x.shape))))
    return b.transpose(b.transpose(x, order), order)


def _doubled(b: Builder, x: Value) -> Value:
    wide = b.cast(x, DType.F32) if x.dtype.is_half else x  # twice the largest number is none
    return b.binary(BinaryFn.MUL, b.binary(BinaryFn.ADD, wide, wide), b.constant(0.5))


_NOTHING: dict[str, Callable[[Builder, Value], Value]] = {
    "negated twice": _twice,
    "the larger of itself": lambda b, x: b.binary(BinaryFn.MAX, x, x),
    "times one": lambda b, x: b.binary(BinaryFn.MUL, x, b.constant(1.0)),
    "doubled and halved": _doubled,
    "cut and joined": _joined,
    "in one row": _flat,
    "turned twice": _turned,
}


def _there_and_back(site: Site, rng: random.Random) -> Iterator[Fault]:
    name = rng.choice(list(_NOTHING))

    def change(s: Scope) -> Value:
        x = again(s, site.in_block)
        if x.dtype.is_integer:
            raise NotApplicable
        y = _NOTHING[name](s.builder, x)
        return y if y.dtype is x.dtype else s.builder.cast(y, x.dtype)

    yield Fault("there and back", name, site.op, change)
