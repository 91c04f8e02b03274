"""The cost of derivations, for many sizes at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import and_
from typing import Any

import numpy as np

from mirage.cost.accountant import Accountant
from mirage.cost.first_bytes import HOT, after_another
from mirage.cost.kernel_features import KernelFeatures
from mirage.cost.read_again import Readings
from mirage.cost.uniform import somewhere, where
from mirage.search.algebra.atoms import InAtom
from mirage.search.algebra.axes import Dims
from mirage.search.kernel.derivations.moves import (
    Accumulate,
    Edge,
    Gather,
    Goal,
    Load,
    Product,
    Reduction,
)
from mirage.search.kernel.estimates.edge_costs import EdgeCosts
from mirage.search.kernel.estimates.held_registers import fits_and_serial, held_between
from mirage.search.kernel.estimates.op_costs import readers_of
from mirage.search.kernel.estimates.warpgroup_products import (
    computes_a_right_factor,
    gains_by_warpgroups,
)
from mirage.search.kernel.loop_nests.phases import Where
from mirage.semantics.ugraph import TensorType


@dataclass(frozen=True)
class Stored:
    """An output of a kernel: its type, and the axes of each of its dimensions."""

    type: TensorType
    dims: Dims


Num = Any


@dataclass
class Measure(EdgeCosts):
    """Computes the costs of derivations of one AND-OR graph over columns of sizes. ``lengths`` are
    the axes that end where an integer that is read says, with the ratio of the longest to the
    average."""

    lengths: tuple[tuple[str, float], ...] = ()

    def features(
        self, edges: list[Edge], outputs: Sequence[Stored]
    ) -> tuple[KernelFeatures, Num, Num]:
        """Return the features and feasibility of a derivation, and the additional time of its
        combine kernel."""
        if self.any_odd:
            self.readers = readers_of(edges)
        try:
            return self._features(edges, outputs)
        finally:
            self.readers = None

    def _features(
        self, edges: list[Edge], outputs: Sequence[Stored]
    ) -> tuple[KernelFeatures, Num, Num]:
        account = Accountant(
            KernelFeatures.only(
                blocks=self._blocks,
                steps=self._steps,
                runs=self._around[Where.INNER].times,
                warps=self._warps,
                stages=self._stages,
                warpgroups=self.groups,
                cluster=self._cluster,
                rounds=self._rounds(edges),
                shifted=self.groups & (self.shifted is not None),
            )
        )
        for axis, longest in self.lengths:
            several = np.asarray(self.columns.steps.get(axis, 1)) > 1
            account.features.unsorted = where(several, longest, 1.0)
        # rows are cut into classes only for shifted boxes
        feasible: Num = self.groups | (self.shifted is None)
        if self._has_warpgroups:
            feasible = ~self.groups | self._suits_warpgroups(edges, outputs)
        products = {e.goal for e in edges if isinstance(e, Product)}
        gathered: set[Goal] = set()
        loops = self._loops(edges)
        first, nested = self._first(edges)
        for edge in edges:
            if isinstance(edge, Accumulate):
                self.accumulate(account, edge, edge.children[0] in products)
                continue
            added, ok = self.work(edge)
            feasible = feasible & ok
            if edge.goal in nested or edge.goal not in first:
                account.merge(added)
            for _ in range(len(loops.get(edge.goal, ())) - 1):  # also computed in later loops
                account.merge(added)
            if edge.goal in first:
                account.merge(self._once(added))
            if isinstance(edge, Gather):
                gathered.add(edge.children[0])
        loops.update({goal: {0, 1} for goal in first & nested})
        self._count_readings(account, edges, loops, bool(products))
        extra = self._store(account, gathered, outputs)
        if self._has_warpgroups and products:
            feasible = feasible & self._count_registers(account.features, edges)
        return account.features, feasible, extra

    def _rounds(self, edges: list[Edge]) -> Num:
        """Return how often the blocks that share a row exchange totals: for each total that needs
        another one."""
        if isinstance(self._cluster, float):
            return 0.0
        depth: dict[Goal, int] = {}
        for edge in edges:
            before = max((depth[c] for c in edge.children), default=0)
            depth[edge.goal] = before + isinstance(edge, Reduction)
        rounds = float(max(depth.values(), default=0))
        return np.where(self.columns.cluster > 1, rounds, 0.0)

    def _count_readings(
        self,
        account: Accountant,
        edges: Sequence[Edge],
        loops: Mapping[Goal, Iterable[int]],
        multiplies: bool,
    ) -> None:
        """Count the bytes of device memory that loads read. ``loops`` are the loops of loads, if
        there are several; what is loaded outside of loops is loaded behind them, unless the kernel
        multiplies."""
        readings, read = Readings(), dict[int, InAtom]()
        behind: list[tuple[int, tuple[Num, Num], Num]] = []
        for edge in edges:
            if not isinstance(edge, Load) or edge.goal[1] != 1:
                continue
            atom = self.derivations.algebra.atoms[edge.atom]
            assert isinstance(atom, InAtom)
            if not self.read_bytes[atom.tensor]:
                continue
            width = self.tensors[atom.tensor].dtype.bytes
            others = (other for other in read.values() if other.tensor != atom.tensor)
            size = self.read_bytes[atom.tensor] * (1.0 - self._common(atom, others))
            sizes = size, self._run(atom.dims) * width
            tile = self.elements(self.labels(edge.goal)) * width
            if self.in_loop(edge.goal) or multiplies:
                for loop in sorted(loops.get(edge.goal, (0,))):
                    readings.count(account, atom.tensor, sizes, loop, tile)
            else:
                behind.append((atom.tensor, sizes, tile))
            read.setdefault(atom.tensor, atom)
        for tensor, sizes, tile in behind:
            readings.count(account, tensor, sizes, None, tile)

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
                width = out.type.dtype.bytes
                run, gap = self._run(out.dims) * width, self._gap(out.dims) * width
                account.store(float(out.type.bytes), run, gap)
            return 0.0
        size: Num = np.zeros(self.columns.count)
        for goal in sorted(gathered):
            account.store(self.partial_bytes(goal))
            size = size + self.partial_bytes(goal)
        t = self.target
        size = size + sum(out.type.bytes for out in outputs)
        behind = after_another(t, memory=False)
        return t.launch + HOT * t.latency * 1.6 + behind + size / (0.5 * t.l2_bytes)

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
        features.serial = self.groups & serial
        return fits | ~self.groups

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
            return np.False_
        order = [axis for dim in outputs[0].dims for axis in dim]
        users = [edge for edge in edges if not isinstance(edge, Accumulate)]
        needed = {child for edge in users for child in edge.children}
        return reduce(
            and_, (self.lies_for_warpgroups(p, order, p.goal not in needed) for p in products)
        )

    @cached_property
    def _cluster(self) -> Num:
        blocks = self.columns.cluster
        return blocks.astype(float) if somewhere(blocks > 1) else 1.0

    @cached_property
    def _has_warpgroups(self) -> bool:
        return somewhere(self.groups)

    def _loops(self, edges: list[Edge]) -> dict[Goal, set[int]]:
        """Return in which of several consecutive loops each value is computed: in those of the sums
        that need it. A sum is computed in the first loop in which what it sums is known."""
        found: dict[Goal, set[int]] = {}
        if self.derivations.kind.passes == 1:
            return found
        for edge in reversed(edges):  # users first
            if self.in_loop(edge.goal):
                own = found.get(edge.goal, set())
            elif isinstance(edge, Accumulate):
                own = {self.derivations.phases.ended(edge.children[0][0])}
            else:
                continue
            for child in filter(self.in_loop, edge.children):
                found.setdefault(child, set()).update(own)
        return found

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
