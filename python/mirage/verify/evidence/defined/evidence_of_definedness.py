"""Is the candidate defined wherever its reference is?

Equality as rational functions says nothing about the points at which one side divides by zero:
``(x*x*y)/x`` equals ``x*y`` but is NaN at 0. So each division, root, logarithm and power of a
candidate must have a valid argument. Either this follows from the signs that the argument can have
for any inputs (:mod:`mirage.verify.evidence.defined.signs`), or the reference has an operation with
the same condition on the same argument. A result that depends on an operation whose condition is
still open counts as undefined.

A product is nonzero only where all of its factors are nonzero. So if the reference divides by a
product, a root or a magnitude, then the factors or arguments of these are nonzero too.

Both programs run unchanged in float64 at the real sizes, with their masks, tails and loops, and
with the possible signs of each value. Random inputs show whether two arguments are the same. But
comparisons, integers and values that are rounded down take only a few values, so sums of them
coincide by chance. Therefore real numbers are also drawn for integers and truth values, and a
comparison of free values gives a number between 0 and 1 that depends on both sides like no other
function: arguments that are the same for all such numbers are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import numpy as np

from mirage.semantics.evaluation.evaluate import EvaluationError, Sampled, evaluate_sampled
from mirage.semantics.region import Region, demand, region_shape
from mirage.semantics.scalar import Array, DType
from mirage.semantics.substitute import without_dead_ops
from mirage.semantics.ugraph import KernelGraph, Structure, Value, all_ops
from mirage.verify.evidence.defined.domains import Defined, Owed
from mirage.verify.evidence.defined.factors import Part, not_zero, positive
from mirage.verify.evidence.defined.kept_values import (
    keeps_from_undefined,
    with_bounds,
    without_kept,
)
from mirage.verify.evidence.samples.held import part_of
from mirage.verify.evidence.samples.integer_inputs import compared_with, draw_integers, looked_up
from mirage.verify.evidence.samples.real_sizes import constants_of, restrict
from mirage.verify.evidence.samples.sampled_outputs import Sample
from mirage.verify.evidence.samples.where_defined import where_defined
from mirage.verify.verdict import Evidence

NAME = "defined where the reference is"

_SCALE = 1.0 / 16.0
"""The scale of the random inputs, which keeps exponentials from overflowing."""

_FACTORS = 6

_DRAWS, _MOST_DRAWS = 2, 10
"""How often each element of the outputs is to be examined at points where the reference has a
number (it has none in a row of which a mask leaves nothing), and the most draws for that."""

_WAYS = ((False, False), (False, True), (True, True))
"""The ways to compare, tried until one succeeds: whether comparisons are smooth, and whether
factors are used."""


def defined_evidence(
    references: Sequence[KernelGraph],
    candidate: KernelGraph,
    sample: Sample,
    rng: np.random.Generator,
    order: Sequence[int],
    contents: Mapping[int, Array] = {},
) -> Evidence:
    """Whether ``candidate`` is defined wherever the first of the ``references`` is; the others are
    the same program, decomposed in another way. Graphs are free of composites. ``contents`` maps
    the numbers of inputs to the values that they always hold."""
    references, candidate, sample = _with_bounds(references, candidate, sample, order)
    by_sign = by_reference = 0
    shapes = [region_shape(r, v.shape) for r, v in _outputs(references[0], sample)]
    seen = [np.zeros(shape, int) for shape in shapes]
    left = [np.zeros(shape, bool) for shape in shapes]  # not examined in some draw
    for draw in range(_MOST_DRAWS):
        tried = _tried(references, candidate, sample, rng, contents, order)
        by_sign, by_reference = tried.domain.by_sign, tried.domain.by_reference
        for i, bad in enumerate(tried.open):
            if bad.any():
                return _not_defined(i, bad, sample)
        seen = [s + d for s, d in zip(seen, tried.there, strict=True)]
        left = [o | x for o, x in zip(left, tried.bad, strict=True)]
        if not by_reference and not any(o.any() for o in left):
            break  # signs hold for all inputs
        few = any((o & (s < _DRAWS)).any() for o, s in zip(left, seen, strict=True))
        if draw + 1 >= _DRAWS and not few:
            break
    for i, (o, s) in enumerate(zip(left, seen, strict=True)):
        if (never := o & (s == 0)).any():
            return _not_defined(i, never, sample)
    text = (
        f"arguments of divisions, roots, logarithms and powers: {by_sign} in order by their signs, "
        f"{by_reference} as the reference's"
    )
    return Evidence(NAME, True, text, {"by_sign": by_sign, "by_reference": by_reference})


def _with_bounds(
    references: Sequence[KernelGraph], candidate: KernelGraph, sample: Sample, order: Sequence[int]
) -> tuple[Sequence[KernelGraph], KernelGraph, Sample]:
    """Return the programs, with values limited to the bounds within which they are kept, and their
    sample."""
    given = *references, candidate
    *references, candidate = map(with_bounds, given)
    if given == (*references, candidate):
        return references, candidate, sample
    regions = dict(zip(order, sample.outputs, strict=True))
    demands = (
        demand(references[0], sample.outputs),
        demand(candidate, [regions[j] for j in range(len(regions))]),
    )
    return references, candidate, replace(sample, demands=demands)


def _not_defined(output: int, bad: Array, sample: Sample) -> Evidence:
    at = np.unravel_index(int(np.argmax(bad)), bad.shape)
    region = sample.outputs[output]
    place = [int(k) if r is None else int(r[k]) for k, r in zip(at, region, strict=True)]
    text = (
        f"element {place} of output {output} is computed by a division, root, logarithm or "
        "power of an argument that can be zero or negative, and the reference has none "
        "of that argument"
    )
    return Evidence(NAME, False, text)


def _outputs(graph: KernelGraph, sample: Sample) -> Iterator[tuple[Region, Value]]:
    return zip(sample.outputs, graph.outputs, strict=True)


@dataclass(frozen=True)
class _Tried:
    """One draw: which elements of the candidate's outputs depend on an argument that is not known
    to be valid, and which of them the reference has numbers for (in the reference's order)."""

    domain: Defined
    bad: list[Array]
    there: list[Array]

    @property
    def open(self) -> list[Array]:
        """The elements of each output that are undefined although the reference is defined
        there."""
        return [b & d for b, d in zip(self.bad, self.there, strict=True)]


def _tried(
    references: Sequence[KernelGraph],
    candidate: KernelGraph,
    sample: Sample,
    rng: np.random.Generator,
    contents: Mapping[int, Array],
    order: Sequence[int],
) -> _Tried:
    """Compare in several ways, one after the other, until one of them leaves nothing open."""
    tried = _evaluated(references, candidate, sample, rng, contents, order, _WAYS[0])
    for way in _WAYS[1:]:
        if not any(x.any() for x in tried.open):
            break
        tried = _evaluated(references, candidate, sample, rng, contents, order, way)
    return tried


def _evaluated(
    references: Sequence[KernelGraph],
    candidate: KernelGraph,
    sample: Sample,
    rng: np.random.Generator,
    contents: Mapping[int, Array],
    order: Sequence[int],
    way: tuple[bool, bool],
) -> _Tried:
    """Evaluate the candidate on random inputs, given the arguments that the references' operations
    have there."""
    smooth, factors = way
    fixed = {*sample.fixed, *contents}
    graphs = references[0], candidate
    drawn = _draw(references[0], sample, rng, contents, _whole_numbers(graphs, smooth))
    owed, certain, first = _owed(references, sample, drawn, fixed, smooth)
    if keeps_from_undefined(references[0]) and not keeps_from_undefined(candidate):
        # the reference is defined where a mask drops undefined values
        owed, _, _ = _owed(list(map(without_kept, references)), sample, drawn, fixed, smooth)
        owed.add(certain)
    domain = Defined(owed.sets(_factors(graphs)), factors=factors, smooth=smooth)
    inputs = _inputs(domain, candidate, drawn, sample, fixed)
    results = evaluate_sampled(candidate, domain, inputs, sample.demands[1])
    ends = zip(first, _outputs(references[0], sample), strict=True)
    there = [~np.isnan(restrict(x, region, v)[0]) for x, (region, v) in ends]
    bad = [
        restrict(results[j], sample.outputs[i], candidate.outputs[j])[2]
        for i, j in enumerate(order)
    ]
    return _Tried(domain, bad, there)


def _whole_numbers(graphs: Sequence[KernelGraph], smooth: bool) -> AbstractSet[int]:
    """Return the inputs for which whole numbers are drawn: all integers or, if comparisons are
    ``smooth``, only those that must be whole, such as indices of tables and ends of loops."""
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
    """Draw inputs where the reference is defined. They are not rounded to their types, since
    numbers of 16 bits coincide by chance. Integers do as well, so only the inputs in ``whole`` get
    whole numbers."""
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
            # truth values are between 0 and 1, other integers are changed by as much
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
) -> tuple[Owed, Owed, tuple[Sampled, ...]]:
    """Collect the arguments of the references' operations, those among them that are valid for any
    inputs, and the results of the first one."""
    owed, certain, results = Owed(), Owed(), tuple[Sampled, ...]()
    for number, graph in enumerate(references):
        domain = Defined(smooth=smooth)
        wanted = demand(graph, sample.outputs)
        inputs = _inputs(domain, graph, drawn, sample, fixed)
        try:
            found = evaluate_sampled(graph, domain, inputs, wanted)
            results = results if number else found
        except EvaluationError:
            if not number:
                raise
            continue  # another part of the inputs would be needed
        owed.add(domain.owed)
        certain.add(domain.certain)
        for x in _parts(graph, not_zero(graph, wanted), inputs, smooth):
            owed.nonzero.append(np.unique(np.abs(x)))
        for x in _parts(graph, positive(graph, wanted), inputs, smooth):
            owed.nonzero.append(np.unique(np.abs(x)))
            owed.root.append(np.unique(x))
    return owed, certain, results


def _parts(
    graph: KernelGraph, parts: Sequence[Part], inputs: Sequence[Sampled], smooth: bool
) -> Iterator[Array]:
    """Yield the finite numbers, other than zero, of parts of a program's values."""
    if not parts:
        return
    values, regions = zip(*parts, strict=True)
    some = without_dead_ops(replace(graph, outputs=values))
    found = evaluate_sampled(some, Defined(smooth=smooth), inputs, demand(some, regions))
    for x, v, region in zip(found, values, regions, strict=True):
        numbers = restrict(x, region, v)[0]
        yield numbers[np.isfinite(numbers) & (numbers != 0)]


def _factors(graphs: Sequence[KernelGraph]) -> list[float]:
    """Return the programs' constants: factors by which the same argument may be larger or
    smaller."""
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
