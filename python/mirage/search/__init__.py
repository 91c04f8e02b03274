"""Search for µGraphs: frames, derivations of values, extraction, kernel cuts."""

from mirage.search.limits import LimitError, SearchLimits, SearchReport, StopReason
from mirage.search.superoptimize import Candidate, SearchResult, Watch, superoptimize

__all__ = [
    "Candidate",
    "LimitError",
    "SearchLimits",
    "SearchReport",
    "SearchResult",
    "StopReason",
    "Watch",
    "superoptimize",
]
