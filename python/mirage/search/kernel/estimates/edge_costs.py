"""The separate costs of the edges of an AND-OR graph, for many sizes at once: a guide to the
derivations that may be the cheapest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from mirage.cost.accountant import Accountant
from mirage.cost.boxes import shifted_steps
from mirage.cost.kernel_features import KernelFeatures
from mirage.cost.overlapping_views import Cut
from mirage.cost.uniform import somewhere
from mirage.search.algebra.atoms import SubAxis
from mirage.search.kernel.derivations.moves import Edge, Gather, Goal, Load
from mirage.search.kernel.estimates.known_times import KnownTimes
from mirage.search.kernel.estimates.op_costs import EdgeAccounts

Num = Any
_Kind = tuple[object, ...]
_Work = tuple[dict[str, Num], Num]
_GIVEN = frozenset(("warps", "warpgroups"))
"""The features that an edge's account does not count."""


@dataclass
class Known:
    """Results for kinds of edges at some columns, which hold for all derivations; and the work of
    edges by their identity (the edges are kept alive so that no other object gets it)."""

    work: dict[_Kind, _Work] = field(default_factory=dict["_Kind", "_Work"])
    costs: dict[_Kind, tuple[Num, bool]] = field(default_factory=dict["_Kind", tuple[Num, bool]])
    times: KnownTimes = field(default_factory=KnownTimes)
    edges: dict[int, tuple[Edge, _Work]] = field(default_factory=dict[int, "tuple[Edge, _Work]"])

    def clear(self) -> None:
        """Forget all results."""
        self.work.clear()
        self.costs.clear()
        self.times.clear()
        self.edges.clear()


@dataclass
class EdgeCosts(EdgeAccounts):
    """The costs of the edges of one AND-OR graph, over columns of sizes. ``known`` is shared with
    other graphs of the same problem and loops, at the same columns."""

    read_bytes: tuple[float, ...]  # of each tensor, from device memory
    cuts: tuple[Cut | None, ...]  # of each tensor, where it is a block of one
    known: Known = field(default_factory=Known)

    def work(self, edge: Edge) -> tuple[dict[str, Num], Num]:
        """Return the amounts that an edge adds to each feature, and where sizes permit it."""
        if self.any_odd:  # these also depend on the derivation
            return self._work_of(edge, self._kind(edge))
        _, found = self.known.edges.get(id(edge), (edge, None))
        if found is None:
            found = self._work_of(edge, self._kind(edge))
            self.known.edges[id(edge)] = edge, found
        return found

    def _work_of(self, edge: Edge, kind: _Kind) -> tuple[dict[str, Num], Num]:
        found = self.known.work.get(kind)
        if found is None:
            account = Accountant(KernelFeatures.only(warps=self._warps, warpgroups=self.groups))
            feasible = self.account(account, edge)
            added = {
                k: v
                for k, v in vars(account.features).items()
                if k not in _GIVEN and (isinstance(v, np.ndarray) or v)
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
        if edge.goal[1] != 2 and not somewhere(self.fits(labels)):
            return self._never, False
        added, ok = self._work_of(edge, kind)
        once: Num = 1e-6
        step: Num = 0.0
        rates = self._rates
        for name, amount in added.items():
            if name in rates:
                own = amount / rates[name]
                if name.endswith("_step"):
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
        return np.where(ok, time, self._never), somewhere(ok)

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
        """The work per µs of a block, for each feature that counts work."""
        t = self.target
        rates: dict[str, Num] = {
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
        return {f"{what}_{when}": r for what, r in rates.items() for when in ("once", "step")}

    def steps(self) -> Num:
        """Return the steps of the loop, or those of the inner loop over all steps of the outer
        one."""
        kind = self.derivations.kind
        steps = np.ones(self.columns.count)
        for axis in (kind.loop, kind.inner):
            if axis is not None:
                steps = steps * self.columns.steps[axis]
        if self.shifted is None or kind.loop is None:
            return steps
        width, extent = self.tensors[self.shifted].dtype.bytes, self.sizes[kind.loop]
        return np.where(
            self.columns.warpgroups,
            shifted_steps(extent, self.columns.tile[kind.loop], width),
            steps,
        )

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
        """Return the least bytes of partial results that any derivation of a goal stores; every
        derivation has a path to a goal that is gathered."""
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
