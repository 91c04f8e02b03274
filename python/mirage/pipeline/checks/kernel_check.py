"""What is said about a kernel that was run."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

TIME_UP = "the time is up"
"""Why a kernel was not run that could have been."""


class Outcome(Enum):
    """What a check said."""

    PASSED = "passed"
    FAILED = "failed"
    UNCHECKED = "not checked"


@dataclass(frozen=True)
class KernelCheck:
    """One kernel, run in one way."""

    kernel: str
    how: str
    outcome: Outcome
    text: str

    def __str__(self) -> str:
        return f"kernel {self.kernel} {self.outcome.value} ({self.how}): {self.text}"

    def to_json(self) -> dict[str, str]:
        """Plain data, as manifests have it."""
        return {**vars(self), "outcome": self.outcome.value}
