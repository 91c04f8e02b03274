"""The programs in floating point: do they differ as real functions, and how large are their
rounding errors?

*Difference.* Both programs in float64 on the same inputs. Rounding there is about 1e-16, so a
relative difference of 1e-9 is a difference of the functions, and a witness that anybody can check.

*Numerics.* Both programs as a GPU computes them (each op rounded to its type), against float64, on
several magnitudes of inputs, among them one that brings the arguments of exponentials to 1e4. The
candidate's error may be at most twice the reference's. Both are measured with respect to the scale
of each output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mirage.semantics.domain import Domain, Float64, Planes, TypedFloat
from mirage.semantics.evaluate import Sampled, evaluate_sampled
from mirage.semantics.region import region_shape
from mirage.semantics.scalar import Array, DType, UnaryFn
from mirage.semantics.ugraph import KernelGraph
from mirage.verify.evidence.real_sizes import restrict
from mirage.verify.evidence.sampling import Sample

# Relative to the largest output: far above float64's rounding, far below any real difference.
TOLERANCE = 1e-9
_SCORE = 1e4
_LARGE = 64.0
_ROUNDING = {DType.F16: 2.0**-11, DType.BF16: 2.0**-8, DType.F32: 2.0**-22, DType.F64: 2.0**-50}


class Yardstick(Float64):
    """float64 that notes the largest argument of an exponential."""

    def __init__(self) -> None:
        self.largest_exponent = 0.0

    def unary(self, fn: UnaryFn, x: Planes, dtype: DType) -> Planes:
        if fn is UnaryFn.EXP and x[0].size:
            finite = np.abs(x[0][np.isfinite(x[0])])
            self.largest_exponent = max(self.largest_exponent, float(finite.max(initial=0.0)))
        return super().unary(fn, x, dtype)


@dataclass(frozen=True)
class Difference:
    """The first element at which two programs differ."""

    output: int
    element: tuple[int, ...]
    expected: float
    actual: float
    scale: float  # of the inputs' standard normal distribution


def draw_inputs(
    graph: KernelGraph, sample: Sample, rng: np.random.Generator, scale: float
) -> list[Sampled]:
    """Normal inputs, rounded to their element types, in float64."""
    result: list[Sampled] = []
    for number, (v, region) in enumerate(zip(graph.inputs, sample.inputs, strict=True)):
        fixed = sample.fixed_part(number)
        if fixed is not None:
            result.append(Sampled((fixed.astype(np.float64),), region))
            continue
        x = rng.standard_normal(region_shape(region, v.shape), dtype=np.float32) * np.float32(scale)
        result.append(Sampled((v.dtype.round(x),), region))
    return result


def outputs_of(
    graph: KernelGraph, number: int, domain: Domain, inputs: Sequence[Sampled], sample: Sample
) -> list[Array]:
    """The sampled part of each output; ``number`` is the graph's place in the sample."""
    values = evaluate_sampled(graph, domain, inputs, sample.demands[number])
    return [
        restrict(x, region, v)[0]
        for x, region, v in zip(values, sample.outputs, graph.outputs, strict=True)
    ]


def compare_floats(
    graphs: Sequence[KernelGraph],
    sample: Sample,
    rng: np.random.Generator,
    permutation: Sequence[int],
) -> list[Difference | None]:
    """The difference in float64, if any, for each magnitude of inputs that could be tried.

    Graphs are free of composites, the reference is stable. ``actual`` is not finite where the
    candidate gives no number and no other difference was seen.
    """
    results: list[Difference | None] = []
    for scale in (1.0, 0.05):
        inputs = draw_inputs(graphs[0], sample, rng, scale)
        expected = outputs_of(graphs[0], 0, Yardstick(), inputs, sample)
        actual = _permuted(graphs[1], 1, Yardstick(), inputs, sample, permutation)
        if all(np.isfinite(x).all() for x in expected):
            results.append(_compare(expected, actual, sample, scale))
    return results


def find_difference(
    graphs: Sequence[KernelGraph],
    sample: Sample,
    rng: np.random.Generator,
    permutation: Sequence[int],
) -> Difference | None:
    """A difference at any magnitude of inputs; missing numbers count only if all magnitudes have
    them.
    """
    results = compare_floats(graphs, sample, rng, permutation)
    return decisive(results)


def decisive(results: Sequence[Difference | None]) -> Difference | None:
    """What :func:`find_difference` makes of the results."""
    for d in results:
        if d is not None and np.isfinite(d.actual):
            return d
    return results[0] if results and all(d is not None for d in results) else None


def _compare(
    expected: Sequence[Array], actual: Sequence[Array], sample: Sample, scale: float
) -> Difference | None:
    undefined: Difference | None = None
    for i, (x, y) in enumerate(zip(expected, actual, strict=True)):
        if x.shape != y.shape:
            return Difference(i, (), float("nan"), 0.0, scale)
        if x.size == 0:
            continue
        finite = np.isfinite(y)
        with np.errstate(invalid="ignore"):
            wrong = finite & ~(np.abs(x - y) <= TOLERANCE * float(np.abs(x).max()))
        if wrong.any():
            return _difference(i, x, y, wrong, sample, scale)
        if not finite.all():
            undefined = undefined or _difference(i, x, y, ~finite, sample, scale)
    return undefined


def _difference(
    output: int, x: Array, y: Array, where: Array, sample: Sample, scale: float
) -> Difference:
    at = np.unravel_index(int(np.argmax(where)), x.shape)
    region = sample.outputs[output]
    element = tuple(int(k) if r is None else int(r[k]) for k, r in zip(at, region, strict=True))
    return Difference(output, element, float(x[at]), float(y[at]), scale)


def _permuted(
    graph: KernelGraph,
    number: int,
    domain: Domain,
    inputs: Sequence[Sampled],
    sample: Sample,
    permutation: Sequence[int],
) -> list[Array]:
    values = evaluate_sampled(graph, domain, inputs, sample.demands[number])
    return [
        restrict(values[j], region, graph.outputs[j])[0]
        for j, region in zip(permutation, sample.outputs, strict=True)
    ]


@dataclass(frozen=True)
class Numerics:
    """Errors for one magnitude of inputs, relative to the largest element of each output."""

    scale: float
    exponent: float  # largest argument of an exponential
    reference: float  # root mean squares
    candidate: float
    holds: bool


def measure_numerics(
    graphs: Sequence[KernelGraph],
    sample: Sample,
    rng: np.random.Generator,
    permutation: Sequence[int],
) -> list[Numerics]:
    """Errors on inputs of several magnitudes. Graphs are free of composites and the reference is
    stable.
    """
    unit = _moderate_scale(graphs[0], sample, rng) if sample.fixed else 1.0
    first = _numerics(graphs, sample, rng, permutation, unit, Yardstick())
    results = [first, _numerics(graphs, sample, rng, permutation, unit / 64.0, Yardstick())]
    if first.exponent > 0.0:
        # Scores are mostly products of two inputs, so the square root of the factor brings them to
        # 1e4.
        scale = unit * min(float(np.sqrt(_SCORE / first.exponent)), 256.0)
        results.append(_numerics(graphs, sample, rng, permutation, scale, Yardstick()))
    else:
        # Sums of squares of f16 numbers leave f16 long before the numbers do.
        scale = unit * _LARGE
        results.append(_numerics(graphs, sample, rng, permutation, scale, Yardstick()))
    return results


def _moderate_scale(reference: KernelGraph, sample: Sample, rng: np.random.Generator) -> float:
    """A magnitude of inputs at which sums over cells (terms repeat instead of cancelling) stay
    well inside the range of the reference's types.
    """
    scale = 1.0
    while scale > 2.0**-12:
        inputs = draw_inputs(reference, sample, rng, scale)
        outputs = outputs_of(reference, 0, TypedFloat(), inputs, sample)
        if all(np.isfinite(x).all() for x in outputs):
            break
        scale /= 4.0
    return scale / 4.0


def _numerics(
    graphs: Sequence[KernelGraph],
    sample: Sample,
    rng: np.random.Generator,
    permutation: Sequence[int],
    scale: float,
    domain: Yardstick,
) -> Numerics:
    inputs = draw_inputs(graphs[0], sample, rng, scale)
    exact_outputs = outputs_of(graphs[0], 0, domain, inputs, sample)
    reference = outputs_of(graphs[0], 0, TypedFloat(), inputs, sample)
    candidate = _permuted(graphs[1], 1, TypedFloat(), inputs, sample, permutation)
    worst_reference = worst_candidate = 0.0
    holds = True
    for x, r, c, v in zip(exact_outputs, reference, candidate, graphs[0].outputs, strict=True):
        size = float(np.abs(x).max(initial=0.0)) or 1.0
        (rms_r, max_r), (rms_c, max_c) = _errors(x, r, size), _errors(x, c, size)
        worst_reference, worst_candidate = max(worst_reference, rms_r), max(worst_candidate, rms_c)
        # What rounding the output alone may cost (f16 has numbers below 2^-14 in steps of 2^-24).
        floor = max(_ROUNDING[v.dtype], 2.0**-25 / size if v.dtype is DType.F16 else 0.0)
        # The largest of a sample of errors is uncertain by itself: twice that of the mean.
        # An infinite error of the reference excuses an infinite one of the candidate.
        fine = rms_c <= 2.0 * max(rms_r, floor / 2.0) and max_c <= 4.0 * max(max_r, floor)
        holds = holds and fine
    return Numerics(scale, domain.largest_exponent, worst_reference, worst_candidate, holds)


def _errors(exact_value: Array, value: Array, size: float) -> tuple[float, float]:
    """Root mean square and maximum of the errors, relative to ``size``."""
    if not exact_value.size:
        return 0.0, 0.0
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(exact_value - value.astype(np.float64)) / size
        # Where float64 itself has no number, nothing can be said.
        error = np.where(np.isfinite(exact_value), error, 0.0)
        if np.isnan(error).any():
            return float("inf"), float("inf")
        return float(np.sqrt(np.mean(error**2))), float(error.max())
