"""An estimate of the registers that a thread needs, from the values that it holds.

The coefficients are a least-squares fit to ptxas on 318 of our kernels that it compiled without
reaching the limit (correlation 0.87 over all 335, mean error 21 registers).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from mirage import _target
from mirage.cost.block_analysis import BlockAnalysis
from mirage.cost.compilable import CheckError
from mirage.cost.kept_pairs import KeptElements, kept_elements
from mirage.cost.kernel_features import (
    BASE,
    IN_PLACE,
    MOST_REGISTERS,
    PER_ACCUMULATOR,
    PER_LIVE,
    REGISTERS_SM,
    WARPS_BESIDE,
)
from mirage.cost.occupancy import FEWEST_REGISTERS
from mirage.cost.warpgroup_limits import why_no_warpgroups
from mirage.cost.warps import WarpGrid
from mirage.semantics.ugraph import (
    Elementwise,
    Launch,
    Matmul,
    Rearrangement,
    Schedule,
    Source,
    Value,
)

PER_MATMUL = 4.2
PER_OPERAND = 1.53
PROMOTED = 64 * _target.PROMOTED_COLUMNS / 128
"""The registers of a part of a product that is added to sums in f32."""
MOST_WARPS = 32
NO_TILES = 21
"""The registers of a warpgroup's thread that hold no tiles: addresses, counters, and values for
rows."""
MOST_MOVED = 240
"""The most registers that warpgroups are given."""
BESIDE_SUMS = 26
"""The registers of a warpgroup's thread besides the sums of running products, including
descriptors. In 60 loops of up to 6 products, ptxas 13.0 accepts none that has fewer, except for one
that only appears to have fewer; see ``besideSums`` in ``PipelineLoops.cpp``."""
WIDEST = 256
"""The most columns of a warpgroup instruction; a thread holds half as many sums."""


@dataclass(frozen=True)
class Registers:
    """The registers of a thread."""

    wanted: float
    limit: int
    """The limit above which a block of this number of threads could not start."""

    @property
    def used(self) -> float:
        """The number that ptxas will report."""
        return min(self.wanted, self.limit)

    @property
    def spilled_bytes(self) -> float:
        """The bytes that a thread probably writes to local memory and reads back, once."""
        return 8.0 * max(0.0, self.wanted - self.limit)

    @property
    def spills(self) -> bool:
        """Whether values will probably be spilled to local memory."""
        return self.spilled_bytes > 0


def registers_of(launch: Launch, registers_sm: int = REGISTERS_SM) -> Registers:
    """Return the estimate for one launch."""
    return estimator_of(launch).run(registers_sm)


def with_enough_warps(launch: Launch) -> Launch:
    """Return the launch as the code generator will run it: with more warps if the tiles need more
    registers than there are and more warps have enough.
    """
    warps = launch.schedule.warps
    while warps <= MOST_WARPS:
        trial = launch
        if warps > launch.schedule.warps:
            trial = replace(launch, schedule=replace(launch.schedule, warps=warps))
        if warps > launch.schedule.warps and trial.schedule.warpgroups and why_no_warpgroups(trial):
            break
        registers = registers_of(trial)
        if registers.wanted <= registers.limit:
            return trial
        warps *= 2
    return launch


def limit_of(schedule: Schedule, registers_sm: int) -> int:
    """Return the registers that a thread can have; with warpgroups, those of the copying group move
    to the others."""
    even = _even_share(schedule, registers_sm)
    if not schedule.warpgroups:
        return even
    groups = -(-schedule.block_warps // 4)
    moved = (even // 8 * 8 * groups - FEWEST_REGISTERS) // (groups - 1) // 8 * 8
    return max(even, min(MOST_MOVED, moved))


def _even_share(schedule: Schedule, registers_sm: int) -> int:
    """Return the most registers that each thread of a block can start with."""
    return min(MOST_REGISTERS, registers_sm // (128 * -(-schedule.block_warps // 4)))


def check_registers(launch: Launch, registers_sm: int = REGISTERS_SM) -> None:
    """Raise :class:`CheckError` if warpgroups hold more, while products run or between products
    that depend on each other, than threads have registers. Nothing can be spilled then, so the
    assembler would make products wait for each other. A single instruction must do with the
    registers that threads start with."""
    schedule = launch.schedule
    if not schedule.warpgroups:
        return
    estimator = estimator_of(launch)
    limit, even = limit_of(schedule, registers_sm), _even_share(schedule, registers_sm) // 8 * 8
    for held, most, where in (
        (estimator.chained() + estimator.held_on(), limit, "between products"),
        (estimator.summed() + BESIDE_SUMS, limit, "while products run"),
        (estimator.widest() + BESIDE_SUMS, even, "for one instruction"),
    ):
        if held > most:
            raise CheckError(
                f"expected at most {most} registers of warpgroups {where}, got {held:g}"
            )


class RegisterEstimator(BlockAnalysis):
    """Chooses how warps share each matmul, and counts the values that threads then hold."""

    def __init__(self, launch: Launch) -> None:
        super().__init__(launch)
        self.grid: dict[Matmul, WarpGrid] = {}
        """The numbers of warps along the rows, columns and contraction of each matmul."""
        for op in self.matmuls:
            grids, _ = self.grids(op, 1.0)
            self.grid[op] = grids[0] if grids else WarpGrid(1, 1, 1)

    def run(self, registers_sm: int = REGISTERS_SM) -> Registers:
        """Return the estimate, on a chip with ``registers_sm`` registers per SM."""
        schedule = self.launch.schedule
        limit = beside = limit_of(schedule, registers_sm)
        if schedule.cluster > 1 and not schedule.warpgroups and schedule.warps < WARPS_BESIDE:
            beside = limit_of(replace(schedule, warps=WARPS_BESIDE), registers_sm)
        kept = self._kept if self._wanted > beside else None
        if kept is None or not kept.fit(limit):
            return Registers(self._wanted, limit)
        # a block that waits for the others of its cluster leaves room for other ones if it can
        fits = beside < limit and kept.fit_beside(beside)
        used = beside if fits else BASE + kept.held
        return Registers(min(limit, max(used, self._of_loops())), limit)

    @cached_property
    def _kept(self) -> KeptElements | None:
        """What a thread holds if it computes everything else again; None if it must hold more."""
        return kept_elements(self, self._held)

    def _of_loops(self) -> float:
        """The registers of a thread for sums, and the largest tile of a loop's step."""
        held = PER_ACCUMULATOR * sum(self._held(v) for v in self.accumulated)
        computed = (
            self._held(v)
            for v, op in self.definitions.items()
            if self.trips[v] > 1 and not isinstance(op, Source | Rearrangement)
        )
        return BASE + held + PER_LIVE * max(computed, default=0.0)

    @cached_property
    def _wanted(self) -> float:
        held = sum(self._held(v) for v in self.accumulated)
        computed = [
            self._held(v)
            for v, op in self.definitions.items()
            if v not in self.accumulated and not isinstance(op, Source | Rearrangement)
        ]
        computed.append(self._beside_sums())
        operands = [
            self._held(x)
            for op in self.matmuls
            for x in op.operands
            if not self.loaded(x) and x not in self.kept
        ]
        wanted = BASE + PER_MATMUL * len(self.matmuls) + PER_ACCUMULATOR * held
        per_live = PER_LIVE * (IN_PLACE if self.launch.schedule.warpgroups else 1.0)
        wanted += per_live * max(computed, default=0.0) + PER_OPERAND * max(operands, default=0.0)
        return wanted if self.matmuls else wanted + self._needed_again()

    def _needed_again(self) -> float:
        """Return the registers of loaded tiles that are needed again after the largest computed
        tile: a thread holds both."""
        places = {value: place for place, value in enumerate(self.definitions)}
        last: dict[Value, int] = {}
        for value, op in self.definitions.items():
            loads = (self.load_of(x) for x in op.operands if not isinstance(op, Rearrangement))
            last.update((load.result, places[value]) for load in loads if load is not None)
        largest = max(
            (v for v, op in self.definitions.items() if not isinstance(op, Source | Rearrangement)),
            key=self._held,
            default=None,
        )
        if largest is None:
            return 0.0
        place = places[largest]
        return sum(self._held(v) for v, end in last.items() if places[v] < place < end)

    def chained(self) -> float:
        """Return the least registers that a thread holds between two products of a loop if a factor
        of one is computed from the other's result: both results and the loop's accumulators; or
        products and the sums to which they are added. Products that are combined element by element
        are held together."""
        between = [self._held(x) + self._held_for(x) for x in self._computed_factors()]
        return self.summed() + self._beside_sums() + max(between, default=0.0)

    def held_on(self) -> int:
        """Return the registers besides the tiles that such a factor takes in loops with several
        stages, where it is held while the first products of the next step run."""
        held = next(self._computed_factors(), None) is not None
        return BESIDE_SUMS if held and self.launch.schedule.stages > 1 else 0

    def _computed_factors(self) -> Iterator[Value]:
        """Yield the factors that a loop computes at each step."""
        for op in self.matmuls:
            for x in op.operands:
                inside = self.trips[op.result] > 1 and self.trips.get(x, 1) > 1
                if inside and not self.loaded(x) and x not in self.kept:
                    yield x

    def summed(self) -> float:
        """Return the registers of the values that loops accumulate."""
        return sum(self._held(v) for v in self.accumulated)

    def widest(self) -> float:
        """Return the registers of the results of the widest instruction, if warpgroups multiply."""
        columns = (self.product(op).n / self.grid[op].n for op in self.matmuls)
        return min(WIDEST, max(columns, default=0.0)) / 2

    def _beside_sums(self) -> float:
        """Return the registers of the part of a product that is held in addition to the sums to
        which it is added."""
        promoted = (self._held(op.result) for op in self.matmuls if self.promoted(op))
        return min(PROMOTED, max(promoted, default=0.0))

    def takes_turns(self) -> bool:
        """Return whether the last products of a step run in parallel with the first ones of the
        next (``deferProducts`` in ``PipelineLoops.cpp``), so that their factors are held that long:
        groups of warps then take turns."""
        held = [
            self._held(x)
            for op in self.matmuls
            for x in op.operands
            if x in self.stepped and not self.loaded(x)
        ]
        limit = limit_of(self.launch.schedule, REGISTERS_SM) - NO_TILES
        return self.launch.schedule.stages > 1 and self.chained() + max(held, default=0.0) <= limit

    def _held_for(self, value: Value) -> float:
        """Return the registers of the results of products from which a value is computed: of the
        largest one, or of all those that no sum or maximum comes after."""
        together = sum(map(self._held, self._products_in(value, in_place=True)))
        return max(together, *map(self._held, self._products_in(value)), 0.0)

    def _products_in(self, value: Value, *, in_place: bool = False) -> Iterator[Value]:
        """Yield the results of products from which a value is computed; on request, only those from
        which it is computed element by element."""
        seen: set[Value] = set()
        left = [value]
        while left:
            op = self.definitions.get(left.pop())
            if op is None or op.result in seen:
                continue
            seen.add(op.result)
            if op in self.grid:
                yield op.result
            elif not in_place or isinstance(op, Elementwise):
                left += op.operands

    def _held(self, value: Value) -> float:
        """Return the registers in which a thread holds its part of a tile."""
        op = self.definitions.get(value)
        if isinstance(op, Matmul):
            product, grid = self.product(op), self.grid[op]
            return product.m * product.n / (32 * grid.m * grid.n)
        if isinstance(op, Elementwise):
            for x in op.operands:
                if x.shape == value.shape and not self.loaded(x):
                    return self._held(x) * value.dtype.bytes / x.dtype.bytes
        return value.type.size * value.dtype.bytes / 4 / (32 * self.warps)


@lru_cache(maxsize=16)  # the same launch is checked, and then its cost predicted
def estimator_of(launch: Launch) -> RegisterEstimator:
    """Return the register estimator of a launch."""
    return RegisterEstimator(launch)
