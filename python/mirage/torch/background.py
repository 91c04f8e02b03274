"""From a graph's program to its kernels: at once where an earlier run has found them, else by a
compile process, after which they are swapped in between two calls."""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import torch

from mirage.cache import shared_store
from mirage.errors import MirageError
from mirage.frontend.program import Program
from mirage.pipeline.kept_program import is_kept
from mirage.pipeline.optimize import load_found
from mirage.pipeline.options import OptimizeOptions
from mirage.torch.compiled_graph import Compiled, CompiledGraph, Compiler, Report, describe
from mirage.torch.workshop import CompileProcessError, Job, Workshop

log = logging.getLogger("mirage.torch")

RUN = "run"
"""Says to ``load`` that kernels may be run to check them."""
HERE = ("watch", "progress")
"""Options that a compile process cannot have."""


class NotFoundError(MirageError):
    """What a compile process has found is not there, or cannot be loaded."""


def load_program(program: Program, options: Mapping[str, Any]) -> Compiled:
    """What was found for a program, ready to be called; kernels are run once on the GPU beforehand
    if ``run`` is among the options. Raises :class:`NotFoundError`."""
    chosen = dict(options)
    run = bool(chosen.pop(RUN, False))
    found = load_found(program, OptimizeOptions.of(**chosen), run=run)
    if found is None:
        raise NotFoundError("what was found for it cannot be loaded")
    return found


def with_chip(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options for the current device, if they name no chip."""
    chosen = dict(options)
    if "chip" not in chosen:
        chosen["chip"] = current_chip()
    return chosen


def current_chip() -> str:
    """The card that torch's current device is, by its name in the table of chips.

    Raises :class:`mirage.cost.UnknownTargetError` where the table has no row for the device.
    """
    from mirage.cost import target_of_device

    return target_of_device(torch.cuda.get_device_capability(), torch.cuda.get_device_name()).name


def compile_in(
    workshop: Workshop,
    graph: CompiledGraph,
    options: Mapping[str, Any],
    load: Compiler,
    *,
    blocking: bool,
) -> None:
    """Has a graph compiled: now where an earlier run has found it, or where ``blocking``; else the
    graph's report is completed later. What fails later is said in the log, what fails now is
    raised.
    """
    assert graph.program is not None
    program, report = graph.program, graph.report
    keep_in_mind(report)
    options = with_chip(options)
    if is_kept(program, OptimizeOptions.of(**options)):
        with suppress(NotFoundError):  # it is searched again then
            report.compiled = load(program, {**options, RUN: blocking})
            return
    if blocking:
        job = workshop.submit(program, _sent(options), lambda job: None)
        job.finished.wait()
        report.compiled = _loaded(job, program, {**options, RUN: True}, load)
        return

    def done(job: Job) -> None:
        try:
            report.compiled = _loaded(job, program, options, load)
            log.info(
                "kernels for a graph of %d ops are ready after %.1f s", report.ops, job.seconds
            )
        except Exception as error:
            report.reason = describe(error)
            log.warning("a graph of %d ops stays with PyTorch: %s", report.ops, report.reason)
            log.debug("why:", exc_info=error)
        finally:
            report.job = None

    report.job = workshop.submit(program, _sent(options), done)
    if report.compiled is not None or report.reason:  # it was faster
        report.job = None


def _sent(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in HERE}


def _loaded(job: Job, program: Program, options: Mapping[str, Any], load: Compiler) -> Compiled:
    """What a job has found, loaded with its entries at hand, whatever the cache on disk has."""
    if job.entries is None:
        raise CompileProcessError(job.error or "the compile process gave no answer")
    entries, job.entries = job.entries, None
    options = {**options, "use_cache": True}  # that is where they are now
    memory = shared_store().memory
    mine = {key: data for key, data in entries.items() if key not in memory}
    memory.update(mine)
    try:
        return load(program, options)
    finally:
        for key in mine:
            memory.pop(key, None)


_reports: list[weakref.ref[Report]] = []
_lock = threading.Lock()


def keep_in_mind(report: Report) -> None:
    """Remembers a graph, for as long as it is alive."""
    with _lock:
        _reports[:] = [r for r in _reports if r() is not None]
        if not any(r() is report for r in _reports):
            _reports.append(weakref.ref(report))


def reports() -> tuple[Report, ...]:
    """The graphs of this process that are alive, in the order in which they came."""
    with _lock:
        return tuple(report for r in _reports if (report := r()) is not None)
