"""Whether the programs differ as real functions, tested in float64 on the same inputs.

Rounding there is about 1e-16, so a relative difference of 1e-9 is a difference of the functions,
and a witness that anyone can check.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mirage.semantics.domain import Domain, Float64, Planes
from mirage.semantics.evaluation.evaluate import Sampled, Shared, evaluate_sampled
from mirage.semantics.region import region_shape
from mirage.semantics.scalar import Array, DType, UnaryFn
from mirage.semantics.ugraph import KernelGraph
from mirage.verify.evidence.samples.integer_inputs import (
    compared_with,
    draw_integers,
    inside,
    looked_up,
)
from mirage.verify.evidence.samples.real_sizes import restrict
from mirage.verify.evidence.samples.sampled_outputs import Sample
from mirage.verify.evidence.samples.where_defined import EVERYWHERE, Where, where_defined
from mirage.verify.normal_form.infinite_terms import has_infinite_terms

# Relative to the largest output: far above float64's rounding, far below any real difference.
TOLERANCE = 1e-9


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
    scale: float  # the scale of the inputs' normal distribution

    @property
    def numbers(self) -> bool:
        """Return whether both programs give numbers there."""
        return bool(np.isfinite(self.expected) and np.isfinite(self.actual))


def draw_inputs(
    graph: KernelGraph,
    sample: Sample,
    rng: np.random.Generator,
    scale: float,
    where: Where = EVERYWHERE,
    *,
    within: bool = False,
) -> list[Sampled]:
    """Draw normal inputs in float64, moved to ``where`` a program is defined and rounded to their
    element types; ``within`` bounds integers so that they name something."""
    result: list[Sampled] = []
    extents, rows = compared_with(graph), inside(graph) if within else looked_up(graph)
    for number, (v, region) in enumerate(zip(graph.inputs, sample.inputs, strict=True)):
        fixed = sample.fixed_part(number)
        if fixed is not None:
            result.append(Sampled((fixed.astype(np.float64),), region))
            continue
        if v.dtype.is_integer:
            drawn = draw_integers(rng, v, region, extents.get(v, 0), rows.get(v))
            result.append(Sampled((drawn,), region))
            continue
        x = rng.standard_normal(region_shape(region, v.shape), dtype=np.float32) * np.float32(scale)
        result.append(Sampled((v.dtype.round(where.restricted(number, x)),), region))
    return result


def outputs_of(
    graph: KernelGraph, number: int, domain: Domain, inputs: Sequence[Sampled], sample: Sample
) -> list[Array]:
    """Return the sampled part of each output; ``number`` is the graph's place in the sample."""
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
    """Return the difference in float64, or None, for each magnitude of inputs that could be tried.

    Graphs are free of composites, and the reference is in its stable form. The difference is one
    between numbers if there is such a difference; otherwise ``actual`` is not finite, or
    ``expected`` is infinite because of a mask of the reference. Inputs are drawn where the
    reference is defined, and also from all numbers if some elements of its outputs are defined
    there.
    """
    results: list[Difference | None] = []
    masks = has_infinite_terms(graphs[0])
    domain = where_defined(graphs[0]) if not sample.fixed else EVERYWHERE
    for scale in (1.0, 0.05):
        found: list[Difference | None] = []
        for where, within in _ways(graphs[0], domain):
            if within and found:
                break
            inputs = draw_inputs(graphs[0], sample, rng, scale, where, within=within)
            expected = outputs_of(graphs[0], 0, Yardstick(), inputs, sample)
            actual = permuted_outputs(graphs[1], 1, Yardstick(), inputs, sample, permutation)
            defined = [_defined(x, masks) for x in expected]
            if not all(d.all() for d in defined):
                if not domain.parts or not any(d.any() for d in defined):
                    continue
                expected = [np.where(d, x, 0.0) for d, x in zip(defined, expected, strict=True)]
                actual = [np.where(d, y, 0.0) for d, y in zip(defined, actual, strict=True)]
            found.append(_compare(expected, actual, sample, scale))
        if found:
            results.append(_worse(found))
    return results


def _defined(x: Array, infinite: bool) -> Array:
    """Return where the reference is defined: infinities are values if terms may be
    ``infinite``, as masks make them."""
    return ~np.isnan(x) if infinite else np.isfinite(x)


def _ways(graph: KernelGraph, domain: Where) -> Iterator[tuple[Where, bool]]:
    """Yield the ways to draw inputs: where floats are, and whether integers always name something.
    The latter is only for programs that are defined nowhere otherwise."""
    for where in (domain, EVERYWHERE) if domain.parts else (EVERYWHERE,):
        yield where, False
    if any(v.dtype.is_integer for v in graph.inputs):
        yield domain, True


def _worse(found: Sequence[Difference | None]) -> Difference | None:
    """Combine several comparisons: a difference between numbers counts before missing numbers."""
    some = [d for d in found if d is not None]
    return min(some, key=lambda d: not d.numbers, default=None)


def compare_several(
    graphs: Sequence[KernelGraph],
    sample: Sample,
    inputs: Sequence[Sampled],
    candidates: Sequence[int],
    scale: float,
) -> dict[int, Difference | None]:
    """Return the difference of each of several candidates on given inputs, where the reference
    gives numbers; nothing if it does so nowhere. Candidates are counted from 0; the first graph is
    the reference. ``scale`` is the scale of the inputs."""
    expected = outputs_of(graphs[0], 0, Float64(), inputs, sample)
    defined = [np.isfinite(x) for x in expected]
    if not any(d.any() or not d.size for d in defined):
        return {}
    expected = [np.where(d, x, 0.0) for d, x in zip(defined, expected, strict=True)]
    order = range(len(graphs[0].outputs))
    found: dict[int, Difference | None] = {}
    for n in candidates:
        actual = permuted_outputs(graphs[n + 1], n + 1, Float64(), inputs, sample, order)
        actual = [np.where(d, y, 0.0) for d, y in zip(defined, actual, strict=True)]
        found[n] = _compare(expected, actual, sample, scale)
    return found


def decisive(results: Sequence[Difference | None]) -> Difference | None:
    """Return a difference at any magnitude of the inputs; missing numbers count only if they are
    missing at all magnitudes."""
    for d in results:
        if d is not None and d.numbers:
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
        numbers = np.isfinite(x) & np.isfinite(y)
        largest = float(np.abs(x[np.isfinite(x)]).max(initial=0.0))
        with np.errstate(invalid="ignore"):
            wrong = numbers & ~(np.abs(x - y) <= TOLERANCE * largest)
        if wrong.any():
            return _difference(i, x, y, wrong, sample, scale)
        missing = ~numbers & (x != y)
        if missing.any():
            undefined = undefined or _difference(i, x, y, missing, sample, scale)
    return undefined


def _difference(
    output: int, x: Array, y: Array, where: Array, sample: Sample, scale: float
) -> Difference:
    at = np.unravel_index(int(np.argmax(where)), x.shape)
    region = sample.outputs[output]
    element = tuple(int(k) if r is None else int(r[k]) for k, r in zip(at, region, strict=True))
    return Difference(output, element, float(x[at]), float(y[at]), scale)


def permuted_outputs(
    graph: KernelGraph,
    number: int,
    domain: Domain,
    inputs: Sequence[Sampled],
    sample: Sample,
    permutation: Sequence[int],
    shared: Shared | None = None,
) -> list[Array]:
    """Return the outputs as :func:`outputs_of` does, in another order: output ``i`` of the result
    is output ``permutation[i]`` of the graph."""
    values = evaluate_sampled(graph, domain, inputs, sample.demands[number], shared)
    return [
        restrict(values[j], region, graph.outputs[j])[0]
        for j, region in zip(permutation, sample.outputs, strict=True)
    ]


def everywhere(results: Sequence[Difference | None]) -> Difference | None:
    """Return a difference that occurs at all magnitudes, for programs that the exact layers accept:
    correct numbers at one magnitude are enough, since cancellation may spoil float64 at another
    (the numeric gate tests for that)."""
    wrong = [d for d in results if d is not None and d.numbers]
    return wrong[0] if results and len(wrong) == len(results) else None
