"""Facts about a block for the estimates: definitions, operands of matmuls, and the ways in which
warps share sums."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from mirage import _target
from mirage.cost.warps import Product, WarpGrid, chain_costs, grid_costs, near_best
from mirage.semantics.ugraph import (
    AccumulateFn,
    Contraction,
    Elementwise,
    Launch,
    Load,
    Loop,
    Matmul,
    Movement,
    Op,
    Rearrangement,
    Source,
    Value,
    all_ops,
)


class BlockAnalysis:
    """Facts about the block graph of a launch."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.warps = launch.schedule.warps
        self.fed: dict[Load, tuple[int, int]] = {}
        """The shape of the matrix that matmuls read from each load."""
        self.definitions: dict[Value, Op] = {}
        self.matmuls: list[Matmul] = []
        self.trips: dict[Value, int] = {}
        """The number of times that a block computes each value."""
        self.sums: set[Value] = set()
        """Values that a loop only sums."""
        self.accumulated: list[Value] = []
        """Values that loops accumulate."""
        self.looped: dict[Value, Value] = {}
        """The value that a loop accumulates, by the loop's result."""
        self.stepped: set[Value] = set()
        """Values that differ from step to step of a loop."""
        self._found: dict[tuple[Op, float], tuple[list[WarpGrid], bool]] = {}
        self._find(launch.body.ops, 1, frozenset())
        # Rows of up to 8 fit the narrow side of the instruction unless they are contracted.
        narrow = all(
            op.operands[0].shape[-1] > 8 and max(op.result.shape[-2:]) > 8 for op in self.matmuls
        )
        self._narrow = 8 if narrow else 16

    def _find(self, ops: Iterable[Op], trips: int, axes: frozenset[str]) -> None:
        for op in ops:
            if isinstance(op, Loop):
                self._find(op.body, trips * op.axis.extent, axes | {op.axis.name})
                used = {v for inner in all_ops(op.body) for v in inner.operands}
                added = {a.value for a in op.accumulators if a.fn is AccumulateFn.SUM}
                self.sums |= added - used
                self.accumulated.extend(a.value for a in op.accumulators)
                self.looped |= {
                    r: a.value for r, a in zip(op.results, op.accumulators, strict=True)
                }
                continue
            self.definitions[op.result] = op
            self.trips[op.result] = trips
            if op.reads_axes & axes or not self.stepped.isdisjoint(op.operands):
                self.stepped.add(op.result)
            if not isinstance(op, Matmul):
                continue
            self.matmuls.append(op)
            for operand in op.operands:
                load = self.load_of(operand)
                if load is not None:
                    self.fed[load] = (operand.shape[-2], operand.shape[-1])

    def source(self, value: Value) -> Op | None:
        """Return the op that computes a value, looking through views."""
        op = self.definitions.get(value)
        while isinstance(op, Rearrangement):
            op = self.definitions.get(op.operands[0])
        return op

    def load_of(self, value: Value) -> Load | None:
        """Return the load of a value that is a loaded tile, or None."""
        source = self.source(value)
        return source if isinstance(source, Load) else None

    def loaded(self, value: Value) -> bool:
        """Return whether a value is a loaded tile."""
        return self.load_of(value) is not None

    def eight_bits(self, op: Matmul) -> bool:
        """Return whether both factors are tiles of tensors of 8 bits."""
        loads = [self.load_of(x) for x in op.operands]
        return all(load is not None and load.operands[0].dtype.is_eight_bits for load in loads)

    def promoted(self, op: Matmul) -> bool:
        """Return whether warpgroups compute a product from zero at each step and add it to the
        loop's sum in f32: the hardware has few bits for sums of products of 8-bit factors."""
        return self.launch.schedule.warpgroups and self.eight_bits(op)

    @cached_property
    def kept(self) -> frozenset[Value]:
        """The computed left factors of warpgroups that are the same at all steps: they are written
        to shared memory once (``isKeptFactor`` in ``WarpgroupProducts.h``)."""
        if not self.launch.schedule.warpgroups:
            return frozenset()
        left = {op.operands[0] for op in self.matmuls}
        return frozenset(x for x in left if x not in self.stepped and not self.loaded(x))

    @cached_property
    def of_factors(self) -> set[Value]:
        """The tiles from which factors of products are computed element by element: all of them
        have the rows that an instruction reads."""
        found: set[Value] = set()
        left = [v for op in self.matmuls for v in op.operands]
        while left:
            op = self.definitions.get(value := left.pop())
            if isinstance(op, Elementwise):
                left += (v for v in op.operands if v.shape[-2:] == value.shape[-2:])
            elif isinstance(op, Rearrangement):
                left += op.operands
            found.add(value)
        return found

    @cached_property
    def computed_with(self) -> set[Value]:
        """The values that ops other than products read in registers. (Products read shared memory,
        rows or columns first.)"""
        ops = list(all_ops(self.launch.body.ops))
        movements = {op for op in ops if isinstance(op, Movement)}
        products = set(self.matmuls)
        read = {v for op in ops if op not in movements and op not in products for v in op.operands}
        read.update(output.value for output in self.launch.body.outputs)
        for op in reversed(ops):  # readers first
            if op in movements and not read.isdisjoint(op.results):
                read.update(op.operands)
        return read

    def padded(self, extent: int) -> int:
        """Return the extent of a dimension that a tensor-core instruction reads or writes."""
        return round_up(extent, self._narrow if extent <= 8 else 16)

    # ---- matmuls

    @staticmethod
    def swapped(op: Matmul) -> bool:
        """Return whether a product of few rows is computed transposed (``prefersSwapped`` in the
        compiler)."""
        return op.result.shape[-2] <= _target.NARROW_ROWS < op.result.shape[-1]

    def product(self, op: Matmul) -> Product:
        """Return a matmul as the instruction computes it: transposed if it has few rows."""
        m, n = (self.padded(x) for x in op.result.shape[-2:])
        if self.swapped(op):
            m, n = n, m
        width = min(op.operands[0].dtype.bytes, 4)
        k = round_up(op.operands[0].shape[-1], 16)
        return Product(m, n, k, width, self.trips[op.result], op.result in self.sums)

    def before(self, op: Matmul) -> list[Matmul]:
        """Return the matmuls from which only elementwise ops lead to an operand."""
        others = [m for m in self.matmuls if m is not op]
        return [m for m in others if any(self._reaches(m, x) for x in op.operands)]

    def grids(self, op: Matmul, slack: float) -> tuple[list[WarpGrid], bool]:
        """Return the ways in which warps may share a matmul, the best first, and whether its
        operands may change warps before it.
        """
        if (op, slack) not in self._found:
            self._found[op, slack] = self._grids(op, slack)
        return self._found[op, slack]

    def _grids(self, op: Matmul, slack: float) -> tuple[list[WarpGrid], bool]:
        if self.launch.schedule.warpgroups:  # their operands stay in shared memory
            return [WarpGrid(self.warps, 1, 1)], False
        product, before = self.product(op), self.before(op)
        if not before:
            found = [near_best(grid_costs(product, self.warps), slack)]
            for m in self.matmuls:
                if m is not op and op in self.before(m):
                    chains = near_best(chain_costs(product, self.product(m), self.warps), slack)
                    found.insert(0, [a for a, _, _ in chains])
            return [g for grids in found for g in grids], not all(map(self.loaded, op.operands))
        chains = [
            c
            for m in before
            for c in near_best(chain_costs(self.product(m), product, self.warps), slack)
        ]
        swapped = any(min(x.result.shape[-2:]) <= 8 for x in (op, *before))
        return [b for _, b, _ in chains], swapped or any(moved for *_, moved in chains)

    def _reaches(self, source: Matmul, value: Value) -> bool:
        op = self.definitions.get(value)
        while op is not None and op is not source:
            if isinstance(op, Contraction | Source):
                return False
            view = isinstance(op, Rearrangement)
            same = [v for v in op.operands if view or v.shape == op.result.shape]
            if not same:
                return False
            op = self.definitions.get(same[0])
        return op is source


def round_up(x: int, multiple: int) -> int:
    """Return the next multiple."""
    return -(-x // multiple) * multiple
