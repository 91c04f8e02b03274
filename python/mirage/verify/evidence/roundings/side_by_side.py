"""Several sets of inputs of one program, evaluated side by side.

Evaluating a small part of a program's outputs costs more per op than per element. So sets of inputs
that are needed anyway are stacked along one more array dimension
(:func:`mirage.semantics.evaluation.evaluate.evaluate_sampled`). Inputs that are the same in all
sets exist once, and so do the values that depend on these alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import numpy as np

from mirage.semantics.domain import Domain, map_planes
from mirage.semantics.evaluation.evaluate import (
    EvaluationError,
    Sampled,
    Shared,
    evaluate_sampled,
)
from mirage.semantics.evaluation.parts_of_ops import Tensor
from mirage.semantics.scalar import Array
from mirage.semantics.ugraph import KernelGraph, Op
from mirage.verify.evidence.samples.real_sizes import restrict
from mirage.verify.evidence.samples.sampled_outputs import Sample

_T = TypeVar("_T")

_AT_ONCE = 8e6
"""The most elements of a program that are computed at once (:attr:`Sample.work` counts those of all
programs), and the most elements of inputs: 64 MB each, if all of them are kept in float64. A single
set may have more."""

_MOST = 8
"""The most sets that are evaluated at once. More sets would hardly save time, and the end of the
time must be noticed early."""
_LARGE = 50_000
"""Elements of an input from which on a copy takes longer than starting another evaluation."""


def stacked(sets: Sequence[Sequence[Sampled]]) -> list[Sampled]:
    """Stack the inputs of all sets along a new first dimension, which has size 1 where all sets
    have the same arrays."""
    found: list[Sampled] = []
    for same in zip(*sets, strict=True):
        first = same[0]
        if all(x.planes is first.planes or x.planes[0] is first.planes[0] for x in same):
            found.append(Sampled(map_planes(lambda p: p[None], first.planes), first.region))
            continue
        planes = zip(*(x.planes for x in same), strict=True)
        found.append(Sampled(tuple(np.stack(p) for p in planes), first.region))
    return found


def alike(sets: Sequence[Sequence[Sampled]]) -> list[list[int]]:
    """Group the numbers of the sets that have the same arrays for large inputs. Otherwise stacking
    would copy these and repeat all computations on them for each set."""
    groups: dict[tuple[int, ...], list[int]] = {}
    most = [Counter(id(x.planes[0]) for x in same).most_common(1)[0] for same in zip(*sets)]
    large = [
        (i, usual)
        for i, (usual, times) in enumerate(most)
        if 1 < times < len(sets) and sets[0][i].planes[0].size > _LARGE
    ]
    for number, inputs in enumerate(sets):
        key = tuple(i for i, usual in large if id(inputs[i].planes[0]) != usual)
        groups.setdefault(key, []).append(number)
    return list(groups.values())


def chunks(items: Sequence[_T], sample: Sample) -> Iterator[Sequence[_T]]:
    """Yield groups of as many items as are evaluated at once on that sample."""
    count = at_once(sample)
    return (items[i : i + count] for i in range(0, len(items), count))


def at_once(sample: Sample) -> int:
    """Return how many sets of inputs of a sample are evaluated at once."""
    computed = sample.work / len(sample.demands)
    return max(1, min(_MOST, int(_AT_ONCE / max(1.0, computed, sample.read))))


def outputs_of_each(
    graph: KernelGraph,
    number: int,
    domain: Callable[[], Domain],
    sets: Sequence[Sequence[Sampled]],
    sample: Sample,
    permutation: Sequence[int] | None = None,
    numbers: Mapping[Op, int] | None = None,
    known: dict[int, tuple[Tensor, ...]] | None = None,
) -> list[list[Array]]:
    """Return the sampled part of each output, for each set of inputs; ``number`` is the graph's
    place in the sample. Output ``i`` is the graph's ``permutation[i]``. ``known`` has the results
    of launches that other graphs share, for the same sets, by the launches' ``numbers``.

    Raises the exception of the first set whose evaluation fails.
    """
    order = range(len(graph.outputs)) if permutation is None else permutation
    wanted = sample.demands[number]

    def run(inputs: Sequence[Sampled], shared: Shared | None, count: int) -> list[list[Array]]:
        values = evaluate_sampled(graph, domain(), inputs, wanted, shared, sets=int(count > 1))
        found = [
            restrict(values[j], region, graph.outputs[j], int(count > 1))[0]
            for j, region in zip(order, sample.outputs, strict=True)
        ]
        if count == 1:
            return [found]
        return [[x[min(k, len(x) - 1)] for x in found] for k in range(count)]

    shared = None if numbers is None or known is None else Shared(numbers, known)
    if len(sets) == 1:
        return run(sets[0], shared, 1)
    try:
        return run(stacked(sets), shared, len(sets))
    except EvaluationError:  # one of them failed: evaluate one by one to find which, and how
        return [run(inputs, None, 1)[0] for inputs in sets]
