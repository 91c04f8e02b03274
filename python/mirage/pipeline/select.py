"""The choice of one candidate for each part: the one with the least predicted time."""

from __future__ import annotations

from dataclasses import replace
from weakref import WeakKeyDictionary

from mirage.cost import Target
from mirage.cost.predict import predict
from mirage.pipeline.errors import StageError
from mirage.semantics.alternatives import Alternatives, inlined, kept_of, original, with_parts
from mirage.semantics.ugraph import KernelGraph
from mirage.transforms.gathered_copies import with_copied_rows
from mirage.transforms.lookups import fused
from mirage.transforms.streams_first import with_streams_first


def ranking(op: Alternatives, target: Target) -> list[tuple[float, int]]:
    """Return ``(predicted µs, position)`` of the candidates that can be compiled, cheapest
    first."""
    first = original(op)  # equal parts are examined once
    known = _RANKED.get(first)
    if known is not None and known[0] is target:
        return list(known[1])
    ranked: list[tuple[float, int]] = []
    for position, program in enumerate(first.programs[1:], start=1):
        cost = predict(program, target)
        if cost is not None:
            ranked.append((cost.time, position))
    _RANKED[first] = target, sorted(ranked)
    return sorted(ranked)


_RANKED: WeakKeyDictionary[Alternatives, tuple[Target, list[tuple[float, int]]]] = (
    WeakKeyDictionary()
)


def select_cheapest(graph: KernelGraph, target: Target, skip: int = 0) -> tuple[KernelGraph, int]:
    """Return the form ``selected``: for each part, the candidate with the least predicted cost
    (after the first ``skip``).

    Kernels compute the lookups that they load, or have rows copied in order first. A part without
    a candidate keeps its reference; the second result counts such parts.
    """
    without = 0

    def choose(op: Alternatives) -> int:
        nonlocal without
        _need_verdicts(op)
        ranked = ranking(op, target)
        without += not ranked
        return ranked[min(skip, len(ranked) - 1)][1] if ranked else 0

    return compilable(inlined(graph, choose), target), without


def compilable(graph: KernelGraph, target: Target) -> KernelGraph:
    """Return chosen kernels in the form that is compiled: with their lookups, in the order in which
    they run."""
    return with_streams_first(fused(with_copied_rows(graph, target)))


def keep_cheapest(graph: KernelGraph, target: Target, count: int) -> tuple[KernelGraph, int]:
    """Keep the ``count`` candidates of each part with the least predicted cost, in that order, so
    that measurements can choose among them; the form is ``verified`` still.

    The second result counts parts that have no candidate.
    """
    without = 0

    def keep(op: Alternatives) -> Alternatives:
        nonlocal without
        _need_verdicts(op)
        ranked = ranking(op, target)[:count]
        without += not ranked
        op = kept_of(op, [position for _, position in ranked])
        return replace(op, costs=(None, *(time for time, _ in ranked)))

    return with_parts(graph, keep), without


def _need_verdicts(op: Alternatives) -> None:
    if op.verdicts is None:
        raise StageError("select: expected verified candidates, got candidates without verdicts")
