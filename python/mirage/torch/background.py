"""From a graph's program to its kernels: at once if an earlier run has found them, otherwise by a
compile process, after which they replace PyTorch between two calls."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from mirage.cache import shared_store
from mirage.cost.fused_ops import op_by_op
from mirage.cost.target import target_for
from mirage.errors import MirageError
from mirage.frontend.program import Program
from mirage.pipeline.commands.compile_process import Entries
from mirage.pipeline.compile.left_parts import slower
from mirage.pipeline.kept_program import is_kept
from mirage.pipeline.optimize import load_found
from mirage.pipeline.options import OptimizeOptions
from mirage.torch.compiled_graph import Compiled, Compiler, Report, StaysEager, describe
from mirage.torch.workshop import PATIENCE, CompileProcessError, Job, Workshop

if TYPE_CHECKING:
    from mirage.pipeline.sized_source import SizedSource
    from mirage.torch.sized_graph import SizedClass

log = logging.getLogger("mirage.torch")

ClassLoader: TypeAlias = "Callable[[SizedClass, Mapping[str, Any]], Compiled]"
"""A function that makes the result for a class of sizes ready to be called."""
RUN = "run"
"""The option that tells ``load`` that kernels may be run to check them."""
HERE = ("watch", "progress")
"""The options that a compile process cannot have."""


class PyTorchIsFasterError(StaysEager):
    """A graph is left to PyTorch, which is predicted to be faster."""

    def __init__(self, kernels: float, calls: float) -> None:
        super().__init__(
            f"its calls are predicted to take {calls:.3g} µs, kernels {kernels:.3g} µs; kernels "
            "are used with the option pytorch_where_faster=False"
        )


class NotFoundError(MirageError):
    """The result of a compile process is missing or cannot be loaded."""


def load_program(program: Program, options: Mapping[str, Any]) -> Compiled:
    """Return the result for a program, ready to be called. Its kernels are run once on the GPU
    first if ``run`` is among the options. Raises :class:`NotFoundError`."""
    chosen = dict(options)
    run = bool(chosen.pop(RUN, False))
    found = load_found(program, OptimizeOptions.of(**chosen), run=run)
    if found is None:
        raise NotFoundError("its kernels cannot be loaded")
    if found.report.left and not found.artifacts:  # eager PyTorch has ops that are several here
        kernels, calls = (
            sum(getattr(p, name) * p.places for p in found.report.left)
            for name in ("kernels", "calls")
        )
        raise PyTorchIsFasterError(kernels, calls)
    return found


def with_chip(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with the current device's chip, if they name no chip."""
    chosen = dict(options)
    if "chip" not in chosen:
        chosen["chip"] = current_chip()
    return chosen


def current_chip() -> str:
    """Return the card of torch's current device, by its name in the table of chips. Raises
    :class:`mirage.cost.UnknownTargetError` if the table has no row for the device.
    """
    from mirage.cost import target_of_device

    return target_of_device(torch.cuda.get_device_capability(), torch.cuda.get_device_name()).name


@dataclass(frozen=True)
class WholeProgram:
    """A program to be compiled, and the function that loads its result."""

    program: Program
    load: Compiler

    def is_kept(self, options: OptimizeOptions) -> bool:
        """Return whether an earlier run has a result for it."""
        return is_kept(self.program, options)

    def loaded(self, options: Mapping[str, Any]) -> Compiled:
        """Return the result, ready to be called. Raises the errors of ``load``."""
        return self.load(self.program, options)

    def submit(
        self, workshop: Workshop, options: Mapping[str, Any], done: Callable[[Job], None]
    ) -> Job:
        """Submit the program to another process."""
        return workshop.submit(_job(self.program, options, done))


@dataclass(frozen=True)
class OneClass:
    """A class of sizes to be compiled, and the function that loads its result."""

    found: SizedClass
    load: ClassLoader

    def is_kept(self, options: OptimizeOptions) -> bool:
        """Return whether an earlier run has a result for it."""
        from mirage.pipeline.optimize import class_is_kept

        return class_is_kept(self.found.source, options)

    def loaded(self, options: Mapping[str, Any]) -> Compiled:
        """Return the result, ready to be called. Raises the errors of ``load``."""
        return self.load(self.found, options)

    def submit(
        self, workshop: Workshop, options: Mapping[str, Any], done: Callable[[Job], None]
    ) -> Job:
        """Submit the class to another process."""
        source = self.found.source
        return workshop.submit(_job(source.program, options, done, (source, self.found.name)))


def _job(
    program: Program,
    options: Mapping[str, Any],
    done: Callable[[Job], None],
    sized: tuple[SizedSource, str] | None = None,
) -> Job:
    """Return the job of optimizing a program, or a class of sizes with the name of the size; the
    other process does not run it, so it gets no contents of weights."""
    parameters = tuple(replace(p, data=None) for p in program.parameters)
    plain = replace(program, parameters=parameters)
    if sized is not None:
        sized = (replace(sized[0], program=plain), sized[1])
    request = {"program": plain, "options": dict(options), "sized": sized}
    return Job(request, done, PATIENCE + 10.0 * float(options.get("budget") or 60.0))


def load_class(found: SizedClass, options: Mapping[str, Any]) -> Compiled:
    """Return the result for a class of sizes, ready to be called. Raises :class:`NotFoundError`."""
    from mirage.pipeline.optimize import load_class

    chosen = dict(options)
    run = bool(chosen.pop(RUN, False))
    kept = load_class(found.source, OptimizeOptions.of(**chosen), run=run)
    if kept is None:
        raise NotFoundError("its kernels cannot be loaded")
    prediction = kept.optimized.report.prediction
    if chosen.get("pytorch_where_faster") and prediction is not None:
        graph, target = kept.optimized.program.graph, target_for(kept.optimized.options.chip)
        calls = op_by_op(graph, target).time
        if slower(prediction.time, calls):
            raise PyTorchIsFasterError(prediction.time, calls)
    return found.runner(kept)


def compile_in(
    workshop: Workshop,
    work: WholeProgram | OneClass,
    report: Report,
    options: Mapping[str, Any],
    *,
    blocking: bool,
) -> None:
    """Compile a graph: now if an earlier run has a result or if ``blocking``; otherwise the graph's
    ``report`` is completed later. Errors that occur now are raised, later ones are logged.
    """
    keep_in_mind(report)
    options = with_chip(options)
    if work.is_kept(OptimizeOptions.of(**options)):
        with suppress(NotFoundError):  # then it is searched again
            report.compiled = work.loaded({**options, RUN: blocking})
            return
    if blocking:
        job = work.submit(workshop, _sent(options), lambda job: None)
        job.finished.wait()
        report.compiled = _loaded(job, work, {**options, RUN: True})
        return

    def done(job: Job) -> None:
        try:
            report.compiled = _loaded(job, work, options)
            log.info(
                "kernels for a graph of %d ops are ready after %.1f s", report.ops, job.seconds
            )
        except Exception as error:
            report.reason = describe(error)
            log.warning("a graph of %d ops stays with PyTorch: %s", report.ops, report.reason)
            log.debug("why:", exc_info=error)
        finally:
            report.job = None

    report.job = work.submit(workshop, _sent(options), done)
    if report.compiled is not None or report.reason:  # it has ended already
        report.job = None


def _sent(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in HERE}


def _loaded(job: Job, work: WholeProgram | OneClass, options: Mapping[str, Any]) -> Compiled:
    """Return the result of a job, loaded from the job's entries, whatever the cache on disk
    contains."""
    if job.entries is None:
        raise CompileProcessError(job.error or "the compile process gave no answer")
    entries, job.entries = job.entries, None
    with entries_in_memory(entries):
        return work.loaded({**options, "use_cache": True})  # the entries are in memory now


@contextmanager
def entries_in_memory(entries: Entries) -> Generator[None]:
    """Add entries to this process's cache within the context."""
    memory = shared_store().memory
    mine = {key: data for key, data in entries.items() if key not in memory}
    memory.update(mine)
    try:
        yield
    finally:
        for key in mine:
            memory.pop(key, None)


_reports: list[weakref.ref[Report]] = []
_lock = threading.Lock()


def keep_in_mind(report: Report) -> None:
    """Register a graph for as long as it is alive."""
    with _lock:
        _reports[:] = [r for r in _reports if r() is not None]
        if not any(r() is report for r in _reports):
            _reports.append(weakref.ref(report))


def reports() -> tuple[Report, ...]:
    """Return the reports on the living graphs of this process, in the order of their
    compilation."""
    with _lock:
        return tuple(report for r in _reports if (report := r()) is not None)
