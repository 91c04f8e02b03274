"""The derivations in one type of frame: with sums kept as factors, with sums multiplied out if that
may be better, and in several loops over an axis if one is not enough."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mirage.search.kernel.derivations.cancellation import cancels
from mirage.search.kernel.derivations.derive import Derivations, Goal
from mirage.search.kernel.derivations.groupings import LEFT_OUT
from mirage.search.kernel.derivations.other_names import add_other_names
from mirage.search.kernel.loop_nests.frames import FrameType
from mirage.search.kernel.loop_nests.problem_axes import Analysis
from mirage.search.kernel.problems.narrowing import Narrowing
from mirage.search.limits import SearchLimits, SearchReport

EXPAND_TERMS = 4
"""Sums with more terms are multiplied out only if no derivation exists otherwise."""
EXPAND_TERMS_MAX = 6
PASSES = 3
"""The most consecutive loops over one axis: for a mean, a variance and a product."""

Derived = list[tuple[Derivations, tuple[Goal, ...]]]
"""AND-OR graphs, each with its targets."""


@dataclass(frozen=True)
class TypeDerivations:
    """The derivations of the kernels that are solved within ``limits``."""

    limits: SearchLimits
    report: SearchReport

    def of(
        self,
        analysis: Analysis,
        kind: FrameType,
        narrowing: Narrowing,
        *,
        allow_wide: bool = True,
    ) -> tuple[Derived, bool]:
        """Return the AND-OR graphs of a type: with sums kept as factors, and with sums multiplied
        out if that may be better. The second result says whether multiplying out may lose digits in
        the cheapest derivation: more consecutive loops over an axis may then be worth their time.
        """
        out: Derived = []
        problem = analysis.problem
        doubtful = False
        differences = 0
        integers = frozenset(i for i, v in enumerate(problem.leaves) if v.dtype.is_integer)
        if kind.split is not None and len(problem.outputs) > 1:
            return out, doubtful
        for expand in (False,) if analysis.loses else (False, True):
            algebra, polys = analysis.normal_forms(kind, expand)
            if expand and max(map(len, algebra.polys)) > (
                EXPAND_TERMS if out else EXPAND_TERMS_MAX
            ):
                self.report.cut("terms", "a product of sums is not multiplied out")
                break
            bound = {sub for poly in polys for sub in algebra.bound(poly)}
            if any(a is not None and (a, "T") not in bound for a in (kind.loop, kind.inner)):
                break
            if kind.split is not None and (kind.split, "G") not in bound:
                break
            if expand and cancels(algebra, polys) > differences:
                doubtful = True
                break
            differences = cancels(algebra, polys)
            derivations = Derivations(
                algebra, kind, not problem.combine, narrowing, integers, allow_wide,
                max_goals=self.limits.goals,
            )  # fmt: skip
            stage = 2 if kind.split is not None else 1
            targets = tuple(derivations.canonical((poly, stage)) for poly in polys)
            solved = all(derivations.solve(target) for target in targets)
            add_other_names(derivations)
            self._count(derivations)
            doubtful |= derivations.wide
            if solved:
                out.append((derivations, targets))
            if not algebra.sum_products or kind.passes > 1:
                break
        return out, doubtful

    def in_passes(
        self, analysis: Analysis, kind: FrameType, narrowing: Narrowing, allow_wide: bool
    ) -> list[tuple[FrameType, Derived]]:
        """Return derivations with the fewest consecutive loops over the axis: a sum over the whole
        row is known only after a loop of its own."""
        for passes in range(2, PASSES + 1):
            more = replace(kind, passes=passes)
            found, _ = self.of(analysis, more, narrowing, allow_wide=allow_wide)
            if found:
                return [(more, found)]
        return []

    def _count(self, derivations: Derivations) -> None:
        self.report.frame_types += 1
        self.report.values += len(derivations.edges)
        self.report.edges += sum(len(e) for e in derivations.edges.values())
        self.report.pruned += derivations.pruned
        for bound in sorted(derivations.left_out):
            self.report.cut(bound, LEFT_OUT[bound])
        if derivations.algebra.truncated:
            self.report.cut("terms", "a product of sums is not multiplied out")
