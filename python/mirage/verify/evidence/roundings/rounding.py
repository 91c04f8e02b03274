"""Is the candidate's rounding error acceptable? Measured, row by row.

Reference and candidate are executed as a GPU computes them (each op rounded to its type, f32
accumulation) and compared with float64, in many situations
(:mod:`mirage.verify.evidence.roundings.activations`).

A *row* of an output runs along its last dimension. In each row, and over all rows, the root mean
square of the candidate's errors may be at most twice that of the reference's errors, or what is
negligible in the output's type, if that is larger. Where the reference or float64 gives no
finite number, the candidate need not give one either; everywhere else it must.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from math import inf

import numpy as np

from mirage.semantics.domain import Domain, TypedFloat
from mirage.semantics.evaluation.evaluate import Sampled
from mirage.semantics.evaluation.parts_of_ops import Tensor
from mirage.semantics.scalar import Array
from mirage.semantics.ugraph import KernelGraph, Op
from mirage.verify.assumptions import Assumptions
from mirage.verify.evidence.roundings.activations import Situation
from mirage.verify.evidence.roundings.cancelled import has_cancelled_constant
from mirage.verify.evidence.roundings.compared_rows import row_length
from mirage.verify.evidence.roundings.explicit import (
    HALF_ULP,
    WithCasts,
    asks_of_infinity,
    beside,
    keeps_arithmetic,
    keeps_casts,
    nearby,
    usual_cost,
    with_written_casts,
    written_casts,
)
from mirage.verify.evidence.roundings.not_numbers import NotNumbers
from mirage.verify.evidence.roundings.pace import Pace
from mirage.verify.evidence.roundings.rounded_inputs import off_by_a_rounding, small_changes
from mirage.verify.evidence.roundings.row_errors import (
    SMALLEST,
    Errors,
    compare_rows,
    has_nan,
)
from mirage.verify.evidence.roundings.shared_launches import common_launches
from mirage.verify.evidence.roundings.side_by_side import alike, chunks, outputs_of_each
from mirage.verify.evidence.roundings.situations import EVERY, Situations, Turn
from mirage.verify.evidence.roundings.summed_otherwise import SummedOtherwise, has_sums
from mirage.verify.evidence.roundings.sums_off import lost_numbers
from mirage.verify.evidence.samples.floats import Yardstick, outputs_of
from mirage.verify.evidence.samples.sampled_outputs import Sample

_NEIGHBOURS = (8, 24, 48)
"""The numbers of inputs near those of a situation at which an error that is too large is measured
again."""
_AROUND = 2e7
"""The most elements that are computed for that; the first few inputs do not count."""
_NEAR = 8
"""The number of nearby inputs over which changes of the outputs are averaged."""


@dataclass
class Measured:
    """The measurements of one candidate: its errors in each situation up to the first in which they
    are too large, and that situation. ``cut`` says that the time ran out before all situations were
    tried."""

    errors: list[Errors] = field(default_factory=list[Errors])
    failed: tuple[Situation, Sample] | None = None
    cut: bool = False

    @property
    def active(self) -> bool:
        """Whether there is something left to measure."""
        return self.failed is None and not self.cut


def measure_together(
    graphs: Sequence[KernelGraph],
    sample: Sample,
    seed: int,
    permutations: Sequence[Sequence[int]],
    contents: Mapping[int, Array] = {},
    assumed: Assumptions | None = None,
    turn: Turn = EVERY,
    left: Callable[[], float] = lambda: inf,
) -> list[Measured]:
    """Measure the errors of each candidate in all situations, up to the first in which they are too
    large.

    ``graphs`` are the reference, in its stable form, and the candidates, free of composites;
    ``sample`` is a sample of all of them, and ``permutations`` has an entry for each candidate. The
    reference's results are computed once for each situation. ``contents`` are the values of inputs
    that are fixed. The draws depend on the ``seed`` alone, not on the ``turn``. ``left`` returns
    the seconds that are left: if they do not suffice for all candidates, the last ones are dropped.
    """
    assumed = assumed or Assumptions()
    gate = _Gate(graphs, permutations, assumed, frozenset(contents))
    results = [Measured() for _ in permutations]
    pace = Pace(left)
    every = Situations(graphs, sample, seed, contents, assumed, turn)
    for tests in every.tests(lambda number: results[number].active, pace):
        only = tests[0].candidate
        active = [n for n, m in enumerate(results) if m.active and only in (None, n)]
        given = gate.computed([t.situation for t in tests], tests[0].sample, active)
        for test, values in zip(tests, given, strict=True):
            for number in active:
                if not results[number].active:  # it failed in an earlier situation
                    continue
                errors = gate.errors(number, test.situation, test.sample, values)
                results[number].errors.append(replace(errors, order=test.order))
                if not errors.holds:
                    results[number].failed = test.situation, test.sample
        pace.keep([m for m in results if m.active], len(tests))
        if not any(m.active for m in results):
            break
    return results


@dataclass(frozen=True)
class _Values:
    """The programs' results in a situation: of the reference in float64, in float64 with the casts
    that it writes, and as it is computed; and of the candidates as they are computed, by their
    numbers."""

    exact: list[Array]
    rounded: list[Array]
    reference: list[Array]
    candidates: Mapping[int, list[Array]]


class _Gate:
    def __init__(
        self,
        graphs: Sequence[KernelGraph],
        permutations: Sequence[Sequence[int]],
        assumed: Assumptions,
        known: frozenset[int],
    ) -> None:
        self.graphs, self.permutations, self.known = graphs, permutations, known
        self.assumed = assumed
        self.casts = written_casts(graphs[0], strict=not assumed.more_precision)
        self.rounded = with_written_casts(graphs[0], self.casts)
        self.asks = asks_of_infinity(graphs[0])
        self._usual_cost: float | None = None
        self._common: tuple[Sample, list[Mapping[Op, int]]] | None = None  # for the last sample

    def computed(
        self, situations: Sequence[Situation], sample: Sample, candidates: Sequence[int]
    ) -> list[_Values]:
        """Compute the results of all programs in each of several situations."""
        if not candidates:
            return [_Values([], [], [], {}) for _ in situations]
        found: dict[int, _Values] = {}
        for numbers in alike([s.inputs for s in situations]):
            some = [situations[k] for k in numbers]
            values = self._side_by_side(some, sample, candidates)
            found.update(zip(numbers, values, strict=True))
        return [found[k] for k in range(len(situations))]

    def _side_by_side(
        self, situations: Sequence[Situation], sample: Sample, candidates: Sequence[int]
    ) -> list[_Values]:
        sets = [s.inputs for s in situations]
        exact = self._of_reference(Yardstick, sets, sample)
        reference = self._of_reference(TypedFloat, sets, sample)
        rounded = exact
        if self.casts:
            domain = partial(WithCasts, situations[0].ordinary, self.asks)
            rounded = outputs_of_each(self.rounded, 0, domain, sets, sample)
        known: dict[int, tuple[Tensor, ...]] = {}
        found = {n: self._of_candidate(n, sets, sample, known) for n in candidates}
        return [
            _Values(exact[k], rounded[k], reference[k], {n: v[k] for n, v in found.items()})
            for k in range(len(sets))
        ]

    def _of_reference(
        self, domain: Callable[[], Domain], sets: Sequence[Sequence[Sampled]], sample: Sample
    ) -> list[list[Array]]:
        return outputs_of_each(self.graphs[0], 0, domain, sets, sample)

    def _of_candidate(
        self,
        which: int,
        sets: Sequence[Sequence[Sampled]],
        sample: Sample,
        known: dict[int, tuple[Tensor, ...]] | None = None,
        domain: Callable[[], Domain] = TypedFloat,
    ) -> list[list[Array]]:
        """Return a candidate's outputs; ``known`` has the results of launches of other graphs for
        the same inputs."""
        numbers = None
        if known is not None and len(self.permutations) > 1:
            numbers = self._common_launches(sample)[which]
        graph, order = self.graphs[which + 1], self.permutations[which]
        number = which + 1
        return outputs_of_each(graph, number, domain, sets, sample, order, numbers, known)

    def _common_launches(self, sample: Sample) -> list[Mapping[Op, int]]:
        if self._common is None or self._common[0] is not sample:
            found = common_launches(self.graphs[1:], sample.demands[1:])
            self._common = sample, found
        return self._common[1]

    def _around(self, which: int, number: int, situation: Situation, sample: Sample) -> Errors:
        """Return the errors of a candidate's output, including those over inputs near a
        situation's. If one rounding decides about a whole row (two scores that are nearly equal,
        before a softmax), the reference's error in one situation depends on luck, because its
        roundings may happen to cancel. A few such rows dominate the mean over many, so a row is
        also right if its typical error (the geometric mean) is. The order of additions is also
        arbitrary, and no result is more certain than its inputs, so a candidate may be compared
        with other forms of the reference."""
        graph = self.graphs[0]
        types = [v.dtype for v in graph.inputs]
        found: list[list[Array]] = []
        errors = Errors(situation.name, 0.0, np.inf, False)
        work = 2.0 * sample.work / len(self.graphs)  # for the reference and one candidate
        for count in _NEIGHBOURS:
            if count * work > _AROUND and found:
                break
            another = situation.again or partial(beside, situation.inputs, types)
            near = [another(k) if k else situation.inputs for k in range(len(found), count)]
            for sets in chunks(near, sample):
                every = self._references(sets, sample, len(found))
                for values in zip(self._of_candidate(which, sets, sample), *every, strict=True):
                    each = [v[number] for v in values]
                    found.append([np.reshape(v, (-1, row_length(np.shape(v)))) for v in each])
            c, x, r, *others = (np.concatenate(v, axis=1) for v in zip(*found, strict=True))
            rs = [r, *(np.where(np.isfinite(o), o, r) for o in others)]
            rs[-1] = small_changes(x, others[-1], r)
            names = graph.outputs[number].dtype, situation.name, f"output {number}", len(found)
            for sure in (True, False):
                tried = [compare_rows(x, r, c, *names, sure=sure) for r in rs]
                errors = next((e for e in tried if e.holds), tried[0])
                if errors.holds and sure:
                    return errors
        return errors

    def _references(
        self, sets: Sequence[Sequence[Sampled]], sample: Sample, first: int
    ) -> list[list[list[Array]]]:
        """Return the results of the reference in float64, as it is computed, and as it might be
        computed: if it has sums, with these added in another order and with inputs that are off by
        a rounding. ``first`` is the number of the first of the sets of inputs."""
        graph = self.graphs[0]
        types = [v.dtype for v in graph.inputs]
        domains = (Yardstick, TypedFloat, *([SummedOtherwise] if has_sums(graph) else []))
        off = [off_by_a_rounding(s, types, self.known, k) for k, s in enumerate(sets, first)]
        return [
            *(self._of_reference(domain, sets, sample) for domain in domains),
            self._of_reference(TypedFloat, off, sample),
        ]

    def errors(self, which: int, situation: Situation, sample: Sample, values: _Values) -> Errors:
        """Return the errors of all outputs of a candidate."""
        if situation.sums_off:

            def candidate(domain: Callable[[], Domain]) -> list[Array]:
                return self._of_candidate(which, [situation.inputs], sample, None, domain)[0]

            lost = lost_numbers(values.exact, values.reference, candidate)
            worst = inf if lost else 0.0
            certain = bool(lost)
            return Errors(situation.name, 0.0, worst, not lost, lost, certain=certain, lost=certain)
        if has_nan(situation):
            return self._with_nan(which, situation, sample, values)
        worst = Errors(situation.name, 0.0, 0.0, True)
        each = zip(
            values.exact, values.rounded, values.reference, values.candidates[which], strict=True
        )
        for number, (x, s, r, c) in enumerate(each):
            dtype = self.graphs[0].outputs[number].dtype
            if dtype.is_integer:  # an operand of a lookup or a call: nothing may be rounded
                same = self._same_integers(x, s, r, c)
                where = f"output {number}: another whole number"
                found = Errors(situation.name, 0.0, 0.0, same, where, certain=True, lost=not same)
                worst = worst if same or not worst.holds else found
                continue
            found = compare_rows(x, r, c, dtype, situation.name, f"output {number}")
            if not found.holds and not found.certain:
                found = self._around(which, number, situation, sample)
            if found.holds and situation.casts:
                lost = self._lost(number, (x, s, r, c), situation, sample)
                if lost:
                    where = f"output {number}: {lost}"
                    found = replace(found, holds=False, where=where, lost=True)
            if (found.holds, -found.candidate) < (worst.holds, -worst.candidate):
                worst = found
        return worst

    def _same_integers(self, x: Array, s: Array, r: Array, c: Array) -> bool:
        """Return whether whole numbers equal the reference's, or all of them equal those that it
        computes without rounding (for example, the place of a maximum after rounding has made all
        scores equal)."""
        others = (x, s) if self.assumed.reassociation and self.assumed.more_precision else (r,)
        return np.array_equal(r, c, equal_nan=True) or all(
            np.array_equal(y, c, equal_nan=True) for y in others
        )

    def _with_nan(
        self, which: int, situation: Situation, sample: Sample, values: _Values
    ) -> Errors:
        """Return whether the outputs of a candidate are what a NaN among the inputs requires; the
        sizes of errors are compared elsewhere."""
        asked = NotNumbers(self.graphs[0], situation.inputs, sample, self.known)
        every = values.exact, values.reference, values.candidates[which]
        for number, each in enumerate(zip(*every, strict=True)):
            x, r, c = (np.asarray(v, np.float64) for v in each)
            if lost := asked.lost(number, x, r, c):
                where = f"output {number}: {lost}"
                return Errors(situation.name, 0.0, inf, False, where, certain=True, lost=True)
        return Errors(situation.name, 0.0, 0.0, True)

    def _lost(
        self, number: int, values: Sequence[Array], situation: Situation, sample: Sample
    ) -> str:
        """Say which of the program's own roundings the candidate has lost, or return "". ``values``
        are an output's values in float64, in float64 with casts, of the reference and of the
        candidate."""
        x, s, r, c = (np.asarray(v, dtype=np.float64) for v in values)
        known = np.isfinite(x) & np.isfinite(r) & np.isfinite(c) & np.isfinite(s)
        if not self.assumed.reassociation and (r != c)[known].any():
            return "other numbers than the reference's, and no reassociation is allowed"
        with np.errstate(invalid="ignore"):  # unknown values may be NaN
            return self._roundings(number, (x, s, r, c), known, situation, sample)

    def _roundings(
        self,
        number: int,
        values: Sequence[Array],
        known: Array,
        situation: Situation,
        sample: Sample,
    ) -> str:
        """Say which roundings that the result depends on the candidate has lost, or return ""."""
        x, s, r, c = values

        @cache
        def of_inputs() -> Array:
            return self._of_inputs(number, x, situation, sample)

        dtype = self.graphs[0].outputs[number].dtype
        floor = HALF_ULP[dtype] * np.abs(s) + SMALLEST[dtype]
        strict = not self.assumed.more_precision
        if self.casts and not keeps_casts(x, s, r, c, known, floor, strict, of_inputs):
            return "the result depends on a cast to 16 bits that the candidate leaves out"
        usual = self._cost(situation, sample) if situation.ordinary else 0.0
        if situation.ordinary and not keeps_arithmetic(x, r, c, known, usual, of_inputs):
            return "the result depends on roundings that the candidate leaves out"
        return ""

    def _cost(self, situation: Situation, sample: Sample) -> float:
        """Return the usual relative error of operations on ordinary inputs."""
        if self._usual_cost is None:
            graph, inputs = self.graphs[0], situation.inputs
            exact = outputs_of(graph, 0, Yardstick(), inputs, sample)
            cancels = has_cancelled_constant(graph, exact, inputs, sample)
            self._usual_cost = usual_cost(graph, cancels)
        return self._usual_cost

    def _of_inputs(self, number: int, exact: Array, situation: Situation, sample: Sample) -> Array:
        """Return the change of each element of an output that rounding the inputs causes, as a root
        mean square."""
        graph = self.graphs[0]
        types = [v.dtype for v in graph.inputs]
        squares = np.zeros(exact.shape)
        # the change of one number depends on luck, the mean over many does not; few rows of a
        # softmax change at all, and parts have few rows
        for draw in range(_NEAR):
            inputs = nearby(situation.inputs, types, (number, draw))
            near = outputs_of(graph, 0, Yardstick(), inputs, sample)[number]
            with np.errstate(invalid="ignore", over="ignore"):
                change = near - exact
            squares += np.where(np.isfinite(change), change, 0.0) ** 2
        return np.sqrt(squares / _NEAR)
