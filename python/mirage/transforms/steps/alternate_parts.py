"""Parts of a loop that take turns, where an integer that is read decides how many steps there are.

A loop that is divided among blocks gives each of them a row of consecutive steps. If it ends at a
length that is known when the kernel runs, the last blocks then have nothing to do, and the first
ones everything. If block ``p`` of ``P`` takes the steps ``p``, ``p + P``, ``p + 2 P``, … instead,
all of them have the same number of steps, except for one. Each part then has other steps, so its
results must be read as a whole, by kernels whose blocks have all parts; that these add them up is
what the verifier shows of the candidate. (Decoding of 32 sequences of 1 to 8192
keys in four parts on an H200: 143.4 µs in rows, 138.1 in turns.)
"""

from __future__ import annotations

from dataclasses import replace

from mirage.semantics.bounds.idle_steps import are_idle, positions_of
from mirage.semantics.bounds.tile_ranges import Positions
from mirage.semantics.ops.op import Op
from mirage.semantics.ugraph import (
    AccumulateFn,
    KernelGraph,
    Launch,
    Loop,
    Scan,
    StepNumber,
    Value,
    all_ops,
    axis_extents,
    launches,
    loops,
)
from mirage.transforms.steps.step_lines import reduced


def with_alternating_parts(graph: KernelGraph, known: Positions) -> KernelGraph:
    """Return ``graph`` with the steps of loops dealt out to blocks in turns where that is possible
    and the number of steps is read; ``graph`` itself if there is no such loop. ``known`` are
    tensors that hold positions, besides those that the graph computes itself."""
    known = {**known, **positions_of(graph.ops)}
    changed = dict[Op, Op]((op, _in_launch(graph, op, known)) for op in launches(graph.ops))
    ops = tuple(changed.get(op, op) for op in graph.ops)
    same = all(a is b for a, b in zip(ops, graph.ops, strict=True))
    return graph if same else replace(graph, ops=ops)


def _in_launch(graph: KernelGraph, launch: Launch, known: Positions) -> Launch:
    pairs = zip(launch.body.params, launch.operands, strict=True)
    positions = {param: known[tensor] for param, tensor in pairs if tensor in known}
    for loop in loops(launch):
        turned = _alternating(graph, launch, loop)
        if turned is None or loop not in launch.inside:
            continue
        inside = tuple(turned if op is loop else op for op in launch.inside)
        changed = launch.rebuilt(inside, lambda value: value)
        if are_idle(changed, turned, positions):
            launch = changed
    return launch


def _alternating(graph: KernelGraph, launch: Launch, loop: Loop) -> Loop | None:
    """Return the loop with its steps dealt out in turns; None if that is not possible."""
    if loop.steps is None or not loop.steps.readings or _has_an_order(loop):
        return None
    axis, extents = loop.axis.name, axis_extents(launch)
    grid, body = {a.name for a in launch.grid}, set(all_ops(loop.body))
    parts = {part for op in all_ops(loop.body) for part in op.reads_axes & grid}
    parts -= {a for op in all_ops(launch.inside) if op not in body for a in op.reads_axes}
    parts -= {a for reading in loop.steps.readings for a in reading.axes}
    for part in sorted(parts):
        together = all(_together(op, part, axis) for op in all_ops(loop.body))
        if not together or not _are_read_together(graph, launch, part):
            continue
        extent = loop.axis.extent
        first = _in_turns(loop.steps.first, part, extent, extents[part])
        end = _in_turns(loop.steps.end, part, extent, extents[part])
        if first is not None and end is not None:
            ops = tuple(op.with_axes({part: axis, axis: part}) for op in loop.body)
            return replace(loop, body=ops, steps=replace(loop.steps, first=first, end=end))
    return None


def _are_read_together(graph: KernelGraph, launch: Launch, part: str) -> bool:
    """Return whether all results have a dimension of parts, which nothing but other kernels reads,
    and each of their blocks as a whole."""
    for result, output in zip(launch.results, launch.body.outputs, strict=True):
        dims = [dim for dim, axes in enumerate(output.map) if part in axes]
        if len(dims) != 1 or output.map[dims[0]] != (part,) or result in graph.outputs:
            return False
        readers = [op for op in graph.ops if result in op.operands]
        kernels = [op for op in launches(graph.ops) if result in op.operands]
        if not readers or len(kernels) < len(readers):
            return False
        if not all(_reads_whole(kernel, result, dims[0]) for kernel in kernels):
            return False
    return True


def _reads_whole(kernel: Launch, tensor: Value, dim: int) -> bool:
    """Return whether no grid axis of a kernel cuts a dimension of a tensor that it reads."""
    grid = {a.name for a in kernel.grid}
    pairs = zip(kernel.body.params, kernel.operands, strict=True)
    params = {param for param, operand in pairs if operand is tensor}
    for op in all_ops(kernel.inside):
        if params.intersection(op.operands):
            cuts = op.reads_along
            if len(cuts) != len(tensor.shape) or grid.intersection(cuts[dim]):
                return False
    return True


def _has_an_order(loop: Loop) -> bool:
    """Return whether results depend on the order of the steps, apart from rounding, or steps
    contain loops."""
    maxima = {a.rescale for a in loop.accumulators}
    scans = {op.result for op in loop.body if isinstance(op, Scan)}
    last = {a.value for a in loop.accumulators if a.fn is AccumulateFn.LAST}
    return not maxima >= scans | last or len(loop.body) < len([*all_ops(loop.body)])


def _together(op: Op, part: str, axis: str) -> bool:
    """Return whether an op reads ``part`` and ``axis`` only one after the other, if at all."""
    both = [[a for a in axes if a in (part, axis)] for axes in op.reads_along]
    return all(x in ([], [part, axis]) for x in both)


def _in_turns(number: StepNumber, part: str, extent: int, parts: int) -> StepNumber | None:
    """Return which of a block's own steps ``number`` is, which is relative to the first step of its
    row of ``extent`` steps: of ``n`` steps, part ``p`` has ``(n - p + parts - 1) / parts`` of them.
    None if the number is not that of one step of all parts."""
    if number == StepNumber((), 0) or number == StepNumber((), extent):
        return number
    if dict(number.terms).get(part, 0) != -extent * number.divisor:
        return None
    every = number.plus(StepNumber(((part, extent),)))
    return reduced(every.plus(StepNumber(((part, -1),), parts - 1)).over(parts))
