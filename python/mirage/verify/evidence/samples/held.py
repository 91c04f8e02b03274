"""Whether programs differ in float64 when some of their inputs have their known contents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mirage.semantics.evaluation.evaluate import Sampled
from mirage.semantics.indexing.indices import Region
from mirage.semantics.scalar import Array
from mirage.semantics.ugraph import KernelGraph
from mirage.verify.evidence.samples.floats import Difference, compare_several, draw_inputs
from mirage.verify.evidence.samples.sampled_outputs import Sample, choose_sample

_SCALES = (1.0, 0.05)
_PARTS = 3  # elements of the outputs that are examined
_AT_MOST = 32.0  # how many times the work of a test a single element may need


def held_difference(
    graphs: tuple[KernelGraph, KernelGraph],
    contents: Mapping[int, Array],
    work: float,
    seed: int,
    *,
    within: bool = False,
) -> tuple[Difference | None, int]:
    """Return a difference in float64 on random inputs, or None, and the number of inputs that were
    tried. The inputs in ``contents`` have those values; with ``within``, other integers name
    something."""
    (found,) = held_differences(graphs[0], graphs[1:], contents, work, seed, within=within)
    return found


def held_differences(
    reference: KernelGraph,
    candidates: Sequence[KernelGraph],
    contents: Mapping[int, Array],
    work: float,
    seed: int,
    *,
    within: bool = False,
) -> list[tuple[Difference | None, int]]:
    """Compare several candidates like :func:`held_difference`, on the same inputs; the reference's
    results are computed once. ``work`` is that of one candidate."""
    ways = (True,) if within else (False, True)
    rng = np.random.default_rng(seed)
    graphs = (reference, *candidates)
    all_work = work * len(graphs) / 2.0
    has_integers = any(v.dtype.is_integer for v in reference.inputs)
    found = dict[int, tuple[Difference | None, int]]()
    found.update((n, (None, 0)) for n in range(len(candidates)))
    for _ in range(_PARTS):
        sample = choose_sample(graphs, 4.0 * all_work, rng)
        if sample.work > _AT_MOST * all_work:
            if len(candidates) > 1:  # a single candidate may be too large
                each = ((reference, c) for c in candidates)
                return [held_difference(p, contents, work, seed, within=within) for p in each]
            break
        for scale in _SCALES:
            active = [n for n, (difference, _) in found.items() if difference is None]
            differences: Mapping[int, Difference | None] = {}
            for way in ways:
                drawn = draw_inputs(reference, sample, rng, scale, within=way)
                inputs = with_contents(drawn, sample, contents)
                differences = compare_several(graphs, sample, inputs, active, scale)
                if differences or not has_integers:
                    break
            for n, difference in differences.items():
                found[n] = difference, found[n][1] + 1
        if sample.fraction == 1.0 or all(difference for difference, _ in found.values()):
            break
    return [found[n] for n in range(len(candidates))]


def with_contents(
    inputs: list[Sampled], sample: Sample, contents: Mapping[int, Array]
) -> list[Sampled]:
    """Put the known elements into the inputs."""
    result = list(inputs)
    for i, content in contents.items():
        result[i] = Sampled((part_of(content, sample.inputs[i]),), sample.inputs[i])
    return result


def part_of(content: Array, region: Region) -> Array:
    """Return the part of a tensor that a region selects, in float64."""
    x = np.asarray(content, dtype=np.float64)
    for dim, index in enumerate(region):
        x = x if index is None else np.take(x, index, axis=dim)
    return x
