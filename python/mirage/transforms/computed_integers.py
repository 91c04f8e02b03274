"""Exact arithmetic on integers that something other than a kernel reads, computed by a separate
kernel.

A launch that loads the result of a formula computes it (:mod:`mirage.transforms.lookups`). For all
other readers (the program's caller, calls of PyTorch, lookups, bounds of loops) a kernel writes it,
alone or with a few others of its shape: each block computes one tile and stores it.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from math import ceil, prod

from mirage.semantics.integers import Integers, TileIntegers, held
from mirage.semantics.ops.kinds import Lookup, Source, Structure, View, all_ops
from mirage.semantics.ops.op import Op, TensorType, Value
from mirage.semantics.substitute import without_dead_ops
from mirage.semantics.ugraph import (
    Axis,
    BlockGraph,
    KernelGraph,
    Launch,
    Output,
    Reshape,
    Schedule,
    TileMap,
    launches,
)
from mirage.transforms.counted_positions import counted_positions, with_positions

WARPS = 4
COLUMNS, TILE, BYTES = 512, 2048, 4096
"""The elements of a row, and of all rows and results together, that a block computes, and the bytes
of one operand: a thread loads 32 bytes at once, and more blocks hide the latency better."""
MOST_HELD = 32
"""The most operands of formulas that a thread holds for one tile: each takes two registers."""
TOGETHER = 4
"""The most results of one kernel: each has its own registers until all are stored."""


def read_from_memory(launch: Launch) -> set[Value]:
    """Return the params of a launch that are read from memory even if kernels can compute them:
    tables and indices of lookups, operands of other formulas, integers that bound loops."""
    inside = all_ops(launch.body.ops)
    reading = (
        op for op in inside if op.names_rows is not None or isinstance(op, TileIntegers | Structure)
    )
    return {v for op in reading for v in op.operands}


def with_stored_integers(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` with launches that compute the integers that must be in memory."""
    graph = _with_lines(graph)
    formulas, stored = formulas_of(graph), in_memory(graph)
    if not stored:
        return graph
    lines = lines_of(graph)
    groups = _together(graph, [formulas[v] for v in formulas if v in stored])
    others = {op for ops in groups for op in ops[1:]}
    made: dict[Op, Op] = {ops[0]: computing(ops, lines) for ops in groups}
    return replace(graph, ops=tuple(made.get(op, op) for op in graph.ops if op not in others))


def _with_lines(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` with lines of one element in place of single integers in memory."""
    single = {v for v in in_memory(graph) if not v.shape}
    if not single:
        return graph
    ops: list[Op] = []
    for op in graph.ops:
        if op.results[0] in single:
            line = Value(replace(op.results[0].type, shape=(1,)))
            ops.append(replace(op, results=(line,)))
            op = Reshape((line,), op.results)
        ops.append(op)
    return replace(graph, ops=tuple(ops))


def in_memory(graph: KernelGraph) -> set[Value]:
    """Return the results of formulas that something other than a kernel reads."""
    formulas = formulas_of(graph)
    stored = formulas.keys() & set(graph.outputs)
    for op in graph.ops:
        if isinstance(op, Launch):
            made = {
                p: formulas[v]
                for p, v in zip(op.body.params, op.operands, strict=True)
                if v in formulas
            }
            kept = read_from_memory(op) | _crowded(op, made)
            stored.update(made[p].result for p in kept & made.keys())
        else:
            stored.update(formulas.keys() & set(op.operands))
    return stored


def _crowded(launch: Launch, made: Mapping[Value, Integers]) -> set[Value]:
    """Return the params, ``made`` by formulas, for whose operands a thread has too few registers.
    (The search has chosen the tile as if such a param were a tensor of truth values or small
    integers.)"""
    threads = 32 * launch.schedule.warps
    found: set[Value] = set()
    for op in all_ops(launch.body.ops):
        formula = made.get(op.operands[0]) if isinstance(op, Source) and op.operands else None
        if formula is not None:
            tile = op.result.shape
            loads = (prod(1 if d < 0 else tile[d] for d in dims) for dims in formula.formula.loads)
            if sum(elements // threads for elements in loads) > MOST_HELD:
                found.add(op.operands[0])
    return found


def _together(graph: KernelGraph, formulas: Sequence[Integers]) -> list[list[Integers]]:
    """Group formulas of one shape that a kernel can compute at the place of the first one: their
    operands exist before it."""
    places = {v: i for i, op in enumerate(graph.ops) for v in op.results}
    groups: list[tuple[int, list[Integers]]] = []
    for op in formulas:
        after = max((places.get(v, -1) for v in op.operands), default=-1)
        for place, ops in groups:
            same = ops[0].result.shape == op.result.shape
            if same and after < place and len(ops) < TOGETHER:
                ops.append(op)
                break
        else:
            place, ops = places[op.result], [op]
            groups.append((place, ops))
        places[op.result] = place
    return [ops for _, ops in groups]


def formulas_of(graph: KernelGraph) -> dict[Value, Integers]:
    """Return the formulas of a graph, by their results."""
    return {op.result: op for op in graph.ops if isinstance(op, Integers)}


def lines_of(graph: KernelGraph) -> set[Value]:
    """Return the positions that kernels can compute in formulas."""
    return {
        op.results[0] for op in graph.ops
        if isinstance(op, Lookup) and op.counts_along == 0 and len(op.results[0].shape) == 1
    }  # fmt: skip


def _elements(op: Integers) -> list[Value]:
    """Return the operands of which a formula reads another element for each neighbour."""
    last = len(op.result.shape) - 1
    each = zip(op.operands, op.formula.loads, strict=True)
    return [v for i, (v, dims) in enumerate(each) if i in op.formula.tables or last in dims]


def computing(ops: Sequence[Integers], lines: Container[Value] = frozenset()) -> Launch:
    """Return a launch that computes formulas of one shape tile by tile."""
    shape = ops[0].result.shape
    widest = max(v.dtype.bytes for op in ops for v in (*_elements(op), *op.results))
    most = min(TILE, BYTES // widest) >> (len(ops) - 1).bit_length()
    if len(shape) == 1:
        tile = (_part(shape[0], most),)
    else:
        width = min(shape[-1], COLUMNS)
        padded = 1 << (width - 1).bit_length()
        height = _part(shape[-2], max(most // padded, 1))
        tile = (*(1 for _ in shape[:-2]), height, width)
    parts = tuple(ceil(n / t) for n, t in zip(shape, tile, strict=True))
    names = tuple(f"d{i}" for i in range(len(shape)))
    grid = tuple(Axis(name, n) for name, n in zip(names, parts, strict=True) if n > 1)
    tile_map: TileMap = tuple(
        (name,) if n > 1 else () for name, n in zip(names, parts, strict=True)
    )
    params: dict[Value, Value] = {}

    def param(v: Value) -> Value:
        return params.setdefault(v, Value(v.type, v.name))

    made = tuple(
        op.tile(Value(TensorType(tile, held(op.result.dtype))), tile_map, param, lines)
        for op in ops
    )
    outputs = tuple(Output(op.result, tile_map) for op in made)
    body = BlockGraph(tuple(params.values()), made, outputs)
    results = tuple(op.result for op in ops)
    return Launch(tuple(params), results, grid, body, Schedule(warps=WARPS, stages=1))


def _part(size: int, most: int) -> int:
    """Return the size of tiles of at most ``most``: preferably one that divides ``size``, if it is
    not much smaller; tiles of a dynamic number of rows must divide it."""
    if size <= most:
        return size
    divisor = next(d for d in range(most, 0, -1) if size % d == 0)
    return divisor if 4 * divisor >= most else most


# ---- views


def integers_without_views(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` with formulas in other shapes in place of views of their results that repeat
    or reorder dimensions, or add and drop ones of size 1. Parts of positions are formulas, too."""
    made, counted = formulas_of(graph), counted_positions(graph)
    if not made and not counted:
        return graph
    loaded = {v for op in launches(graph.ops) for v in op.operands}
    ops: list[Op] = []
    for op in graph.ops:
        dims = places(op) if isinstance(op, View) and op.operands[0] in made else None
        if dims is not None:
            source = made[op.operands[0]]
            formula = source.formula.moved(dims)
            op = made[op.results[0]] = Integers(source.operands, op.results, formula)
        elif op.results[0] in counted and op.results[0] in loaded and op.operands:
            formula = counted[op.result].formula(op.result.type)
            op = made[op.result] = Integers((), op.results, formula)
        elif op.results[0] in made:
            op = made[op.results[0]] = with_positions(made[op.results[0]], counted)
        ops.append(op)
    if all(a is b for a, b in zip(ops, graph.ops, strict=True)):
        return graph
    return without_dead_ops(replace(graph, ops=tuple(ops)))


def places(view: View) -> tuple[int, ...] | None:
    """Return, for each dimension of a view's operand, the dimension of the result along which it
    lies, or -1 for one of size 1 that lies along none; None for views that do something else."""
    before, after = view.operands[0].shape, view.results[0].shape
    if view.renames:
        wide = [d for d, n in enumerate(after) if n != 1]
        if [n for n in before if n != 1] != [after[d] for d in wide]:
            return None
        along = iter(wide)
        return tuple(-1 if n == 1 else next(along) for n in before)
    sources = view.source_dims()
    if not view.whole or sources is None:
        return None
    found = {source: d for d, source in sources.items()}
    if any(n != 1 and d not in found for d, n in enumerate(before)):
        return None
    return tuple(-1 if n == 1 else found[d] for d, n in enumerate(before))
