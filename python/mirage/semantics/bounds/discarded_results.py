"""Blocks that discard what a loop computes, because a mask behind the loop is false everywhere.

``keep(mask, x)`` is zero where the mask is false, whatever ``x`` is. Where the whole mask is known
to be false, nothing that the kernel stores depends on ``x``, and a loop that computes only such
values may leave out any step: for example, that which multiplies a block of rows that belongs to no
group.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mirage.semantics.bounds.overhanging_tiles import Tile
from mirage.semantics.ops.op import Op
from mirage.semantics.scalar import Array, BinaryFn
from mirage.semantics.ugraph import Launch, Loop, Structure, Value, all_ops

NEVER = np.zeros((), bool)


def discards(launch: Launch, loop: Loop, tiles: Mapping[Value, Tile]) -> Array:
    """Return where no stored element depends on any result of ``loop``; never for a loop that is
    inside of another one. ``tiles`` are the ranges of the launch's values; the result broadcasts
    with their arrays."""
    unused: dict[Value, Array] = {output.value: NEVER for output in launch.body.outputs}
    for op in reversed(launch.body.ops):
        if op.results == loop.results:  # the loop itself, or the same with other bounds
            break
        _follow(op, tiles, unused)
    else:
        return NEVER
    everywhere = np.ones((), bool)
    for result in loop.results:
        everywhere = everywhere & unused.get(result, everywhere)
    return everywhere


def _follow(op: Op, tiles: Mapping[Value, Tile], unused: dict[Value, Array]) -> None:
    """Add where ``op`` does not need its operands, given where its results are ``unused``."""
    if isinstance(op, Structure):
        for inner in all_ops((op,)):
            unused.update(dict.fromkeys(inner.operands, NEVER))
        unused.update(dict.fromkeys(op.ends, NEVER))
        return
    of_results = np.ones((), bool)
    for result in op.results:
        of_results = of_results & unused.get(result, of_results)
    for number, x in enumerate(op.operands):
        here = of_results
        if op.function is BinaryFn.KEEP and number == 1:
            here = here | tiles[op.operands[0]].all.zero
        unused[x] = unused.get(x, np.ones((), bool)) & here
