"""Does a candidate subtract the maxima that a reference subtracts before it takes exponentials?

Over the real numbers anything may be subtracted: a softmax is the same with the sum of its scores,
with half of the maximum, or with the maximum times a norm's factor. But in floats the exponentials
of a whole row may then leave the range if a row is zero, or if an input is large or small; the
maximum is what keeps one of them at 1. A random choice of situations may miss this, so each
candidate with exponentials other than ``exp(x - max(x))`` is measured in all of these situations.
Its ops show whether it has any: in ``exp(x - m)``, ``m`` must be a maximum of values that all go
into exponentials, and ``x`` must be among them.

A maximum that is rounded to fewer digits than those numbers have does not count either. Its error
grows with the scores: in bf16 it is 16 at 5000, whose exponential overflows f16, and 256 at 1e5,
whose exponential overflows f32. So the scores are made as large as the reference allows, and the
largest of them is half a step away from the numbers that 16 bits represent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from math import floor, log2

import numpy as np

from mirage.semantics.numbers import nearest
from mirage.semantics.scalar import Array, BinaryFn, ReduceFn, UnaryFn
from mirage.semantics.ugraph import AccumulateFn, KernelGraph, Op, Value, all_ops, launches, loops
from mirage.verify.evidence.roundings.activations import LARGEST, Activations, Situation
from mirage.verify.evidence.roundings.far_below import NotedMaxima
from mirage.verify.evidence.roundings.input_scales import HIGHEST, LOWEST
from mirage.verify.evidence.roundings.kinds_of_situations import single_scale, zeroed
from mirage.verify.evidence.samples.floats import outputs_of

_FLOOR = -1e20
"""Numbers below this in a maximum serve rows that are masked entirely."""
_MOST_INPUTS = 16
_LARGE = 32.0
_LARGEST = 2.0**17
"""The largest scores that are tried: those of which f32 has two digits after the point."""
_MOST_SCALED = 3
"""The most inputs that are scaled to make the scores grow."""
_ENDS, _CLOSE = (0.0, 24.0), 0.25
"""The powers of two between which an input's factor is searched, and the precision of the
search."""
_HIGHEST = 5.0
"""About the largest of a few thousand normal numbers."""
_DIGITS = (8, 11)
"""The significant binary digits of bf16 and of f16."""
_PARTS = (7.0 / 16.0, 9.0 / 16.0, 3.0 / 8.0, 5.0 / 8.0)
"""The offsets from a representable number, as parts of a step: since scores are rounded themselves,
one of them may be past its middle."""


def other_shifts(
    graphs: Sequence[KernelGraph],
    draw: Activations,
    active: Callable[[int], bool],
    first: int = 0,
    step: int = 1,
) -> Iterator[tuple[int, Situation]]:
    """Yield the situations for candidates that do not subtract the maxima that the reference
    subtracts, with the number of the candidate. Only ``active`` candidates are considered, every
    ``step``-th from ``first`` on. ``graphs`` are the reference and the candidates."""
    numbers = range(first, len(graphs) - 1, step)
    if not numbers or not _Exponentials(graphs[0]).some_safe:
        return
    for number in numbers:
        if active(number) and not subtracts_maxima(graphs[number + 1]):
            for situation in chain(_situations(draw), _large_scores(draw, graphs[0])):
                if not active(number):
                    break
                yield number, situation


def _situations(draw: Activations) -> Iterator[Situation]:
    for i in draw.free[:_MOST_INPUTS]:
        yield zeroed(draw, i)
        for power in (LOWEST, HIGHEST):
            yield single_scale(draw, i, power)
        yield _of_one_sign(draw, i)


def _of_one_sign(draw: Activations, negative: int) -> Situation:
    """Draw one input of large negative numbers and positive others, so that their products are of
    one sign."""
    special: dict[int, Array] = {}
    for i in draw.free:
        size = np.abs(draw.stream("of one sign", negative, i).standard_normal(draw.shapes[i]))
        special[i] = size * draw.scales[i] * (-_LARGE if i == negative else 1.0)
    return draw.situation(f"input {negative} negative, the others positive", special)


def _large_scores(draw: Activations, reference: KernelGraph) -> Iterator[Situation]:
    """Yield scores as large as the reference can handle, by scaling each of a few inputs; the
    largest score is a number that 16-bit types represent badly."""
    tried = 0
    for i in draw.free:
        found = _largest(draw, reference, i)
        if found is None:
            continue
        factor, largest = found
        for score in _badly_held(largest):
            yield _with_factor(draw, i, factor * score / largest, f"scores up to {score:.6g}")
        tried += 1
        if tried == _MOST_SCALED:
            return


def _with_factor(draw: Activations, i: int, factor: float, what: str = "") -> Situation:
    (usual,) = draw.situation("", {}).inputs[i].planes
    return draw.situation(f"{what}: input {i} times {factor:.4g}", {i: usual * factor})


def _largest(draw: Activations, reference: KernelGraph, i: int) -> tuple[float, float] | None:
    """Return the largest factor for an input, and the largest score there; None if scores do not
    grow with the input."""

    def tried(power: float) -> tuple[float, int]:
        noted = NotedMaxima()
        inputs = _with_factor(draw, i, 2.0**power).inputs
        outputs = outputs_of(reference, 0, noted, inputs, draw.sample)
        return noted.largest, sum(int(np.isfinite(x).sum()) for x in outputs)

    low, high = _ENDS
    usual, numbers = tried(low)
    if not 0.0 < usual < _LARGEST or tried(low + 2.0)[0] < 2.0 * usual:
        return None
    most = LARGEST[draw.graph.inputs[i].dtype] / (_HIGHEST * draw.scales[i])
    high, best = min(high, float(np.log2(most))), usual
    while high - low > _CLOSE:
        middle = (low + high) / 2.0
        largest, found = tried(middle)
        if best <= largest <= _LARGEST and found >= numbers:  # scores may fall again
            low, best = middle, largest
        else:
            high = middle
    return 2.0**low, best


def _badly_held(largest: float) -> Iterator[float]:
    """Yield smaller numbers that a 16-bit type rounds by nearly half a step, up and down."""
    for digits in _DIGITS:
        power = floor(log2(largest))
        steps = floor(largest * 2.0 ** (digits - 1 - power))
        if steps == 2 ** (digits - 1):  # the next number below has smaller steps
            power, steps = power - 1, 2**digits
        for part in _PARTS:
            yield (steps - part) * 2.0 ** (power + 1 - digits)


def subtracts_maxima(graph: KernelGraph) -> bool:
    """Return whether a maximum is subtracted from the argument of each exponential of a program."""
    return _Exponentials(graph).all_safe


class _Exponentials:
    """The exponentials of a program, and the values that are subtracted from their arguments."""

    def __init__(self, graph: KernelGraph) -> None:
        # the value whose elements, or whose largest element, a value has
        self._same: dict[Value, Value] = {}
        self._rounded: dict[Value, Value] = {}  # the same, except for digits
        self._made: dict[Value, Op] = {}
        self._read(graph)
        exps = (op for op in all_ops(graph.ops) if op.function is UnaryFn.EXP)
        self._pairs = [self._difference(op.operands[0]) for op in exps]
        self._of: set[Value] = set()
        for pair in self._pairs:
            self._of |= set() if pair is None else self._largest_of(pair[0])
        self._safe = [pair is not None and self._is_safe(*pair) for pair in self._pairs]

    @property
    def some_safe(self) -> bool:
        """Whether a maximum is subtracted in at least one exponential."""
        return any(self._safe)

    @property
    def all_safe(self) -> bool:
        """Whether a maximum is subtracted in every exponential."""
        return all(self._safe)

    def _read(self, graph: KernelGraph) -> None:
        for op in all_ops(graph.ops):
            self._made.update((v, op) for v in op.results)
            if len(op.operands) == len(op.results) == 1 and op.function is None:
                self._moved(op.result, op.operands[0])
        for launch in launches(graph.ops):
            for value, end in zip(launch.results, launch.ends, strict=True):
                self._moved(value, end)
            self._same.update(zip(launch.defines, launch.operands, strict=True))
            for loop in loops(launch):
                for value, accumulator in zip(loop.results, loop.accumulators, strict=True):
                    self._same[value] = accumulator.value
                    if accumulator.fn is AccumulateFn.SUM:
                        del self._same[value]

    def _moved(self, value: Value, given: Value) -> None:
        exact = given.dtype.is_integer or value.dtype.holds(given.dtype)
        (self._same if exact else self._rounded)[value] = given

    def _difference(self, argument: Value) -> tuple[Value, Value] | None:
        """Return ``x`` and ``m`` of an argument ``c * (x - m)``."""
        while True:
            argument = self._origin(argument)
            op = self._made.get(argument)
            if op is None or op.function not in (BinaryFn.MUL, BinaryFn.SUB):
                return None
            if op.function is BinaryFn.SUB:
                return op.operands[0], op.operands[1]
            factors = [v for v in op.operands if self._number(v) is None]
            if len(factors) != 1:
                return None
            (argument,) = factors

    def _is_safe(self, x: Value, m: Value) -> bool:
        largest = self._largest_of(m)
        return self._largest_of(x) <= largest <= self._of

    def _largest_of(self, value: Value) -> set[Value]:
        """Return the values that a value is the maximum of, elementwise or over elements."""
        found: set[Value] = set()
        seen: set[Value] = set()
        left = [value]
        while left:
            value = self._origin(left.pop())
            if value in seen:
                continue
            seen.add(value)
            op, number = self._made.get(value), self._number(value)
            given = self._rounded.get(value)
            if given is not None:
                # a maximum of numbers of the type is one of them
                exact = self._largest_of(given)
                held = all(value.dtype.holds(v.dtype) for v in exact)
                found |= exact if held else {value}
            elif op is not None and op.function in (BinaryFn.MAX, ReduceFn.MAX):
                left += op.operands
            elif number is None or number > _FLOOR:
                found.add(value)
        return found

    def _origin(self, value: Value) -> Value:
        while value in self._same:
            value = self._same[value]
        return value

    def _number(self, value: Value) -> float | None:
        op = self._made.get(self._origin(value))
        return None if op is None or op.number is None else nearest(op.number)
