"""Totals of exact integers, and the formulas of their results, computed by kernels.

What a formula computes of a total, element by element, is computed by the kernel that has the
total, if it would have to be in memory otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace
from functools import singledispatch

from mirage.semantics.integer_formula import LOAD, Formula
from mirage.semantics.integer_totals import IntegerCumulate, IntegerReduce
from mirage.semantics.integers import Integers, MapIntegers, held
from mirage.semantics.ops.op import Op, TensorType, Value
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import (
    BlockGraph,
    KernelGraph,
    Launch,
    Load,
    Output,
    Reshape,
    TileMap,
)
from mirage.transforms.computed_integers import formulas_of, in_memory, lines_of
from mirage.transforms.integer_reductions import reducing
from mirage.transforms.integer_scans import has_scan, scanning


def with_integer_kernels(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` with launches that compute the totals of integers."""
    made = {op: launches for op in graph.ops if (launches := _launches(op))}
    if not made:
        return graph
    readers: dict[Value, list[Op]] = {}
    for op in graph.ops:
        for v in op.operands:
            readers.setdefault(v, []).append(op)
    places = {v: i for i, op in enumerate(graph.ops) for v in op.results}
    beside = _Beside(graph, readers, places, formulas_of(graph), in_memory(graph), lines_of(graph))
    for op, launches in tuple(made.items()):
        formulas = [f for f in beside.formulas(op) if f not in made]
        if not formulas:
            continue
        kept = op.result in graph.outputs or len(formulas) < len(readers[op.result])
        made.update({done: [] for done in (op, *formulas)})
        # where the operands of a formula are there, but for those of several formulas
        made[op if kept or formulas[1:] else formulas[0]] = [
            *launches[:-1], _with(launches[-1], formulas, kept=kept)
        ]  # fmt: skip
    return replace(graph, ops=tuple(new for op in graph.ops for new in made.get(op, [op])))


@singledispatch
def _launches(_: Op) -> list[Launch]:
    return []


@_launches.register
def _(op: IntegerReduce) -> list[Launch]:
    return reducing(op)


@_launches.register
def _(op: IntegerCumulate) -> list[Launch]:
    return scanning(op) if has_scan(op) else []


@dataclass(frozen=True)
class _Beside:
    """Finds the formulas that the kernel of a total can compute."""

    graph: KernelGraph
    readers: Mapping[Value, list[Op]]
    places: Mapping[Value, int]
    made: Mapping[Value, Integers]
    stored: Set[Value]
    positions: Set[Value]

    def formulas(self, op: Op) -> Iterator[Integers]:
        readers = self.readers.get(op.result, [])
        alone = len(readers) == 1 and op.result not in self.graph.outputs
        for reader in readers:
            formula = self.made.get(reader.results[0])
            if formula is None or formula.result not in self.stored:
                continue
            place = self.places[formula.result if alone else op.result]
            if self._has_operands(formula, op, place) and _is_aligned(formula, op.result):
                yield formula

    def _has_operands(self, formula: Integers, op: Op, place: int) -> bool:
        """Return whether the operands other than the total are integers that there are before a
        place, and not positions, which tiles hold as floats."""
        return self.positions.isdisjoint(formula.operands) and all(
            v is op.result or (v.dtype.is_number and self.places.get(v, -1) < place)
            for v in formula.operands
        )


def _is_aligned(formula: Integers, total: Value) -> bool:
    """Return whether the formula has one element for each of the total's, in the same order."""
    found = [
        dims for v, dims in zip(formula.operands, formula.formula.loads, strict=True) if v is total
    ]
    orders = ([d for d in dims if d >= 0] for dims in formula.formula.loads)
    wide = [d for d, n in enumerate(formula.result.shape) if n > 1]
    return (
        len(found) == 1
        and set(wide) <= set(found[0])
        and all(order == sorted(order) for order in orders)
    )


def _with(launch: Launch, formulas: list[Integers], *, kept: bool) -> Launch:
    """Return a launch that computes formulas of its result, too; the result is stored if it is
    ``kept``."""
    (total,), (output,) = launch.results, launch.body.outputs
    ops, params = list(launch.body.ops), dict(zip(launch.operands, launch.body.params, strict=True))
    results, outputs = ([total], [output]) if kept else ([], [])
    for formula in formulas:
        own = next(
            dims
            for v, dims in zip(formula.operands, formula.formula.loads, strict=True)
            if v is total
        )
        where = {d: (output.map[i], output.value.shape[i]) for i, d in enumerate(own) if d >= 0}
        cuts = [where.get(d, ((), 1)) for d in range(len(formula.result.shape))]
        shape = tuple(size for _, size in cuts)
        tiles: list[Value] = []
        for v, dims in zip(formula.operands, formula.formula.loads, strict=True):
            tile = output.value
            if v is not total:
                param = params.setdefault(v, Value(v.type, v.name))
                parts = [cuts[d] if d >= 0 else ((), 1) for d in dims]
                tile = Value(TensorType(tuple(n for _, n in parts), DType.I64))
                ops.append(Load((param,), (tile,), tuple(axes for axes, _ in parts)))
            aligned = tuple(shape[d] if d in dims else 1 for d in range(len(shape)))
            if tile.shape != aligned:
                ops.append(Reshape((tile,), (Value(TensorType(aligned, DType.I64)),)))
                tile = ops[-1].result
            tiles.append(tile)
        steps = (replace(s, args=()) if s.name == LOAD else s for s in formula.formula.steps)
        result = Value(TensorType(shape, held(formula.result.dtype)))
        ops.append(MapIntegers(tuple(tiles), (result,), Formula(tuple(steps))))
        results.append(formula.result)
        tile_map: TileMap = tuple(axes for axes, _ in cuts)
        outputs.append(Output(result, tile_map))
    body = BlockGraph(tuple(params.values()), tuple(ops), tuple(outputs))
    return replace(launch, operands=tuple(params), results=tuple(results), body=body)
