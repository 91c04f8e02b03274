"""The oracle's verdict on a candidate: whether it computes something else than its reference, and
whether its rounding errors are within the verifier's promises (docs/verification.md).
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from math import ceil, inf, isfinite
from statistics import median

from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import KernelGraph
from mirage.verify import Verdict

from oracle.boxes import Box, whole
from oracle.evaluator import BadProgram, Oracle, TooMuchWork
from oracle.inputs import Kept, Situation, Situations, Together, beside, in_groups
from oracle.pytorch import torch
from oracle.sums import SummedAnew, sums_of

Tensor = torch.Tensor

ORDINARY, SPECIAL = 1e-9, 1e-4
"""Relative differences in float64 that are not due to rounding: on normal inputs, and the largest
one where digits cancel (rows with a mean far from 0, constant rows); how many digits cancel is
measured."""
FAR = 4.0
"""The multiple of the promise beyond which errors are certainly too large."""

_NEGLIGIBLE = {"f16": 2.0**-11, "bf16": 2.0**-8, "f32": 2.0**-18, "f64": 2.0**-53}
"""Relative errors that are always accepted: in 16 bits, half a rounding of the result."""
_SMALLEST = {"f16": 2.0**-25, "bf16": 2.0**-134, "f32": 2.0**-150}
_LARGEST = {"f16": 65504.0, "bf16": 3.3e38, "f32": 3.3e38, "f64": 1e300}
_NEIGHBOURS = 8
_ROUNDING, _CHOICE = 2.0**-22, 2.0**-7
"""A few roundings of an input to f32, and the change of a row beyond which they have decided
something."""
_BEHIND = 2.0**-40
"""A relative change: thousands of roundings of float64, and a thousandth of what counts as a
difference."""
_HELD = 1e7  # elements of what was computed of the reference
_MORE = 8.0  # times the work that the reference may take: tiles are computed whole
_FEW = 8  # elements of a row: shorter ones are joined
_TOGETHER = 5
"""The number of situations that are run at once."""
_IN_TURNS = 4
"""The number of groups of special situations, which candidates get in turn; each group has another
seed."""
_PARTS = 4000
"""The number of parts of the reference's outputs that are kept."""
_RANDOM = 3
"""The number of random parts of an output; each candidate gets one of them."""


@dataclass(frozen=True)
class Finding:
    """The fault of a candidate: it is ``different``, ``undefined`` where the reference is defined,
    or ``rough``. ``excess`` is the ratio of a rough candidate's error to the promise."""

    kind: str
    situation: str
    where: str
    expected: float = 0.0
    actual: float = 0.0
    excess: float = 0.0

    def __str__(self) -> str:
        if self.kind == "rough":
            return f"{self.excess:.3g} times the promised error in {self.where}: {self.situation}"
        values = f"expected {self.expected:.9g}, got {self.actual:.9g}"
        return f"{self.kind} in {self.where}: {values}: {self.situation}"


class Judge:
    """Judges candidates of one reference. ``work`` is the number of elements that one run may
    compute: only parts of the outputs of larger programs are examined. After ``seconds``, nothing
    more is tried for one answer.

    Raises :class:`TooMuchWork` if this is not enough for any part of the reference."""

    def __init__(
        self, reference: KernelGraph, seed: int = 0, work: float = 3e6, seconds: float = 8.0
    ) -> None:
        self.reference, self.work, self.seconds = reference, work, seconds
        self.rng = random.Random(seed)
        self.situations = s = Situations(reference, seed)
        self._runs: dict[tuple[object, bool], Oracle] = {}
        self._kept = 200  # runs; fewer for large programs
        # Earlier comparisons: small, and needed again for each candidate.
        self._parts: dict[tuple[object, bool, int, Box], Tensor | TooMuchWork] = {}
        # Most faults are visible at once; later situations are examined together.
        kept = Kept(_HELD)
        self._normal = Together((s.ordinary(0),), kept)
        self._first = (self._normal, Together((s.ordinary(1, 1 / 16), s.own_scales(0)), kept))
        usual = [s.ordinary(n, f) for n, f in ((2, 1.0), (3, 1 / 64), (4, 8.0))]
        scaled = [s.own_scales(n) for n in range(1, 7)]
        self._more = tuple(in_groups((*usual, *scaled), _TOGETHER))
        self._both = (Together((s.ordinary(0), s.ordinary(1, 1 / 16))),)
        every = list(s.special())
        self._special = list(in_groups(self.rng.sample(every, len(every)), _TOGETHER))
        self._turn = 0
        self._sums = bool(sums_of(reference))
        self.boxes = [box for i in range(len(reference.outputs)) for box in self._chosen(i)]
        self._elsewhere = [
            (i, box)
            for i in range(len(reference.outputs))
            for box in (self._crossed(i), *(self._random(i) for _ in range(_RANDOM)))
        ]

    # ---- the questions

    def quick(self, candidate: KernelGraph) -> Finding | None:
        """Return a difference on normal inputs, at a few scales."""
        return self._exact(candidate, self._first)

    def thorough(
        self,
        candidate: KernelGraph,
        special: int,
        at: tuple[int, tuple[int, ...]] | None = None,
        patience: float = 1.0,
    ) -> Finding | None:
        """Return a difference at more scales, at other places and in ``special`` of the situations
        of models; also around the element ``at`` (of an output). ``patience``: how many times the
        usual work a part may take."""
        boxes = [*self.boxes, *self._others()]
        # The verifier counts the operands of calls and lookups among the outputs.
        if at is not None and at[0] < len(self.reference.outputs):
            boxes.insert(0, (at[0], self._around(at[0], at[1])))
        groups = chain(self._more, self._some(special))
        return self._exact(candidate, groups, boxes, patience)

    def rough(self, candidate: KernelGraph, special: int) -> Finding | None:
        """Return the worst rounding errors on normal inputs and in ``special`` of the situations,
        relative to the promise; none if the candidate cannot be run."""
        worst: Finding | None = None
        end = time.monotonic() + self.seconds
        for group in chain(self._both, self._some(special)):
            if time.monotonic() > end:
                break
            for output, box in self.boxes:
                for found in self._rough(candidate, group, output, box):
                    if worst is None or found.excess > worst.excess:
                        worst = found
                    if worst.excess > FAR:
                        return worst
        return worst

    def certain(self, candidate: KernelGraph, finding: Finding | None) -> bool:
        """Return whether a difference also shows on small inputs, twice: no exponential overflows
        or vanishes there, as may happen in float64 although programs are equal over the real
        numbers."""
        if finding is None or finding.kind != "different":
            return False
        small = (Together((self.situations.ordinary(n, 1 / 16),)) for n in (1, 5))
        return all(self._exact(candidate, (s,)) is not None for s in small)

    def _some(self, count: int) -> Iterator[Together]:
        """Return at least this many special situations, from a few groups in turn, so that
        candidates share them; all of them if there are no more."""
        wanted, every = ceil(count / _TOGETHER), self._special
        if wanted < min(len(every), _IN_TURNS):
            every = every[:_IN_TURNS]
            self._turn = start = (self._turn + 1) % len(every)
            every = [*every[start:], *every[:start]]
        yield from islice(every, wanted)

    def _others(self) -> list[tuple[int, Box]]:
        """Return, for each output, the part with the other ends, and one of the random parts."""
        each = 1 + _RANDOM
        found: list[tuple[int, Box]] = []
        for i in range(0, len(self._elsewhere), each):
            found += [self._elsewhere[i], self.rng.choice(self._elsewhere[i + 1 : i + each])]
        return found

    # ---- parts of the outputs

    def _chosen(self, output: int) -> list[tuple[int, Box]]:
        """Return the parts of an output for which there is time: all of it, or both ends."""
        v = self.reference.outputs[output]
        if v.type.size <= 1024 and self._affordable(output, whole(v.shape)):
            return [(output, whole(v.shape))]
        for rows, columns in ((4, 48), (1, 32), (1, 8), (1, 1)):
            lengths = self._lengths(output, rows, columns)
            first = tuple((0, n) for n in lengths)
            if self._affordable(output, first):
                last = tuple((m - n, m) for n, m in zip(lengths, v.shape, strict=True))
                return [(output, box) for box in dict.fromkeys((first, last))]
        raise TooMuchWork(f"expected less to compute for an element of output {output}")

    def _lengths(self, output: int, rows: int, columns: int) -> tuple[int, ...]:
        shape = self.reference.outputs[output].shape
        most = [1] * (len(shape) - 2) + [rows, columns][2 - min(2, len(shape)) :]
        return tuple(min(n, m) for n, m in zip(shape, most, strict=True))

    def _affordable(self, output: int, box: Box) -> bool:
        try:
            self._reference(self._normal, False, output, box, 1)
        except TooMuchWork:
            self._runs.clear()
            return False
        (run,) = self._runs.values()
        self._kept = min(self._kept, max(4, int(_HELD / max(1.0, self.work - run.left))))
        return True

    def _sizes_of(self, output: int) -> tuple[int, ...]:
        box = next(box for i, box in self.boxes if i == output)
        return tuple(b - a for a, b in box)

    def _around(self, output: int, element: Sequence[int]) -> Box:
        shape = self.reference.outputs[output].shape
        found: list[tuple[int, int]] = []
        for at, n, m in zip(element, self._sizes_of(output), shape, strict=True):
            start = max(0, min(at - n // 2, m - n))
            found.append((start, start + n))
        return tuple(found)

    def _crossed(self, output: int) -> Box:
        """Return the first indices of every other dimension and the last ones of those in between,
        so that exchanged dimensions can be distinguished."""
        shape = self.reference.outputs[output].shape
        return self._around(output, [0 if d % 2 else n - 1 for d, n in enumerate(shape)])

    def _random(self, output: int) -> Box:
        shape = self.reference.outputs[output].shape
        return self._around(output, [self.rng.randrange(n) for n in shape])

    # ---- runs

    def _reference(
        self, group: Together, typed: bool, output: int, box: Box, attempts: int = 2
    ) -> Tensor:
        """Return a part of the reference's results in each of the situations."""
        key = group.name, typed, output, box
        if key not in self._parts:
            if len(self._parts) >= _PARTS:
                self._parts.clear()
            for _ in range(attempts):  # continue with the values that are already computed
                try:
                    self._parts[key] = self._computed(group, typed, output, box)
                    break
                except TooMuchWork as reason:
                    self._parts[key] = reason
        found = self._parts[key]
        if isinstance(found, TooMuchWork):
            raise found
        return found

    def _computed(self, group: Together, typed: bool, output: int, box: Box) -> Tensor:
        key, count = (group.name, typed), len(group.every)
        if key not in self._runs:
            while self._runs and sum(r.runs for r in self._runs.values()) + count > self._kept:
                self._runs.pop(next(iter(self._runs)))
            self._runs[key] = Oracle(self.reference, group.inputs, typed=typed, runs=count)
        run = self._runs[key]
        run.left = self.work
        return _all_runs(run.part(self.reference.outputs[output], box), count).clone()

    def _run(self, candidate: KernelGraph, group: Together, typed: bool) -> Oracle:
        count = len(group.every)
        return Oracle(candidate, group.inputs, typed=typed, most=_MORE * self.work, runs=count)

    def _exact(
        self,
        candidate: KernelGraph,
        groups: Iterable[Together],
        boxes: Sequence[tuple[int, Box]] | None = None,
        patience: float = 1.0,
    ) -> Finding | None:
        """Return the first difference. Raises :class:`TooMuchWork` if nothing could be compared."""
        compared = False
        end = time.monotonic() + self.seconds
        for group in groups:
            if compared and time.monotonic() > end:
                break
            run = self._run(candidate, group, False)
            for output, box in boxes or self.boxes:
                # for each part, with the reference's values
                run.left = patience * _MORE * self.work
                try:
                    expected = self._reference(group, False, output, box)
                    actual = _all_runs(run.part(candidate.outputs[output], box), len(group.every))
                except BadProgram as error:
                    return Finding("different", str(error), f"output {output}")
                except TooMuchWork:
                    continue
                compared = True
                for k in range(len(group.every)):
                    values = expected[k], actual[k]
                    found = self._difference(candidate, group, k, output, box, *values)
                    if found is not None:
                        return found
        if not compared:
            raise TooMuchWork("expected less to compute for any part of the candidate")
        return None

    def _difference(
        self,
        candidate: KernelGraph,
        group: Together,
        number: int,
        output: int,
        box: Box,
        expected: Tensor,
        actual: Tensor,
    ) -> Finding | None:
        situation = group.every[number]
        known = expected.isfinite()
        if not bool(known.any()):
            return None
        lost = known & ~actual.isfinite()
        if bool(lost.any()):
            lost &= self._reference(group, True, output, box)[number].isfinite()
        kind = "undefined"
        wrong = lost
        both = known & actual.isfinite()
        if bool(both.any()):
            tolerance = ORDINARY * float(expected[both].abs().max())
            difference = torch.where(both, (expected - actual).abs(), torch.zeros_like(expected))
            most = float(difference.max())
            if most > tolerance and not situation.ordinary:
                digits = self._lost_digits(tolerance, output, box)
                if most <= digits:
                    noise = self._noise(candidate, situation, output, box)
                    tolerance = max(tolerance, min(digits, noise))
            wrong_value = difference > tolerance
            if bool(wrong_value.any()):
                kind, wrong = "different", wrong_value
        if not bool(wrong.any()):
            return None
        at = tuple(int(i) for i in wrong.nonzero()[0])
        place = [a + i for (a, _), i in zip(box, at, strict=True)]
        where = f"output {output}, element {place}"
        return Finding(kind, situation.name, where, float(expected[at]), float(actual[at]))

    def _lost_digits(self, tolerance: float, output: int, box: Box) -> float:
        """Return the largest difference that may be due to digits that cancel, or to a result that
        is zero except for roundings where results usually have some size."""
        usual = self._reference(self._normal, False, output, box)
        usual = usual[usual.isfinite()]
        size = float(usual.abs().max()) if usual.numel() else 0.0
        return max(tolerance * (SPECIAL / ORDINARY), ORDINARY * size)

    def _noise(self, candidate: KernelGraph, situation: Situation, output: int, box: Box) -> float:
        """Return the change of either program's results if the inputs change far below their last
        digits: at least about as much as all roundings together may change a result."""
        near = Together((beside(situation, self.reference, 0, _BEHIND),))
        as_it_is = Together((situation,))
        most = 0.0
        for graph in (self.reference, candidate):
            found: list[Tensor] = []
            for group in (as_it_is, near):
                run = Oracle(graph, group.inputs, typed=False, most=_MORE * self.work)
                found.append(_all_runs(run.part(graph.outputs[output], box), 1))
            change = (found[0] - found[1]).abs()
            change = change[change.isfinite()]
            most = max(most, float(change.max()) if change.numel() else 0.0)
        return most

    # ---- rounding errors

    def _rough(
        self, candidate: KernelGraph, group: Together, output: int, box: Box
    ) -> Iterator[Finding]:
        """Yield the ratio of errors to the promise in each of the situations that show one."""
        try:
            for situation, rows in zip(
                group.every, self._excess(candidate, group, output, box), strict=True
            ):
                if rows is None:
                    continue
                at = int(rows.argmax())
                excess = float(rows[at])
                if isfinite(excess) and excess > FAR:  # is it the chance of one rounding?
                    near = (beside(situation, self.reference, n) for n in range(1, _NEIGHBOURS))
                    every = self._excess(candidate, Together(tuple(near)), output, box)
                    excess = median((excess, *(0.0 if x is None else float(x[at]) for x in every)))
                where = f"output {output}, row {at} of {box}"
                yield Finding("rough", situation.name, where, excess=excess)
        except (TooMuchWork, BadProgram):
            return

    def _excess(
        self, candidate: KernelGraph, group: Together, output: int, box: Box
    ) -> list[Tensor | None]:
        """Return, for each situation and each row, the ratio of the error to the promise; None if
        the reference gives no numbers."""
        dtype = self.reference.outputs[output].dtype
        exact = self._reference(group, False, output, box)
        typed = self._reference(group, True, output, box)
        run = self._run(candidate, group, True)
        ours = _all_runs(run.part(candidate.outputs[output], box), len(group.every))
        found = [excess_of(x, r, c, dtype) for x, r, c in zip(exact, typed, ours, strict=True)]
        if self._sums and any(rows is not None and bool((rows > FAR).any()) for rows in found):
            count = len(group.every)
            run = SummedAnew(self.reference, group.inputs, runs=count)
            anew = _all_runs(run.part(self.reference.outputs[output], box), count)
            anew = torch.where(anew.isfinite(), anew, typed)
            every = zip(found, exact, anew, ours, strict=True)
            found = [_less(rows, excess_of(x, r, c, dtype)) for rows, x, r, c in every]
        if any(rows is not None and bool((rows > FAR).any()) for rows in found):
            moved = (beside(s, self.reference, 1, _ROUNDING) for s in group.every)
            near = self._computed(Together(tuple(moved)), True, output, box)
            every = zip(found, exact, typed, near, ours, strict=True)
            found = [
                _less(rows, excess_of(x, _moved(x, r, n), c, dtype)) for rows, x, r, n, c in every
            ]
        return found


def _moved(exact: Tensor, typed: Tensor, near: Tensor) -> Tensor:
    """Return the results for inputs that are off by a rounding, in the rows that change little; the
    others are those of the inputs themselves."""
    change, size = (torch.where(t.isfinite(), t, 0.0) ** 2 for t in (near - exact, exact))
    dims = -1 if exact.ndim else ()
    little = change.sum(dims, True) <= _CHOICE**2 * size.sum(dims, True)
    return torch.where(near.isfinite() & little, near, typed)


def _less(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return a if a is None or b is None else torch.minimum(a, b)


def _all_runs(x: Tensor, count: int) -> Tensor:
    """Return the results in float64, for each run."""
    return x.to(torch.float64).expand((count, *tuple(x.shape)[1:]))


def excess_of(exact: Tensor, reference: Tensor, candidate: Tensor, dtype: DType) -> Tensor | None:
    """Return the ratio of the root mean square of the candidate's errors in each row to the
    promise: twice the reference's errors, or the error that rounding the result may cause, within
    the uncertainty of so few elements. It is infinite if the candidate gives no number where the
    reference does. A row is the last dimension."""
    width = exact.shape[-1] if exact.ndim else 1
    if width < _FEW:
        width = exact.numel()
    x, r, c = (t.reshape(-1, width) for t in (exact, reference, candidate))
    name = dtype.value if not dtype.is_integer else "f64"
    known = x.isfinite() & r.isfinite() & (x.abs() < 0.97 * _LARGEST[name])
    if not bool(known.any()):
        return None
    zero = torch.zeros_like(x)
    count = known.sum(1).clamp(min=1)

    def rms(e: Tensor) -> Tensor:
        return ((torch.where(known, e, zero) ** 2).sum(1) / count).sqrt()

    size = torch.where(known, x, zero)
    floor = _NEGLIGIBLE[name] * size.abs() + _SMALLEST.get(name, 0.0)
    weights = torch.where(known, floor, zero) / floor.amax(1, keepdim=True).clamp(min=1e-300)
    effective = (weights**2).sum(1) ** 2 / (weights**4).sum(1).clamp(min=1e-300)
    slack = 1.0 + 3.0 / effective.clamp(min=1.0).sqrt()
    promised = 2.0 * slack * torch.maximum(rms(r - size), rms(floor) / 2.0)
    # A single rounding may be large by chance if few elements dominate the row: the errors of all
    # rows count too.
    together = 2.0 * slack * float((torch.where(known, r - size, zero) ** 2).mean().sqrt())
    promised = torch.where(effective < 9.0, torch.maximum(promised, together), promised)
    found = rms(c - size) / promised.clamp(min=1e-300)
    lost = (known & ~c.isfinite()).any(1)
    return torch.where(lost, torch.full_like(found, inf), found)


def place_of(verdict: Verdict) -> tuple[int, tuple[int, ...]] | None:
    """Return the output and the element at which the verifier says that programs differ, if it
    belongs to the real inputs (not to inputs that are constant within cells)."""
    witness = verdict.witness
    if witness is None or "cells" in witness.inputs:
        return None
    return witness.output, witness.element
