"""The result of running a kernel to check it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

TIME_UP = "the time is up"
"""The reason for not running a kernel that could have been run."""


class Outcome(Enum):
    """The outcome of a check."""

    PASSED = "passed"
    FAILED = "failed"
    UNCHECKED = "not checked"


@dataclass(frozen=True)
class KernelCheck:
    """The check of one kernel, run in one way."""

    kernel: str
    how: str
    outcome: Outcome
    text: str

    def __str__(self) -> str:
        return f"kernel {self.kernel} {self.outcome.value} ({self.how}): {self.text}"

    def to_json(self) -> dict[str, str]:
        """Return plain data, as manifests contain it."""
        return {**vars(self), "outcome": self.outcome.value}
