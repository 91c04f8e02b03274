"""Do programs differ in float64 with what some of their inputs are known to hold?"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mirage.semantics.evaluate import Sampled
from mirage.semantics.scalar import Array
from mirage.semantics.ugraph import KernelGraph
from mirage.verify.evidence.floats import Difference, compare_inputs, draw_inputs
from mirage.verify.evidence.sampling import Sample, choose_sample

_SCALES = (1.0, 0.05)
_PARTS = 3  # of the outputs that are looked at
_AT_MOST = 32.0  # times the work of a test that a single element may need


def held_difference(
    graphs: tuple[KernelGraph, KernelGraph],
    contents: Mapping[int, Array],
    work: float,
    seed: int,
) -> tuple[Difference | None, int]:
    """A difference in float64 on random inputs, those in ``contents`` as they are, and how many
    inputs were tried."""
    rng = np.random.default_rng(seed)
    count = 0
    for _ in range(_PARTS):
        sample = choose_sample(graphs, 4.0 * work, rng)
        if sample.work > _AT_MOST * work:
            break
        for scale in _SCALES:
            inputs = with_contents(draw_inputs(graphs[0], sample, rng, scale), sample, contents)
            found = compare_inputs(graphs, sample, inputs, range(len(graphs[0].outputs)), scale)
            count += 1
            if found is not None:
                return found, count
        if sample.fraction == 1.0:
            break
    return None, count


def with_contents(
    inputs: list[Sampled], sample: Sample, contents: Mapping[int, Array]
) -> list[Sampled]:
    """The inputs with the elements that are known in place."""
    result = list(inputs)
    for i, content in contents.items():
        x = np.asarray(content, dtype=np.float64)
        for dim, index in enumerate(sample.inputs[i]):
            x = x if index is None else np.take(x, index, axis=dim)
        result[i] = Sampled((x,), sample.inputs[i])
    return result
