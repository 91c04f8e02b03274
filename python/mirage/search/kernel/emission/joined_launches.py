"""Two launches as one: each block computes its tile of both, and what both compute is computed
once.

Both have the same schedule, the same numbers of blocks and the same steps in their loops. Their
tiles may differ: 256 blocks compute 16 of 4096 columns and 4 of 1024.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace

from mirage.semantics.ops.block_ops import renamed_map
from mirage.semantics.ugraph import (
    Accumulator,
    BlockGraph,
    Launch,
    Loop,
    Op,
    Output,
    Value,
    loops,
)


def joined(first: Launch, second: Launch) -> Launch | None:
    """Return one launch for two that do not read each other's results; None if their blocks or
    steps do not correspond."""
    if first.schedule != second.schedule or len({*first.operands}) < len(first.operands):
        return None
    if [a.extent for a in first.grid] != [a.extent for a in second.grid]:
        return None
    mine, its = (_in_parts(launch) for launch in (first, second))
    if mine is None or its is None or mine.steps != its.steps:
        return None
    names = {b.name: a.name for a, b in zip(first.grid, second.grid, strict=True)}
    params = dict(zip(first.operands, first.body.params, strict=True))
    same: dict[Value, Value] = {}
    for operand, param in zip(second.operands, second.body.params, strict=True):
        same[param] = params.setdefault(operand, param)
    once, ops = _Once(same, {}), list[Op]()
    for place, (own, other) in enumerate(zip(mine.between, its.between, strict=True)):
        if place:
            pair = mine.loops[place - 1], its.loops[place - 1]
            inside = names | {pair[1].axis.name: pair[0].axis.name}
            ops.append(_one_loop(pair, _Once(same, dict(once.known)), inside))
        ops += [*once.ops(own, {}), *once.ops(other, names)]
    outputs = [Output(same.get(o.value, o.value), o.map) for o in first.body.outputs]
    outputs += [
        Output(same.get(o.value, o.value), renamed_map(o.map, names)) for o in second.body.outputs
    ]
    return replace(
        first,
        operands=tuple(params),
        results=(*first.results, *second.results),
        body=BlockGraph(tuple(params.values()), tuple(ops), tuple(outputs)),
    )


@dataclass(frozen=True)
class _Parts:
    """A block's loops, and the ops before, between and after them."""

    loops: list[Loop]
    between: list[list[Op]]

    @property
    def steps(self) -> list[int]:
        """The numbers of steps of the loops."""
        return [loop.axis.extent for loop in self.loops]


def _in_parts(launch: Launch) -> _Parts | None:
    """Return the parts of a block; None if a loop is in another one, or skips steps."""
    every = [*loops(launch)]
    parts = _Parts([], [[]])
    for op in launch.body.ops:
        loop = next((known for known in every if known is op), None)
        if loop is None:
            parts.between[-1].append(op)
        else:
            parts.loops.append(loop)
            parts.between.append([])
    plain = len(parts.loops) == len(every) and all(loop.steps is None for loop in every)
    return parts if plain else None


def _one_loop(pair: tuple[Loop, Loop], once: _Once, names: Mapping[str, str]) -> Loop:
    """Return one loop that does what two do at each of their steps."""
    first, second = pair
    body = [*once.ops(first.body, {}), *once.ops(second.body, names)]
    sums: dict[tuple[object, ...], tuple[Accumulator, Value]] = {}
    for loop in pair:
        for a, result in zip(loop.accumulators, loop.results, strict=True):
            rescale = None if a.rescale is None else once.same.get(a.rescale, a.rescale)
            mine = Accumulator(a.fn, once.same.get(a.value, a.value), rescale)
            known = sums.setdefault((mine.fn, mine.value, mine.rescale), (mine, result))
            if known[1] is not result:
                once.same[result] = known[1]
    return Loop(
        (), tuple(r for _, r in sums.values()), first.axis, tuple(body),
        tuple(a for a, _ in sums.values()),
    )  # fmt: skip


class _Once:
    """Ops that are written once, whoever computes them. ``same`` maps values to those that stand
    for them, and ``known`` has the results of the ops that were written."""

    def __init__(
        self, same: dict[Value, Value], known: dict[tuple[object, ...], tuple[Value, ...]]
    ) -> None:
        self.same, self.known = same, known

    def ops(self, ops: Iterable[Op], names: Mapping[str, str]) -> list[Op]:
        """Return the ops with other names of axes, without those that were written before."""
        written: list[Op] = []
        for op in ops:
            operands = tuple(self.same.get(v, v) for v in op.operands)
            mine = replace(op.with_axes(names), operands=operands)
            key = (type(mine), operands, *_attributes(mine), *(v.type for v in mine.results))
            results = self.known.setdefault(key, mine.results)
            if results is mine.results:
                written.append(mine)
            else:
                self.same.update(zip(mine.results, results, strict=True))
        return written


def _attributes(op: Op) -> list[object]:
    own = (f.name for f in fields(op) if f.name not in ("operands", "results"))
    return [str(getattr(op, name)) for name in own]
