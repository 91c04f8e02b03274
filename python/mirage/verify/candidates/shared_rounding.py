"""Rounding errors of several candidates of one program in the same situations; the reference's
results are computed once for each situation."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mirage.semantics.decompose import decompose
from mirage.semantics.scalar import Array
from mirage.semantics.ugraph import KernelGraph
from mirage.verify.evidence.roundings.first_rough import first_rough
from mirage.verify.evidence.roundings.rounding import Measured, measure_together
from mirage.verify.evidence.roundings.row_errors import Errors
from mirage.verify.evidence.roundings.situations import Turn
from mirage.verify.evidence.samples.instance import TooMuchWork, make_joint
from mirage.verify.evidence.samples.sampled_outputs import Sample, choose_sample
from mirage.verify.evidence.time_limit import OutOfTime, time_limit
from mirage.verify.pieces.kernel_by_kernel import Hint
from mirage.verify.verify_options import VerifyOptions


@dataclass(frozen=True)
class Entry:
    """A candidate to measure: its outputs' order, the values that its tensors are claimed to hold,
    and whether it can only be run on inputs that are constant within cells."""

    candidate: KernelGraph
    permutation: tuple[int, ...]
    hint: Hint | None = None
    in_cells: bool = False


@dataclass(frozen=True)
class Result:
    """The errors in the situations that were tried, up to the first one in which they are too
    large.

    ``failed`` says that there was such a situation, and ``rough`` is the op that caused it, if
    known. ``cut`` says that the time ran out first. ``too_large`` is the reason why nothing was
    measured, if the work would have been too much."""

    errors: tuple[Errors, ...] = ()
    failed: bool = False
    cut: bool = False
    rough: tuple[int, ...] = ()
    too_large: str = ""


def in_order(parts: Sequence[Result]) -> Result:
    """Merge the workers' results into the result of one process that tries all situations: nothing
    after the first situation in which errors are too large counts."""
    failed = [part for part in parts if part.failed]
    errors = sorted((e for part in parts for e in part.errors), key=lambda e: e.order)
    if not failed:
        why = next((part.too_large for part in parts if part.too_large), "")
        return Result(tuple(errors), cut=any(part.cut for part in parts), too_large=why)
    first = min(failed, key=lambda part: part.errors[-1].order)
    last = first.errors[-1].order
    return Result(tuple(e for e in errors if e.order <= last), failed=True, rough=first.rough)


def rounding_of(
    reference: KernelGraph,
    entries: Sequence[Entry],
    options: VerifyOptions,
    turn: Turn,
    deadline: float,
    positions: Mapping[int, Array] = {},
) -> list[Result]:
    """Measure each candidate in the situations of this ``turn`` until the deadline (seconds since
    the epoch). ``positions`` are the numbers in inputs that stand for positions."""
    left = deadline - time.time()
    try:
        with time_limit(left):
            return _rounding_of(reference, entries, options, turn, deadline, positions)
    except OutOfTime:
        return [Result(cut=True) for _ in entries]


def _rounding_of(
    reference: KernelGraph,
    entries: Sequence[Entry],
    options: VerifyOptions,
    turn: Turn,
    deadline: float,
    positions: Mapping[int, Array],
) -> list[Result]:
    first = decompose(reference, stable=True)
    found: dict[int, Result] = {}
    for in_cells in (False, True):
        places = [i for i, e in enumerate(entries) if e.in_cells is in_cells]
        some = [entries[i] for i in places]
        graphs = [decompose(e.candidate, stable=True) for e in some]
        for number, joint in _programs(first, graphs, in_cells, options):
            if isinstance(joint, TooMuchWork):
                found[places[number]] = Result(too_large=str(joint))
                continue
            programs, sample = joint
            mine = range(number, number + len(programs) - 1)
            measured = measure_together(
                programs,
                sample,
                options.rounding_seed,
                [some[n].permutation for n in mine],
                {} if in_cells else positions,
                assumed=options.assume,
                turn=turn,
                left=lambda: deadline - time.time(),
            )
            for k, (n, m) in enumerate(zip(mine, measured, strict=True)):
                rough = () if in_cells else _rough(some[n], graphs[n], k + 1, m)
                failed = m.failed is not None
                found[places[n]] = Result(tuple(m.errors), failed, m.cut, rough)
    return [found[i] for i in range(len(entries))]


def _programs(
    reference: KernelGraph,
    candidates: Sequence[KernelGraph],
    in_cells: bool,
    options: VerifyOptions,
    number: int = 0,
) -> Iterator[tuple[int, tuple[Sequence[KernelGraph], Sample] | TooMuchWork]]:
    """The programs to run for the reference and as many candidates as possible together, with a
    sample of them, and the number of the first of these candidates. Candidates that cut dimensions
    in incompatible ways may have no common cells; then they are split into several groups. The
    result says so if not even one candidate can be run."""
    if not candidates:
        return
    graphs = [reference, *candidates]
    rng = np.random.default_rng(options.rounding_seed)
    if not in_cells:
        yield number, (graphs, choose_sample(graphs, options.work * len(graphs) / 2.0, rng))
        return
    try:
        yield number, make_joint(graphs, options.work, rng)
    except TooMuchWork as reason:
        if len(candidates) == 1:
            yield number, reason
            return
        half = len(candidates) // 2
        for first, some in ((0, candidates[:half]), (half, candidates[half:])):
            yield from _programs(reference, some, in_cells, options, number + first)


def _rough(entry: Entry, candidate: KernelGraph, number: int, m: Measured) -> tuple[int, ...]:
    """Return the positions, in the entry's candidate, of the ops that cause the error."""
    if entry.hint is None or m.failed is None:
        return ()
    tensor = first_rough(entry.hint.program, candidate, entry.hint.stored, number, *m.failed)
    ops = enumerate(entry.candidate.ops)
    return tuple(i for i, op in ops if tensor is not None and tensor in op.results)
