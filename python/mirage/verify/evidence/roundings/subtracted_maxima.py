"""Does a candidate subtract the maxima that a reference subtracts before it takes exponentials?

Over the real numbers anything may be subtracted: a softmax is the same with the sum of its scores,
with half of the maximum, or with the maximum and a norm's factor. In floats the exponentials of a
whole row may leave the range then, where a row is zero, or an input is large or small; the maximum
is what keeps one of them at 1. Whether a random choice of situations shows that is a matter of
luck, so each candidate with exponentials of something else than ``x - max(x)`` is measured in all
of these situations. That is read off its ops: of ``exp(x - m)``, all that ``m`` is a maximum of is
what exponentials are taken of, and this ``x`` is among it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from mirage.semantics.scalar import Array, BinaryFn, ReduceFn, UnaryFn
from mirage.semantics.ugraph import AccumulateFn, KernelGraph, Op, Value, all_ops, launches, loops
from mirage.verify.evidence.roundings.activations import HIGHEST, LOWEST, Activations, Situation

_FLOOR = -1e20
"""Smaller numbers in a maximum are there for rows that are masked as a whole."""
_MOST_INPUTS = 16
_LARGE = 32.0


def other_shifts(
    graphs: Sequence[KernelGraph],
    draw: Activations,
    active: Callable[[int], bool],
    first: int = 0,
    step: int = 1,
) -> Iterator[tuple[int, Situation]]:
    """The situations for candidates that subtract something else than the maxima that the reference
    subtracts, with the number of the candidate: those that are ``active``, every ``step``-th from
    ``first`` on. ``graphs`` are the reference and the candidates."""
    numbers = range(first, len(graphs) - 1, step)
    if not numbers or not _Exponentials(graphs[0]).some_safe:
        return
    for number in numbers:
        if active(number) and not subtracts_maxima(graphs[number + 1]):
            for situation in _situations(draw):
                if not active(number):
                    break
                yield number, situation


def _situations(draw: Activations) -> Iterator[Situation]:
    for i in draw.free[:_MOST_INPUTS]:
        yield draw.zeroed(i)
        for power in (LOWEST, HIGHEST):
            yield draw.single_scale(i, power)
        yield _of_one_sign(draw, i)


def _of_one_sign(draw: Activations, negative: int) -> Situation:
    """One input of large negative numbers, the others positive: so are products of them."""
    special: dict[int, Array] = {}
    for i in draw.free:
        size = np.abs(draw.stream("of one sign", negative, i).standard_normal(draw.shapes[i]))
        special[i] = size * draw.scales[i] * (-_LARGE if i == negative else 1.0)
    return draw.situation(f"input {negative} negative, the others positive", special)


def subtracts_maxima(graph: KernelGraph) -> bool:
    """Whether the exponentials of a program are taken of what a maximum was subtracted from."""
    return _Exponentials(graph).all_safe


class _Exponentials:
    """Those of a program, and what is subtracted before they are taken."""

    def __init__(self, graph: KernelGraph) -> None:
        self._same: dict[Value, Value] = {}  # what a value has the elements of, or the largest
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
        """Whether a maximum is subtracted before an exponential is taken."""
        return any(self._safe)

    @property
    def all_safe(self) -> bool:
        """Whether one is before each."""
        return all(self._safe)

    def _read(self, graph: KernelGraph) -> None:
        for op in all_ops(graph.ops):
            self._made.update((v, op) for v in op.results)
            if len(op.operands) == len(op.results) == 1 and op.function is None:
                self._same[op.result] = op.operands[0]
        for launch in launches(graph.ops):
            self._same.update(zip(launch.results, launch.ends, strict=True))
            self._same.update(zip(launch.defines, launch.operands, strict=True))
            for loop in loops(launch):
                for value, accumulator in zip(loop.results, loop.accumulators, strict=True):
                    self._same[value] = accumulator.value
                    if accumulator.fn is AccumulateFn.SUM:
                        del self._same[value]

    def _difference(self, argument: Value) -> tuple[Value, Value] | None:
        """``x`` and ``m`` of ``c * (x - m)``."""
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
        """The values of all of which, or of whose elements, a value is the maximum."""
        found: set[Value] = set()
        seen: set[Value] = set()
        left = [value]
        while left:
            value = self._origin(left.pop())
            if value in seen:
                continue
            seen.add(value)
            op, number = self._made.get(value), self._number(value)
            if op is not None and op.function in (BinaryFn.MAX, ReduceFn.MAX):
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
        return None if op is None or op.number is None else float(op.number)
