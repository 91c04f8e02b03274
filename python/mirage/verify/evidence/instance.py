"""The programs that the tests at the real sizes run, and what to sample of them.

As a rule these are the programs themselves, with the part of the outputs that fits the time. Where
even one output element needs too much (two matrix products in a row), they run on inputs that are
constant within cells of indices: the same programs with the same sizes, maps, masks and constants
(:mod:`mirage.verify.compression.small_program`), but cheaper.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from mirage.semantics.scalar import Array
from mirage.semantics.ugraph import KernelGraph
from mirage.verify.compression.index_relations import Irregular
from mirage.verify.compression.readings import readings
from mirage.verify.compression.small_program import Cells, compress_all
from mirage.verify.evidence.sampling import Sample, Sampler

_PATIENCE = 8.0  # times the work, where there is no cheaper way
_CELLS = (64, 32, 16, 8, 4)
_FAR = 16.0  # times the limit: half as many cells will not do either


@dataclass(frozen=True)
class Instance:
    """Reference and candidate for exact arithmetic and (with stable softmax) for floats, and
    samples of them.
    """

    exact: tuple[KernelGraph, KernelGraph]
    stable: tuple[KernelGraph, KernelGraph]
    exact_sample: Sample
    stable_sample: Sample
    cells: int | None = None

    def describe(self, sample: Sample) -> str:
        """What part of the program a test covers."""
        compared = f"{100 * sample.fraction:.3g} % of the outputs compared"
        if self.cells is None:
            return compared
        return (
            f"{compared}, on inputs constant within at most {self.cells} cells of each index digit"
        )


class TooMuchWork(ValueError):
    """The programs cannot be run at their sizes in the time allowed."""


def make_instance(
    exact: tuple[KernelGraph, KernelGraph],
    stable: tuple[KernelGraph, KernelGraph],
    work: float,
    rng: np.random.Generator,
) -> Instance:
    """Samples of the programs that need about ``work`` (at most four times that).

    Raises :class:`TooMuchWork`.
    """
    limit = 4.0 * work
    samples = _samples((exact, stable), work, limit, rng)
    if isinstance(samples, tuple):
        return Instance(exact, stable, samples[0], samples[1])
    try:
        reading = next(readings((*exact, *stable)))
    except Irregular as reason:
        samples = _samples((exact, stable), work, _PATIENCE * limit, rng)
        if isinstance(samples, tuple):
            return Instance(exact, stable, samples[0], samples[1])
        raise TooMuchWork(
            f"{samples:.2g} elements to compute, limit {_PATIENCE * limit:.2g}; {reason}"
        ) from reason
    least, hopeless = samples, False
    for count in _CELLS:
        if hopeless and count != _CELLS[-1]:
            hopeless = False
            continue
        small, weights = compress_all(reading.graphs, Cells.even(reading.structure, count))
        first = len(small[0].inputs) - len(weights)
        fixed = {first + i: np.array(w, dtype=np.float64) for i, w in enumerate(weights)}
        pairs = ((small[0], small[1]), (small[2], small[3]))
        samples = _samples(pairs, work, limit, rng, fixed)
        if isinstance(samples, tuple):
            return Instance(pairs[0], pairs[1], samples[0], samples[1], count)
        least, hopeless = min(least, samples), samples > _FAR * limit
    raise TooMuchWork(f"{least:.2g} elements to compute, limit {limit:.2g}")


_Pair = tuple[KernelGraph, KernelGraph]


def _samples(
    pairs: tuple[_Pair, _Pair],
    work: float,
    limit: float,
    rng: np.random.Generator,
    fixed: Mapping[int, Array] | None = None,
) -> tuple[Sample, Sample] | float:
    """Samples of both pairs, or the work of one that is above the limit."""
    sampler = Sampler(pairs[0][0].outputs, rng)
    least = max(map(sampler.least_work, pairs))
    if least > limit:
        return least
    first, second = (sampler.sample(p, work, fixed) for p in pairs)
    most = max(first.work, second.work)
    return (first, second) if most <= limit else most
