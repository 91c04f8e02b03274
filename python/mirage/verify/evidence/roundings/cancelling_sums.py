"""Inputs whose sums cancel, for candidates that add numbers that they have rounded.

``x @ w`` adds its products in f32 and rounds the total. A candidate that rounds the sums of two
halves to 16 bits and adds these has, on most inputs, an error of about the same size, because a
part of a sum is usually not larger than the sum. Where the parts are large and of opposite sign it
is larger without limit.

So if a candidate adds rounded numbers, each input in turn gets a total near zero along each of its
dimensions, with numbers of the usual size, while all other inputs are constant: every sum of its
elements that a program takes nearly cancels then, and none of its parts does, however the candidate
divides the sum. Two inputs of the same shape are each other's negatives in the same way. A program
that adds the same rounded numbers as its candidate has the same error there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations

import numpy as np

from mirage.semantics.evaluation.evaluate import Sampled
from mirage.semantics.scalar import Array, BinaryFn
from mirage.semantics.ugraph import (
    AccumulateFn,
    Contraction,
    Elementwise,
    KernelGraph,
    Loop,
    Movement,
    Op,
    Source,
    Structure,
    Value,
)
from mirage.verify.evidence.roundings.activations import Activations, Situation

_MOST_INPUTS = 8
_CONSTANT = 1.3
"""A factor on the usual scale of an input that is constant. Its products have many digits."""
_LEFT = 2.0**-5
"""What is left of a sum, relative to the sum of as many random numbers: more than the rounding of
the inputs, so that the total is not a matter of luck."""


def cancelling_sums(draw: Activations, graphs: Sequence[KernelGraph]) -> Iterator[Situation | None]:
    """Yield the situations if a candidate adds rounded numbers; None for those that another process
    tries. ``graphs`` are the reference and the candidates."""
    if not any(map(adds_rounded, graphs[1:])):
        return
    constant = {i: np.full(draw.shapes[i], _CONSTANT * draw.scales[i]) for i in draw.free}
    inputs = draw.free[:_MOST_INPUTS]
    for i in inputs:
        for dim, size in enumerate(draw.shapes[i]):
            for counts in _counts(draw, size) if size > 1 else ():
                yield _of_total(draw, i, dim, counts, constant) if draw.mine() else None
    for i, j in combinations(inputs, 2):
        if draw.shapes[i] and draw.shapes[i] == draw.shapes[j]:
            yield _opposite(draw, i, j, constant) if draw.mine() else None


def _counts(draw: Activations, size: int) -> list[Array]:
    """Return how many indices of the program those of a dimension may stand for: one each, unless
    the program runs on cells of indices."""
    cells = {x.tobytes(): x for x in draw.sample.fixed.values() if len(x) == size}
    return list(cells.values()) or [np.ones(size)]


def _of_total(
    draw: Activations, i: int, dim: int, counts: Array, constant: dict[int, Array]
) -> Situation:
    """Draw an input whose sums along a dimension are small; the others are constant."""
    what = f"sums of input {i} along dimension {dim} cancel"
    shape = draw.shapes[i]
    share = (counts / counts.sum()).reshape((-1, *(1,) * (len(shape) - dim - 1)))
    left = _LEFT * float(np.sqrt((share**2).sum()))

    def inputs(again: int) -> list[Sampled]:
        x = draw.stream(what, counts.tobytes(), again).standard_normal(shape)
        x += left - (x * share).sum(dim, keepdims=True)
        return draw.situation(what, {**constant, i: x * draw.scales[i]}).inputs

    return _situation(what, inputs)


def _situation(what: str, inputs: Callable[[int], list[Sampled]]) -> Situation:
    # a cast that the reference writes has a large effect there; a candidate without it is better
    return Situation(what, inputs(0), again=inputs, casts=False)


def _opposite(draw: Activations, i: int, j: int, constant: dict[int, Array]) -> Situation:
    """Draw two inputs that are nearly each other's negatives; the others are constant."""
    what = f"inputs {i} and {j} cancel"

    def inputs(again: int) -> list[Sampled]:
        rng, shape = draw.stream(what, again), draw.shapes[i]
        x = rng.standard_normal(shape) * draw.scales[i]
        y = -x * (1.0 + _LEFT * rng.standard_normal(shape))
        return draw.situation(what, {**constant, i: x, j: y}).inputs

    return _situation(what, inputs)


# ---- what a candidate adds


def adds_rounded(graph: KernelGraph) -> bool:
    """Return whether something that a program has rounded to 16 bits or fewer enters a sum."""
    return _Rounded(graph).added


class _Rounded:
    """The values that are computed from rounded ones."""

    def __init__(self, graph: KernelGraph) -> None:
        self._values: set[Value] = set()
        self.added = False
        self._follow(graph.ops)

    def _follow(self, ops: Sequence[Op]) -> None:
        for op in ops:
            if isinstance(op, Structure):
                self._inside(op)
                continue
            entered = not self._values.isdisjoint(op.operands)
            self.added = self.added or (entered and _adds(op))
            if entered or _rounds(op):
                self._values.update(op.results)

    def _inside(self, op: Structure) -> None:
        given = zip(op.defines, op.operands)
        self._values.update(new for new, old in given if old in self._values)
        self._follow(op.inside)
        if isinstance(op, Loop):
            sums = [a.value for a in op.accumulators if a.fn is AccumulateFn.SUM]
            self.added = self.added or not self._values.isdisjoint(sums)
            pairs = list(op.carries)
        else:
            pairs = list(zip(op.results, op.ends, strict=True))
        for result, end in pairs:
            if end in self._values or (_is_narrow(result) and not _is_narrow(end)):
                self._values.add(result)


def _is_narrow(v: Value) -> bool:
    return v.dtype.is_half or v.dtype.is_eight_bits


def _rounds(op: Op) -> bool:
    """Return whether results may have fewer digits than what an op computes."""
    if isinstance(op, Movement | Source):
        return False
    exact = isinstance(op, Elementwise) and op.identity and all(map(_is_narrow, op.operands))
    return not exact and any(map(_is_narrow, op.results))


def _adds(op: Op) -> bool:
    if isinstance(op, Contraction):
        return op.sums
    return op.function in (BinaryFn.ADD, BinaryFn.SUB)
