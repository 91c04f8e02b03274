"""The candidates that are predicted to be the fastest, compiled in the time that is left."""

from __future__ import annotations

import time
from concurrent.futures import Executor
from dataclasses import replace
from typing import TYPE_CHECKING

from mirage.compiler.errors import CompileError
from mirage.cost.target import target_for
from mirage.frontend.program import Program
from mirage.pipeline.compile.ahead import Ahead
from mirage.pipeline.compile.broken import (
    BrokenKernelsError,
    NoTimeError,
    broken_kernels,
    key_of,
)
from mirage.pipeline.compile.build import Builder
from mirage.pipeline.compile.own_ops import different_kernels, without_kernels
from mirage.pipeline.options import OptimizeOptions
from mirage.pipeline.parts.seconds import compiling_own_ops
from mirage.pipeline.progress import Progress
from mirage.pipeline.rank import finalist, finalists, verdicts_at
from mirage.pipeline.result import Finalist, Step
from mirage.pipeline.select import ranking, select_cheapest
from mirage.semantics.alternatives import parts_of
from mirage.semantics.ugraph import KernelGraph, Launch, Value, launches

if TYPE_CHECKING:
    from mirage.compiler import Compiled

ANOTHER = 1.5
"""The time that must be left to compile one more candidate, as a multiple of the longest
compilation so far."""


class CandidateCompiler:
    """Compiles candidates. ``late`` says whether candidates were not compiled for lack of time.
    With an ``executor``, its workers compile first answers."""

    def __init__(self, program: Program, options: OptimizeOptions, progress: Progress) -> None:
        self.program, self.options, self.progress = program, options, progress
        self.target = target_for(options.chip)
        self.executor: Executor | None = None
        self.late = False
        self._calls = False  # whether parts that keep their own ops are calls instead
        self._longest = 0.0  # seconds that compiling a candidate took
        # what does not compile: by its place, by predicted time, the kernels known to be why
        self._broken: dict[int, frozenset[str]] = {}
        self._wrong: set[str] = set()  # the keys of all kernels that are known not to compile
        self._ahead: Ahead | None = None
        self._first: Finalist | None = None  # the first answers, not compiled
        self._made: dict[str, Compiled | CompileError] = {}

    @property
    def ahead(self) -> bool:
        """Whether the compilation of first answers has been started."""
        return self._ahead is not None

    @property
    def broken(self) -> bool:
        """Whether some candidates did not compile."""
        return bool(self._broken)

    def start(self, verified: KernelGraph) -> None:
        """Start compiling the first answers in a worker once all parts have one, so that there is a
        compiled program in any case."""
        verified = self._in_time(verified)
        selected, without = select_cheapest(verified, self.target)
        if without or self.executor is None:
            return
        self._ahead = Ahead(self.executor)
        verdicts = tuple(verdicts_at(verified, self.target, 0))
        self._first = Finalist(selected, (), 0, None, 0, verdicts)
        self._builder().start(selected)

    def finalists(self, verified: KernelGraph) -> list[Finalist]:
        """Return the best verified candidates, compiled."""
        in_time = self._in_time(verified)
        if in_time is not verified:
            self.progress.note(
                "parts that keep their own ops are calls of PyTorch: no time to compile them"
            )
        found = finalists(
            in_time,
            self.target,
            self.options.finalists if self.options.compile else 1,
            self.build,
            self.progress.note,
            self._goes_on,
            self._note_broken,
            self._first_compiled(),
        )
        return found or self._first_compiled(self.progress.deadline.left)

    def has_time_for(self, kernels: int) -> bool:
        """Return whether there is time to compile a number of kernels of own ops."""
        deadline = self.progress.deadline
        return deadline.left >= compiling_own_ops(deadline, kernels)

    def _in_time(self, verified: KernelGraph) -> KernelGraph:
        """Return the program without kernels of the parts that keep their own ops, if there is no
        time to compile those."""
        if not self.options.compile:
            return verified
        if not self._calls:
            own = different_kernels(verified)
            self._calls = own > 0 and not self.has_time_for(own)
            self.late |= self._calls
        return without_kernels(verified) if self._calls else verified

    def finalist(self, graph: KernelGraph) -> Finalist:
        """Return a program as the only candidate. Raises :class:`mirage.compiler.CompileError`."""
        return finalist(graph, 0, self.target, self.build(graph), self.progress.note)

    def build(self, selected: KernelGraph) -> tuple[Step, ...]:
        """Return the steps of a chosen program; none if nothing is to be compiled."""
        if not self.options.compile:
            return ()
        known = self._wrong.intersection(map(key_of, launches(selected.ops)) if self._wrong else ())
        if known:
            raise BrokenKernelsError("it has kernels that do not compile", frozenset(known))
        start = time.perf_counter()
        try:
            with self.progress.timed("compile"):
                return tuple(self._builder().steps(selected))
        finally:
            self._longest = max(self._longest, time.perf_counter() - start)

    def take_broken_kernels(self, verified: KernelGraph) -> dict[int, list[Launch]]:
        """Return the kernels that do not compile, by the id of a part's program, of the candidates
        that failed since the last call, as far as there is time to search for them."""
        found: dict[int, list[Launch]] = {}
        broken, self._broken = self._broken, {}
        for place, named in broken.items():
            own: dict[Value, tuple[int, Launch]] = {}  # by the first result in the whole program
            for op in parts_of(verified):
                order = [position for _, position in ranking(op, self.target)]
                program = op.programs[order[min(place, len(order) - 1)]]
                outside = dict(zip(program.outputs, op.results, strict=True))
                for launch in launches(program.ops):
                    first = launch.results[0]
                    own[outside.get(first, first)] = id(program), launch
            selected, _ = select_cheapest(verified, self.target, place)
            kernels = list(launches(selected.ops))
            numbers = broken_kernels(kernels, named or self._wrong, self._compiles)
            self._wrong.update(key_of(kernels[number]) for number in numbers)
            for number in sorted(numbers):
                made = own.get(kernels[number].results[0])
                # the other kernels compute or copy lookups and belong to no part
                if made is not None:
                    found.setdefault(made[0], []).append(made[1])
        return found

    def _first_compiled(self, seconds: float = 0.0) -> list[Finalist]:
        """Return the first answers, if their compilation has succeeded by now."""
        first = self._first
        if first is None or self._ahead is None or not self._ahead.wait(seconds):
            return []
        self._longest = max(self._longest, self._ahead.seconds)
        try:
            compiled = self.finalist(first.graph)
        except CompileError:
            return []
        return [replace(compiled, verdicts=first.verdicts)]

    def _compiles(self, program: KernelGraph) -> bool:
        if not self._goes_on():
            raise NoTimeError
        try:
            self.build(program)
        except CompileError:
            return False
        return True

    def _note_broken(self, place: int, error: CompileError) -> None:
        keys = error.keys if isinstance(error, BrokenKernelsError) else frozenset[str]()
        self._broken[place] = keys
        self._wrong |= keys

    def _goes_on(self) -> bool:
        """Return whether there is time to compile one more candidate."""
        enough = self.progress.deadline.left > ANOTHER * self._longest
        self.late |= not enough
        return enough

    def _builder(self) -> Builder:
        o = self.options
        checked = self.progress.report.checked
        return Builder(self.program, o.chip, o.cubin, o.use_cache, checked, self._ahead, self._made)
