"""Candidates that skip steps are proved with all steps taken; here they are run with the steps
skipped."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial

from mirage.semantics.scalar import Array
from mirage.semantics.ugraph import KernelGraph
from mirage.verify.candidates.jobs import each, workers
from mirage.verify.candidates.together import Terms
from mirage.verify.evidence.time_limit import OutOfTime, time_limit
from mirage.verify.shared_inputs.steps_left_out import all_with_steps
from mirage.verify.verdict import Kind, Verdict


def in_their_steps(
    reference: KernelGraph,
    candidates: Sequence[KernelGraph],
    verdicts: Sequence[Verdict],
    contents: Mapping[int, Array],
    terms: Terms,
    executor: Executor | None = None,
) -> list[Verdict]:
    """Turn the verdicts on candidates with all steps into verdicts on the candidates themselves.
    ``contents`` are the inputs whose values are known. A candidate that is not compared by the
    deadline gets "unknown"."""
    turns = workers(executor)
    parts = [range(k, len(candidates), turns) for k in range(min(turns, len(candidates)))]
    jobs = [
        partial(
            _compared,
            reference,
            [candidates[n] for n in part],
            [verdicts[n] for n in part],
            contents,
            terms.options.work,
            verdicts[0].seed,
            terms.deadline,
        )
        for part in parts
    ]
    found = dict[int, Verdict]()
    for part, compared in zip(parts, each(jobs, executor), strict=True):
        found.update(zip(part, compared, strict=True))
    return [found[n] for n in range(len(candidates))]


def _compared(
    reference: KernelGraph,
    candidates: Sequence[KernelGraph],
    verdicts: Sequence[Verdict],
    contents: Mapping[int, Array],
    work: float,
    seed: int,
    deadline: float,
) -> list[Verdict]:
    try:
        with time_limit(deadline - time.time()):
            return all_with_steps(reference, candidates, verdicts, contents, work, seed)
    except OutOfTime:
        return [replace(verdict, kind=Kind.UNKNOWN, late=True) for verdict in verdicts]
