"""Rounding errors of several candidates of one program in the same situations: what the reference
gives in each is computed once."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mirage.semantics.decompose import decompose
from mirage.semantics.ugraph import KernelGraph
from mirage.verify.evidence.first_rough import first_rough
from mirage.verify.evidence.rounding import Errors, Measured, measure_together
from mirage.verify.evidence.sampling import choose_sample
from mirage.verify.evidence.situations import Turn
from mirage.verify.kernel_by_kernel import Hint
from mirage.verify.options import VerifyOptions
from mirage.verify.time_limit import OutOfTime, time_limit


@dataclass(frozen=True)
class Entry:
    """A candidate, which of its outputs is which, and what its tensors are said to hold."""

    candidate: KernelGraph
    permutation: tuple[int, ...]
    hint: Hint | None = None


@dataclass(frozen=True)
class Result:
    """Errors in the situations that were tried, up to the first in which they are too large
    (``failed``; ``rough`` is the op that is to blame, if that is known); ``cut`` where the time was
    up before."""

    errors: tuple[Errors, ...] = ()
    failed: bool = False
    cut: bool = False
    rough: tuple[int, ...] = ()


def in_order(parts: Sequence[Result]) -> Result:
    """What one would have found alone who tried the situations of all: nothing that comes after the
    first in which errors are too large."""
    failed = [part for part in parts if part.failed]
    errors = sorted((e for part in parts for e in part.errors), key=lambda e: e.order)
    if not failed:
        return Result(tuple(errors), cut=any(part.cut for part in parts))
    first = min(failed, key=lambda part: part.errors[-1].order)
    last = first.errors[-1].order
    return Result(tuple(e for e in errors if e.order <= last), failed=True, rough=first.rough)


def rounding_of(
    reference: KernelGraph,
    entries: Sequence[Entry],
    options: VerifyOptions,
    turn: Turn,
    deadline: float,
) -> list[Result]:
    """What is measured of each candidate in the situations whose turn it is, until the deadline
    (seconds since the epoch)."""
    left = deadline - time.time()
    try:
        with time_limit(left):
            return _rounding_of(reference, entries, options, turn, deadline)
    except OutOfTime:
        return [Result(cut=True) for _ in entries]


def _rounding_of(
    reference: KernelGraph,
    entries: Sequence[Entry],
    options: VerifyOptions,
    turn: Turn,
    deadline: float,
) -> list[Result]:
    graphs = [decompose(g, stable=True) for g in (reference, *(e.candidate for e in entries))]
    sample = choose_sample(
        graphs, options.work * len(graphs) / 2.0, np.random.default_rng(options.rounding_seed)
    )
    measured = measure_together(
        graphs,
        sample,
        options.rounding_seed,
        [e.permutation for e in entries],
        assumed=options.assume,
        turn=turn,
        left=lambda: deadline - time.time(),
    )
    return [
        Result(tuple(m.errors), m.failed is not None, m.cut, _rough(entry, graphs[n + 1], n + 1, m))
        for n, (entry, m) in enumerate(zip(entries, measured, strict=True))
    ]


def _rough(entry: Entry, candidate: KernelGraph, number: int, m: Measured) -> tuple[int, ...]:
    """The positions in the entry's candidate of the ops that are to blame."""
    if entry.hint is None or m.failed is None:
        return ()
    tensor = first_rough(entry.hint.program, candidate, entry.hint.stored, number, *m.failed)
    ops = enumerate(entry.candidate.ops)
    return tuple(i for i, op in ops if tensor is not None and tensor in op.results)
