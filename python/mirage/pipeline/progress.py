"""What is said while a program is optimized, and what the report keeps of it."""

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
    """Speaks through the callbacks of ``options``. ``answered`` says how many parts have an answer,
    once there are parts."""

    def __init__(self, options: OptimizeOptions, deadline: Deadline) -> None:
        self.options, self.deadline = options, deadline
        self.report = Report()
        self.answered: Callable[[], str] = str

    def note(self, text: str) -> None:
        """Says something that the report keeps."""
        self.report.notes.append(text)
        self.options.say(text)

    def show(self, phase: str, detail: str = "") -> None:
        """Says what is under way: the phase, how many parts have an answer, the time left."""
        said = (detail, self.answered(), f"{self.deadline.left:.0f} s left")
        self.options.show(f"{phase}: {', '.join(filter(None, said))}")

    @contextmanager
    def timed(self, phase: str) -> Generator[None]:
        """Shows a phase, and adds its seconds to the report."""
        self.show(phase)
        start = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - start
            self.report.seconds[phase] = self.report.seconds.get(phase, 0.0) + spent

    def watch_search(self, best: float, kernels: int) -> None:
        """Shows how far the search is: the predicted µs of its best plan, kernels solved."""
        plan = "" if best == inf else f", best so far {best:.1f} us"
        self.show("search", f"{kernels} kernels solved{plan}")

    def watch_verdict(self, checked: Checked) -> None:
        """Says what the verifier has found out about a candidate."""
        verdict = str(checked.verdict).splitlines()[0]
        dropped = "" if checked.kept else ", dropped"
        if checked.verdict.equivalent and not checked.verdict.accepted:
            undefined = checked.verdict.defined is False
            dropped += " for where it is undefined" if undefined else " for its rounding errors"
        self.options.say(f"verify: candidate {checked.index}: {verdict}{dropped}")
