"""The search for µGraphs: frames, derivations of values, extraction, kernel cuts."""

from mirage.search.best_candidates import Candidate
from mirage.search.kernel.emission.picks import Pick
from mirage.search.limits import BOUNDS, LimitError, SearchLimits, SearchReport, StopReason
from mirage.search.superoptimize import (
    Planner,
    SearchResult,
    Watch,
    has_maxima,
    searched,
    superoptimize,
)

__all__ = [
    "BOUNDS",
    "Candidate",
    "LimitError",
    "Pick",
    "Planner",
    "SearchLimits",
    "SearchReport",
    "SearchResult",
    "StopReason",
    "Watch",
    "has_maxima",
    "searched",
    "superoptimize",
]
