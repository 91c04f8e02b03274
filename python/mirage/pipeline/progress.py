"""The messages during an optimization, and those that the report keeps."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from math import inf

from mirage.pipeline.deadline import Deadline
from mirage.pipeline.options import OptimizeOptions
from mirage.pipeline.result import Report
from mirage.pipeline.verify import Checked


class Progress:
    """Reports through the callbacks of ``options``. ``answered`` says how many parts have an
    answer, once there are parts."""

    def __init__(self, options: OptimizeOptions, deadline: Deadline) -> None:
        self.options, self.deadline = options, deadline
        self.report = Report()
        self.answered: Callable[[], str] = str

    def note(self, text: str) -> None:
        """Report a message and keep it in the report."""
        self.report.notes.append(text)
        self.options.say(text)

    def show(self, phase: str, detail: str = "") -> None:
        """Show the current phase, how many parts have an answer, and the time left."""
        said = (detail, self.answered(), f"{self.deadline.left:.0f} s left")
        self.options.show(f"{phase}: {', '.join(filter(None, said))}")

    @contextmanager
    def timed(self, phase: str) -> Generator[None]:
        """Show a phase and add its seconds to the report."""
        self.show(phase)
        start = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - start
            self.report.seconds[phase] = self.report.seconds.get(phase, 0.0) + spent

    def watch_search(self, best: float, kernels: int) -> None:
        """Show the progress of the search: the predicted µs of its best plan, and the kernels
        solved."""
        plan = "" if best == inf else f", best so far {best:.1f} us"
        self.show("search", f"{kernels} kernels solved{plan}")

    def watch_verdict(self, checked: Checked) -> None:
        """Report the verdict on a candidate."""
        verdict = str(checked.verdict).splitlines()[0]
        dropped = "" if checked.kept else ", dropped"
        if checked.verdict.equivalent and not checked.verdict.accepted:
            undefined = checked.verdict.defined is False
            dropped += " for where it is undefined" if undefined else " for its rounding errors"
        self.options.say(f"verify: candidate {checked.index}: {verdict}{dropped}")
