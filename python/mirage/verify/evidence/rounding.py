"""Is the candidate's rounding error acceptable? Measured, row by row.

Reference and candidate are executed as a GPU computes them (each op rounded to its type, f32
accumulation) and compared with float64, in many situations
(:mod:`mirage.verify.evidence.activations`).

A *row* of an output is what its last dimension holds. In each row, and over all rows, the root mean
square of the candidate's errors may be twice that of the reference's, or what rounding the output
alone may cost where that is larger. Where the reference gives no number, or float64 has none, the
candidate need not give one either; everywhere else it must.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from math import inf, isinf

import numpy as np

from mirage.semantics.block_evaluator import Tensor
from mirage.semantics.domain import TypedFloat
from mirage.semantics.evaluate import Sampled, Shared
from mirage.semantics.scalar import Array, DType
from mirage.semantics.ugraph import KernelGraph, Op
from mirage.verify.assumptions import Assumptions
from mirage.verify.evidence.activations import LARGEST, Activations, Situation
from mirage.verify.evidence.explicit import (
    HALF_ULP,
    WithCasts,
    beside,
    casts_inside,
    keeps_arithmetic,
    keeps_casts,
    nearby,
)
from mirage.verify.evidence.floats import Yardstick, outputs_of, permuted_outputs
from mirage.verify.evidence.growth import suspects
from mirage.verify.evidence.sampling import Sample, choose_sample
from mirage.verify.evidence.shared_launches import common_launches

_SCORE = 1e4
_LARGE = 64.0
_SMALLEST = dict.fromkeys(DType, 0.0) | {
    DType.F16: 2.0**-25,
    DType.BF16: 2.0**-134,
    DType.F32: 2.0**-150,
}
_WORK = 1.5e5
"""Elements computed in one situation, where the program allows that."""
_ALL = 1.2e7
"""The same in all situations together."""
_COLUMNS = 32
"""Fewer elements of a row say too little about its error."""
_FEWEST = 12
_STEADY = 8
"""Situations after which it is known how long each takes: the first ones are larger."""
_RANDOM = 6
_PATIENCE = 4.0
_NEIGHBOURS = (8, 24, 48)
"""Inputs next to those of a situation at which errors are measured that are too large there."""
_AROUND = 2e7
"""Elements that are computed for that, but for the first few inputs."""
_FEW = 2.0
"""Rows whose errors are as uncertain as this (those of nine elements) are judged by columns too."""


@dataclass(frozen=True)
class Errors:
    """Errors in one situation: root mean squares relative to the size of each output, the worst of
    the rows where it does not hold, else of the outputs."""

    situation: str
    reference: float
    candidate: float
    holds: bool
    where: str = ""
    certain: bool = False  # whether the situation decides by itself: what must be finite is not


@dataclass
class Measured:
    """What was measured of one candidate: its errors in each situation up to the first in which
    they are too large, and that situation. ``cut`` says that the time was up before all were
    tried."""

    errors: list[Errors] = field(default_factory=list[Errors])
    failed: tuple[Situation, Sample] | None = None
    cut: bool = False

    @property
    def active(self) -> bool:
        """Whether there is something left to measure."""
        return self.failed is None and not self.cut


@dataclass(frozen=True)
class Turn:
    """Which of the situations to try: every ``of``-th, from ``number`` on. Whoever tries the others
    need not know what these are."""

    number: int = 0
    of: int = 1


def measure_rounding(
    graphs: Sequence[KernelGraph],
    sample: Sample,
    rng: np.random.Generator,
    permutation: Sequence[int],
    contents: Mapping[int, Array] = {},
    assumed: Assumptions | None = None,
) -> list[Errors]:
    """Errors in all situations, up to the first in which they are too large. Graphs are free of
    composites and the reference is stable. ``contents`` are the values that inputs always have.
    """
    (found,) = measure_together(graphs, sample, rng, (permutation,), contents, assumed)
    return found.errors


def measure_together(
    graphs: Sequence[KernelGraph],
    sample: Sample,
    rng: np.random.Generator,
    permutations: Sequence[Sequence[int]],
    contents: Mapping[int, Array] = {},
    assumed: Assumptions | None = None,
    turn: Turn = Turn(),
    left: Callable[[], float] = lambda: inf,
) -> list[Measured]:
    """:func:`measure_rounding` of several candidates at once, for each of which ``permutations``
    has an entry: ``graphs`` are the reference and they, and ``sample`` is of all of them. What the
    reference gives in a situation is computed once. ``left`` says how many seconds are left: where
    they will not do for all candidates, the last are left out.
    """
    gate = _Gate(graphs, permutations, assumed or Assumptions())
    results = [Measured() for _ in permutations]
    pace = _Pace(left)
    every = _situations(graphs, sample, rng, contents, gate, turn, results, pace)
    for situation, its, only in every:
        active = [n for n, m in enumerate(results) if m.active and only in (None, n)]
        for number, errors in gate.errors(situation, its, active):
            results[number].errors.append(errors)
            if not errors.holds:
                results[number].failed = situation, its
        pace.keep(results)
        if not any(m.active for m in results):
            break
    return results


class _Pace:
    """Leaves out the last candidates where the time will not do for all."""

    def __init__(self, left: Callable[[], float]) -> None:
        self.left = left
        self.expected = inf
        self._done, self._since = 0, 0.0

    def keep(self, results: Sequence[Measured]) -> None:
        """To be asked after each situation."""
        if isinf(left := self.left()):
            return
        self._done += 1
        now = time.perf_counter()
        needed = 0.0
        if self._done == _STEADY:
            self._since = now
        elif self._done > _STEADY and not isinf(self.expected):
            each = (now - self._since) / (self._done - _STEADY)
            needed = each * max(0.0, self.expected - self._done)
        active = [m for m in results if m.active]
        while active and (left <= 0.0 or (needed > left and len(active) > 1)):
            # the reference takes about as long as two candidates
            needed *= (len(active) + 1) / (len(active) + 2)
            active.pop().cut = True


def _situations(
    graphs: Sequence[KernelGraph],
    sample: Sample,
    rng: np.random.Generator,
    contents: Mapping[int, Array],
    gate: _Gate,
    turn: Turn,
    results: Sequence[Measured],
    pace: _Pace,
) -> Iterator[tuple[Situation, Sample, int | None]]:
    """Situations, the sample that each is of, and the candidate that it is for (None: all)."""
    pairs = len(graphs) / 2.0  # budgets are for a reference and a candidate
    columns = choose_sample(graphs, max(sample.work, pairs * _WORK), rng, sample.fixed, _COLUMNS)
    sample = columns if columns.work <= _PATIENCE * sample.work else sample
    whole = Activations(graphs[0], sample, rng, contents)
    unit = gate.moderate_scale(whole) if sample.fixed else 1.0
    ones = [unit] * len(graphs[0].inputs)
    number = itertools.count()

    def mine() -> bool:
        return next(number) % turn.of == turn.number

    if (whole.scales != ones or sample.fixed) and mine():
        usual = whole.scaled("each input at its usual scale", whole.scales)
        yield replace(usual, ordinary=not sample.fixed), sample, None
    first = replace(whole.scaled("standard normal", ones), ordinary=whole.scales == ones)
    first = replace(first, ordinary=first.ordinary and not sample.fixed)
    if mine():
        yield first, sample, None
    exponent = gate.exponent(first, sample)
    # Scores are mostly products of two inputs, so the square root of the factor brings them to
    # 1e4. Without exponentials: sums of squares of f16 numbers leave f16 long before the numbers.
    large = min(float(np.sqrt(_SCORE / exponent)), 256.0) if exponent > 0.0 else _LARGE
    for factor in (1.0 / 64.0, large):
        if mine():
            scales = [factor * s for s in ones]
            yield whole.scaled(f"inputs times {factor:.3g}", scales), sample, None
    little = choose_sample(graphs, pairs * _WORK, rng, sample.fixed, _COLUMNS)
    if little.work > sample.work:
        little = sample
    draw = Activations(graphs[0], little, rng, contents, unit, mine)
    most = max(_FEWEST, int(_ALL * pairs / little.work))
    pace.expected = min(most, draw.expected() + _RANDOM) / turn.of
    kinds: list[Iterator[Situation | None]] = [
        draw.rows(),
        draw.outliers(),
        draw.single_scales(),
        draw.own_scales(_RANDOM),
        draw.zeros(),
        iter(()) if gate.assumed.finite_inputs else draw.not_numbers(),
    ]
    # Each candidate has suspicious scales of its own, and its limit counts only those.
    own = suspects(graphs, little, draw, lambda n: results[n].active, turn.number, turn.of)
    for candidate, situation in own:
        yield situation, little, candidate
    for situation in islice(_in_turns(kinds), most):
        if situation is not None:
            yield situation, little, None


class _End:
    pass


_END = _End()


def _in_turns(kinds: list[Iterator[Situation | None]]) -> Iterator[Situation | None]:
    """One of each kind after the other, so that a limit on their number cuts all kinds alike."""
    while kinds:
        for kind in list(kinds):
            found = next(kind, _END)
            if isinstance(found, _End):
                kinds.remove(kind)
            else:
                yield found


class _Gate:
    def __init__(
        self,
        graphs: Sequence[KernelGraph],
        permutations: Sequence[Sequence[int]],
        assumed: Assumptions,
    ) -> None:
        self.graphs, self.permutations = graphs, permutations
        self.assumed = assumed
        self.casts = casts_inside(graphs[0])
        self._common: tuple[Sample, list[Mapping[Op, int]]] | None = None  # of the last sample

    def moderate_scale(self, draw: Activations) -> float:
        """A magnitude of inputs at which sums over cells (terms repeat instead of cancelling) stay
        well inside the range of the reference's types.
        """
        scale = 1.0
        while scale > 2.0**-12:
            inputs = draw.scaled("", [scale] * len(draw.scales)).inputs
            if all(np.isfinite(x).all() for x in self._typed(inputs, draw.sample)):
                break
            scale /= 4.0
        return scale / 4.0

    def exponent(self, situation: Situation, sample: Sample) -> float:
        """The largest argument of an exponential."""
        domain = Yardstick()
        outputs_of(self.graphs[0], 0, domain, situation.inputs, sample)
        return domain.largest_exponent

    def _typed(self, inputs: Sequence[Sampled], sample: Sample) -> list[Array]:
        return outputs_of(self.graphs[0], 0, TypedFloat(), inputs, sample)

    def _candidate(
        self,
        which: int,
        inputs: Sequence[Sampled],
        sample: Sample,
        known: dict[int, tuple[Tensor, ...]] | None = None,
    ) -> list[Array]:
        """A candidate's outputs; ``known`` has what others gave for the same inputs."""
        shared = None
        if known is not None and len(self.permutations) > 1:
            shared = Shared(self._common_launches(sample)[which], known)
        graph, order = self.graphs[which + 1], self.permutations[which]
        return permuted_outputs(graph, which + 1, TypedFloat(), inputs, sample, order, shared)

    def _common_launches(self, sample: Sample) -> list[Mapping[Op, int]]:
        if self._common is None or self._common[0] is not sample:
            found = common_launches(self.graphs[1:], sample.demands[1:])
            self._common = sample, found
        return self._common[1]

    def _around(self, which: int, number: int, situation: Situation, sample: Sample) -> Errors:
        """The errors of a candidate's output over inputs next to those of a situation as well.
        Where one rounding decides about a whole row (two scores that are nearly equal, before a
        softmax), the reference's error in one situation is a matter of luck: what is rounded
        happens to cancel. A few such rows rule the mean over many, so rows are right, too, whose
        typical error (the geometric mean) is.
        """
        graph = self.graphs[0]
        types = [v.dtype for v in graph.inputs]
        found: list[list[Array]] = []
        errors = Errors(situation.name, 0.0, np.inf, False)
        work = 2.0 * sample.work / len(self.graphs)  # of the reference and one candidate
        for count in _NEIGHBOURS:
            if count * work > _AROUND and found:
                break
            while len(found) < count:
                inputs = situation.inputs
                if found:
                    inputs = beside(inputs, types, len(found))
                candidate = self._candidate(which, inputs, sample)
                exact = outputs_of(graph, 0, Yardstick(), inputs, sample)
                each = exact[number], self._typed(inputs, sample)[number], candidate[number]
                found.append([np.reshape(v, (-1, _row(np.shape(v)))) for v in each])
            x, r, c = (np.concatenate(each, axis=1) for each in zip(*found, strict=True))
            dtype = graph.outputs[number].dtype
            errors = compare_rows(x, r, c, dtype, situation.name, f"output {number}", len(found))
            if errors.holds:
                break
        return errors

    def errors(
        self, situation: Situation, sample: Sample, candidates: Sequence[int]
    ) -> Iterator[tuple[int, Errors]]:
        """The errors of all outputs of each of the candidates."""
        if not candidates:
            return
        exact = outputs_of(self.graphs[0], 0, Yardstick(), situation.inputs, sample)
        reference = self._typed(situation.inputs, sample)
        rounded = exact
        if self.casts:
            rounded = outputs_of(self.graphs[0], 0, WithCasts(), situation.inputs, sample)
        known: dict[int, tuple[Tensor, ...]] = {}
        for which in candidates:
            candidate = self._candidate(which, situation.inputs, sample, known)
            worst = Errors(situation.name, 0.0, 0.0, True)
            for number, (x, r, c) in enumerate(zip(exact, reference, candidate, strict=True)):
                dtype = self.graphs[0].outputs[number].dtype
                found = compare_rows(x, r, c, dtype, situation.name, f"output {number}")
                if not found.holds and not found.certain:
                    found = self._around(which, number, situation, sample)
                if found.holds:
                    lost = self._lost(number, (x, rounded[number], r, c), situation, sample)
                    if lost:
                        found = replace(found, holds=False, where=f"output {number}: {lost}")
                if (found.holds, -found.candidate) < (worst.holds, -worst.candidate):
                    worst = found
            yield which, worst

    def _lost(
        self, number: int, values: Sequence[Array], situation: Situation, sample: Sample
    ) -> str:
        """What of the program's own roundings the candidate has lost, if anything. ``values`` of an
        output: in float64, there with casts, of the reference and of the candidate."""
        x, s, r, c = (np.asarray(v, dtype=np.float64) for v in values)
        lost = np.isnan(r) & np.isnan(x) & np.isfinite(c)
        # the difference of two numbers that are too large is none: a candidate may do better
        if not self.assumed.finite_inputs and lost.any() and _has_nan(situation):
            return "a NaN among the inputs is lost"
        known = np.isfinite(x) & np.isfinite(r) & np.isfinite(c) & np.isfinite(s)
        exact, x, s, r, c = x, x[known], s[known], r[known], c[known]
        if not self.assumed.reassociation and (r != c).any():
            return "other numbers than the reference's, and no reassociation is allowed"

        def of_inputs() -> Array:
            graph = self.graphs[0]
            inputs = nearby(situation.inputs, [v.dtype for v in graph.inputs], number)
            near = outputs_of(graph, 0, Yardstick(), inputs, sample)[number]
            with np.errstate(invalid="ignore"):
                change = (near - exact)[known]
            return change[np.isfinite(change)]

        dtype = self.graphs[0].outputs[number].dtype
        floor = HALF_ULP[dtype] * np.abs(s) + _SMALLEST[dtype]
        strict = not self.assumed.more_precision
        if self.casts and not keeps_casts(x, s, r, c, floor, strict, of_inputs):
            return "the result depends on a cast to 16 bits that the candidate leaves out"
        if situation.ordinary and not keeps_arithmetic(x, r, c):
            return "the result depends on roundings that the candidate leaves out"
        return ""


def _has_nan(situation: Situation) -> bool:
    return any(np.isnan(plane).any() for x in situation.inputs for plane in x.planes)


def compare_rows(
    exact: Array,
    reference: Array,
    candidate: Array,
    dtype: DType,
    name: str,
    output: str,
    draws: int = 1,
) -> Errors:
    """Errors of one output, over all of it and row by row; each row has ``draws`` measurements one
    after the other."""
    x, r, c = (np.asarray(v, dtype=np.float64) for v in (exact, reference, candidate))
    n = _row(x.shape)
    x, r, c = (v.reshape(-1, n) for v in (x, r, c))
    # Next to the end of a type's range, rounding decides whether a number is infinite.
    known = np.isfinite(x) & np.isfinite(r) & (np.abs(x) < 0.97 * LARGEST[dtype])
    if not known.any():
        return Errors(name, 0.0, 0.0, True)
    with np.errstate(invalid="ignore", over="ignore"):
        x = np.where(known, x, 0.0)
        error_r = np.where(known, r - x, 0.0)
        error_c = np.where(known, np.where(np.isfinite(c), c - x, np.inf), 0.0)
        floor = np.where(known, HALF_ULP[dtype] * np.abs(x) + _SMALLEST[dtype], 0.0)
    size = float(np.abs(x).max()) or 1.0
    rms_r, rms_c = (float(_rms(e, known, None)) / size for e in (error_r, error_c))
    most_r, most_c = (float(np.abs(e).max()) / size for e in (error_r, error_c))
    whole_floor = max(HALF_ULP[dtype], _SMALLEST[dtype] / size)
    # The largest of a sample of errors is uncertain by itself: twice that of the mean.
    loose = float(_slack(floor.reshape(1, -1))[0])
    fine = rms_c <= 2.0 * loose * max(rms_r, whole_floor / 2.0)
    fine = fine and most_c <= 4.0 * loose * max(most_r, whole_floor)
    everywhere = bool(np.isfinite(error_c).all())
    if not everywhere:
        return Errors(name, rms_r, rms_c, False, output, certain=True)
    rows_r, rows_c, rows_floor = (_rms(e, known, 1) for e in (error_r, error_c, floor))
    slack = _slack(floor)
    # A single element's error may be 0 by chance: that of its column in all rows is not.
    columns = np.broadcast_to(_rms(error_r, known, 0), error_r.shape)
    rows_r = np.where(slack > _FEW, np.maximum(rows_r, _rms(columns, known, 1)), rows_r)
    allowed = 2.0 * slack * np.maximum(rows_r, rows_floor / 2.0)
    wrong = rows_c > allowed
    if draws > 1:
        wrong &= ~_typical(error_r, error_c, floor, known, draws)
    if not fine:
        return Errors(name, rms_r, rms_c, False, output)
    if not wrong.any():
        return Errors(name, rms_r, rms_c, True, output)
    at = int(np.argmax(np.where(wrong, rows_c / np.maximum(allowed, 1e-300), 0.0)))
    scale = float(_rms(x, known, 1)[at]) or 1.0
    where = f"{output}, row {at} of those compared"
    return Errors(name, float(rows_r[at]) / scale, float(rows_c[at]) / scale, False, where)


def _typical(error_r: Array, error_c: Array, floor: Array, known: Array, draws: int) -> Array:
    """The rows whose typical error is no more than twice the reference's, as far as so many draws
    tell."""

    def logarithms(e: Array) -> Array:
        own, its = (v.reshape(len(v), draws, -1) for v in (e, known))
        return np.log(np.maximum(_rms(own, its, 2), least)).mean(1)

    least = np.maximum(_rms(floor, known, 1) / 2.0, 1e-300)[:, None]
    uncertain = 1.0 + 3.0 / np.sqrt(draws)
    return logarithms(error_c) - logarithms(error_r) <= np.log(2.0 * uncertain)


def _slack(floor: Array) -> Array:
    """By what factor the ratio of two measured errors may be off, for each row: a mean of few is
    uncertain, and of a row that is ruled by few elements no more errors are known."""
    weights = floor / np.maximum(floor.max(1, keepdims=True), 1e-300)
    effective = (weights**2).sum(1) ** 2 / np.maximum((weights**4).sum(1), 1e-300)
    return 1.0 + 3.0 / np.sqrt(np.maximum(effective, 1.0))


def _row(shape: tuple[int, ...]) -> int:
    """How many elements are compared together: a row, or several where rows are short."""
    n = shape[-1] if shape else 1
    for size in reversed(shape[:-1]):
        if n >= _COLUMNS // 2:
            break
        n *= size
    return n


def _rms(e: Array, known: Array, axis: int | None) -> Array:
    with np.errstate(over="ignore"):
        count = np.maximum(known.sum(axis), 1)
        return np.asarray(np.sqrt((e * e).sum(axis) / count))
