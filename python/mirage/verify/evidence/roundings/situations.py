"""The situations in which rounding errors are measured, in their order."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import ceil

import numpy as np

from mirage.semantics.domain import TypedFloat
from mirage.semantics.scalar import Array
from mirage.semantics.ugraph import KernelGraph
from mirage.verify.assumptions import Assumptions
from mirage.verify.evidence.roundings.activations import Activations, Situation
from mirage.verify.evidence.roundings.cancelling_sums import cancelling_sums
from mirage.verify.evidence.roundings.compared_rows import COLUMNS
from mirage.verify.evidence.roundings.corner_cases import (
    beyond_f16,
    large_integers,
    truths,
    whole_types,
)
from mirage.verify.evidence.roundings.explicit import asks_of_infinity
from mirage.verify.evidence.roundings.far_below import far_below
from mirage.verify.evidence.roundings.hidden_roundings import hidden_roundings
from mirage.verify.evidence.roundings.kinds_of_situations import (
    alike,
    averaged,
    not_numbers,
    number_of_kinds,
    outliers,
    own_scales,
    rows,
    segments,
    single_scales,
    unlike,
    zeros,
)
from mirage.verify.evidence.roundings.leaving_range import suspects
from mirage.verify.evidence.roundings.near_each_other import (
    about_one_mean,
    expected,
    near_each_other,
)
from mirage.verify.evidence.roundings.near_thresholds import near_thresholds
from mirage.verify.evidence.roundings.pace import Pace
from mirage.verify.evidence.roundings.side_by_side import at_once
from mirage.verify.evidence.roundings.subtracted_maxima import other_shifts
from mirage.verify.evidence.roundings.sums_off import constant_inputs
from mirage.verify.evidence.samples.floats import Yardstick, outputs_of
from mirage.verify.evidence.samples.integer_inputs import becomes_narrow, compares_rounded
from mirage.verify.evidence.samples.sampled_outputs import Sample, choose_sample

_SCORE = 1e4
_LARGE = 64.0
_WORK = 1.5e5
"""Elements that are computed in one situation, if the program allows it."""
_ALL = 1.2e7
"""Elements that are computed in all situations together."""
_ENOUGH = 2**14
"""Elements of outputs that ordinary inputs should give."""
_MORE = 3
_FEWEST = 20
_RANDOM = 6
_PATIENCE = 4.0


@dataclass(frozen=True)
class Turn:
    """A share of the situations: every ``of``-th, from ``number`` on. Another process can try
    another share without knowing this one."""

    number: int = 0
    of: int = 1


EVERY = Turn()
"""The turn that includes all situations."""


@dataclass(frozen=True)
class Test:
    """A situation, its sample, its place among all situations (``order``), and the number of the
    only candidate that it is for (None: all candidates)."""

    situation: Situation
    sample: Sample
    order: tuple[int, int]
    candidate: int | None = None


class Situations:
    """All situations of a program. ``graphs`` are the reference and the candidates, and ``sample``
    is of them. The draws depend on the ``seed`` alone, not on the ``turn``."""

    def __init__(
        self,
        graphs: Sequence[KernelGraph],
        sample: Sample,
        seed: int,
        contents: Mapping[int, Array],
        assumed: Assumptions,
        turn: Turn,
    ) -> None:
        self.graphs, self.seed, self.contents = graphs, seed, contents
        self.assumed, self.turn = assumed, turn
        self._pairs = len(graphs) / 2.0  # budgets are for a reference and a candidate
        self._numbers = itertools.count()
        columns = self._columns_of(max(sample.work, self._pairs * _WORK), sample)
        self.sample = columns if columns.work <= _PATIENCE * sample.work else sample

    def tests(self, active: Callable[[int], bool], pace: Pace) -> Iterator[Sequence[Test]]:
        """Yield the tests of this turn, in groups that can be evaluated at once: of one sample, for
        the same candidates, and all or none of them ordinary. ``active`` says whether something is
        left to measure of a candidate."""
        whole = Activations(self.graphs[0], self.sample, self.seed, self.contents)
        unit = _moderate_scale(self.graphs[0], whole) if self.sample.fixed else 1.0
        first = (
            Test(situation, self.sample, (0, number))
            for number, situation in enumerate(self._of_the_whole(whole, unit))
            if situation is not None
        )
        yield from _grouped(first)
        little = self._columns_of(self._pairs * _WORK, self.sample)
        if little.work > self.sample.work:
            little = self.sample
        draw = Activations(self.graphs[0], little, self.seed, self.contents, unit, self._mine)
        most = max(_FEWEST, int(_ALL * self._pairs / little.work))
        pace.expected = min(most, number_of_kinds(draw) + expected(draw) + _RANDOM) / self.turn.of
        # Each candidate has suspicious scales of its own, and its limit counts only those.
        seen: Counter[int] = Counter()
        turn = self.turn.number, self.turn.of
        own = suspects(self.graphs, little, draw, active, *turn)
        shifts = other_shifts(self.graphs, draw, active, *turn)
        for candidate, situation in itertools.chain(own, shifts):
            yield (Test(situation, little, (1, seen[candidate]), candidate),)
            seen[candidate] += 1
        kinds = islice(_in_turns(self._kinds(draw, little)), most)
        # hidden roundings and averages are tested even if there is little time
        hidden = itertools.chain(hidden_roundings(draw, self.graphs[0]), averaged(draw))
        for place, some in ((2, hidden), (3, kinds)):
            yield from _grouped(
                Test(situation, little, (place, number))
                for number, situation in enumerate(some)
                if situation is not None
            )

    def _kinds(self, draw: Activations, sample: Sample) -> list[Iterator[Situation | None]]:
        return [
            rows(draw),
            constant_inputs(draw, self.graphs, sample),
            cancelling_sums(draw, self.graphs),
            far_below(draw, self.graphs[0], sample),
            near_thresholds(draw, self.graphs, sample),
            segments(draw),
            truths(draw),
            large_integers(draw) if any(map(compares_rounded, self.graphs)) else iter(()),
            large_integers(draw, (12, 17)) if any(map(becomes_narrow, self.graphs)) else iter(()),
            whole_types(draw) if any(becomes_narrow(g, 8) for g in self.graphs) else iter(()),
            beyond_f16(draw) if asks_of_infinity(self.graphs[0]) else iter(()),
            alike(draw),
            unlike(draw),
            outliers(draw),
            near_each_other(draw),
            about_one_mean(draw),
            single_scales(draw),
            own_scales(draw, _RANDOM),
            zeros(draw),
            iter(()) if self.assumed.finite_inputs else not_numbers(draw),
        ]

    def _of_the_whole(self, draw: Activations, unit: float) -> Iterator[Situation | None]:
        """Yield situations with normal inputs, at usual, large and small scales, for as many
        outputs as the time allows; None for those that another process tries."""
        fixed = bool(self.sample.fixed)
        ones = [unit] * len(self.graphs[0].inputs)
        if draw.scales != ones or fixed:
            usual = draw.scaled("each input at its usual scale", draw.scales)
            yield replace(usual, ordinary=not fixed) if self._mine() else None
        first = draw.scaled("standard normal", ones)
        first = replace(first, ordinary=draw.scales == ones and not fixed)
        yield first if self._mine() else None
        # Scores are mostly products of two inputs, so the square root of the factor brings them to
        # 1e4. If there are no exponentials: sums of squares of f16 numbers leave the range of f16
        # long before the numbers do.
        exponent = _exponent(self.graphs[0], first, self.sample)
        large = min(float(np.sqrt(_SCORE / exponent)), 256.0) if exponent > 0.0 else _LARGE
        if first.ordinary:
            for number in range(self._again()):
                again = draw.scaled(f"standard normal, draw {number + 2}", ones, fresh=True)
                yield replace(again, ordinary=True) if self._mine() else None
        for factor in (1.0 / 64.0, large):
            if not self._mine():
                yield None
                continue
            scales = [factor * s for s in ones]
            yield draw.scaled(f"inputs times {factor:.3g}", scales)

    def _again(self) -> int:
        """Return the number of further ordinary draws: a rounding that the result depends on may be
        visible in only one of thousands of elements, as in a compensated sum."""
        return min(_MORE, ceil(_ENOUGH / max(1, self.sample.elements)) - 1)

    def _mine(self) -> bool:
        return next(self._numbers) % self.turn.of == self.turn.number

    def _columns_of(self, work: float, sample: Sample) -> Sample:
        rng = np.random.default_rng(self.seed)
        return choose_sample(self.graphs, work, rng, sample.fixed, COLUMNS)


def _grouped(tests: Iterator[Test]) -> Iterator[Sequence[Test]]:
    """Group tests of one sample, as many as are evaluated at once."""
    for _, same in itertools.groupby(tests, lambda t: (t.situation.ordinary, t.situation.sums_off)):
        group: list[Test] = []
        for test in same:
            group.append(test)
            if len(group) >= at_once(test.sample):
                yield group
                group = []
        if group:
            yield group


def _moderate_scale(reference: KernelGraph, draw: Activations) -> float:
    """Return a magnitude of inputs at which sums over cells (whose terms repeat instead of
    cancelling) stay well inside the range of the reference's types.
    """
    scale = 1.0
    while scale > 2.0**-12:
        inputs = draw.scaled("", [scale] * len(draw.scales)).inputs
        outputs = outputs_of(reference, 0, TypedFloat(), inputs, draw.sample)
        if all(np.isfinite(x).all() for x in outputs):
            break
        scale /= 4.0
    return scale / 4.0


def _exponent(reference: KernelGraph, situation: Situation, sample: Sample) -> float:
    """Return the largest argument of an exponential."""
    domain = Yardstick()
    outputs_of(reference, 0, domain, situation.inputs, sample)
    return domain.largest_exponent


class _End:
    pass


_END = _End()


def _in_turns(kinds: list[Iterator[Situation | None]]) -> Iterator[Situation | None]:
    """Yield one situation of each kind in turn, so that a limit on their number affects all kinds
    alike."""
    while kinds:
        for kind in list(kinds):
            found = next(kind, _END)
            if isinstance(found, _End):
                kinds.remove(kind)
            else:
                yield found
