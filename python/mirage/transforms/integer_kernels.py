"""Totals of exact integers, and the formulas of their results, computed by kernels.

The kernel that has a total also computes formulas of it, element by element, if their results would
otherwise have to be in memory.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import singledispatch
from itertools import chain

from mirage.semantics.argsort import Argsort
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
from mirage.transforms.integer_rows import Rows
from mirage.transforms.integer_scans import has_scan, scanning
from mirage.transforms.sorting_kernels import sorting


def with_integer_kernels(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` with launches that compute the totals of integers."""
    beside = _Beside.of(graph)
    kernels = list(_kernels(graph, beside))
    if not kernels:
        return graph
    made: dict[Op, list[Launch]] = {
        op: [] for kernel in kernels for op in (*kernel.totals, *kernel.between)
    }
    for kernel in kernels:
        found = [(op, f) for op in kernel.totals for f in beside.formulas(op) if f not in made]
        formulas = [f for _, f in found]
        kept = {
            op.result for op in kernel.totals
            if op.result in graph.outputs
            or not {*formulas, *kernel.between}.issuperset(beside.readers.get(op.result, ()))
        }  # fmt: skip
        made.update({formula: [] for formula in formulas})
        # where the operands of a formula exist, except those that several formulas compute
        alone = len(kernel.totals) == 1 and len(formulas) == 1 and not kept
        made[formulas[0] if alone else kernel.totals[0]] = [
            *kernel.launches[:-1],
            _with(kernel.launches[-1], [(op.result, f) for op, f in found], kept),
        ]
    return replace(graph, ops=tuple(new for op in graph.ops for new in made.get(op, [op])))


@dataclass(frozen=True)
class _Kernel:
    """The launches that compute totals, and formulas ``between`` these."""

    totals: Sequence[Op]
    launches: Sequence[Launch]
    between: Sequence[Op] = ()


def _kernels(graph: KernelGraph, beside: _Beside) -> Iterator[_Kernel]:
    several: set[Op] = set()
    for rows in beside.rows():
        launches = rows.launches(beside.positions)
        if launches:
            several.update(rows.totals)
            between = tuple(rows.formulas[op.operands[0]] for op in rows.totals[1:])
            yield _Kernel(rows.totals, launches, between)
    for op in graph.ops:
        if op not in several and (launches := _launches(op)):
            yield _Kernel((op,), launches)


@singledispatch
def _launches(_: Op) -> list[Launch]:
    return []


@_launches.register
def _(op: IntegerReduce) -> list[Launch]:
    return reducing(op)


@_launches.register
def _(op: IntegerCumulate) -> list[Launch]:
    return scanning(op) if has_scan(op) else []


@_launches.register
def _(op: Argsort) -> list[Launch]:
    return sorting(op)


@singledispatch
def _reductions(_: Op) -> list[IntegerReduce]:
    return []


@_reductions.register
def _(op: IntegerReduce) -> list[IntegerReduce]:
    return [op]


@dataclass(frozen=True)
class _Beside:
    """Finds the formulas that the kernel of a total can compute, and other totals."""

    graph: KernelGraph
    readers: Mapping[Value, list[Op]]
    places: Mapping[Value, int]
    made: Mapping[Value, Integers]
    stored: Set[Value]
    positions: Set[Value]

    @staticmethod
    def of(graph: KernelGraph) -> _Beside:
        readers: dict[Value, list[Op]] = {}
        for op in graph.ops:
            for v in op.operands:
                readers.setdefault(v, []).append(op)
        places = {v: i for i, op in enumerate(graph.ops) for v in op.results}
        made = formulas_of(graph)
        return _Beside(graph, readers, places, made, in_memory(graph), lines_of(graph))

    def formulas(self, op: Op) -> Iterator[Integers]:
        """Return the formulas of a total."""
        readers = self.readers.get(op.result, [])
        alone = len(readers) == 1 and op.result not in self.graph.outputs
        for reader in readers:
            formula = self.made.get(reader.results[0])
            if formula is None or formula.result not in self.stored:
                continue
            place = self.places[formula.result if alone else op.result]
            others = set(formula.operands) - {op.result}
            if (
                self.positions.isdisjoint(others)
                and self._are_there(others, place)
                and _is_aligned(formula, op.result)
            ):
                yield formula

    def rows(self) -> Iterator[Rows]:
        """Return reductions of rows, together with reductions of formulas of these rows and their
        totals."""
        groups: dict[Op, list[IntegerReduce]] = {}
        for op in chain.from_iterable(map(_reductions, self.graph.ops)):
            group = next((g for g in groups.values() if self._is_of(op, g)), [])
            group.append(op)
            groups.setdefault(group[0], group)
        for first, *others in groups.values():
            if others:
                rows = [op.operands[0] for op in (first, *others)]
                formulas = {v: self.made[v] for v in rows if v in self.made}
                if rows[0] in formulas and not self._is_there(rows[0], first):
                    formulas.pop(rows[0])
                yield Rows((first, *others), formulas)

    def _is_of(self, op: IntegerReduce, group: Sequence[IntegerReduce]) -> bool:
        """Return whether a reduction is one of a formula of a group's results and of values that
        exist before the group."""
        row, first = op.operands[0], group[0]
        formula = self.made.get(row)
        if formula is None or row in self.graph.outputs or self.readers[row] != [op]:
            return False
        if (op.dims, row.shape) != (first.dims, first.operands[0].shape):
            return False
        own = {total.result for total in group}
        return not own.isdisjoint(formula.operands) and self._is_there(row, first, own)

    def _is_there(self, row: Value, first: IntegerReduce, own: Set[Value] = frozenset()) -> bool:
        """Return whether the kernel of a total can compute a formula: its operands, other than the
        kernel's ``own`` results, exist before."""
        formula = self.made[row]
        others = set(formula.operands) - own - self.positions
        return self._are_there(others, self.places[first.result]) and _has_order(formula)

    def _are_there(self, values: Iterable[Value], place: int) -> bool:
        """Return whether these are integers that are known before a place."""
        return all(v.dtype.is_number and self.places.get(v, -1) < place for v in values)


def _has_order(formula: Integers) -> bool:
    """Return whether tiles of all operands suffice, with dimensions in the order of those of the
    result."""
    orders = ([d for d in dims if d >= 0] for dims in formula.formula.loads)
    return formula.formula.of_tiles and all(order == sorted(order) for order in orders)


def _is_aligned(formula: Integers, total: Value) -> bool:
    """Return whether the formula has one element for each of the total's, in the same order."""
    found = [
        dims for v, dims in zip(formula.operands, formula.formula.loads, strict=True) if v is total
    ]
    wide = [d for d, n in enumerate(formula.result.shape) if n > 1]
    return len(found) == 1 and set(wide) <= set(found[0]) and _has_order(formula)


def _with(
    launch: Launch, formulas: Sequence[tuple[Value, Integers]], kept: Container[Value]
) -> Launch:
    """Return a launch that computes formulas of its results, too; results that are ``kept`` are
    stored."""
    if not formulas and all(v in kept for v in launch.results):
        return launch
    made = dict(zip(launch.results, launch.body.outputs, strict=True))
    ops, params = list(launch.body.ops), dict(zip(launch.operands, launch.body.params, strict=True))
    results = [v for v in made if v in kept]
    outputs = [made[v] for v in results]
    for total, formula in formulas:
        output = made[total]
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
