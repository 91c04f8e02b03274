"""The bounds of the search, and the report on its coverage."""

from __future__ import annotations

import enum
import re
import resource
import time
from dataclasses import dataclass, field, fields
from typing import Any

from mirage.errors import MirageError

_NUMBER = re.compile(r"\d+")


class StopReason(enum.Enum):
    """The reason why the search ended."""

    EXHAUSTED = "exhausted"  # nothing within the bounds was left out
    BUDGET = "budget"  # the time was up: best so far
    LIMIT = "limit"  # a bound cut off a part of the space: SearchReport.limits
    NOTHING = "nothing"  # no kernel could be built: the ops stay as they are


class LimitError(MirageError, ValueError):
    """The bounds of the search leave nothing to search."""


VERIFIED = 6
"""The number of candidates that are verified by default."""
SPARE = 3
"""The ratio of the candidates that are found to those that are verified: which candidates are the
cheapest is known only once they have been made stable."""


def _at_most(default: int, what: str) -> int:
    """Return a field for an upper limit."""
    return field(default=default, metadata={"help": f"the largest number of {what}"})


@dataclass(frozen=True)
class SearchLimits:
    """The bounds of the search. The result depends on them only, and not on the machine's speed,
    unless the budget ends it."""

    budget: float = field(
        default=30.0,
        metadata={"help": "seconds of search, after which the best so far is kept"},
    )
    candidates: int = field(
        default=SPARE * VERIFIED, metadata={"help": "candidates that are kept, cheapest first"}
    )
    cuts: int = _at_most(5000, "states of a program's cuts at one place")
    plans: int = _at_most(100, "sets of stored intermediates whose kernels are solved")
    matmuls: int = _at_most(6, "matmuls in one kernel")
    outputs: int = _at_most(3, "values that one kernel writes")
    choices: int = _at_most(8, "ways to compute a kernel, to be combined with those of others")
    derivations: int = _at_most(6, "derivations of a value")
    goals: int = _at_most(4000, "values in one type of frame")
    columns: int = _at_most(6000, "choices of sizes in one type of frame")
    samples: int = _at_most(3, "choices of sizes at which derivations are picked")
    row_classes: int = _at_most(
        16, "classes of rows, which start at different elements, for boxes that are shifted"
    )
    seed: int = field(default=0, metadata={"help": "seed of every random choice of the search"})

    def __post_init__(self) -> None:
        if not self.budget > 0.0:  # excludes NaN
            raise LimitError(f"expected a positive budget of seconds, got {self.budget!r}")
        for field_ in fields(self):
            least = 0 if field_.name == "seed" else 1
            value = getattr(self, field_.name)
            if field_.name != "budget" and value < least:
                raise LimitError(
                    f"expected the search limit '{field_.name}' to be at least {least}, "
                    f"got {value!r}"
                )


BOUNDS = tuple(
    f.name for f in fields(SearchLimits) if f.name not in ("budget", "candidates", "seed")
)
"""The limits that bound what is examined."""


@dataclass
class SearchReport:
    """The coverage of the search."""

    frame_types: int = 0
    frames: int = 0  # choices of sizes that were costed
    values: int = 0  # distinct values in all frame types
    edges: int = 0
    pruned: int = 0
    derivations: int = 0
    kernels: int = 0  # distinct kernel problems
    plans: int = 0
    candidates: int = 0
    memory: int = 0  # the most MiB that any searching process has used so far
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    notes: list[str] = field(default_factory=list[str])
    limits: dict[str, str] = field(default_factory=dict[str, str])
    """The bounds that excluded a part of the space, and how."""
    stop: StopReason = StopReason.EXHAUSTED

    def cut(self, bound: str, how: str) -> None:
        """Note that a bound has excluded something."""
        self.limits.setdefault(bound, how)
        if self.stop is StopReason.EXHAUSTED:
            self.stop = StopReason.LIMIT

    def go_on(self, *bounds: str) -> None:
        """Note that the search is continued, so that parts which some bounds have excluded are
        examined again."""
        for bound in bounds:
            self.limits.pop(bound, None)
        self.stop = StopReason.LIMIT if self.limits else StopReason.EXHAUSTED

    @property
    def reason(self) -> str:
        """The reason why the search ended, in a word, and the bounds that excluded something."""
        bounds = f" ({', '.join(sorted(self.limits))})" if self.limits else ""
        return self.stop.value + bounds

    def note(self, text: str, alike: bool = False) -> None:
        """Add a remark on completeness, once; ``alike`` remarks that differ only in numbers count
        as equal.
        """
        if alike and any(_NUMBER.sub("", text) == _NUMBER.sub("", have) for have in self.notes):
            return
        if text not in self.notes:
            self.notes.append(text)

    def merge(self, other: SearchReport) -> None:
        """Add the coverage of a worker; its seconds count as if they were spent here."""
        for name, value in vars(other).items():
            if isinstance(value, int) and name not in ("plans", "candidates", "memory"):
                setattr(self, name, getattr(self, name) + value)
        self.memory = max(self.memory, other.memory)
        for phase, seconds in other.seconds.items():
            self.seconds[phase] = self.seconds.get(phase, 0.0) + seconds
        for text in other.notes:
            self.note(text, alike=True)
        for bound, how in other.limits.items():
            self.cut(bound, how)
        if other.stop is StopReason.BUDGET:
            self.stop = StopReason.BUDGET

    def weigh(self) -> None:
        """Record the memory of this process."""
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        self.memory = max(self.memory, used)

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            **vars(self),
            "stop": self.stop.value,
            "seconds": dict(self.seconds),
            "notes": list(self.notes),
            "limits": dict(self.limits),
        }

    def table(self) -> str:
        """Return a table for people."""
        units = {"memory": "memory [MiB]"}
        rows = [
            (units.get(k, k.replace("_", " ")), str(v))
            for k, v in vars(self).items()
            if isinstance(v, int)
        ]
        rows += [(f"{k} [s]", f"{v:.3f}") for k, v in self.seconds.items()]
        rows.append(("stopped because", self.stop.value))
        rows += [(f"left out by {bound}", how) for bound, how in self.limits.items()]
        rows += [("note", n) for n in self.notes]
        width = max(len(k) for k, _ in rows)
        return "\n".join(f"{k:<{width}}  {v}" for k, v in rows)


class Timer:
    """Adds the time of a ``with`` block to one phase of a report."""

    def __init__(self, report: SearchReport, phase: str) -> None:
        self._report, self._phase, self._start = report, phase, 0.0

    def __enter__(self) -> None:
        self._start = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        spent = time.perf_counter() - self._start
        self._report.seconds[self._phase] = self._report.seconds.get(self._phase, 0.0) + spent
