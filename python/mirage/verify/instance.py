"""The programs that the tests at the real sizes run, and what to sample of them.

As a rule these are the programs themselves, with the part of the outputs that fits the time. Where
even one output element needs too much (two matrix products in a row), they run on inputs that are
constant within cells of indices: the same programs with the same sizes, maps, masks and constants
(:mod:`mirage.verify.compress`), but cheaper.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mirage.semantics.ugraph import KernelGraph
from mirage.verify.compress import Cells, compress_all
from mirage.verify.digits import Structure
from mirage.verify.sampling import Sample, Sampler
from mirage.verify.slots import Irregular

_PATIENCE = 8.0  # times the work, where there is no cheaper way


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
    sampler = Sampler(exact[0].outputs, rng)
    samples = [sampler.sample(g, work) for g in (exact, stable)]
    if max(s.work for s in samples) <= limit:
        return Instance(exact, stable, samples[0], samples[1])
    try:
        structure = Structure((*exact, *stable))
    except Irregular as reason:
        if max(s.work for s in samples) <= _PATIENCE * limit:
            return Instance(exact, stable, samples[0], samples[1])
        raise TooMuchWork(
            f"{samples[0].work:.2g} elements to compute, limit {_PATIENCE * limit:.2g}; {reason}"
        ) from reason
    count = 64
    while count >= 4:
        graphs, weights = compress_all((*exact, *stable), Cells.even(structure, count))
        first = len(graphs[0].inputs) - len(weights)
        fixed = {first + i: np.array(w, dtype=np.float64) for i, w in enumerate(weights)}
        pairs = ((graphs[0], graphs[1]), (graphs[2], graphs[3]))
        sampler = Sampler(graphs[0].outputs, rng)
        samples = [sampler.sample(p, work, fixed) for p in pairs]
        if max(s.work for s in samples) <= limit:
            return Instance(pairs[0], pairs[1], samples[0], samples[1], count)
        count = count // 4 if count > 8 and samples[0].work > 16 * limit else count // 2
    raise TooMuchWork(f"{samples[0].work:.2g} elements to compute, limit {limit:.2g}")
