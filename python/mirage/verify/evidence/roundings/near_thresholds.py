"""Does a candidate compare numbers that it has rounded to 16 bits?

``where(x > 0.1, x, 0)`` depends on all digits of ``x``, but only near 0.1: among thousands of
normal numbers, there may be none whose rounding to f16 is on the other side. So if a candidate
rounds what it compares with a constant, and the reference does not, inputs are chosen such that the
reference's numbers are about the constant: one input is as large as it takes to get there. All
inputs are constant, so that this concerns all elements, or have equal rows, so that it concerns one
element of each row (a variance; shares whose running sum is cut). Then all elements are changed a
little.

A candidate that compares all digits has the same few errors there as the reference: those of
numbers that differ from the constant by a rounding to f32.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from mirage.semantics.domain import Planes
from mirage.semantics.scalar import BINARY, Array, BinaryFn, DType
from mirage.semantics.ugraph import Elementwise, KernelGraph, Op, Value, View
from mirage.verify.evidence.roundings.activations import Activations, Situation
from mirage.verify.evidence.roundings.input_scales import HIGHEST, LOWEST
from mirage.verify.evidence.samples.floats import Yardstick, outputs_of
from mirage.verify.evidence.samples.sampled_outputs import Sample

_MOST = 4
"""The most comparisons, and the most inputs for each, for which inputs are searched."""
_STEPS = 30
_SPREAD, _OF_16_BITS = 2.0**-11, 2.0**-8
"""The largest relative change of an element, about half of a rounding to f16; for inputs of 16 bits
a few of their roundings."""


class _Compared(Yardstick):
    """Arithmetic in float64 that notes, for each comparison with a constant, the difference between
    both sides that is in the middle of all; None for other comparisons."""

    def __init__(self) -> None:
        super().__init__()
        self.differences: list[float | None] = []

    def binary(self, fn: BinaryFn, a: Planes, b: Planes, dtype: DType) -> Planes:
        if BINARY[fn].truth:
            known = 1 in (a[0].size, b[0].size)
            with np.errstate(invalid="ignore"):
                each = np.sort(np.ravel(a[0] - b[0]))
            middle = float(each[each.size // 2]) if known and each.size else None
            self.differences.append(middle)
        return super().binary(fn, a, b, dtype)


def near_thresholds(
    draw: Activations, graphs: Sequence[KernelGraph], sample: Sample
) -> Iterator[Situation | None]:
    """Yield situations in which the reference compares numbers with constants next to them, if it
    compares all digits and a candidate does not. ``graphs`` are the reference and the
    candidates."""
    if _compares_rounded(graphs[0]) or not any(map(_compares_rounded, graphs[1:])):
        return
    for i in draw.free[:_MOST]:
        for rows in (False, True):
            search = _Search(draw, graphs[0], sample, i, rows)
            for number, size in search.meeting():
                yield search.about(number, size) if draw.mine() else None


def _compares_rounded(graph: KernelGraph) -> bool:
    """Return whether a comparison reads, directly or through other ops, floats that a cast has
    rounded to 16 bits."""
    rounded: set[Value] = set()
    for op in graph.ops:
        if _is_comparison(op) and not rounded.isdisjoint(op.operands):
            return True
        if _is_rounding(op) or _follows(op, rounded):
            rounded.update(op.results)
    return False


def _is_comparison(op: Op) -> bool:
    return isinstance(op.function, BinaryFn) and BINARY[op.function].truth


def _is_rounding(op: Op) -> bool:
    """Return whether an op rounds numbers to 16 bits."""
    narrow = any(not v.dtype.is_integer and v.dtype.bits <= 16 for v in op.results)
    converts = isinstance(op, Elementwise) and op.identity
    if converts and op.operands[0].dtype.bits > 16:
        return narrow
    return narrow and not (converts or isinstance(op, View))


def _follows(op: Op, rounded: AbstractSet[Value]) -> bool:
    return not rounded.isdisjoint(op.operands) and not _is_comparison(op)


@dataclass(frozen=True)
class _Search:
    """The sizes of input ``i`` at which comparisons of the reference have equal sides. Inputs are
    constant, or with ``rows`` have equal rows."""

    draw: Activations
    reference: KernelGraph
    sample: Sample
    i: int
    rows: bool

    def meeting(self) -> Iterator[tuple[int, float]]:
        """Yield sizes at which the sides of a comparison are equal, with the number of the
        comparison."""
        for sign in (1.0, -1.0):
            sizes = [sign * 2.0**k for k in range(LOWEST, HIGHEST + 1)]
            tried = [self._differences(size) for size in sizes]
            for number in range(min(_MOST, *map(len, tried))):
                given = [(size, d[number]) for size, d in zip(sizes, tried, strict=True)]
                for (low, a), (high, b) in pairwise(given):
                    if a is not None and b is not None and a * b < 0:
                        yield number, self._between(number, low, high, a)
                        break

    def _between(self, number: int, low: float, high: float, first: float) -> float:
        """Return the size between two at which the difference changes its sign; ``first`` is the
        difference at the first of these."""
        for _ in range(_STEPS):
            middle = (low + high) / 2
            found = self._differences(middle)[number]
            same = found is not None and found * first > 0
            low, high = (middle, high) if same else (low, middle)
        return high

    def _differences(self, size: float) -> list[float | None]:
        domain = _Compared()
        inputs = self.draw.situation("", self._inputs(size)).inputs
        outputs_of(self.reference, 0, domain, inputs, self.sample)
        return domain.differences

    def _inputs(self, size: float) -> dict[int, Array]:
        draw, found = self.draw, dict[int, Array]()
        for j in draw.free:
            shape = draw.shapes[j]
            row: Array = np.ones(shape[-1:])
            if self.rows:
                row = draw.stream("equal rows", j).standard_normal(shape[-1:])
            found[j] = np.broadcast_to(row * (size if j == self.i else draw.scales[j]), shape)
        return found

    def about(self, number: int, size: float) -> Situation:
        """Return inputs that differ a little from those of a size."""
        what = f"input {self.i} about {size:.6g}{' times equal rows' * self.rows}"
        name = f"numbers about the constant of comparison {number}: {what}"
        special: dict[int, Array] = {}
        for j, x in self._inputs(size).items():
            wide = self.draw.graph.inputs[j].dtype.bits > 16
            change = self.draw.stream(name, j).uniform(-1.0, 1.0, x.shape)
            special[j] = x * (1 + (_SPREAD if wide else _OF_16_BITS) * change)
        return self.draw.situation(name, special)
