"""Results for the last few problems: a group of results of a kernel is often a problem that was
solved separately shortly before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mirage.search.kernel.emission.picks import Pick
from mirage.search.kernel.loop_nests.frames import FrameType
from mirage.search.kernel.loop_nests.problem_axes import Analysis
from mirage.search.kernel.problems.problem import KernelProblem
from mirage.search.limits import SearchLimits

KEPT = 8
"""The number of problems whose results are kept."""


@dataclass
class RecentProblem:
    """The analyses of a problem, and the ways to compute it in types of frame, by the number of the
    analysis."""

    analyses: list[Analysis]
    _picks: dict[tuple[int, FrameType], list[Pick]] = field(
        default_factory=dict[tuple[int, FrameType], list[Pick]]
    )

    def picks(self, number: int, kind: FrameType) -> list[Pick] | None:
        """Return the known ways in a type of frame, marked as recently used; None if unknown."""
        found = self._picks.get((number, kind))
        return None if found is None else [replace(pick) for pick in found]

    def add(self, number: int, kind: FrameType, picks: Sequence[Pick]) -> None:
        """Keep the ways in a type of frame."""
        self._picks[number, kind] = [replace(pick) for pick in picks]


@dataclass
class RecentProblems:
    """The last problems, of one program. Problems of the same values in it are the same problem."""

    _found: dict[object, RecentProblem] = field(default_factory=dict[object, RecentProblem])

    def get(self, problem: KernelProblem, limits: SearchLimits) -> RecentProblem | None:
        """Return the known results for a problem within some limits."""
        return self._found.get(_key(problem, limits))

    def add(
        self, problem: KernelProblem, limits: SearchLimits, analyses: list[Analysis]
    ) -> RecentProblem:
        """Keep the analyses of a problem in place of the oldest problem."""
        while len(self._found) >= KEPT:
            del self._found[next(iter(self._found))]
        found = self._found[_key(problem, limits)] = RecentProblem(analyses)
        return found


def _key(problem: KernelProblem, limits: SearchLimits) -> object:
    return problem.outputs, problem.leaves, problem.narrower, problem.hot, limits
