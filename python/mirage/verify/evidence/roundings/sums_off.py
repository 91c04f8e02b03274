"""Does a candidate still give numbers where its sums are a little off?

A kernel adds in an order of its own, and how a sum is rounded is a matter of that order. So whether
``E[x^2] - E[x]^2`` of a constant row comes out below zero is luck: of one constant in fifty, or of
none as long as tiles are added in this way. A sum of squares of differences cannot be negative,
whatever its terms are rounded to.

That is asked as such: inputs are constant, all sums of both programs are off by ``OFF`` of them, up
and down, and up and down at random. Where the reference has numbers in each of these ways, at all
of the constants, the candidate must have numbers. Sums of whole numbers (counts, positions) are
exact in any order, and are what they are. No constant, and no way, depends on a seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from mirage.semantics.domain import Planes, TypedFloat
from mirage.semantics.scalar import UNARY, Array, BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.scalar import Domain as Where
from mirage.semantics.ugraph import KernelGraph, all_ops
from mirage.verify.evidence.roundings.activations import Activations, Situation
from mirage.verify.evidence.samples.floats import Yardstick, outputs_of
from mirage.verify.evidence.samples.sampled_outputs import Sample

OFF = 2.0**-20
"""What sums of a few hundred numbers may lose, added one after the other."""
_CONSTANTS = (5.7, 20.3, 1.3, 77.7, 301.3, 0.37)
"""Times the usual scale of each input. What is left of a difference of squares is about ``OFF``
times the square, which an epsilon of 1e-5 hides up to 3."""


@dataclass(frozen=True)
class Way:
    """In which direction sums are off: all in one, or at random and as much the other way."""

    sign: float
    mixed: bool = False


WAYS = (Way(1.0), Way(-1.0), Way(1.0, True), Way(-1.0, True))


class SumsOff(TypedFloat):
    """What a GPU might compute that adds otherwise."""

    def __init__(self, way: Way) -> None:
        self._way = way
        self._rng = np.random.default_rng(0)

    def reduce(self, fn: ReduceFn, x: Planes, dims: tuple[int, ...], dtype: DType) -> Planes:
        found = super().reduce(fn, x, dims, dtype)
        return self._off(found, dtype, x) if fn is ReduceFn.SUM else found

    def matmul(self, a: Planes, b: Planes, dtype: DType) -> Planes:
        return self._off(super().matmul(a, b, dtype), dtype, a, b)

    def _off(self, total: Planes, dtype: DType, *terms: Planes) -> Planes:
        if dtype is not DType.F32 or all(_whole(x[0]) for x in terms):
            return total
        sign: float | Array = self._way.sign
        if self._way.mixed:
            sign = sign * self._rng.choice((-1.0, 1.0), total[0].shape)
        return self._round(total[0] * np.asarray(1.0 + sign * OFF, np.float32), dtype)


def _whole(x: Array) -> bool:
    return bool((x == np.rint(x)).all())


def constant_inputs(
    draw: Activations, graphs: Sequence[KernelGraph], sample: Sample
) -> Iterator[Situation | None]:
    """All inputs of one number each, if a candidate has functions that are not defined everywhere,
    and the reference has numbers whichever way its sums are off. ``graphs`` are the reference and
    the candidates."""
    if not draw.free or not any(map(_partial, graphs[1:])):
        return
    tried: list[Situation] = []
    for constant in _CONSTANTS:
        special = {i: np.full(draw.shapes[i], constant * draw.scales[i]) for i in draw.free}
        name = f"all inputs constant, {constant:g} times their scales"
        tried.append(draw.situation(name, special, sums_off=True))
    if not all(_steady(graphs[0], s, sample) for s in tried):
        return
    for situation in tried:
        yield situation if draw.mine() else None


def _partial(graph: KernelGraph) -> bool:
    """Whether there are functions of which an argument may have the wrong sign."""
    some = (Where.NONNEGATIVE, Where.POSITIVE, Where.ABOVE_MINUS_ONE)
    functions = [op.function for op in all_ops(graph.ops)]
    return any(
        fn is BinaryFn.POW or (isinstance(fn, UnaryFn) and UNARY[fn].domain in some)
        for fn in functions
    )


def _steady(reference: KernelGraph, situation: Situation, sample: Sample) -> bool:
    """Whether sums that are off leave the reference its numbers."""
    domains = (Yardstick(), TypedFloat())
    given = [outputs_of(reference, 0, d, situation.inputs, sample) for d in domains]
    known = [np.isfinite(x) & np.isfinite(r) for x, r in zip(*given, strict=True)]
    for way in WAYS:
        found = outputs_of(reference, 0, SumsOff(way), situation.inputs, sample)
        if not all(np.isfinite(x[k]).all() for x, k in zip(found, known, strict=True)):
            return False
    return True


def lost_numbers(
    exact: Sequence[Array],
    reference: Sequence[Array],
    candidate: Callable[[Callable[[], SumsOff]], Sequence[Array]],
) -> str:
    """Where a candidate has no numbers although the reference has, if anywhere; ``candidate`` gives
    its outputs in an arithmetic."""
    known = [np.isfinite(x) & np.isfinite(r) for x, r in zip(exact, reference, strict=True)]
    for way in WAYS:
        found = candidate(partial(SumsOff, way))
        for number, (x, k) in enumerate(zip(found, known, strict=True)):
            if not np.isfinite(x[k]).all():
                return f"output {number}: no number, if sums are off by 2^-20 of them"
    return ""
