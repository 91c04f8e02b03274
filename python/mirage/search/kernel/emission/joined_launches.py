"""Two launches as one: each block computes its tiles of both, and values that both need are
computed once.

Both have the same schedule, the same numbers of blocks and the same steps in their loops. Their
tiles may differ: 256 blocks compute 16 of 4096 columns and 4 of 1024.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from mirage.search.kernel.emission.computed_once import without_repeats
from mirage.semantics.ops.block_ops import renamed_map
from mirage.semantics.ugraph import (
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
    both: list[Op] = []
    for place, (own, other) in enumerate(zip(mine.between, its.between, strict=True)):
        if place:
            both.append(_one_loop(mine.loops[place - 1], its.loops[place - 1], names))
        both += [*own, *_with_axes(other, names)]
    ops = without_repeats(both, same)
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


def _one_loop(first: Loop, second: Loop, names: Mapping[str, str]) -> Loop:
    """Return one loop that does what two do at each of their steps."""
    body = _with_axes(second.body, {**names, second.axis.name: first.axis.name})
    return replace(
        first,
        results=(*first.results, *second.results),
        body=(*first.body, *body),
        accumulators=(*first.accumulators, *second.accumulators),
    )


def _with_axes(ops: Iterable[Op], names: Mapping[str, str]) -> list[Op]:
    return [op.with_axes(names) for op in ops]
