"""The time that everything together may take."""

from __future__ import annotations

import time

INTERRUPTED = "interrupted"
"""The reason where the user has ended it."""
FOR_COMPILATION = "what is left of the budget is for compilation"


class Deadline:
    """When to end. ``at`` is in seconds since the epoch, as the clocks of processes differ.
    ``reason`` says why the time is up, where it is.
    """

    def __init__(self, seconds: float, within: Deadline | None = None) -> None:
        self.seconds = seconds
        self.at = time.time() + seconds
        self._within = within
        self._stopped = ""

    @property
    def left(self) -> float:
        """Seconds; 0 at the end."""
        return max(0.0, self.at - time.time())

    def portion(self, part: float, but: float = 0.0) -> Deadline:
        """A deadline for that share of the time left, ``but`` for some seconds."""
        return Deadline(part * max(0.0, self.left - but), self)

    def stop(self, reason: str) -> None:
        """Ends now, and so does the deadline that this is a portion of."""
        self.at = time.time()
        self._stopped = reason
        if self._within is not None:
            self._within.stop(reason)

    @property
    def reason(self) -> str:
        """Why the time is up; empty as long as it is not."""
        if self._stopped or self.left > 0.0:
            return self._stopped
        if self._within is None:
            return f"the budget of {self.seconds:.3g} s is used up"
        if self._within.reason or not self.seconds:
            return self._within.reason or FOR_COMPILATION
        return f"its {self.seconds:.3g} s of the budget are used up"
