"""Is the candidate defined wherever its reference is?

Equal as rational functions says nothing of the points at which one of them divides by zero:
``(x*x*y)/x`` is ``x*y``, and NaN at 0. So each division, root, logarithm and power that a candidate
makes owes that its argument is in order: by the signs that it can have for any inputs
(:mod:`mirage.verify.evidence.defined.signs`), or because the reference makes an operation that owes
the same of the same argument. What owes it still where a result comes from is not defined there.

A product is not zero where none of its factors is, so where the reference divides by a product, by
a root or a magnitude, what these are made of is not zero either.

Both programs run in float64 with the signs beside each value, at the real sizes, as they are: with
their masks, tails and loops. That two arguments are the same is seen at random inputs. Comparisons,
integers and what is rounded down have a few values only, and sums of those meet by chance. So for
integers and truth values real numbers are drawn as well, and a comparison of free values gives a
number between 0 and 1 that depends on both sides as no other function does: what is the same for
all such numbers is the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

import numpy as np

from mirage.semantics.domain import Domain, Float64, Planes
from mirage.semantics.evaluation.evaluate import EvaluationError, Sampled, evaluate_sampled
from mirage.semantics.numbers import Number, nearest
from mirage.semantics.region import Demand, demand, region_shape
from mirage.semantics.scalar import Array, BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.substitute import without_dead_ops
from mirage.semantics.ugraph import KernelGraph, Structure, all_ops
from mirage.verify.evidence.defined.factors import not_zero
from mirage.verify.evidence.defined.signs import (
    ANY,
    NEG,
    POS,
    ZERO,
    coded,
    has,
    of_binary,
    of_number,
    of_power,
    of_product,
    of_reduction,
    of_unary,
)
from mirage.verify.evidence.defined.step_functions import BINARY_STEPS, UNARY_STEPS
from mirage.verify.evidence.samples.held import part_of
from mirage.verify.evidence.samples.integer_inputs import compared_with, draw_integers, looked_up
from mirage.verify.evidence.samples.real_sizes import constants_of, restrict
from mirage.verify.evidence.samples.sampled_outputs import Sample
from mirage.verify.evidence.samples.where_defined import where_defined
from mirage.verify.verdict import Evidence

NAME = "defined where the reference is"
_SCALE = 1.0 / 16.0
"""Of the random inputs: no exponential overflows."""
_FACTORS = 6
_DRAWS = 2
_WAYS = ((False, False), (False, True), (True, True))
"""Comparisons smooth or as they are, with or without factors, until one of them does."""
_SURE = 2.0**-20
"""Magnitude from which on a number that was computed is not 0: far above roundings."""
_SAME = 1e-11
"""Relative: arguments that are nearer are the same."""


@dataclass
class Owed:
    """Arguments of the reference's operations, by what they owe; sorted once they are all there."""

    nonzero: list[Array] = field(default_factory=list[Array])
    root: list[Array] = field(default_factory=list[Array])

    def note(self, values: Array, forbidden: int) -> None:
        """An operation owes that its arguments have none of the ``forbidden`` signs."""
        kept = np.unique(np.abs(values[np.isfinite(values) & (values != 0)]))
        if forbidden & ZERO:
            self.nonzero.append(kept)
        if forbidden & NEG:
            self.root.append(np.unique(values[np.isfinite(values) & (values > 0)]))

    def sets(self, factors: Sequence[float]) -> tuple[Array, Array]:
        """Magnitudes that are not zero, with their squares and roots, and what is not negative;
        both also times positive ``factors``."""
        none = np.zeros(0)
        nonzero, root = np.concatenate([none, *self.nonzero]), np.concatenate([none, *self.root])
        nonzero = np.concatenate([nonzero, nonzero**2, np.sqrt(nonzero)])
        both = [
            np.unique(np.concatenate([x * f for f in (1.0, *factors)])) for x in (nonzero, root)
        ]
        return both[0], both[1]


class Defined(Domain):
    """float64, with the signs that are possible for any inputs, where a value is undefined for some
    as far as is known (arguments that may be wrong, and are none of ``known``), where it depends on
    real inputs otherwise than by comparisons, and where on inputs that may hold anything: what does
    not has the sign of its number. Without ``known`` the arguments are noted. With ``factors`` each
    factor of a product that is one of the arguments of the reference is known not to be zero. Of
    free values comparisons are functions of real numbers where they are ``smooth``."""

    def __init__(
        self,
        known: tuple[Array, Array] | None = None,
        *,
        factors: bool = False,
        smooth: bool = False,
    ) -> None:
        self.floats = Float64()
        self.known = known
        self.factors, self.smooth = factors, smooth
        self.owed = Owed()
        self.by_sign = self.by_reference = 0
        self._constants: dict[int, Array] = {}

    def constant(self, value: Number, dtype: DType) -> Planes:
        (number,) = self.floats.constant(value, dtype)
        self._constants[id(number)] = number
        no = np.zeros((), bool)
        return number, of_number(nearest(value)), no, no, no

    def input(self, values: Array, dtype: DType, *, fixed: bool) -> Planes:
        """An input that may hold anything, or just these values."""
        signs = np.full(values.shape, ZERO | POS if dtype is DType.I1 else ANY, np.uint8)
        if fixed:
            signs = coded(values < 0, values == 0, values > 0)
        real = np.full(values.shape, not fixed and (self.smooth or not dtype.is_integer))
        free = np.full(values.shape, not fixed)
        return values, signs, np.zeros(values.shape, bool), real, free

    def unary(self, fn: UnaryFn, x: Planes, dtype: DType) -> Planes:
        (value,) = self.floats.unary(fn, x[:1], dtype)
        if self.smooth and fn in UNARY_STEPS and x[4].any():
            value = np.where(x[4], UNARY_STEPS[fn](x[0]), value)
        bad = x[2]
        if fn in _UNARY_OWES:
            bad = bad | self._unsettled(x, _UNARY_OWES[fn])
        real = x[3] & (self.smooth or fn not in UNARY_STEPS)
        return self._whole(value, of_unary(fn, x[1]), bad, real, x[4])

    def binary(self, fn: BinaryFn, a: Planes, b: Planes, dtype: DType) -> Planes:
        (value,) = self.floats.binary(fn, a[:1], b[:1], dtype)
        free = a[4] | b[4]
        if self.smooth and fn in BINARY_STEPS and free.any():
            decides = a[4] if fn is BinaryFn.KEEP else free
            value = np.where(decides, BINARY_STEPS[fn](a[0], b[0]), value)
        bad = a[2] | b[2]
        if fn in (BinaryFn.DIV, BinaryFn.FLOOR_DIV, BinaryFn.REMAINDER):
            bad = bad | self._unsettled(b, ZERO)
        if self.factors and fn in (BinaryFn.MUL, BinaryFn.DIV):
            a, b = self._not_zero(a), self._not_zero(b)
        if fn is BinaryFn.MUL and a[0] is b[0]:  # of a value with itself
            signs = of_unary(UnaryFn.SQUARE, a[1])
        else:
            signs = of_binary(fn, a[1], b[1])
        if fn is BinaryFn.POW:
            base, exponent = np.broadcast_arrays(a[0], b[0])
            whole = exponent == np.floor(exponent)
            fixed = self._is_constant(b[0])
            if not fixed or not whole.all():
                bad = bad | self._unsettled(a, NEG | ZERO)
            elif (exponent < 0).any():
                bad = bad | self._unsettled(a, ZERO)
            signs = of_power(np.broadcast_to(a[1], base.shape), exponent) if fixed else signs
        real = a[3] | b[3]
        if fn in BINARY_STEPS and not self.smooth:
            real = b[3] if fn is BinaryFn.KEEP else real & (fn is BinaryFn.REMAINDER)
        return self._whole(value, signs, bad, real, free)

    def _not_zero(self, x: Planes) -> Planes:
        """The value, known not to be zero where it is one of the reference's arguments."""
        if self.known is None or not has(x[1], ZERO).any():
            return x
        settled = self._is_owed(x, self.known[0]) & (x[1] != ZERO)
        return (x[0], np.where(settled, x[1] & ~np.uint8(ZERO), x[1]).astype(np.uint8), *x[2:])

    def _is_owed(self, x: Planes, known: Array) -> Array:
        """Which magnitudes are among those ``known``, and are no whole numbers that depend on
        comparisons at most, which meet by chance."""
        values = x[0]
        counts = (~x[3] | self.smooth) & (values == np.floor(values)) & (np.abs(values) >= 1.0)
        return np.asarray(_among(np.abs(values), known) & ~counts)

    def _is_constant(self, x: Array) -> bool:
        """Whether it is a constant of the program, or that in another shape."""
        while isinstance(x.base, np.ndarray):
            x = x.base
        return id(x) in self._constants

    @staticmethod
    def _whole(value: Array, signs: Array, *others: Array) -> Planes:
        """All planes in the shape of the value; of what is the same for all inputs the sign that it
        has, unless roundings may be all that there is of it."""
        free = others[-1]
        if not free.all():
            sure = ~free & np.isfinite(value) & (np.abs(value) >= _SURE)
            signs = np.where(sure, coded(value < 0, value == 0, value > 0), signs)
        return (value, *(np.broadcast_to(p, value.shape) for p in (signs, *others)))

    def matmul(self, a: Planes, b: Planes, dtype: DType) -> Planes:
        (value,) = self.floats.matmul(a[:1], b[:1], dtype)
        bad, real, free = (
            np.asarray(a[i].any(axis=-1, keepdims=True) | b[i].any(axis=-2, keepdims=True))
            for i in (2, 3, 4)
        )
        return self._whole(value, of_product(a[1], b[1]), bad, real, free)

    def reduce(self, fn: ReduceFn, x: Planes, dims: tuple[int, ...], dtype: DType) -> Planes:
        (value,) = self.floats.reduce(fn, x[:1], dims, dtype)
        bad, real, free = (np.asarray(x[i].any(axis=dims, keepdims=True)) for i in (2, 3, 4))
        return self._whole(value, of_reduction(fn, x[1], dims), bad, real, free)

    def rescale(self, x: Planes, before: Planes, now: Planes, dtype: DType) -> Planes:
        (value,) = self.floats.rescale(x[:1], before[:1], now[:1], dtype)
        # the factor is an exponential of a finite number, but for maxima that are minus infinity
        vanishes = has(before[1], 8) & ~has(now[1], 8)
        signs = np.where(vanishes, x[1] | ZERO, x[1]).astype(np.uint8)
        bad, real, free = (x[i] | before[i] | now[i] for i in (2, 3, 4))
        return self._whole(value, signs, bad, real, free)

    def rows(self, table: Planes, places: Planes) -> Planes | None:
        rows = table[0].shape[0]
        inside = (places[0] >= 0) & (places[0] < rows)
        at = np.where(inside, places[0], 0).astype(np.int64)
        bad, free = (places[i].reshape(at.shape + (1,) * (table[0].ndim - 1)) for i in (2, 4))
        values, signs = table[0][at], table[1][at]
        if free.any():  # any row may be meant
            either = np.bitwise_or.reduce(table[1], axis=0)
            signs = np.where(free, np.broadcast_to(either, signs.shape), signs)
            bad = bad | (free & table[2].any(axis=0))
        bad = bad | table[2][at] | ~inside.reshape(free.shape)
        return self._whole(values, signs.astype(np.uint8), bad, table[3][at], free | table[4][at])

    def equal(self, a: Planes, b: Planes) -> Array:
        """Of the same bits: what is undefined is told apart otherwise."""
        same = (a[0] == b[0]) | (np.isnan(a[0]) & np.isnan(b[0]))
        return np.asarray(same & (a[1] == b[1]) & (a[2] == b[2]))

    def _unsettled(self, x: Planes, forbidden: int) -> Array:
        """Where an argument may have a forbidden sign, and is none of the reference's."""
        values, signs = x[0], x[1]
        doubtful = has(signs, forbidden)
        if self.known is None:
            self.owed.note(values, forbidden)
            return np.zeros(values.shape, bool)
        self.by_sign += not doubtful.all()
        if not doubtful.any():
            return doubtful
        nonzero, root = self.known
        settled = np.ones(values.shape, bool)
        if forbidden & ZERO:
            settled &= ~has(signs, ZERO) | self._is_owed(x, nonzero)
        if forbidden & NEG:
            settled &= ~has(signs, NEG) | ((values > 0) & self._is_owed(x, root))
        self.by_reference += bool((doubtful & settled).any())
        return doubtful & ~settled


_UNARY_OWES = {
    UnaryFn.RECIPROCAL: ZERO,
    UnaryFn.SQRT: NEG,
    UnaryFn.RSQRT: NEG | ZERO,
    UnaryFn.LOG: NEG | ZERO,
}


def _among(values: Array, known: Array) -> Array:
    """Which values are as near to one of the sorted ``known`` as roundings are."""
    if not known.size:
        return np.zeros(values.shape, bool)
    at = np.clip(np.searchsorted(known, values), 1, known.size - 1) if known.size > 1 else 0
    near = np.minimum(
        np.abs(values - known[at]), np.abs(values - known[np.maximum(np.asarray(at) - 1, 0)])
    )
    return np.asarray(near <= _SAME * np.abs(values))


def defined_evidence(
    references: Sequence[KernelGraph],
    candidate: KernelGraph,
    sample: Sample,
    rng: np.random.Generator,
    order: Sequence[int],
    contents: Mapping[int, Array] = {},
) -> Evidence:
    """Whether ``candidate`` is defined wherever the first of the ``references`` is; the others are
    the same program, decomposed otherwise. Graphs are free of composites. ``contents`` is what
    inputs always hold, by their numbers."""
    by_sign = by_reference = 0
    for _ in range(_DRAWS):
        domain, results = _evaluated(references, candidate, sample, rng, contents, _WAYS[0])
        for way in _WAYS[1:]:
            if not any(x.planes[2].any() for x in results):
                break
            domain, results = _evaluated(references, candidate, sample, rng, contents, way)
        by_sign, by_reference = domain.by_sign, domain.by_reference
        for i, j in enumerate(order):
            bad = restrict(results[j], sample.outputs[i], candidate.outputs[j])[2]
            if bad.any():
                at = np.unravel_index(int(np.argmax(bad)), bad.shape)
                region = sample.outputs[i]
                place = [
                    int(k) if r is None else int(r[k]) for k, r in zip(at, region, strict=True)
                ]
                text = (
                    f"element {place} of output {i} is computed by a division, root, logarithm or "
                    "power of an argument that can be zero or negative, and the reference has none "
                    "of that argument"
                )
                return Evidence(NAME, False, text)
        if not by_reference:
            break  # signs are those of all inputs
    text = (
        f"arguments of divisions, roots, logarithms and powers: {by_sign} in order by their signs, "
        f"{by_reference} as the reference's"
    )
    return Evidence(NAME, True, text, {"by_sign": by_sign, "by_reference": by_reference})


def _evaluated(
    references: Sequence[KernelGraph],
    candidate: KernelGraph,
    sample: Sample,
    rng: np.random.Generator,
    contents: Mapping[int, Array],
    way: tuple[bool, bool],
) -> tuple[Defined, tuple[Sampled, ...]]:
    """The candidate on random inputs, by what the references owe there."""
    smooth, factors = way
    fixed = {*sample.fixed, *contents}
    graphs = references[0], candidate
    drawn = _draw(references[0], sample, rng, contents, _whole_numbers(graphs, smooth))
    known = _owed(references, sample, drawn, fixed, smooth).sets(_factors(graphs))
    domain = Defined(known, factors=factors, smooth=smooth)
    inputs = _inputs(domain, candidate, drawn, sample, fixed)
    return domain, evaluate_sampled(candidate, domain, inputs, sample.demands[1])


def _whole_numbers(graphs: Sequence[KernelGraph], smooth: bool) -> AbstractSet[int]:
    """The inputs of which whole numbers are drawn: all integers, or where comparisons are
    ``smooth`` those that have to be, as places in tables and ends of loops."""
    first = graphs[0]
    integers = {i for i, v in enumerate(first.inputs) if v.dtype.is_integer}
    if not smooth or any(
        op.reads for g in graphs for op in all_ops(g.ops) if isinstance(op, Structure)
    ):
        return integers
    return {i for g in graphs for i in integers if g.inputs[i] in looked_up(g)}


def _draw(
    graph: KernelGraph,
    sample: Sample,
    rng: np.random.Generator,
    contents: Mapping[int, Array],
    whole: AbstractSet[int],
) -> list[Array]:
    """Inputs that are not rounded to their types, where the reference is defined: numbers of 16
    bits meet by chance, and so do integers, of which only those inputs are ``whole``."""
    values: list[Array] = []
    extents, domain = compared_with(graph), where_defined(graph)
    for number, (v, region) in enumerate(zip(graph.inputs, sample.inputs, strict=True)):
        fixed = sample.fixed_part(number)
        if number in contents:
            values.append(part_of(contents[number], region))
        elif fixed is not None:
            values.append(fixed.astype(np.float64))
        elif v.dtype.is_integer:
            drawn = np.asarray(draw_integers(rng, v, region, extents.get(v, 0)), np.float64)
            # truth values are between 0 and 1, other integers off by as much
            fraction = rng.uniform(0.05, 0.95, drawn.shape)
            free = fraction if v.dtype is DType.I1 else drawn + fraction
            values.append(drawn if number in whole else free)
        else:
            drawn = rng.standard_normal(region_shape(region, v.shape)) * _SCALE
            values.append(domain.restricted(number, drawn))
    return values


def _owed(
    references: Sequence[KernelGraph],
    sample: Sample,
    drawn: Sequence[Array],
    fixed: AbstractSet[int],
    smooth: bool,
) -> Owed:
    """The arguments of the references' operations."""
    owed = Owed()
    for number, graph in enumerate(references):
        domain = Defined(smooth=smooth)
        wanted = sample.demands[0] if not number else demand(graph, sample.outputs)
        inputs = _inputs(domain, graph, drawn, sample, fixed)
        try:
            evaluate_sampled(graph, domain, inputs, wanted)
        except EvaluationError:
            if not number:
                raise
            continue  # another part of the inputs would be needed
        owed.nonzero += domain.owed.nonzero
        owed.root += domain.owed.root
        owed.nonzero += _factors_of_owed(graph, wanted, inputs, smooth)
    return owed


def _factors_of_owed(
    graph: KernelGraph, wanted: Demand, inputs: Sequence[Sampled], smooth: bool
) -> Iterator[Array]:
    """The magnitudes of what a reference's arguments are made of, where that is not zero either."""
    parts = not_zero(graph, wanted)
    if not parts:
        return
    values, regions = zip(*parts, strict=True)
    some = without_dead_ops(replace(graph, outputs=values))
    found = evaluate_sampled(some, Defined(smooth=smooth), inputs, demand(some, regions))
    for x, v, region in zip(found, values, regions, strict=True):
        magnitudes = np.abs(restrict(x, region, v)[0])
        yield np.unique(magnitudes[np.isfinite(magnitudes) & (magnitudes != 0)])


def _factors(graphs: Sequence[KernelGraph]) -> list[float]:
    """Numbers by which the same argument may be larger or smaller: the programs' constants."""
    numbers = sorted({abs(float(n)) for g in graphs for n in constants_of(g) if n})
    return [f for n in numbers[:_FACTORS] for f in (n, 1.0 / n) if f != 1.0]


def _inputs(
    domain: Defined,
    graph: KernelGraph,
    drawn: Sequence[Array],
    sample: Sample,
    fixed: AbstractSet[int],
) -> list[Sampled]:
    inputs: list[Sampled] = []
    entries = zip(drawn, graph.inputs, sample.inputs, strict=True)
    for number, (values, v, region) in enumerate(entries):
        planes = domain.input(values, v.dtype, fixed=number in fixed)
        inputs.append(Sampled(planes, region))
    return inputs
