"""Faults of conditions and places: a condition that is left out or negated, exchanged operands of a
comparison, a lost clamp, another base or another half of a table, another segment, a length that is
off by one, inputs that are read one element later, parts that are joined in another order, and
heads that are used as batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mirage.semantics.builder import Builder
from mirage.semantics.positions import Gather, gather
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import (
    Binary,
    Concat,
    Constant,
    KernelGraph,
    Launch,
    Op,
    Reshape,
    Unary,
    Value,
)

from faults.fault import Fault, NotApplicable, Scope, Site, sites

_LOGIC = (BinaryFn.AND, BinaryFn.OR, BinaryFn.XOR)
_ORDERED = (
    BinaryFn.LT, BinaryFn.LE, BinaryFn.SUB, BinaryFn.FLOOR_DIV, BinaryFn.REMAINDER,
)  # fmt: skip
_CLAMPS = (BinaryFn.MAX, BinaryFn.MIN)
_SMALL = 1 << 20
"""A bound for numbers that may be positions, but not scores."""


def index_faults(graph: KernelGraph) -> Iterator[Fault]:
    """Yield all faults of conditions and places in a graph."""
    given = {v for v in graph.inputs if v.dtype.is_integer}
    others = set(graph.inputs) - given
    for site in sites(graph):
        op = site.op
        yield from _shifted(op, others)
        if isinstance(op, Binary):
            yield from _conditions(op)
            yield from _exchanged(site, op)
            yield from _clamps(site, op)
        if isinstance(op, Unary):
            yield from _negations(op)
        if isinstance(op, Gather):
            yield from _bases(op)
        if isinstance(op, Concat):
            yield from _orders(op)
        if isinstance(op, Reshape) and not site.in_block:
            yield from _mixed(op)
        if not isinstance(op, Launch):
            yield from _read(op, given)


def _conditions(op: Binary) -> Iterator[Fault]:
    if op.fn in _LOGIC:
        for i in (0, 1):
            what = f"{op.fn.value} without operand {1 - i}"
            yield Fault("dropped condition", what, op, lambda s, i=i: _whole(s, i))
    if op.fn is BinaryFn.KEEP:
        yield Fault("dropped condition", "keep all", op, lambda s: _whole(s, 1))
        yield Fault("negated condition", "keep the others", op, _kept_others)


def _whole(s: Scope, i: int) -> Value:
    """Return one operand in the shape of the result."""
    x = s.operands[i]
    shape = s.op.results[0].shape
    return x if x.shape == shape else s.builder.broadcast(x, shape)


def _negated(b: Builder, condition: Value) -> Value:
    return b.unary(UnaryFn.NOT, condition)


def _kept_others(s: Scope) -> Value:
    b = s.builder
    return b.binary(BinaryFn.KEEP, _negated(b, s.operands[0]), s.operands[1])


def _negations(op: Unary) -> Iterator[Fault]:
    if op.fn is UnaryFn.NOT:
        yield Fault("negated condition", "not left out", op, lambda s: s.operands[0])
    if op.fn is UnaryFn.BIAS:
        yield Fault("negated condition", "of a mask", op, _masked_others)


def _masked_others(s: Scope) -> Value:
    b, x = s.builder, s.operands[0]
    one = b.constant(1, x.dtype)
    return b.unary(UnaryFn.BIAS, b.binary(BinaryFn.SUB, one, x))


def _exchanged(site: Site, op: Binary) -> Iterator[Fault]:
    """Yield functions of positions with exchanged operands: rows for columns, more for less."""
    if op.fn in _ORDERED and _of_places(site, op):
        yield Fault(
            "exchanged operands", op.fn.value, op,
            lambda s: s.builder.binary(op.fn, s.operands[1], s.operands[0]),
        )  # fmt: skip


def _of_places(site: Site, op: Binary) -> bool:
    """Return whether a function is one of positions: of integers, or (in tiles) a comparison."""
    if not site.in_block:
        return all(v.dtype.is_integer for v in op.operands)
    return op.fn is not BinaryFn.SUB


def _clamps(site: Site, op: Binary) -> Iterator[Fault]:
    if op.fn not in _CLAMPS:
        return
    for i, v in enumerate(op.operands):
        bound = site.maker(v)
        if isinstance(bound, Constant) and abs(bound.value) < _SMALL and bound.value == int(
            bound.value
        ):  # fmt: skip
            yield Fault("lost clamp", op.fn.value, op, lambda s, i=i: _whole(s, 1 - i))
            for by in (-1, 1):
                yield Fault(
                    "lost clamp", f"{op.fn.value} off by {by}", op,
                    lambda s, i=i, n=by: _bound_moved(s, op.fn, i, n),
                )  # fmt: skip


def _bound_moved(s: Scope, fn: BinaryFn, i: int, by: int) -> Value:
    operands = list(s.operands)
    operands[i] = _added(s.builder, operands[i], by)
    return s.builder.binary(fn, operands[0], operands[1])


def _added(b: Builder, x: Value, by: int) -> Value:
    return b.binary(BinaryFn.ADD, x, b.constant(by, DType.F32 if b.in_block else x.dtype))


# ---- tables and inputs


def _bases(op: Gather) -> Iterator[Fault]:
    """Yield lookups of rows from another base, in steps of another size, or in a table that is
    rolled."""
    rows = op.operands[0].shape[0]
    for by in sorted({rows // 2, -(rows // 2), rows} - {0, 1, -1}):
        yield Fault("wrong base", f"{by} on", op, lambda s, n=by: _read_at(s, n, 1))
    yield Fault("wrong base", "every second", op, lambda s: _read_at(s, 0, 2))
    for by in sorted({1, 2, rows - 1}):
        if 0 < by < rows:
            yield Fault("wrong base", f"rolled by {by}", op, lambda s, n=by: _of_rolled(s, n))


def _read_at(s: Scope, by: int, step: int) -> Value:
    b, index = s.builder, s.operands[1]
    if step != 1:
        index = b.binary(BinaryFn.MUL, index, b.constant(step, index.dtype))
    return gather(b, s.operands[0], _added(b, index, by) if by else index)


def _of_rolled(s: Scope, by: int) -> Value:
    return gather(s.builder, rolled(s.builder, s.operands[0], 0, by), s.operands[1])


def rolled(b: Builder, x: Value, dim: int, by: int = 1) -> Value:
    """Return ``x`` with its first ``by`` parts along ``dim`` moved to the end."""
    first = tuple(by if d == dim else n for d, n in enumerate(x.shape))
    rest = tuple(n - by if d == dim else n for d, n in enumerate(x.shape))
    start = tuple(by if d == dim else 0 for d in range(len(x.shape)))
    return b.concat((b.slice(x, start, rest), b.slice(x, (0,) * len(x.shape), first)), dim)


def _read(op: Op, given: set[Value]) -> Iterator[Fault]:
    """Yield faults in which one reader of an integer input gets another segment, or a length that
    is off by one."""
    for i, v in enumerate(op.operands):
        if v not in given or v.dtype is DType.I1:
            continue
        for by in (-1, 1):
            yield Fault("length by one", f"{by}", op, lambda s, i=i, n=by: _with(s, i, n))
        for d, size in enumerate(v.shape):
            for by in sorted({1, size // 2}):
                if 0 < by < size:
                    yield Fault(
                        "wrong segment", f"rolled by {by} along {d}", op,
                        lambda s, i=i, d=d, n=by: _with_rolled(s, i, d, n),
                    )  # fmt: skip


def _with(s: Scope, i: int, by: int) -> Op:
    operands = list(s.operands)
    operands[i] = _added(s.builder, operands[i], by)
    return replace(s.op, operands=tuple(operands))


def _with_rolled(s: Scope, i: int, dim: int, by: int) -> Op:
    operands = list(s.operands)
    operands[i] = rolled(s.builder, operands[i], dim, by)
    return replace(s.op, operands=tuple(operands))


def _shifted(op: Op, given: set[Value]) -> Iterator[Fault]:
    """Yield faults in which one reader of an input reads its parts one element later."""
    for i, v in enumerate(op.operands):
        if v in given:
            for d, size in enumerate(v.shape):
                for by in sorted({1, size - 1}):
                    if 0 < by < size:
                        yield Fault(
                            "shifted read", f"operand {i} by {by} along {d}", op,
                            lambda s, i=i, d=d, n=by: _with_rolled(s, i, d, n),
                        )  # fmt: skip


# ---- orders of parts and of dimensions


def _orders(op: Concat) -> Iterator[Fault]:
    """Yield joins with two parts exchanged, if they fit, or with all of them in reverse order."""
    count = len(op.operands)
    for i in range(count - 1):
        order = (*range(i), i + 1, i, *range(i + 2, count))
        yield Fault(
            "joined in another order", f"{order}", op,
            lambda s, o=order: s.builder.concat(tuple(s.operands[k] for k in o), op.dim),
        )  # fmt: skip


def _mixed(op: Reshape) -> Iterator[Fault]:
    """Yield faults in which two dimensions of the same size are exchanged before they are joined,
    or after one is split."""
    source, shape = op.operands[0].shape, op.result.shape
    for sizes, before in ((source, True), (shape, False)):
        for d in range(len(sizes) - 1):
            if sizes[d] == sizes[d + 1] > 1:
                yield Fault(
                    "head for batch", f"{d} for {d + 1}, {'before' if before else 'after'}", op,
                    lambda s, d=d, first=before: _turned(s, d, first),
                )  # fmt: skip
    for d in range(len(source) - 1):
        if source[d] != source[d + 1] and min(source[d], source[d + 1]) > 1:
            yield Fault("head for batch", f"{d} turned", op, lambda s, d=d: _turned(s, d, True))


def _turned(s: Scope, d: int, before: bool) -> Value:
    b, (x,) = s.builder, s.operands
    shape = s.op.results[0].shape

    def swapped(v: Value) -> Value:
        order = list(range(len(v.shape)))
        order[d], order[d + 1] = d + 1, d
        return b.transpose(v, tuple(order))

    y = b.reshape(swapped(x), shape) if before else swapped(b.reshape(x, shape))
    if y.shape != shape:
        raise NotApplicable
    return y
