"""Equality with a bounded probability of error, decided on a small program that stands for the real
one.

1. :mod:`mirage.verify.compression.digits` finds the common index structure of both programs;
2. :mod:`mirage.verify.compression.related_indices` bounds how many indices of each digit interact,
   which gives the number of cells needed;
3. :mod:`mirage.verify.compression.small_program` writes both programs on inputs that are constant
   within cells, exactly;
4. :mod:`mirage.verify.arithmetic.formal` evaluates them at random points with formal exponentials.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from mirage.semantics.domain import Domain, Planes
from mirage.semantics.evaluation.evaluate import Sampled, evaluate_sampled
from mirage.semantics.region import Region, demand, whole, whole_demand
from mirage.semantics.ugraph import Elementwise, KernelGraph, all_ops
from mirage.verify.arithmetic.formal import Counts, FormalExp, is_undefined
from mirage.verify.arithmetic.group_ring import TooLarge
from mirage.verify.arithmetic.primes import draw
from mirage.verify.compression.independent_copies import parallel_digits
from mirage.verify.compression.index_relations import Irregular
from mirage.verify.compression.readings import Reading, readings
from mirage.verify.compression.related_indices import RelatedIndices, Requirements
from mirage.verify.compression.representatives import representatives
from mirage.verify.compression.small_program import Cells, SmallGraph, Weights, compress
from mirage.verify.evidence.samples.floats import TOLERANCE, Difference, Yardstick
from mirage.verify.evidence.samples.real_sizes import constants_of, restrict
from mirage.verify.evidence.samples.sampled_outputs import graph_work
from mirage.verify.verdict import Evidence

_Q_BITS = 61
_PRIMES_LOG2 = 54.0  # there are more than 2^54 primes of 61 bits
_MAX_WORK = 4e5
_MAX_DIRECT_WORK = 2e4
_LITTLE_WORK = 500  # not worth another reading
_GAIN = 4  # how many times less work justifies a reading that is harder to relate to the programs
_MAX_SINGLES = 8
_MAX_DRAWS = 8
_REDRAWS = 4


@dataclass(frozen=True)
class SmallPair:
    """Two small programs with the same cells, and the requirements of their comparison."""

    reference: SmallGraph
    candidate: SmallGraph
    needs: Requirements
    cells: Cells | None = None  # None if the programs are their own small model
    singles: Mapping[Hashable, int] = field(default_factory=dict[Hashable, int])
    compared: tuple[Region, ...] | None = None  # parts of the outputs; none: all of them
    read: Reading | None = None  # the programs to which the cells belong

    @property
    def input_count(self) -> int:
        """The number of inputs that are not weights."""
        return len(self.reference.graph.inputs) - len(self.reference.weights)

    @property
    def work(self) -> float:
        """The number of elements that a comparison computes."""
        small = (self.reference.graph, self.candidate.graph)
        return sum(graph_work(g, demand(g, self.regions(g))) for g in small)

    def regions(self, graph: KernelGraph) -> tuple[Region, ...]:
        """Return the parts of one small program's outputs that are compared."""
        if self.compared is not None:
            return self.compared
        return tuple(whole(len(v.shape)) for v in graph.outputs)

    def evaluate(
        self, domain: Domain, inputs: Sequence[Planes], weights: Callable[[Weights], Planes]
    ) -> tuple[tuple[Planes, ...], tuple[Planes, ...]]:
        """Evaluate the compared parts of both programs' outputs in ``domain``; ``weights`` converts
        numbers of indices to it.
        """
        first, second = (
            self._evaluate(s, domain, [*inputs, *map(weights, s.weights)])
            for s in (self.reference, self.candidate)
        )
        return first, second

    def _evaluate(
        self, small: SmallGraph, domain: Domain, inputs: Sequence[Planes]
    ) -> tuple[Planes, ...]:
        graph, regions = small.graph, self.regions(small.graph)
        values = [
            Sampled(x, whole(len(v.shape))) for x, v in zip(inputs, graph.inputs, strict=True)
        ]
        outputs = evaluate_sampled(graph, domain, values, demand(graph, regions))
        return tuple(
            restrict(y, region, v)
            for y, region, v in zip(outputs, regions, graph.outputs, strict=True)
        )


def small_pair(
    reference: KernelGraph,
    candidate: KernelGraph,
    *,
    reciprocals_as_symbols: bool = False,
    signs: bool = False,
) -> SmallPair:
    """Return the small forms of two programs that have primitive ops only. Raises
    :class:`Irregular`.

    With ``reciprocals_as_symbols`` they decide equality of the programs only if reciprocals are
    uninterpreted functions (of arguments up to factors); with ``signs``, only if magnitudes and
    roots have the identities of :mod:`mirage.verify.arithmetic.real_identities`. If there is no
    small form, or if merging takes much less work, adjacent dimensions that no op separates are
    read as one; if that does not help, digits that do not fit each other are not compressed.
    """
    first: Irregular | None = None
    best: SmallPair | None = None
    for reading in readings((reference, candidate)):
        if best is not None and reading.at_hand:
            break
        pair = _attempt(reading, reciprocals_as_symbols, signs)
        if isinstance(pair, Irregular):
            first = first or pair
        elif best is None or pair.work * _GAIN <= best.work:
            best = pair
        if best is not None and (best.work <= _LITTLE_WORK or pair is not best):
            break
    if best is not None:
        return best
    assert first is not None  # there is a reading, or ``readings`` raises
    raise first


def _attempt(reading: Reading, reciprocals_as_symbols: bool, signs: bool) -> SmallPair | Irregular:
    try:
        return _small_pair(reading, reciprocals_as_symbols, signs)
    except Irregular as reason:
        return reason


def _small_pair(reading: Reading, reciprocals_as_symbols: bool, signs: bool) -> SmallPair:
    reference, candidate = reading.graphs
    structure = reading.structure
    parallel = parallel_digits((reference, candidate), structure)
    singles: dict[Hashable, int] = dict.fromkeys(parallel, 0)
    while True:
        cells = Cells.with_singles(structure, singles)
        needs = RelatedIndices(
            (reference, candidate),
            cells,
            reciprocals_as_symbols=reciprocals_as_symbols,
            signs=signs,
        ).needs
        wanted = dict(singles)
        for d, n in needs.singles.items():
            # Single indices are at most all of a digit's indices, and pinned digits have no others.
            if d not in parallel and not structure.digits[d].pinned:
                wanted[d] = min(max(n, singles.get(d, 0)), structure.digits[d].radix)
        if wanted == singles:
            break
        most = max(wanted.values(), default=0)
        if most > _MAX_SINGLES:
            raise Irregular(f"{most} indices of one axis interact, limit {_MAX_SINGLES}")
        singles = wanted
    numbers = constants_of(reference) | constants_of(candidate)
    needs.bits = max(
        (needs.bits, *(m.bit_length() for n in numbers for m in (n.numerator, n.denominator)))
    )
    small = [compress(g, cells) for g in (reference, candidate)]
    compared = representatives(reference.outputs, cells)
    pair = SmallPair(small[0], small[1], needs, cells, singles, compared, reading)
    if pair.work > _MAX_WORK:
        raise Irregular(f"the small programs have {pair.work:.0f} elements, limit {_MAX_WORK:.0f}")
    return pair


def direct_pair(reference: KernelGraph, candidate: KernelGraph) -> SmallPair | None:
    """Return the programs themselves as a pair if they are small enough to be their own small
    model; else None."""
    graphs = (reference, candidate)
    if sum(graph_work(g, whole_demand(g)) for g in graphs) > _MAX_DIRECT_WORK:
        return None
    return SmallPair(SmallGraph(reference, ()), SmallGraph(candidate, ()), Requirements())


def error_log2(needs: Requirements, counts: Counts, q: int) -> float:
    """Return the base-2 logarithm of a bound for the chance that one draw does not distinguish
    different programs.

    Union bound over: two of the exponents in the deciding comparison coincide; its coefficient
    vanishes; two different arguments of uninterpreted functions (compared pairwise) coincide; the
    prime divides a coefficient. Discarding draws with zero divisors at most doubles it.
    """

    def deciding(terms: int, degree: int) -> float:
        return terms * (terms - 1) / 2 * needs.exponent_degree + degree

    pairs = counts.arguments * (counts.arguments - 1) / 2
    of_arguments = deciding(
        2 * counts.argument_terms[0] * counts.argument_terms[1], needs.argument_degree
    )
    chance = (deciding(counts.terms, needs.degree) + pairs * of_arguments) / q
    bits = needs.bits * (
        needs.degree + needs.argument_degree + needs.exponent_degree + sum(needs.singles.values())
    )
    chance += bits / _Q_BITS * 2.0**-_PRIMES_LOG2
    return math.log2(2.0 * chance)


def run_small_model(
    pair: SmallPair, rng: random.Random, max_error_log2: float, fewest: int = 2
) -> tuple[Evidence, float | None]:
    """Compare at random points, with at least ``fewest`` draws. Return the evidence, and the bound
    if both programs agree and it is low enough.
    """
    name = "small model with formal exponentials"
    try:
        return _draws(name, pair, rng, max_error_log2, fewest)
    except TooLarge as reason:
        return Evidence(name, None, str(reason)), None


def _draws(
    name: str, pair: SmallPair, rng: random.Random, max_error_log2: float, fewest: int
) -> tuple[Evidence, float | None]:
    bound, count, redrawn = 0.0, 0, 0
    terms = arguments = 0
    while (bound > max_error_log2 or count < fewest) and count < _MAX_DRAWS:
        primes = draw(rng, _Q_BITS, None)
        domain = FormalExp(primes, random.Random(rng.getrandbits(128)))
        sizes = [v.shape for v in pair.reference.graph.inputs[: pair.input_count]]
        inputs = [domain.random(s) for s in sizes]
        first, second = pair.evaluate(domain, inputs, domain.integers)
        if any(is_undefined(x[0]).any() for x in (*first, *second)):
            redrawn += 1
            if redrawn > _REDRAWS:
                return Evidence(
                    name, None, "divisions by zero in every draw", {"redrawn": redrawn}
                ), None
            continue
        if not all(domain.equal_outputs(x, y) for x, y in zip(first, second, strict=True)):
            return Evidence(
                name,
                False,
                "the programs differ on inputs constant within cells",
                {"draws": count + 1},
            ), None
        one = error_log2(pair.needs, domain.counts, primes.q)
        if one >= -1.0:
            return Evidence(
                name, None, f"no useful bound: error up to 2^{one:.1f} a draw", {}
            ), None
        bound += one
        terms, arguments = max(terms, domain.counts.terms), max(arguments, domain.counts.arguments)
        count += 1
    figures = {
        "draws": count,
        "redrawn": redrawn,
        "prime_bits": _Q_BITS,
        "degree": pair.needs.degree,
        "argument_degree": pair.needs.argument_degree,
        "exponent_degree": pair.needs.exponent_degree,
        "terms": terms,
        "arguments": arguments,
        "extents": [list(v.shape) for v in pair.reference.graph.inputs[: pair.input_count]],
        "interacting_indices": max(pair.needs.singles.values(), default=1),
        "error_log2": bound,
    }
    text = (
        f"{count} draws, {_Q_BITS}-bit primes, degree {pair.needs.degree}, {terms} terms, "
        f"{arguments} arguments, inputs of {figures['extents']}: error at most 2^{bound:.1f}"
    )
    return Evidence(name, True, text, figures), bound if bound <= max_error_log2 else None


def small_difference(pair: SmallPair, source: np.random.Generator) -> Difference | None:
    """Return a difference of the small programs in float64, which is also a difference of the real
    programs, on inputs that are constant within cells. Unknown functions have no numbers: a
    difference for some choice of them need not be one.
    """
    graphs = pair.reference.graph, pair.candidate.graph
    if any(isinstance(op, Elementwise) and op.unknown for g in graphs for op in all_ops(g.ops)):
        return None
    for scale in (1.0, 0.1):
        sizes = [v.shape for v in pair.reference.graph.inputs[: pair.input_count]]
        inputs = [(source.standard_normal(s) * scale,) for s in sizes]
        first, second = pair.evaluate(Yardstick(), inputs, lambda w: (np.array(w, dtype=float),))
        regions = pair.regions(pair.reference.graph)
        for i, ((x,), (y,)) in enumerate(zip(first, second, strict=True)):
            if not np.isfinite(x).all():
                continue
            with np.errstate(invalid="ignore"):
                wrong = np.isfinite(y) & ~(np.abs(x - y) <= TOLERANCE * np.abs(x).max())
            if wrong.any():
                at = tuple(int(k) for k in np.unravel_index(int(np.argmax(wrong)), x.shape))
                element = tuple(
                    k if r is None else int(r[k]) for k, r in zip(at, regions[i], strict=True)
                )
                return Difference(i, element, float(x[at]), float(y[at]), scale)
    return None
