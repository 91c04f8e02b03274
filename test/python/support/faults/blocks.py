"""Single faults that only block graphs can have: in maps, masks and loops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Axis,
    Load,
    Loop,
    Mask,
    Op,
    RunningMax,
    TensorType,
    TileMap,
    Value,
)

from faults.fault import Fault, Scope, with_accumulator


def block_faults(op: Op) -> Iterator[Fault]:
    """Yield the faults of an op of a block graph, except those that it can also have in a kernel
    graph."""
    match op:
        case Load():
            yield from _load_faults(op)
        case Mask():
            yield from _mask_faults(op)
        case RunningMax():
            yield Fault("missing accumulate", "running maximum", op, lambda s: s.operands[0])
        case Loop():
            yield from _loop_faults(op)
        case _:
            pass


def _load_faults(op: Load) -> Iterator[Fault]:
    for new in wrong_maps(op.map):
        same = sorted(a for g in new for a in g) == sorted(a for g in op.map for a in g)
        yield Fault(
            "wrong axis" if same else "off-by-one map", f"load {op.map} as {new}", op,
            lambda s, m=new: replace(op, operands=s.operands, map=m),
        )  # fmt: skip
    for d, t in enumerate(op.result.shape):
        if op.map[d]:
            tile = (*op.result.shape[:d], t + 1, *op.result.shape[d + 1 :])
            value = Value(TensorType(tile, op.result.dtype))
            yield Fault(
                "off-by-one map", f"tile {tile}", op, lambda s, v=value: _clipped_load(s, v)
            )


def _mask_faults(op: Mask) -> Iterator[Fault]:
    for extent in (op.extent - 1, op.extent + 1):
        yield Fault(
            "mask off by one", f"{extent} for {op.extent}", op,
            lambda s, e=extent: replace(op, operands=s.operands, extent=e),
        )  # fmt: skip
    fill = 0.0 if op.fill != 0.0 else 1.0
    yield Fault(
        "mask off by one", f"fill {fill}", op,
        lambda s: replace(op, operands=s.operands, fill=fill),
    )  # fmt: skip
    yield Fault("dropped operand", "mask", op, lambda s: s.operands[0])
    if len(op.axes) > 1:
        yield Fault(
            "mask off by one", "axes reversed", op,
            lambda s: replace(op, operands=s.operands, axes=op.axes[::-1]),
        )  # fmt: skip


def _loop_faults(op: Loop) -> Iterator[Fault]:
    for i, a in enumerate(op.accumulators):
        for fn in AccumulateFn:
            if fn is a.fn:
                continue
            kind = "missing accumulate" if fn is AccumulateFn.LAST else "wrong reduction"
            other = Accumulator(fn, a.value)
            yield Fault(
                kind, f"{fn.value} for {a.fn.value}", op,
                lambda s, i=i, other=other: with_accumulator(op, i, other),
            )  # fmt: skip
        if a.rescale is not None:
            yield Fault(
                "missing accumulate", "no rescaling", op,
                lambda s, i=i, a=a: with_accumulator(op, i, Accumulator(a.fn, a.value)),
            )  # fmt: skip
    for extent in (op.axis.extent - 1, op.axis.extent + 1):
        yield Fault(
            "off-by-one map", f"loop of {extent}", op,
            lambda s, e=extent: replace(op, axis=Axis(op.axis.name, e)),
        )  # fmt: skip


def _clipped_load(scope: Scope, value: Value) -> Value:
    """Load a tile that is one element too large and cut it to size, so that every part except the
    first starts too late."""
    op = scope.op
    assert isinstance(op, Load)
    scope.builder.ops.append(replace(op, operands=scope.operands, results=(value,)))
    return scope.builder.slice(value, (0,) * len(value.shape), op.result.shape)


def wrong_maps(tile_map: TileMap) -> Iterator[TileMap]:
    """Yield maps with the axes of one dimension reversed, moved to another dimension, or exchanged
    with those of another."""
    for d, axes in enumerate(tile_map):
        if len(axes) > 1:
            yield (*tile_map[:d], axes[::-1], *tile_map[d + 1 :])
        for e in range(d + 1, len(tile_map)):
            new = list(tile_map)
            new[d], new[e] = new[e], new[d]
            if tuple(new) != tile_map:
                yield tuple(new)
    names = [a for axes in tile_map for a in axes]
    for first in names:
        for second in names:
            if first < second:
                swap = {first: second, second: first}
                yield tuple(tuple(swap.get(a, a) for a in axes) for axes in tile_map)
