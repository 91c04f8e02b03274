"""The programs that the tests at the real sizes run, and their samples.

Usually these are the programs themselves, with the part of the outputs that fits the time. If even
one output element takes too much work (two matrix products in a row), they run on inputs that are
constant within cells of indices: the same programs with the same sizes, maps, masks and constants
(:mod:`mirage.verify.compression.small_program`), but cheaper.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from mirage.semantics.scalar import Array
from mirage.semantics.ugraph import KernelGraph
from mirage.verify.compression.index_relations import Irregular
from mirage.verify.compression.readings import readings
from mirage.verify.compression.small_program import Cells, compress, joined
from mirage.verify.evidence.samples.sampled_outputs import Sample, Sampler

_PATIENCE = 8.0  # how many times the work is allowed if there is no cheaper way
_CELLS = (64, 32, 16, 8, 4)
_FAR = 16.0  # how many times the limit: half as many cells would not be enough either


@dataclass(frozen=True)
class Instance:
    """Reference and candidate, for exact arithmetic and (with stable softmax) for floats, and
    samples of them.
    """

    exact: tuple[KernelGraph, KernelGraph]
    stable: tuple[KernelGraph, KernelGraph]
    exact_sample: Sample
    stable_sample: Sample
    cells: int | None = None

    def describe(self, sample: Sample) -> str:
        """Describe the part of the program that a test covers."""
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
    """Choose samples of the programs that take about ``work`` (at most four times that). Raises
    :class:`TooMuchWork`.
    """
    groups, samples, cells = _small_enough((exact, stable), work, rng)
    (a, b), (c, d) = groups
    return Instance((a, b), (c, d), samples[0], samples[1], cells)


def make_joint(
    graphs: Sequence[KernelGraph], work: float, rng: np.random.Generator
) -> tuple[Sequence[KernelGraph], Sample]:
    """Choose programs that stand for a reference and several candidates, and one sample of all of
    them, like :func:`make_instance`. Raises :class:`TooMuchWork`.
    """
    (programs,), (sample,), _ = _small_enough((tuple(graphs),), work * len(graphs) / 2.0, rng)
    return programs, sample


_Group = tuple[KernelGraph, ...]
"""Programs that are evaluated on one sample."""


def _small_enough(
    groups: tuple[_Group, ...], work: float, rng: np.random.Generator
) -> tuple[tuple[_Group, ...], list[Sample], int | None]:
    """Return the programs that stand for the groups, samples of them, and the largest number of
    cells of a digit (None if inputs need not be constant within cells)."""
    limit = 4.0 * work
    samples = _samples(groups, work, limit, rng)
    if isinstance(samples, list):
        return groups, samples, None
    every = tuple(g for group in groups for g in group)
    try:
        reading = next(readings(every))
    except Irregular as reason:
        samples = _samples(groups, work, _PATIENCE * limit, rng)
        if isinstance(samples, list):
            return groups, samples, None
        raise TooMuchWork(
            f"{samples:.2g} elements to compute, limit {_PATIENCE * limit:.2g}; {reason}"
        ) from reason
    least, hopeless = samples, False
    for count in _CELLS:
        if hopeless and count != _CELLS[-1]:
            hopeless = False
            continue
        cells = Cells.even(reading.structure, count)
        # even two of the programs may be too large
        last = [compress(g, cells) for g in reading.graphs[-2:]]
        two = joined(last)[0]
        samples = Sampler(two[0].outputs, np.random.default_rng(0)).least_work(two)
        if samples > limit:
            least, hopeless = min(least, samples), samples > _FAR * limit
            continue
        small, weights = joined([*(compress(g, cells) for g in reading.graphs[:-2]), *last])
        first = len(small[0].inputs) - len(weights)
        fixed = {first + i: np.array(w, dtype=np.float64) for i, w in enumerate(weights)}
        rest = iter(small)
        cut = tuple(tuple(islice(rest, len(group))) for group in groups)
        samples = _samples(cut, work, limit, rng, fixed)
        if isinstance(samples, list):
            return cut, samples, count
        least, hopeless = min(least, samples), samples > _FAR * limit
    raise TooMuchWork(f"{least:.2g} elements to compute, limit {limit:.2g}")


def _samples(
    groups: Sequence[_Group],
    work: float,
    limit: float,
    rng: np.random.Generator,
    fixed: Mapping[int, Array] | None = None,
) -> list[Sample] | float:
    """Return samples of all groups, or the work of a sample that is above the limit."""
    sampler = Sampler(groups[0][0].outputs, rng)
    least = max(map(sampler.least_work, groups))
    if least > limit:
        return least
    samples = [sampler.sample(group, work, fixed) for group in groups]
    most = max(s.work for s in samples)
    return samples if most <= limit else most
