"""The time that all stages together may take."""

from __future__ import annotations

import time

from mirage.pipeline.lost_time import Pace

INTERRUPTED = "interrupted"
"""The reason if the user has ended the run."""
FOR_COMPILATION = "the rest of the budget is for compilation"


class Deadline:
    """The end of the available time. Seconds are those of the clock at the current ``pace``, which
    moves the end if other programs use the processors. ``reason`` says why the time is up, once it
    is.
    """

    def __init__(
        self, seconds: float, within: Deadline | None = None, pace: Pace | None = None
    ) -> None:
        self.seconds = seconds
        self._pace = pace if within is None else within._pace
        self._end = self._now() + seconds * self._rate
        self._within = within
        self._stopped = ""

    @property
    def left(self) -> float:
        """The seconds that are left; 0 after the end."""
        return 0.0 if self._stopped else max(0.0, (self._end - self._now()) / self._rate)

    @property
    def at(self) -> float:
        """The end in seconds since the epoch, since the clocks of processes differ."""
        return time.time() + self.left

    def _now(self) -> float:
        """Return the current time in seconds that count."""
        return time.time() - (0.0 if self._pace is None else self._pace.lost)

    @property
    def slowed(self) -> float | None:
        """The seconds of the clock for a second of work at the current pace; None if unknown."""
        return None if self._pace is None or not self._pace.known else 1.0 / self._rate

    @property
    def worked(self) -> float:
        """The share of the seconds used so far in which processes could work (:class:`Pace`)."""
        return 1.0 if self._pace is None else self._pace.worked

    @property
    def _rate(self) -> float:
        return 1.0 if self._pace is None else self._pace.rate

    def portion(self, part: float, but: float = 0.0) -> Deadline:
        """Return a deadline for a share of the remaining time, minus ``but`` seconds."""
        return Deadline(part * max(0.0, self.left - but), self)

    def at_most(self, seconds: float) -> Deadline:
        """Return a deadline in ``seconds``, or this one if it comes earlier."""
        return Deadline(min(seconds, self.left), self)

    def stop(self, reason: str) -> None:
        """End this deadline now, and the deadline that it is a portion of."""
        self._end = self._now()
        self._stopped = reason
        if self._within is not None:
            self._within.stop(reason)

    @property
    def reason(self) -> str:
        """The reason why the time is up; empty until then."""
        if self._stopped or self.left > 0.0:
            return self._stopped
        if self._within is None:
            return f"the budget of {self.seconds:.3g} s is used up"
        if self._within.reason or not self.seconds:
            return self._within.reason or FOR_COMPILATION
        return f"its {self.seconds:.3g} s of the budget are used up"
