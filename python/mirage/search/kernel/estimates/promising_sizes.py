"""Choices of sizes at which derivations are promising, and at which their results can be stored."""

from __future__ import annotations

from typing import Any

import numpy as np

from mirage.search.algebra.axes import Dims
from mirage.search.kernel.derivations.derive import Goal
from mirage.search.kernel.derivations.extract import Choices
from mirage.search.kernel.derivations.moves import Edge, Gather
from mirage.search.kernel.estimates.derivation_costs import Measure
from mirage.search.kernel.loop_nests.problem_axes import Analysis


def promising(measure: Measure, choices: Choices, costs: Any, dims: Dims, most: int) -> list[int]:
    """Return a limited number of the most promising columns, with different numbers of blocks or
    steps."""
    total: list[Any] = []
    never = np.full(measure.columns.count, np.inf)
    possible = np.isfinite(costs).any(axis=1).tolist()
    for edges in choices.of_goal:
        best: Any = None
        for number, children in edges:
            if possible[number]:
                below = costs[number]
                for child in children:
                    below = below + total[child]
                best = below if best is None else np.minimum(best, below)
        total.append(never if best is None else best)
    blocks = measure.columns.blocks()
    surrogate = np.ceil(blocks / measure.target.sms) * sum(total[t] for t in choices.targets)
    surrogate = np.where(measure.map_ok(dims), surrogate, np.inf)
    order = np.argsort(surrogate, kind="stable")
    order = order[: np.count_nonzero(np.isfinite(surrogate))]
    steps = measure.steps().astype(np.int64)
    usable: list[int] = []
    seen: set[tuple[int, int]] = set()
    for i, own, times in zip(
        *(x.tolist() for x in (order, blocks[order], steps[order])), strict=True
    ):
        key = (own.bit_length(), times.bit_length())
        if key not in seen:
            seen.add(key)
            usable.append(i)
            if len(usable) == most:
                break
    return usable


def may_store(
    analysis: Analysis,
    measure: Measure,
    edges: list[Edge],
    targets: tuple[Goal, ...],
) -> Any:
    """Return where the stored values depend on every axis that the grid splits; otherwise
    several blocks would write one element."""
    dims = analysis.dims[0]
    ok = measure.map_ok(dims)
    axes = tuple(a for dim in dims for a in dim)
    ok = ok & measure.fits(axes)
    for goal in targets:
        ok = ok & measure.fits(measure.labels(goal))
    stored = [measure.labels(e.children[0]) for e in edges if isinstance(e, Gather)]
    stored.extend(tuple(a for dim in own for a in dim) for own in analysis.dims[1:])
    for labels in stored:
        ok = ok & measure.fits(labels)
        for a in axes:
            if a not in labels:
                ok = ok & (measure.columns.grid[a] == 1)
    return ok
