"""Search for µGraphs: frames, derivations of values, extraction, kernel cuts."""

from mirage.search.limits import BOUNDS, LimitError, SearchLimits, SearchReport, StopReason
from mirage.search.superoptimize import Candidate, SearchResult, Watch, superoptimize

__all__ = [
    "BOUNDS",
    "Candidate",
    "LimitError",
    "SearchLimits",
    "SearchReport",
    "SearchResult",
    "StopReason",
    "Watch",
    "superoptimize",
]
