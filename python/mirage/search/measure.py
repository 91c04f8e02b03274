"""Cost of derivations for many sizes at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mirage.cost.accountant import Accountant, Around
from mirage.cost.limits import MAX_COLUMNS, MAX_WIDE_DIMS
from mirage.cost.model import KernelFeatures, estimate
from mirage.cost.target import Target
from mirage.search.derive import Derivations, Edge, Goal
from mirage.search.frames import Columns
from mirage.search.phases import Where
from mirage.semantics.normal_form import InAtom
from mirage.semantics.scalar import UNARY, BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import Value

Num = Any
_Kind = tuple[object, ...]


@dataclass
class Measure:
    """Accounts edges of one AND-OR graph over columns of sizes."""

    derivations: Derivations
    columns: Columns
    tensors: list[Value]
    sizes: dict[str, int]
    target: Target
    half: bool
    hot: frozenset[int] = frozenset()  # tensors that a kernel before has just written

    def __post_init__(self) -> None:
        kind = self.derivations.kind
        self._labels: dict[Goal, tuple[str, ...]] = {}
        self._elements: dict[tuple[str, ...], Num] = {}
        self._wide: dict[tuple[str, ...], Num] = {}
        self._work: dict[_Kind, tuple[dict[str, Num], Num]] = {}
        self._costs: dict[_Kind, Num] = {}
        self._widths: dict[Goal, int] = {}
        self._innermost = Where.LOOP if kind.inner is None else Where.INNER
        self._around = {where: Around() for where in Where}
        if kind.loop is not None and kind.inner is not None:
            steps = self.columns.steps[kind.loop]
            slots = np.minimum(self.columns.stages, steps)
            self._around[Where.LOOP] = Around(steps, slots, looped=True)
            self._around[Where.INNER] = Around(steps, crowded=True)

    def labels(self, goal: Goal) -> tuple[str, ...]:
        """Axes along which the value is a tile."""
        found = self._labels.get(goal)
        if found is None:
            free = self.derivations.algebra.free(goal[0])
            found = self._labels[goal] = tuple(sorted(a for a, level in free if level == "L"))
        return found

    def in_loop(self, goal: Goal) -> bool:
        """Whether the value changes with the step of the (inner) loop."""
        return self.derivations.where(goal) is self._innermost

    def elements(self, labels: tuple[str, ...]) -> Num:
        """Elements of a tile."""
        found = self._elements.get(labels)
        if found is None:
            found = np.ones(self.columns.count)
            for a in labels:
                found = found * self.columns.tile[a]
            self._elements[labels] = found
        return found

    def wide(self, labels: tuple[str, ...]) -> Num:
        """Number of axes along which a tile is larger than one."""
        found = self._wide.get(labels)
        if found is None:
            found = np.zeros(self.columns.count, dtype=np.int64)
            for a in labels:
                found = found + (self.columns.tile[a] > 1)
            self._wide[labels] = found
        return found

    # ---- one edge

    def account(self, account: Accountant, edge: Edge) -> Num:
        """Adds the edge's work; returns where the sizes permit it."""
        goal = edge.goal
        where = self.derivations.where
        labels = self.labels(goal)
        feasible: Num = self.wide(labels) <= MAX_WIDE_DIMS
        if goal[1] == 2:
            return np.ones(self.columns.count, dtype=bool)
        inside = self.in_loop(goal)
        size = self.elements(labels)
        if edge.kind in ("unary", "binary", "reduce", "scale"):
            for child in edge.children:
                width = self._load_width(child)
                if width:
                    account.around = self._around[where(child)]
                    account.fetch(self.elements(self.labels(child)), width, self.in_loop(child))
        account.around = self._around[where(goal)]
        match edge.kind:
            case "load":
                feasible = feasible & self._load(account, edge, size, inside)
            case "scale":
                account.elementwise(size, 1.0, 0.0, inside)
            case "unary":
                assert isinstance(edge.fn, UnaryFn)
                info = UNARY[edge.fn]
                account.elementwise(size, info.flops, info.special, inside)
            case "binary":
                special = edge.fn in (BinaryFn.DIV, BinaryFn.POW)
                account.elementwise(size, 8.0 if special else 1.0, float(special), inside)
            case "matmul":
                feasible = feasible & self._matmul(account, edge, inside)
            case "reduce":
                operand = self.labels(edge.children[0])
                feasible = feasible & (self.wide(operand) <= MAX_WIDE_DIMS)
                account.reduce(self.elements(operand), inside)
            case "accumulate":
                self._accumulate(account, edge, False)
            case _:
                pass
        return feasible

    def _accumulate(self, account: Accountant, edge: Edge, of_matmul: bool) -> None:
        child = edge.children[0]
        account.around = self._around[self.derivations.where(child)]
        size = self.elements(self.labels(edge.goal))
        account.accumulate(size, of_matmul, self.in_loop(child))

    def _load(self, account: Accountant, edge: Edge, size: Num, inside: bool) -> Num:
        atom = self.derivations.algebra.atoms[edge.atom]
        assert isinstance(atom, InAtom)
        account.load(size, self._run(atom), self.tensors[atom.tensor].dtype.bytes, inside)
        return self.map_ok(atom.dims)

    def _run(self, atom: InAtom) -> Num:
        """Contiguous elements of a tile's rows in device memory."""
        run: Num = np.ones(self.columns.count)
        whole: Num = np.ones(self.columns.count, dtype=bool)
        for dim in reversed(atom.dims):
            for a in reversed(dim):
                run = np.where(whole, run * np.minimum(self.columns.tile[a], self.sizes[a]), run)
                whole = whole & (self.columns.tile[a] >= self.sizes[a])
        return run

    def map_ok(self, dims: tuple[tuple[str, ...], ...]) -> Num:
        """Whether tiles along merged dimensions are contiguous blocks of them."""
        ok: Num = np.ones(self.columns.count, dtype=bool)
        for dim in dims:
            for i, inner in enumerate(dim[1:], start=1):
                split = self.columns.grid[inner] * self.columns.steps[inner] > 1
                ok = ok & self.columns.exact(inner, self.sizes[inner])
                for outer in dim[:i]:
                    ok = ok & (~split | (self.columns.tile[outer] == 1))
        return ok

    def _matmul(self, account: Accountant, edge: Edge, inside: bool) -> Num:
        a, b = (set(self.labels(c)) for c in edge.children)
        k = edge.axis
        shared = tuple(sorted((a & b) - {k}))
        m, n = self.elements(tuple(sorted(a - b))), self.elements(tuple(sorted(b - a)))
        account.matmul(m, n, self.columns.tile[k], self.half, inside)
        if self.half:
            for child in edge.children:  # computed operands are converted
                if not self._is_load(child):
                    account.around = self._around[self.derivations.where(child)]
                    account.convert(self.elements(self.labels(child)), self.in_loop(child))
        ok = self.elements(shared) == 1
        for child in edge.children:
            ok = ok & (self.wide(self.labels(child)) <= MAX_WIDE_DIMS)
        return ok & (m <= MAX_COLUMNS) & (n <= MAX_COLUMNS) & (np.minimum(m, n) <= 128)

    def _is_load(self, goal: Goal) -> bool:
        return self._load_width(goal) > 0

    def _load_width(self, goal: Goal) -> int:
        """Bytes of an element of a goal that is loaded, else 0."""
        if goal not in self._widths:
            self._widths[goal] = self._width(goal)
        return self._widths[goal]

    def _width(self, goal: Goal) -> int:
        for edge in self.derivations.edges.get(goal, ()):
            atom = self.derivations.algebra.atoms[edge.atom] if edge.kind == "load" else None
            if isinstance(atom, InAtom):
                return self.tensors[atom.tensor].dtype.bytes
        return 0

    # ---- whole derivations

    def work(self, edge: Edge) -> tuple[dict[str, Num], Num]:
        """What an edge adds to each feature, and where sizes permit it."""
        return self._work_of(edge, self._kind(edge))

    def _work_of(self, edge: Edge, kind: _Kind) -> tuple[dict[str, Num], Num]:
        found = self._work.get(kind)
        if found is None:
            account = Accountant(KernelFeatures(warps=self.columns.warps.astype(float)))
            feasible = self.account(account, edge)
            given = ("blocks", "steps", "runs", "warps", "stages")
            added = {
                k: v
                for k, v in vars(account.features).items()
                if k not in given and (isinstance(v, np.ndarray) or v)
            }
            found = self._work[kind] = (added, feasible)
        return found

    def edge_cost(self, edge: Edge) -> Num:
        """µs of one block on its own, as a guide for extraction; infinite where sizes forbid the
        edge."""
        kind = self._kind(edge)
        found = self._costs.get(kind)
        if found is None:
            found = self._costs[kind] = self._cost_of(edge, kind)
        return found

    def _kind(self, edge: Edge) -> _Kind:
        """Edges of one kind do the same work on other values."""
        free = self.derivations.algebra.free
        children = tuple((free(c[0]), self._load_width(c)) for c in edge.children)
        return (
            edge.kind,
            edge.fn,
            edge.axis,
            edge.atom,
            free(edge.goal[0]),
            edge.goal[1],
            children,
        )

    def _cost_of(self, edge: Edge, kind: _Kind) -> Num:
        added, ok = self._work_of(edge, kind)
        t = self.target
        steps = self.steps()
        time = np.zeros(self.columns.count)
        for name, rate in (
            ("load", t.dram_bytes / t.sms),
            ("mma", t.mma_half),
            ("mma32", t.mma_f32),
            ("alu", t.alu),
            ("sfu", t.sfu),
            ("move", t.shared_bytes),
            ("clocks", 2.0 * t.clock),
        ):
            if f"{name}_once" in added:
                time = time + added[f"{name}_once"] / rate
            if f"{name}_step" in added:
                time = time + added[f"{name}_step"] * steps / rate
        if "accumulators" in added:
            time = time + added["accumulators"] * 1e-6
        if edge.goal[1] == 2:
            time = (
                time
                + 0.01
                + (
                    self.partial_bytes(edge.children[0]) / t.l2_bytes
                    if edge.kind == "gather"
                    else 0.0
                )
            )
        return np.where(ok, time + 1e-6, np.inf)

    def steps(self) -> Num:
        """Steps of the loop, or of the inner loop at all steps of the outer one."""
        kind = self.derivations.kind
        steps = np.ones(self.columns.count)
        for axis in (kind.loop, kind.inner):
            if axis is not None:
                steps = steps * self.columns.steps[axis]
        return steps

    def partial_bytes(self, goal: Goal) -> Num:
        """Bytes of a partial result in device memory."""
        out: Num = np.full(self.columns.count, 4.0)
        for a, level in sorted(self.derivations.algebra.free(goal[0])):
            if level == "L":
                out = out * self.columns.tile[a] * self.columns.grid[a]
            elif level == "G":
                out = out * self.columns.grid[a]
        return out

    def features(self, edges: list[Edge], output_bytes: float) -> tuple[KernelFeatures, Num, Num]:
        """Features, feasibility and the combine kernel's extra time of a derivation."""
        columns = self.columns
        account = Accountant(
            KernelFeatures(
                blocks=columns.blocks().astype(float),
                steps=self.steps(),
                runs=self._around[Where.INNER].times,
                warps=columns.warps.astype(float),
                stages=columns.stages.astype(float),
            )
        )
        feasible: Num = np.ones(columns.count, dtype=bool)
        extra: Num = np.zeros(columns.count)
        read: set[int] = set()
        products = {e.goal for e in edges if e.kind == "matmul"}
        gathered: set[Goal] = set()
        again = self._again(edges)
        first, nested = self._first(edges)
        for edge in edges:
            if edge.kind == "accumulate":
                self._accumulate(account, edge, edge.children[0] in products)
                continue
            added, ok = self.work(edge)
            feasible = feasible & ok
            if edge.goal in nested or edge.goal not in first:
                account.merge(added)
            if edge.goal in again:  # computed in the second loop, too
                account.merge(added)
            if edge.goal in first:
                account.merge(self._once(added))
            if edge.kind == "load" and edge.goal[1] == 1:
                atom = self.derivations.algebra.atoms[edge.atom]
                assert isinstance(atom, InAtom)
                if atom.tensor not in read and atom.tensor not in self.hot:
                    read.add(atom.tensor)
                    tensor = self.tensors[atom.tensor]
                    account.read(float(tensor.type.bytes), self._run(atom) * tensor.dtype.bytes)
            if edge.kind == "gather":
                gathered.add(edge.children[0])
        if gathered:
            size: Num = np.zeros(columns.count)
            for goal in sorted(gathered):
                account.store(self.partial_bytes(goal))
                size = size + self.partial_bytes(goal)
            t = self.target
            extra = (
                t.launch + t.latency * 1.6 + t.combine + (size + output_bytes) / (0.5 * t.l2_bytes)
            )
        else:
            account.store(output_bytes)
        return account.features, feasible, extra

    def _again(self, edges: list[Edge]) -> set[Goal]:
        """Values of the first loop that the second one computes once more."""
        again: set[Goal] = set()
        if self.derivations.kind.passes == 1:
            return again
        ended = self.derivations.phases.ended
        for edge in reversed(edges):  # users first
            if self.in_loop(edge.goal) and (edge.goal in again or ended(edge.goal[0])):
                again.update(c for c in edge.children if self.in_loop(c) and not ended(c[0]))
        return again

    def _first(self, edges: list[Edge]) -> tuple[set[Goal], set[Goal]]:
        """Values that a nest's inner loop shares with the loop before the nest: those that the
        latter computes, and those that the former does."""
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
        """Work of the steps of an inner loop, done in a loop over the same axis that no other one
        is around."""
        axis = self.derivations.kind.inner
        assert axis is not None
        steps = self.columns.steps[axis]
        work = {k: v for k, v in added.items() if not k.startswith(("shared", "live", "scratch"))}
        return {k.replace("_step", "_once"): v * steps for k, v in work.items()}

    def time(self, edges: list[Edge], output_bytes: float) -> Num:
        """Predicted µs of a derivation (with its combine kernel) for every choice of sizes."""
        features, feasible, extra = self.features(edges, output_bytes)
        time = estimate(features, self.target)["time"] + extra
        return np.where(feasible, time, np.inf)


def half_type(tensors: list[Value]) -> DType | None:
    """The 16-bit type of a program whose inputs are 16-bit, or None."""
    kinds = [v.dtype for v in tensors if v.type.size > 1]
    halves = [k for k in kinds if k.is_half]
    if not halves or any(k is DType.F64 for k in kinds):
        return None
    return max(sorted(set(halves), key=lambda k: k.value), key=halves.count)
