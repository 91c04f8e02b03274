"""Does a candidate still give numbers when its sums are a little off?

A kernel adds in its own order, and the rounding of a sum depends on that order. So whether ``E[x^2]
- E[x]^2`` of a constant row comes out below zero is accidental: it happens for one constant in
fifty, or for none as long as tiles are added in this way. A sum of squared differences cannot be
negative, however its terms are rounded.

The test is direct: inputs are constant, and all sums of both programs are off by a share ``OFF`` of
them, upwards, downwards, and at random. If the reference gives numbers in each of these ways, at
all of the constants, the candidate must give numbers too. Sums of whole numbers (counts, positions)
are exact in any order and are not changed. No constant, and no way, depends on a seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce

import numpy as np

from mirage.semantics.domain import Domain, Planes, TypedFloat
from mirage.semantics.scalar import UNARY, Array, BinaryFn, DType, RealDomain, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, all_ops
from mirage.verify.evidence.roundings.activations import Activations, Situation
from mirage.verify.evidence.roundings.side_by_side import chunks, outputs_of_each
from mirage.verify.evidence.samples.floats import Yardstick
from mirage.verify.evidence.samples.sampled_outputs import Sample

OFF = 2.0**-20
"""The relative error of a sum of a few hundred numbers that are added one after the other."""
_CONSTANTS = (5.7, 20.3, 1.3, 77.7, 301.3, 0.37)
"""Factors on the usual scale of each input. The remainder of a difference of squares is about
``OFF`` times the square; an epsilon of 1e-5 hides it up to a factor of 3."""


@dataclass(frozen=True)
class Way:
    """The direction in which sums are off: all in one direction, or at random in both."""

    sign: float
    mixed: bool = False


WAYS = (Way(1.0), Way(-1.0), Way(1.0, True), Way(-1.0, True))


class SumsOff(TypedFloat):
    """The arithmetic of a GPU that adds in another order. If there are ``sets`` of inputs, arrays
    start with a dimension for these; each set is computed as it would be alone."""

    def __init__(self, way: Way, sets: int = 0) -> None:
        self._way, self._lead = way, int(sets > 0)
        self._rngs = [np.random.default_rng(0) for _ in range(max(1, sets) * way.mixed)]

    def reduce(self, fn: ReduceFn, x: Planes, dims: tuple[int, ...], dtype: DType) -> Planes:
        found = super().reduce(fn, x, dims, dtype)
        return self._off(found, dtype, x) if fn is ReduceFn.SUM else found

    def matmul(self, a: Planes, b: Planes, dtype: DType) -> Planes:
        return self._off(super().matmul(a, b, dtype), dtype, a, b)

    def _off(self, total: Planes, dtype: DType, *terms: Planes) -> Planes:
        if dtype is not DType.F32:
            return total
        kept = reduce(np.logical_and, (self._whole(x[0]) for x in terms))
        if kept.all():
            return total
        sign: float | Array = self._way.sign
        if self._way.mixed:
            sign = sign * self._signs(total[0].shape[self._lead :], kept)
        (found,) = self._round(total[0] * np.asarray(1.0 + sign * OFF, np.float32), dtype)
        if kept.any():
            found = np.where(kept.reshape((-1, *(1,) * (found.ndim - 1))), total[0], found)
        return (found,)

    def _whole(self, x: Array) -> Array:
        """Return whether all numbers are whole, for each set."""
        return np.asarray((x == np.rint(x)).all(tuple(range(self._lead, x.ndim))))

    def _signs(self, shape: tuple[int, ...], kept: Array) -> Array:
        """Draw the directions of sums, for each set of which the sums are not ``kept``."""
        found = np.ones((len(self._rngs), *shape))
        for k in np.flatnonzero(~np.broadcast_to(kept, len(found))):
            found[k] = self._rngs[k].choice((-1.0, 1.0), shape)
        return found if self._lead else found[0]


def constant_inputs(
    draw: Activations, graphs: Sequence[KernelGraph], sample: Sample
) -> Iterator[Situation | None]:
    """Yield situations in which all inputs are constant, if a candidate has functions that are not
    defined everywhere, and if the reference gives numbers in whichever way its sums are off.
    ``graphs`` are the reference and the candidates."""
    if not draw.free or not any(map(_partial, graphs[1:])):
        return
    tried: list[Situation] = []
    for constant in _CONSTANTS:
        special = {i: np.full(draw.shapes[i], constant * draw.scales[i]) for i in draw.free}
        name = f"all inputs constant, {constant:g} times their scales"
        tried.append(draw.situation(name, special, sums_off=True))
    if not all(_steady(graphs[0], some, sample) for some in chunks(tried, sample)):
        return
    for situation in tried:
        yield situation if draw.mine() else None


def _partial(graph: KernelGraph) -> bool:
    """Return whether there are functions whose argument may have the wrong sign."""
    some = (RealDomain.NONNEGATIVE, RealDomain.POSITIVE, RealDomain.ABOVE_MINUS_ONE)
    functions = [op.function for op in all_ops(graph.ops)]
    return any(
        fn is BinaryFn.POW or (isinstance(fn, UnaryFn) and UNARY[fn].domain in some)
        for fn in functions
    )


def _steady(reference: KernelGraph, situations: Sequence[Situation], sample: Sample) -> bool:
    """Return whether the reference still gives numbers if sums are off."""
    inputs = [s.inputs for s in situations]

    def given(domain: Callable[[], Domain]) -> list[list[Array]]:
        return outputs_of_each(reference, 0, domain, inputs, sample)

    each = zip(given(Yardstick), given(TypedFloat), strict=True)
    known = [_known(*values) for values in each]
    for way in WAYS:
        found = given(partial(SumsOff, way, len(inputs) if len(inputs) > 1 else 0))
        for outputs, those in zip(found, known, strict=True):
            if not all(np.isfinite(x[k]).all() for x, k in zip(outputs, those, strict=True)):
                return False
    return True


def _known(exact: Sequence[Array], reference: Sequence[Array]) -> list[Array]:
    """Say which numbers of each output the reference gives."""
    return [np.isfinite(x) & np.isfinite(r) for x, r in zip(exact, reference, strict=True)]


def lost_numbers(
    exact: Sequence[Array],
    reference: Sequence[Array],
    candidate: Callable[[Callable[[], SumsOff]], Sequence[Array]],
) -> str:
    """Say where a candidate gives no number although the reference does, or return "".
    ``candidate`` computes its outputs in an arithmetic."""
    known = _known(exact, reference)
    for way in WAYS:
        found = candidate(partial(SumsOff, way))
        for number, (x, k) in enumerate(zip(found, known, strict=True)):
            if not np.isfinite(x[k]).all():
                return f"output {number}: no number, if sums are off by 2^-20 of them"
    return ""
