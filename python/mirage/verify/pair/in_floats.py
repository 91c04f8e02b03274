"""Both programs in float64 on parts of their real sizes."""

from __future__ import annotations

import numpy as np

from mirage.verify.evidence.samples.floats import Difference, compare_floats, decisive
from mirage.verify.evidence.samples.instance import Instance
from mirage.verify.evidence.samples.sampled_outputs import choose_sample
from mirage.verify.evidence.samples.where_defined import where_defined
from mirage.verify.verdict import Evidence

_OTHER_SAMPLES = 3


AT_REAL_SIZES = "float64 at the real sizes"


def floats_at_real_sizes(
    instance: Instance, work: float, source: np.random.Generator, order: tuple[int, ...] | None
) -> tuple[list[Difference | None], Evidence]:
    """Compare in float64 under an order of the candidate's outputs; without an order, compare them
    in the given order, and at more places."""
    sample = instance.stable_sample
    as_it_is = tuple(range(len(instance.stable[0].outputs)))
    results = compare_floats(instance.stable, sample, source, order or as_it_is)
    if order is None and decisive(results) is None:
        results += _look_again(instance, work, source)
    domain = "" if sample.fixed else where_defined(instance.stable[0])
    numbers = {"inputs": len(results), "fraction": sample.fraction, "cells": instance.cells}
    return results, Evidence(
        AT_REAL_SIZES,
        None if not results else decisive(results) is None,
        f"{len(results)} random inputs, {instance.describe(sample)}{domain}",
        numbers,
    )


def _look_again(
    instance: Instance, work: float, source: np.random.Generator
) -> list[Difference | None]:
    """Compare where the finite field shows a difference or is undefined, and at some other parts of
    the outputs.
    """
    order = range(len(instance.stable[0].outputs))
    fixed = instance.stable_sample.fixed
    samples = [(instance.exact, instance.exact_sample)]
    for _ in range(_OTHER_SAMPLES):
        pair = instance.stable
        samples.append((pair, choose_sample(pair, work, source, fixed)))
    results: list[Difference | None] = []
    for pair, sample in samples:
        results += compare_floats(pair, sample, source, order)
        if decisive(results) is not None:
            break
    return results
