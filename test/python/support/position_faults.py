"""Faults of positions: comparisons, windows, numbers of elements off by one or of another axis, and
steps of loops that are left out."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

from faults import Change, Fault, Scope, Site, sites
from mirage.semantics.positions import Iota, TileIota
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
    Value,
)

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
    """All of a graph."""
    for site in sites(graph):
        op = site.op
        if isinstance(op, Binary):
            yield from _comparisons(op, rng)
        if isinstance(op, (Iota, TileIota)):
            yield from _axes(site, op)
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


def _compares(op: Op) -> bool:
    return isinstance(op, Binary) and op.fn in (*_NUMBERS, BinaryFn.ADD, BinaryFn.SUB)


def _comparisons(op: Binary, rng: random.Random) -> Iterator[Fault]:
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
        by = rng.choice([-3, -2, -1, 1, 2, 3])
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
