"""One kernel for results that no single derivation computes: each group of results is derived
separately, and the launches of the groups are joined.

A product of 4096 columns and one of 1024 with the same left factor are one kernel if as many blocks
compute tiles of either. Therefore, choices of sizes with the same numbers of blocks, steps, warps
and stages are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice, product
from math import inf
from operator import itemgetter
from typing import Any

import numpy as np

from mirage.cost.compilable import CheckError, check_launch
from mirage.cost.features import features_of
from mirage.cost.kernel_time import report
from mirage.cost.registers import check_registers
from mirage.cost.target import Target
from mirage.search.kernel.derivations.moves import Edge, EmitError, Product
from mirage.search.kernel.emission.joined_launches import joined
from mirage.search.kernel.emission.launches import Combine, Draft, launches_of
from mirage.search.kernel.emission.picks import Pick, fastest
from mirage.search.kernel.loop_nests.columns import IntArray
from mirage.search.kernel.loop_nests.frames import FrameType
from mirage.search.kernel.problems.problem import KernelProblem, Solution, Written
from mirage.semantics.ugraph import (
    Launch,
    Reshape,
    TensorType,
    Value,
    launches,
)

WAYS = 16
"""The number of ways to compute a group that are requested: derivations at one or two choices of
sizes."""
DERIVED = 2
"""The derivations of a group that are considered, of each kind."""
SIZES = 512
"""The choices of sizes of each that are considered, the fastest first."""
COMBINED, WRITTEN = 3, 8
"""The combinations of derivations of each kind that are written, and the common sizes at which each
is written, the fastest first: the kernels' costs decide. The sum of times by which sizes are
ordered counts for each group what the joined kernel does once (loads of common factors, steps of
the loop), so the best of some 200 sizes is often not among the first three."""
FASTER = 0.999
"""A combination is faster than another one if it takes at most this share of its time."""

Sizes = tuple[object, ...]
"""The numbers that the launches of all groups have in common."""
Kinds = dict[object, list[Draft]]
"""Derivations of a group by the kinds of their moves."""
Array = np.ndarray[Any, Any]
Times = Callable[[Draft], Array]
"""A function that returns the predicted µs of a draft at each choice of sizes."""


@dataclass(frozen=True)
class _Estimate:
    """The predicted µs of a draft at a choice of sizes, and the bytes of shared memory for tiles of
    each leaf."""

    time: float
    column: int
    held: Mapping[Value, int]


_Estimates = dict[Sizes, _Estimate]
"""The estimates of a draft by the sizes that others must have, too."""
_At = tuple[Draft, int]
"""A draft at a choice of sizes."""


def _bytes_together(estimates: Sequence[_Estimate]) -> int:
    """Return the bytes of shared memory for the tiles of one kernel, which loads a leaf that
    several groups read once."""
    leaves = {leaf for e in estimates for leaf in e.held}
    return sum(max(e.held.get(leaf, 0) for e in estimates) for leaf in leaves)


@dataclass
class JointKernels:
    """Joins the kernels of groups. ``solve`` finds ways to compute a group, ``times`` estimates
    drafts, and ``combine`` finds the kernels that they may need. The results for a group are kept,
    since the same group occurs together with several others."""

    target: Target
    solve: Callable[[KernelProblem], Sequence[Pick]]
    times: Times
    combine: Combine
    _kinds: dict[object, Kinds] = field(default_factory=dict[object, "Kinds"])
    _estimates: dict[Draft, _Estimates] = field(default_factory=dict[Draft, "_Estimates"])
    _written: dict[_At, Written | None] = field(default_factory=dict["_At", "Written | None"])

    def picks(self, groups: Sequence[KernelProblem]) -> list[Pick]:
        """Return kernels that compute all groups, the cheapest first."""
        kinds: list[Kinds] = []
        for group in groups:
            kinds.append(self._kinds_of(group))
            if not kinds[-1]:
                return []
        found: list[Solution] = []
        for kind in kinds[0]:
            if all(kind in group for group in kinds):
                found += self._of_kind([group[kind] for group in kinds])
        found.sort(key=lambda s: s.cost.time)
        return [Pick(s.cost.time, None, s, number=i) for i, s in enumerate(found)]

    def _kinds_of(self, group: KernelProblem) -> Kinds:
        """Return the derivations of a group that may be joined to others. Problems of the same
        values in one program are the same problem."""
        key = group.outputs, group.leaves, group.narrower, group.hot
        if key not in self._kinds:
            self._kinds[key] = _by_kind(self.solve(group))
        return self._kinds[key]

    def _of_kind(self, groups: Sequence[Sequence[Draft]]) -> list[Solution]:
        """Return kernels of drafts of one kind. A further combination of drafts often differs from
        the first one by what costs nothing, and then it does so at all sizes: it is written at
        others only if it is faster at the first ones that can be written."""
        found: list[Solution] = []
        least = inf
        for several in self._fastest(groups):
            first = True
            for drafts in several:
                solution = self._joint(drafts)
                if solution is None:
                    continue
                found.append(solution)
                if first and solution.cost.time > FASTER * least:
                    break
                least = min(least, solution.cost.time) if first else least
                first = False
        return found

    def _fastest(self, groups: Sequence[Sequence[Draft]]) -> list[list[list[_At]]]:
        """Return the combinations of drafts that are estimated to be the fastest, each at the
        common sizes at which it is."""
        best: list[tuple[float, list[list[_At]]]] = []
        for drafts in product(*groups):
            estimates = [self._at_sizes(draft) for draft in drafts]
            common = set(estimates[0]).intersection(*estimates[1:])
            sums = ((sum(e[key].time for e in estimates), str(key), key) for key in common)
            fitting = (
                (time, [(d, e[key].column) for d, e in zip(drafts, estimates, strict=True)])
                for time, _, key in sorted(sums)
                if _bytes_together([e[key] for e in estimates]) <= self.target.shared_block
            )
            if first := [*islice(fitting, WRITTEN)]:
                best.append((first[0][0], [several for _, several in first]))
        return [several for _, several in sorted(best, key=itemgetter(0))[:COMBINED]]

    def _at_sizes(self, draft: Draft) -> _Estimates:
        """Return a derivation at its fastest choice of sizes for each choice of common sizes."""
        if draft not in self._estimates:
            times, tiles = self.times(draft), draft.tiles()
            best = fastest(times, SIZES)
            found = self._estimates[draft] = {}
            for column, key in zip(best.tolist(), _common_sizes(draft, best), strict=True):
                if key is not None and key not in found:
                    held = {leaf: int(size[column]) for leaf, size in tiles.items()}
                    found[key] = _Estimate(float(times[column]), column, held)
        return self._estimates[draft]

    def _joint(self, drafts: Sequence[_At]) -> Solution | None:
        """Return the kernel of a draft for each group; None if it exceeds a limit of the code
        generator, or if their launches cannot be joined."""
        parts: list[Written] = []
        for draft in drafts:
            part = self._alone(draft)
            if part is None:
                return None
            parts.append(part)
        ops = _joined(parts)
        if ops is None:
            return None
        (kernel,) = launches(ops)
        try:
            check_launch(kernel, self.target)
            check_registers(kernel, self.target.registers_sm)
        except CheckError:
            return None
        problems = [draft.analysis.problem for draft, _ in drafts]
        hot = frozenset(v for p in problems for v in p.hot)
        tables = {t for p in problems for t in p.tables}
        cost = report(features_of(kernel, hot, tables=tables), self.target)
        return Solution(ops, cost, " beside ".join(str(draft.kind) for draft, _ in drafts))

    def _alone(self, at: _At) -> Written | None:
        """Return the kernel of one group, which is checked as a part of the joint one; None if it
        cannot be written."""
        if at not in self._written:
            draft, column = at
            try:
                at_column = replace(draft, column=column)
                ops, _ = launches_of(at_column, self.target, self.combine, part=True)
            except EmitError:
                ops = None
            self._written[at] = ops
        return self._written[at]


def _joined(parts: Sequence[Written]) -> Written | None:
    """Return several kernels as one, with the views before and after them; None if there are
    several kernels in one part, or if they cannot be joined."""
    before: dict[tuple[tuple[Value, ...], TensorType], Reshape] = {}
    after: list[Launch | Reshape] = []
    kernel: Launch | None = None
    for ops in parts:
        own, *more = launches(ops)
        place = ops.index(own)
        same: dict[Value, Value] = {}
        for view in ops[:place]:
            operands = tuple(same.get(v, v) for v in view.operands)
            (result,) = view.results
            new = Reshape(operands, view.results)
            same[result] = before.setdefault((operands, result.type), new).result
        own = replace(own, operands=tuple(same.get(v, v) for v in own.operands))
        kernel = own if kernel is None else joined(kernel, own)
        if kernel is None or more:
            return None
        after += ops[place + 1 :]
    assert kernel is not None
    return (*before.values(), kernel, *after)


def _by_kind(picks: Sequence[Pick]) -> Kinds:
    """Return the first derivations that are one kernel without nested loops, by the kinds of their
    moves: those that multiply on tensor cores may round factors, and others may not. One that needs
    fewer loops than its frame has is a derivation in a frame with fewer, too."""
    found: dict[object, dict[frozenset[Edge], Draft]] = {}
    for draft in (p.draft for p in picks if p.draft is not None):
        kind = draft.kind
        if may_join(kind) and draft.loops == kind.passes:
            multiplies = any(isinstance(e, Product) for e in draft.edges)
            moves = kind.loop is not None, kind.passes, multiplies
            found.setdefault(moves, {}).setdefault(frozenset(draft.edges), draft)
    return {moves: list(drafts.values())[:DERIVED] for moves, drafts in found.items()}


def may_join(kind: FrameType) -> bool:
    """Return whether derivations of a type of frame are one kernel without nested loops."""
    return kind.split is None and kind.inner is None


def _common_sizes(draft: Draft, chosen: IntArray) -> Iterator[Sizes | None]:
    """Yield the numbers that launches must have in common, for each choice of sizes; None if
    warpgroups multiply."""
    columns = draft.measure.columns.take(chosen)
    axes = dict.fromkeys((*(a for dim in draft.analysis.dims[0] for a in dim), *columns.grid))
    parts = [columns.grid[a].tolist() for a in axes if a in columns.grid]
    loop = draft.kind.loop
    steps = [None] * columns.count if loop is None else columns.steps[loop].tolist()
    schedules = (columns.warps.tolist(), columns.stages.tolist(), columns.warpgroups.tolist())
    for step, warps, stages, groups, *extents in zip(steps, *schedules, *parts, strict=True):
        yield None if groups else (tuple(n for n in extents if n > 1), step, warps, stages)
