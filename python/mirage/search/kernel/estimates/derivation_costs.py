"""The cost of derivations, for many sizes at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from mirage.cost.accountant import Accountant
from mirage.cost.compilable import MAX_WIDE_DIMS
from mirage.cost.kernel_features import KernelFeatures
from mirage.cost.kernel_time import HOT
from mirage.cost.overlapping_views import Cut
from mirage.cost.target import Target
from mirage.search.algebra.axes import Dims
from mirage.search.algebra.normal_form import InAtom, SubAxis
from mirage.search.kernel.derivations.moves import Accumulate, Edge, Gather, Goal, Load, Product
from mirage.search.kernel.estimates.held_registers import fits_and_serial, held_between
from mirage.search.kernel.estimates.known_times import KnownTimes
from mirage.search.kernel.estimates.op_costs import EdgeAccounts, readers_of
from mirage.search.kernel.estimates.warpgroup_products import (
    computes_a_right_factor,
    gains_by_warpgroups,
)
from mirage.search.kernel.loop_nests.phases import Where
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import TensorType, Value


@dataclass(frozen=True)
class Stored:
    """An output of a kernel: its type, and the axes of each of its dimensions."""

    type: TensorType
    dims: Dims


Num = Any
_Kind = tuple[object, ...]
_Work = tuple[dict[str, Num], Num]
_GIVEN = frozenset(("blocks", "steps", "uneven", "runs", "warps", "stages", "warpgroups"))
_COUNTED = {k: v for k, v in vars(KernelFeatures()).items() if k not in _GIVEN}
"""The features that an account counts, with their initial values."""


@dataclass
class Known:
    """Results for kinds of edges at some columns, which hold for all derivations."""

    work: dict[_Kind, _Work] = field(default_factory=dict["_Kind", "_Work"])
    costs: dict[_Kind, tuple[Num, bool]] = field(default_factory=dict["_Kind", tuple[Num, bool]])
    times: KnownTimes = field(default_factory=KnownTimes)

    def clear(self) -> None:
        """Forget all results."""
        self.work.clear()
        self.costs.clear()
        self.times.clear()


@dataclass
class Measure(EdgeAccounts):
    """Computes the costs of derivations of one AND-OR graph over columns of sizes. ``known`` is
    shared with other graphs of the same problem and loops, at the same columns."""

    target: Target
    read_bytes: tuple[float, ...]  # of each tensor, from device memory
    cuts: tuple[Cut | None, ...]  # of each tensor, where it is a block of one
    known: Known = field(default_factory=Known)

    def work(self, edge: Edge) -> tuple[dict[str, Num], Num]:
        """Return the amounts that an edge adds to each feature, and where sizes permit it."""
        return self._work_of(edge, self._kind(edge))

    def _work_of(self, edge: Edge, kind: _Kind) -> tuple[dict[str, Num], Num]:
        found = self.known.work.get(kind)
        if found is None:
            columns = self.columns
            account = Accountant(KernelFeatures(warps=self._warps, warpgroups=columns.warpgroups))
            feasible = self.account(account, edge)
            counted = vars(account.features)
            added = {
                k: v
                for k, unchanged in _COUNTED.items()
                if (v := counted[k]) is not unchanged and (isinstance(v, np.ndarray) or v)
            }
            found = self.known.work[kind] = (added, feasible)
        return found

    def edge_costs(self, edges: Sequence[Sequence[tuple[Edge, Sequence[int]]]]) -> Num:
        """Return the µs of one block alone for each edge, one row each, as a guide for extraction;
        infinite where sizes forbid the edge.

        ``edges`` are the edges of each goal, with the places of the goals that each needs, which
        precede it: if no sizes permit one of these goals, none permit the edge."""
        rows: list[Num] = []
        possible: list[bool] = []
        for own in edges:
            some = False
            for edge, children in own:
                row: Num = None
                if all(possible[c] for c in children):
                    row, fits = self._edge_cost(edge)
                    some |= fits
                rows.append(self._never if row is None else row)
            possible.append(some)
        return np.array(rows)

    @cached_property
    def _never(self) -> Num:
        return np.full(self.columns.count, np.inf)

    def _edge_cost(self, edge: Edge) -> tuple[Num, bool]:
        """Return the cost of an edge, and whether any sizes permit it."""
        kind = self._kind(edge)
        found = self.known.costs.get(kind)
        if found is None:
            found = self.known.costs[kind] = self._cost_of(edge, kind)
        return found

    def _kind(self, edge: Edge) -> _Kind:
        """Return the kind of an edge: edges of one kind do the same work on different values."""
        free, atoms = self.derivations.algebra.free, self.derivations.algebra.atoms
        children = tuple((free(c[0]), self._loaded(c), self.odd_load(c)) for c in edge.children)
        sort = edge.sort
        if isinstance(edge, Load):
            sort = atoms[edge.atom], self.factors.get(edge.goal)
        return type(edge), sort, free(edge.goal[0]), edge.goal[1], children

    def _cost_of(self, edge: Edge, kind: _Kind) -> tuple[Num, bool]:
        labels = self.labels(edge.goal)
        if edge.goal[1] != 2 and self.wide(labels).min() > MAX_WIDE_DIMS:
            return self._never, False
        added, ok = self._work_of(edge, kind)
        once: Num = 1e-6
        step: Num = 0.0
        for name, amount in added.items():
            what, _, when = name.rpartition("_")
            if what in self._rates:
                own = amount / self._rates[what]
                if when == "step":
                    step = step + own
                else:
                    once = once + own
        time: Num = once + step * self._steps
        if "accumulators" in added:
            time = time + added["accumulators"] * 1e-6
        if edge.goal[1] == 2:
            time = time + 0.01
        if isinstance(edge, Gather):
            time = time + self.partial_bytes(edge.children[0]) / self.target.l2_bytes
        fits = bool(np.any(ok))
        return np.where(ok, time, self._never), fits

    @cached_property
    def _steps(self) -> Num:
        return self.steps()

    @cached_property
    def _blocks(self) -> Num:
        return self.columns.blocks().astype(float)

    @cached_property
    def _warps(self) -> Num:
        return self.columns.warps.astype(float)

    @cached_property
    def _stages(self) -> Num:
        return self.columns.stages.astype(float)

    @cached_property
    def _rates(self) -> dict[str, Num]:
        """The work per µs of a block, for each kind of work."""
        t = self.target
        return {
            "load": t.dram_bytes / t.sms,
            "mma": t.mma_half,
            "mma32": t.mma_f32,
            "alu": t.alu,
            "sfu": t.sfu,
            "move": t.shared_bytes,
            "clocks": 2.0 * t.clock,
            "exchanges": t.clock / (t.exchange + t.exchange_warp * self.columns.warps),
            "rows": t.clock / (t.exchange + t.exchange_warp * self.columns.warps),
        }

    def steps(self) -> Num:
        """Return the steps of the loop, or those of the inner loop over all steps of the outer
        one."""
        kind = self.derivations.kind
        steps = np.ones(self.columns.count)
        for axis in (kind.loop, kind.inner):
            if axis is not None:
                steps = steps * self.columns.steps[axis]
        return steps

    def partial_bytes(self, goal: Goal) -> Num:
        """Return the bytes of a partial result in device memory."""
        axes = self.derivations.algebra.free(goal[0])
        found = self._partial_bytes.get(axes)
        if found is None:
            found = self._partial_bytes[axes] = self._counted_partial_bytes(axes)
        return found

    @cached_property
    def _partial_bytes(self) -> dict[frozenset[SubAxis], Num]:
        return {}

    def _counted_partial_bytes(self, axes: frozenset[SubAxis]) -> Num:
        out: Num = np.full(self.columns.count, 4.0)
        for a, level in sorted(axes):
            if level == "L":
                out = out * self.columns.tile[a] * self.columns.grid[a]
            elif level == "G":
                out = out * self.columns.grid[a]
        return out

    def least_partial_bytes(self, target: Goal) -> float:
        """Return the least bytes of partial results that any derivation of a goal stores: some path
        of each leads to a goal that is gathered."""
        least: dict[Goal, float] = {}
        for goal in self.derivations.order:  # children first
            least[goal] = min(
                (
                    float(self.partial_bytes(edge.children[0]).min())
                    if isinstance(edge, Gather)
                    else max((least[child] for child in edge.children), default=0.0)
                    for edge in self.derivations.edges[goal]
                ),
                default=0.0,
            )
        return least[target]

    def features(
        self, edges: list[Edge], outputs: Sequence[Stored]
    ) -> tuple[KernelFeatures, Num, Num]:
        """Return the features and feasibility of a derivation, and the additional time of its
        combine kernel."""
        self.readers = readers_of(edges)
        try:
            return self._features(edges, outputs)
        finally:
            self.readers = None

    def _features(
        self, edges: list[Edge], outputs: Sequence[Stored]
    ) -> tuple[KernelFeatures, Num, Num]:
        columns = self.columns
        account = Accountant(
            KernelFeatures(
                blocks=self._blocks,
                steps=self._steps,
                runs=self._around[Where.INNER].times,
                warps=self._warps,
                stages=self._stages,
                warpgroups=columns.warpgroups,
            )
        )
        feasible: Num = np.ones(columns.count, dtype=bool)
        if self._has_warpgroups:
            feasible = ~columns.warpgroups | self._suits_warpgroups(edges, outputs)
        read: dict[int, InAtom] = {}
        products = {e.goal for e in edges if isinstance(e, Product)}
        gathered: set[Goal] = set()
        again = self._again(edges)
        first, nested = self._first(edges)
        for edge in edges:
            if isinstance(edge, Accumulate):
                self.accumulate(account, edge, edge.children[0] in products)
                continue
            added, ok = self.work(edge)
            feasible = feasible & ok
            if edge.goal in nested or edge.goal not in first:
                account.merge(added)
            if edge.goal in again:  # computed in the second loop, too
                account.merge(added)
            if edge.goal in first:
                account.merge(self._once(added))
            if isinstance(edge, Load) and edge.goal[1] == 1:
                atom = self.derivations.algebra.atoms[edge.atom]
                assert isinstance(atom, InAtom)
                if atom.tensor not in read and self.read_bytes[atom.tensor]:
                    width = self.tensors[atom.tensor].dtype.bytes
                    size = self.read_bytes[atom.tensor] * (1.0 - self._common(atom, read.values()))
                    account.read(size, self._run(atom.dims) * width)
                    read[atom.tensor] = atom
            if isinstance(edge, Gather):
                gathered.add(edge.children[0])
        extra = self._store(account, gathered, outputs)
        if self._has_warpgroups and products:
            feasible = feasible & self._count_registers(account.features, edges)
        return account.features, feasible, extra

    def _common(self, atom: InAtom, read: Iterable[InAtom]) -> Num:
        """Return the share of a tensor's tiles that other views of the same tensor, which are cut
        into tiles in the same way, have read at the same step."""
        cut = self.cuts[atom.tensor]
        if cut is None:
            return 0.0
        tile, shape = [self.elements(dim) for dim in atom.dims], self.tensors[atom.tensor].shape
        shares: Num = 0.0
        for other in read:
            view = self.cuts[other.tensor]
            if view and other.dims == atom.dims and self.tensors[other.tensor].shape == shape:
                shares = np.maximum(shares, cut.common_share(view, tile))
        return shares

    def _store(self, account: Accountant, gathered: set[Goal], outputs: Sequence[Stored]) -> Num:
        """Count what a kernel stores: the outputs or, if there are any, the partial results that
        are ``gathered``. Return the additional time of the combine kernel that adds these."""
        if not gathered:
            for out in outputs:
                account.store(float(out.type.bytes), self._run(out.dims) * out.type.dtype.bytes)
            return np.zeros(self.columns.count)
        size: Num = np.zeros(self.columns.count)
        for goal in sorted(gathered):
            account.store(self.partial_bytes(goal))
            size = size + self.partial_bytes(goal)
        t = self.target
        size = size + sum(out.type.bytes for out in outputs)
        return t.launch + HOT * t.latency * 1.6 + t.combine + size / (0.5 * t.l2_bytes)

    def _count_registers(self, features: KernelFeatures, edges: Sequence[Edge]) -> Num:
        """Add whether groups of warps take turns; return where a derivation's products have the
        registers that they need."""

        def is_computed(goal: Goal) -> bool:
            return self.in_loop(goal) and not self._load_width(goal)

        columns = self.columns
        held = held_between(
            edges, lambda goal: self.elements(self.labels(goal)), is_computed,
            features.accumulators,
        )  # fmt: skip
        fits, serial = fits_and_serial(
            held, columns.warps, columns.stages, self.target.registers_sm
        )
        features.serial = columns.warpgroups & serial
        return fits | ~columns.warpgroups

    def _suits_warpgroups(self, edges: list[Edge], outputs: Sequence[Stored]) -> Num:
        """Return where warpgroups can compute a derivation and gain by it."""
        products = [edge for edge in edges if isinstance(edge, Product)]
        made = [edge for edge in edges if self.in_loop(edge.goal)]

        def is_loaded(goal: Goal) -> bool:
            return self._load_width(goal) > 0

        if (
            not products
            or not gains_by_warpgroups(made, is_loaded)
            or computes_a_right_factor(made, is_loaded, self.labels)
        ):
            return np.zeros(self.columns.count, dtype=bool)
        order = [axis for dim in outputs[0].dims for axis in dim]
        return np.logical_and.reduce([self.lies_for_warpgroups(p, order) for p in products])

    @cached_property
    def _has_warpgroups(self) -> bool:
        return bool(self.columns.warpgroups.any())

    def _again(self, edges: list[Edge]) -> set[Goal]:
        """Return the values of the first loop that the second loop computes again."""
        again: set[Goal] = set()
        if self.derivations.kind.passes == 1:
            return again
        ended = self.derivations.phases.ended
        for edge in reversed(edges):  # users first
            if self.in_loop(edge.goal) and (edge.goal in again or ended(edge.goal[0])):
                again.update(c for c in edge.children if self.in_loop(c) and not ended(c[0]))
        return again

    def _first(self, edges: list[Edge]) -> tuple[set[Goal], set[Goal]]:
        """Return the values that the loop before a nest computes, and those that the nest's inner
        loop computes."""
        first: set[Goal] = set()
        nested: set[Goal] = set()
        if self.derivations.kind.inner is None:
            return first, nested
        for edge in reversed(edges):  # users first
            for child in edge.children:
                if not self.in_loop(child):
                    continue
                if self.in_loop(edge.goal):
                    homes = [s for s in (first, nested) if edge.goal in s]
                else:
                    homes = [nested if self.derivations.phases.within_nest(child[0]) else first]
                for home in homes:
                    home.add(child)
        return first, nested

    def _once(self, added: dict[str, Num]) -> dict[str, Num]:
        """Return the work of an inner loop's steps if it runs in a loop over the same axis without
        an outer loop."""
        axis = self.derivations.kind.inner
        assert axis is not None
        steps = self.columns.steps[axis]
        work = {k: v for k, v in added.items() if not k.startswith(("shared", "live", "scratch"))}
        return {k.replace("_step", "_once"): v * steps for k, v in work.items()}

    def time(self, edges: list[Edge], outputs: Sequence[Stored]) -> Num:
        """Return the predicted µs of a derivation (with its combine kernel) for every choice of
        sizes."""
        features, feasible, extra = self.features(edges, outputs)
        time = self.known.times.of(features, self.target) + extra
        return np.where(feasible, time, np.inf)


def half_type(tensors: list[Value]) -> DType | None:
    """Return the 16-bit type of a program whose inputs are 16-bit in tiles, or None."""
    kinds = [v.dtype.in_tile for v in tensors if v.type.size > 1]
    halves = [k for k in kinds if k.is_half]
    if not halves or any(k is DType.F64 for k in kinds):
        return None
    return max(sorted(set(halves), key=lambda k: k.value), key=halves.count)
