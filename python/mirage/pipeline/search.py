"""From a program to candidates: each searchable part with the candidates that the search found."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import replace

from mirage.cost import Target
from mirage.pipeline.errors import StageError
from mirage.search import (
    Candidate,
    Pick,
    Planner,
    SearchLimits,
    SearchResult,
    StopReason,
    Watch,
    has_maxima,
)
from mirage.semantics.alternatives import Alternatives, Holds, applied_to, result_values
from mirage.semantics.positions import Lookup, index_ranks, looked_up
from mirage.semantics.signature import signature
from mirage.semantics.ugraph import KernelGraph, Op, Structure
from mirage.transforms import stabilize
from mirage.transforms.partition.partition import Part, parts_to_search

_FIRST = 0.6
"""The share of its time that a search may take before it is known whether its kernels overflow."""
_ROUNDS = 2
"""How often the search continues without kernels that no rewrite can make safe from overflow."""


def add_candidates(
    graph: KernelGraph,
    target: Target,
    limits: SearchLimits | None = None,
    executor: Executor | None = None,
    watch: Watch | None = None,
) -> tuple[KernelGraph, tuple[SearchResult, ...]]:
    """Return the form ``candidates``: each part of the program with the candidates that the search
    found, cheapest first. Equal parts are searched once. The search's ``executor`` and ``watch``
    are those of :func:`superoptimize`.

    Raises :class:`StageError` if the program already has kernels.
    """
    for op in graph.ops:
        if isinstance(op, Structure | Alternatives):
            raise StageError(
                f"search: expected predefined ops only, got {type(op).__name__.lower()}"
            )
    ops: list[Op] = []
    results: list[SearchResult] = []
    known: dict[str, Alternatives] = {}
    steps = parts_to_search(graph)
    made = looked_up(steps)
    for step in steps:
        if not isinstance(step, Part):
            ops.append(step)
            continue
        lookups = {i: made[v] for i, v in enumerate(step.graph.inputs) if v in made}
        key = f"{signature(step.graph)} {sorted(index_ranks(lookups).items())}"
        found = known.get(key)
        if found is None:
            _, result = search_part(step.graph, target, limits, executor, watch, lookups=lookups)
            results.append(result)
            known[key] = side_by_side(step.graph, result)
            ops.append(known[key])
        else:
            ops.append(applied_to(found, step.graph))
    return KernelGraph(graph.name, graph.inputs, tuple(ops), graph.outputs), tuple(results)


Planners = dict[bool, Planner]
"""The searches of one part, without and with the maximum of each row, by :attr:`Planner.stable`."""


def search_part(
    graph: KernelGraph,
    target: Target,
    limits: SearchLimits | None = None,
    executor: Executor | None = None,
    watch: Watch | None = None,
    planners: Planners | None = None,
    lookups: Mapping[int, Lookup] = {},
) -> tuple[Planner, SearchResult]:
    """Search a program without external calls. Return the search itself, which can be continued,
    and its result. ``planners`` are those of a search of the same program within other limits; they
    are continued, and new ones are added. ``lookups`` are inputs that kernels will look up."""
    limits = limits or SearchLimits()
    known: Planners = {} if planners is None else planners

    def run(seconds: float, *, stable: bool = False) -> tuple[Planner, SearchResult]:
        within = replace(limits, budget=seconds)
        if stable in known:
            return known[stable], known[stable].go_on(within, executor)
        planner = known[stable] = Planner(
            graph, target, within, executor, watch, stable=stable, rows=index_ranks(lookups)
        )
        return planner, planner.run()

    end = time.perf_counter() + limits.budget
    if not has_maxima(graph):
        return run(limits.budget)
    planner, result = run(_FIRST * limits.budget)
    for _ in range(_ROUNDS):
        left = end - time.perf_counter()
        if not _overflows(result) or left <= 0.0:
            return planner, result
        kernels = _overflowing(result)
        if not kernels or result.report.stop is StopReason.BUDGET:
            break  # the remaining time is for kernels that cannot overflow
        result = planner.again(kernels, _FIRST * left)
    left = end - time.perf_counter()
    if left > 0.0 and _overflows(result):
        safe_planner, safe = run(left, stable=True)
        if safe.candidates:
            safe.report.note("rows in several kernels: searched with their maximum")
            return safe_planner, safe
    return planner, result


def _overflows(result: SearchResult) -> bool:
    """Return whether no candidate can be made safe from overflow."""
    return all(stabilize(c.graph).unstable for c in result.candidates)


def _overflowing(result: SearchResult) -> list[Pick]:
    """Return the kernels with exponentials that no rewrite can make safe."""
    found: dict[int, Pick] = {}
    for c in result.candidates:
        for e in stabilize(c.graph).unstable:
            pick = c.pick_of(c.graph.ops[e.launch])
            if pick is not None:
                found[id(pick)] = pick
    return list(found.values())


def side_by_side(reference: KernelGraph, result: SearchResult) -> Alternatives:
    """Return a program with the candidates that the search found for it."""
    programs = (reference, *(c.graph for c in result.candidates))
    costs = (None, *(c.cost.time for c in result.candidates))
    holds = tuple(_holds(c, result) for c in result.candidates)
    return Alternatives(reference.inputs, reference.outputs, programs, None, costs, holds)


def _holds(candidate: Candidate, result: SearchResult) -> Holds:
    """Return the values that the candidate's tensors hold, as numbers of values."""
    values = () if result.program is None else result_values(result.program)
    numbers = {v: i for i, v in enumerate(values)}
    ops = enumerate(candidate.graph.ops)
    places = {v: (i, r) for i, op in ops for r, v in enumerate(op.results)}
    return Holds(
        result.stable, tuple((numbers[v], *places[c]) for v, c in candidate.stored if v in numbers)
    )
