"""Faults of positions: comparisons, windows, numbers of elements that are off by one or belong to
another axis, heads in place of batches, rows of other indices, and steps of loops that are left
out.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from mirage.semantics.builder import Builder
from mirage.semantics.positions import Gather, Iota, TileGather, TileIota, gather
from mirage.semantics.scalar import BinaryFn, DType
from mirage.semantics.ugraph import (
    Axis,
    Binary,
    Constant,
    KernelGraph,
    Launch,
    Loop,
    Op,
    StepNumber,
    Transpose,
    Value,
)

from faults.fault import Change, Fault, Scope, Site, sites

_OTHER = {
    BinaryFn.LT: (BinaryFn.LE, BinaryFn.NE),
    BinaryFn.LE: (BinaryFn.LT, BinaryFn.EQ),
    BinaryFn.EQ: (BinaryFn.LE, BinaryFn.NE),
    BinaryFn.NE: (BinaryFn.EQ, BinaryFn.LT),
    BinaryFn.AND: (BinaryFn.OR, BinaryFn.XOR),
    BinaryFn.OR: (BinaryFn.AND, BinaryFn.XOR),
    BinaryFn.XOR: (BinaryFn.OR, BinaryFn.AND),
    BinaryFn.FLOOR_DIV: (BinaryFn.REMAINDER,),
    BinaryFn.REMAINDER: (BinaryFn.FLOOR_DIV,),
}
_NUMBERS = (
    BinaryFn.LT, BinaryFn.LE, BinaryFn.EQ, BinaryFn.NE, BinaryFn.FLOOR_DIV, BinaryFn.REMAINDER,
)  # fmt: skip


def position_faults(graph: KernelGraph, rng: random.Random) -> Iterator[Fault]:
    """Yield all faults of positions in a graph."""
    for site in sites(graph):
        op = site.op
        if isinstance(op, Binary):
            yield from _comparisons(op)
        if isinstance(op, (Iota, TileIota)):
            yield from _axes(site, op)
            for by in (-4, -3, -2, -1, 1, 2, 3):
                yield Fault("shifted window", f"by {by}", op, lambda s, n=by: _shifted(s, n))
        if isinstance(op, Gather):
            yield from _rows(op)
        if isinstance(op, TileGather):
            yield from _tiles(op)
        if isinstance(op, Transpose):
            yield from _heads(op)
        if isinstance(op, Constant) and any(_compares(u) for u in site.users.get(op.result, ())):
            for by in (-1, 1, 2):
                yield Fault(
                    "position off by one",
                    f"{op.value} by {by}",
                    op,
                    lambda s, o=op, n=by: replace(o, value=o.value + n),
                )
        if isinstance(op, Loop) and op.steps is not None:
            yield from _steps(op)
        if isinstance(op, Launch):
            yield from _grids(op)
            yield from _given(op)


def _compares(op: Op) -> bool:
    return isinstance(op, Binary) and op.fn in (*_NUMBERS, BinaryFn.ADD, BinaryFn.SUB)


def _comparisons(op: Binary) -> Iterator[Fault]:
    for fn in _OTHER.get(op.fn, ()):
        yield Fault(
            "wrong comparison",
            f"{fn.value} for {op.fn.value}",
            op,
            lambda s, f=fn: s.builder.binary(f, s.operands[0], s.operands[1]),
        )
    if op.fn not in _NUMBERS:
        return
    for i in (0, 1):
        for by in (-3, -2, -1, 1, 2, 3):
            yield Fault(
                "position off by one",
                f"operand {i} of {op.fn.value} by {by}",
                op,
                lambda s, i=i, n=by: _moved(s, op.fn, i, n),
            )


def _moved(s: Scope, fn: BinaryFn, i: int, by: int) -> Value:
    b, operands = s.builder, list(s.operands)
    dtype = DType.F32 if b.in_block else DType.I64
    operands[i] = b.binary(BinaryFn.ADD, operands[i], b.constant(by, dtype))
    return b.binary(fn, operands[0], operands[1])


def _axes(site: Site, op: Iota | TileIota) -> Iterator[Fault]:
    for d in range(len(op.result.shape)):
        if d != op.dim:
            yield Fault("wrong axis", f"positions along {d}", op, _as(op, dim=d))
    if isinstance(op, Iota):
        return
    yield Fault("position off by one", "ends too early", op, _as(op, extent=op.extent - 1))
    choices = {op.axes[::-1], op.axes[1:], op.axes[:-1]}
    choices |= {(*op.axes[:-1], axis) for axis in site.axes}
    for axes in sorted(choices - {op.axes}):
        yield Fault("wrong axis", f"positions by {axes}", op, _as(op, axes=axes))


def _shifted(s: Scope, by: int) -> Value:
    """Shift the positions for all readers, so that both ends of a window move."""
    position = replace(s.op, operands=(), results=(Value(s.op.results[0].type),))
    s.builder.ops.append(position)
    number = s.builder.constant(by, position.results[0].dtype)
    return s.builder.binary(BinaryFn.ADD, position.results[0], number)


def _rows(op: Gather) -> Iterator[Fault]:
    """Yield lookups of rows in other pages: the next page, pages in another order, or an index of
    another line."""
    table, index = op.operands
    for by in (-1, 1):
        yield Fault(
            "wrong row", f"{by} beside", op,
            lambda s, n=by: gather(s.builder, s.operands[0], _beside(s, n)),
        )  # fmt: skip
    for d, size in enumerate(index.shape):
        if size > 1:
            yield Fault(
                "wrong row", f"rolled along {d}", op, lambda s, d=d: _rows_rolled(s, 1, d)
            )  # fmt: skip
    if len(table.shape) > 1 and table.shape[1] > 1:
        yield Fault(
            "wrong row", "rolled inside of rows", op, lambda s: _rows_rolled(s, 0, 1)
        )  # fmt: skip


def _rows_rolled(s: Scope, operand: int, dim: int) -> Value:
    operands = list(s.operands)
    operands[operand] = _rolled(s.builder, operands[operand], dim)
    return gather(s.builder, *operands)


def _beside(s: Scope, by: int) -> Value:
    index = s.operands[1]
    return s.builder.binary(BinaryFn.ADD, index, s.builder.constant(by, index.dtype))


def _rolled(b: Builder, x: Value, dim: int) -> Value:
    """Return ``x`` with its first part along ``dim`` moved to the end."""
    first = tuple(1 if d == dim else n for d, n in enumerate(x.shape))
    rest = tuple(n - 1 if d == dim else n for d, n in enumerate(x.shape))
    start = tuple(int(d == dim) for d in range(len(x.shape)))
    return b.concat((b.slice(x, start, rest), b.slice(x, (0,) * len(x.shape), first)), dim)


def _given(op: Launch) -> Iterator[Fault]:
    """Return a kernel that gets other indices."""
    for i, v in enumerate(op.operands):
        if v.dtype.is_integer and v.dtype is not DType.I1:
            for by in (-1, 1):
                yield Fault("wrong row", f"{by} beside", op, lambda s, i=i, n=by: _get(s, i, n))
            for d, size in enumerate(v.shape):
                if size > 1:
                    change = lambda s, i=i, d=d: _get(s, i, 0, d)  # noqa: E731
                    yield Fault("wrong row", f"rolled along {d}", op, change)


def _get(s: Scope, i: int, by: int, dim: int = 0) -> Op:
    b, operands = s.builder, list(s.operands)
    v = operands[i]
    new = b.binary(BinaryFn.ADD, v, b.constant(by, v.dtype)) if by else _rolled(b, v, dim)
    operands[i] = new
    return replace(s.op, operands=tuple(operands))


def _tiles(op: TileGather) -> Iterator[Fault]:
    """Yield rows by an index of another tile, and another part of rows."""
    names = [a for axes in op.map for a in axes]
    for d, axes in enumerate(op.map):
        if axes:
            without = (*op.map[:d], (), *op.map[d + 1 :])
            yield Fault("wrong row", f"always the first along {d}", op, _as(op, map=without))
        for other in sorted({*names} - {*axes}):
            instead = (*op.map[:d], (other,), *op.map[d + 1 :])
            yield Fault("wrong row", f"{other} along {d}", op, _as(op, map=instead))


def _heads(op: Transpose) -> Iterator[Fault]:
    """Yield faults in which dimensions of the same size are confused."""
    shape, order = op.result.shape, op.permutation
    for d in range(len(order)):
        for e in range(d + 1, len(order)):
            if shape[d] == shape[e] > 1:
                swapped = list(order)
                swapped[d], swapped[e] = swapped[e], swapped[d]
                yield Fault(
                    "head for batch", f"{d} for {e}", op, _as(op, permutation=tuple(swapped))
                )


def _as(op: Op, **fields: object) -> Change:
    return lambda s: replace(op, operands=s.operands, **fields)


def _steps(op: Loop) -> Iterator[Fault]:
    steps = op.steps
    assert steps is not None
    for end in ("first", "end"):
        number: StepNumber = getattr(steps, end)
        changed = [replace(number, constant=number.constant + n) for n in (-1, 1)]
        changed += [replace(number, constant=number.constant + n * number.divisor) for n in (-1, 1)]
        changed += [replace(number, divisor=number.divisor + n) for n in (-1, 1)]
        changed += [
            replace(number, terms=tuple((axis, factor + n) for axis, factor in number.terms))
            for n in (-1, 1)
        ]
        changed += [
            replace(number, quotients=tuple((replace(q, constant=q.constant + n), f)
                                            for q, f in number.quotients))
            for n in (-1, 1)
        ]  # fmt: skip
        for new in changed:
            if new != number and new.divisor >= 1:
                other = replace(steps, **{end: new})
                what = f"{end} {new} for {number}"
                yield Fault("wrong steps", what, op, _as(op, steps=other))
    yield Fault("wrong steps", "exchanged", op, _as(op, steps=replace(steps, end=steps.first)))
    yield Fault("wrong steps", "all of them", op, _as(op, steps=None))


def _grids(op: Launch) -> Iterator[Fault]:
    for i, axis in enumerate(op.grid):
        if axis.extent > 1:
            grid = (*op.grid[:i], Axis(axis.name, axis.extent + 1), *op.grid[i + 1 :])
            yield Fault("off-by-one map", f"{axis.name} of {axis.extent + 1}", op, _grid(op, grid))


def _grid(op: Launch, grid: tuple[Axis, ...]) -> Change:
    return lambda s: replace(op, operands=s.operands, grid=grid)
