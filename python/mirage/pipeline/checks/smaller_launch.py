"""The kernel of a launch at smaller sizes: the same block graph with the same tiles and the same
schedule, but with fewer blocks and fewer steps in its loops.

A dimension of a tensor that axes cut into tiles loses as many whole tiles as the axes lose parts
(:mod:`mirage.semantics.ops.part_counts`), and the sizes in the attributes of a block graph's ops
(where padding begins, how many positions there are) are reduced by the same amount.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from mirage.semantics.ops.kinds import Source, Structure, Tiled, all_ops
from mirage.semantics.ops.op import Op, UnknownOp, Value
from mirage.semantics.ops.part_counts import NothingLeftError, Parts
from mirage.semantics.ugraph import BlockGraph, Launch, TensorType, axis_extents

Sizes = dict[tuple[Value, int], int]
"""The extents of a tensor's dimensions."""


class NotSmallerError(ValueError):
    """A launch that cannot be made with fewer parts; the message says why."""


def smaller(launch: Launch, wanted: Mapping[str, int]) -> Launch:
    """Return ``launch`` with extents of its axes that are at most ``wanted``. Axes along which
    tensors would no longer fit together keep theirs. Raises :class:`NotSmallerError`."""
    before = axis_extents(launch)
    after = {a: min(n, wanted.get(a, n)) for a, n in before.items()}
    tiled = list(_tiled(launch))
    while True:
        sizes, odd = _sizes(tiled, Parts(before, after))
        if not odd:
            break
        after |= {a: before[a] for a in odd}
    try:
        return _resized(launch, Parts(before, after), sizes)
    except (UnknownOp, NothingLeftError) as error:
        raise NotSmallerError(str(error)) from None


def _tiled(launch: Launch) -> Iterator[Tiled]:
    """Return how the operands and results of a launch are cut into tiles."""
    operand = dict(zip(launch.body.params, launch.operands, strict=True))
    for op in all_ops(launch.body.ops):
        loads = op.reads if isinstance(op, Structure) else (op,) if isinstance(op, Source) else ()
        for load in loads:
            yield from (replace(t, tensor=operand[t.tensor]) for t in load.tiled)
    for result, output in zip(launch.results, launch.body.outputs, strict=True):
        for dim, (axes, tile) in enumerate(zip(output.map, output.value.shape, strict=True)):
            yield Tiled(result, dim, axes, tile)


def _sizes(tiled: list[Tiled], parts: Parts) -> tuple[Sizes, set[str]]:
    """Return the reduced sizes, and the axes with fewer parts for which a dimension would have
    several sizes, or none."""
    sizes: Sizes = {}
    odd: set[tuple[Value, int]] = set()
    for t in tiled:
        place = t.tensor, t.dim
        try:
            size = parts.size(t.tensor.shape[t.dim], t.axes, t.tile)
        except NothingLeftError:
            odd.add(place)
            continue
        if sizes.setdefault(place, size) != size:
            odd.add(place)
    axes = {a for t in tiled if (t.tensor, t.dim) in odd for a in t.axes}
    return sizes, {a for a in axes if parts.after[a] < parts.before[a]}


def _resized(launch: Launch, parts: Parts, sizes: Sizes) -> Launch:
    body = launch.body

    def tensor(value: Value) -> Value:
        shape = tuple(sizes.get((value, d), n) for d, n in enumerate(value.shape))
        return Value(TensorType(shape, value.dtype), value.name)

    outside = {v: tensor(v) for v in (*launch.operands, *launch.results)}
    operand = zip(body.params, launch.operands, strict=True)
    inside = {param: Value(outside[v].type, param.name) for param, v in operand}
    ops = tuple(_reading(op.with_parts(parts), inside) for op in body.ops)
    return replace(
        launch,
        operands=tuple(outside[v] for v in launch.operands),
        results=tuple(outside[v] for v in launch.results),
        grid=tuple(axis.with_parts(parts) for axis in launch.grid),
        body=BlockGraph(tuple(inside[p] for p in body.params), ops, body.outputs),
    )


def _reading(op: Op, params: Mapping[Value, Value]) -> Op:
    """Return the op with other tensors."""
    if isinstance(op, Structure):
        op = op.rebuilt(tuple(_reading(i, params) for i in op.inside), lambda v: v)
    return replace(op, operands=tuple(params.get(v, v) for v in op.operands))
