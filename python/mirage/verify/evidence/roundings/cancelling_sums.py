"""Inputs whose sums cancel, for candidates that add numbers that they have rounded.

``x @ w`` adds its products in f32 and rounds the total. A candidate that rounds the sums of two
halves to 16 bits and adds these has, on most inputs, an error of about the same size, because a
part of a sum is usually not larger than the sum. Where the parts are large and of opposite sign it
is larger without limit.

So if a candidate adds rounded numbers, each input in turn gets a total near zero along each of its
dimensions, with numbers of the usual size, while all other inputs are constant: every sum of its
elements that a program takes nearly cancels then, and none of its parts does, however the candidate
divides the sum. Two inputs of the same shape are each other's negatives in the same way, and an
input that the reference adds to something (a bias, a residual) is the negative of what it is added
to. A program that adds the same rounded numbers as its candidate has the same error there.

A product of two such sums may be too small for f16, and then nothing shows. So if the results of a
reference vanish, all inputs are multiplied by a power of two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations

import numpy as np

from mirage.semantics.domain import Planes, TypedFloat
from mirage.semantics.evaluation.evaluate import Sampled
from mirage.semantics.scalar import Array, BinaryFn, DType
from mirage.semantics.ugraph import (
    Contraction,
    Elementwise,
    KernelGraph,
    Movement,
    Op,
    Source,
    Structure,
    Value,
    View,
)
from mirage.verify.evidence.roundings.activations import Activations, Situation
from mirage.verify.evidence.samples.floats import Yardstick, outputs_of

_MOST_INPUTS = 8
_SUMS = (BinaryFn.ADD, BinaryFn.SUB)
_CONSTANT = 1.3
"""A factor on the usual scale of an input that is constant. Its products have many digits."""
_LEFT = 2.0**-7
"""The remainder of a sum, relative to the sum of equally many random numbers: more than the
rounding of the inputs, so that the total does not depend on luck. Another sum that is added to it
may be as large as the total; the smaller both are, the less of an error it hides."""
_FACTORS = (1.0, 4.0, 16.0, 64.0)
"""The factor by which inputs are multiplied until results do not vanish."""
_VISIBLE = 2.0**-8
"""The size of results of f16 below which their digits are lost."""


def cancelling_sums(draw: Activations, graphs: Sequence[KernelGraph]) -> Iterator[Situation | None]:
    """Yield the situations if a candidate adds rounded numbers; None for those that another process
    tries. ``graphs`` are the reference and the candidates."""
    if not any(map(adds_rounded, graphs[1:])):
        return
    inputs, reference = draw.free[:_MOST_INPUTS], graphs[0]
    for i in inputs:
        for dim, size in enumerate(draw.shapes[i]):
            for counts in _counts(draw, size) if size > 1 else ():
                yield _of_total(draw, reference, i, dim, counts) if draw.mine() else None
    for i, j in combinations(inputs, 2):
        if draw.shapes[i] and draw.shapes[i] == draw.shapes[j]:
            yield _opposite(draw, i, j) if draw.mine() else None
    for i in _added_inputs(draw, reference, inputs):
        yield _opposite_of_rest(draw, reference, i) if draw.mine() else None


def _counts(draw: Activations, size: int) -> list[Array]:
    """Return how many indices of the program those of a dimension may stand for: one each, unless
    the program runs on cells of indices."""
    cells = {x.tobytes(): x for x in draw.sample.fixed.values() if len(x) == size}
    return list(cells.values()) or [np.ones(size)]


def _constants(draw: Activations, what: str, again: int) -> dict[int, Array]:
    """Return a constant for each input. Values that are computed only from constants are rounded in
    the same way everywhere, or not at all (a row over its own root mean square is 1), which depends
    on luck. So further draws have other constants, whose elements vary by as little as the
    remainder of the sum that cancels."""
    found: dict[int, Array] = {}
    for i in draw.free:
        x = np.full(draw.shapes[i], _CONSTANT * draw.scales[i])
        if again:
            rng = draw.stream(what, "constants", i, again)
            x *= 2.0 ** rng.random() * (1.0 + _LEFT * rng.standard_normal(x.shape))
        found[i] = x
    return found


def _of_total(
    draw: Activations, reference: KernelGraph, i: int, dim: int, counts: Array
) -> Situation:
    """Draw an input whose sums along a dimension are small; the others are constant."""
    what = f"sums of input {i} along dimension {dim} cancel"
    shape = draw.shapes[i]
    share = (counts / counts.sum()).reshape((-1, *(1,) * (len(shape) - dim - 1)))
    left = _LEFT * float(np.sqrt((share**2).sum()))

    def inputs(again: int, factor: float) -> list[Sampled]:
        x = draw.stream(what, counts.tobytes(), again).standard_normal(shape)
        x += left - (x * share).sum(dim, keepdims=True)
        special = {**_constants(draw, what, again), i: x * draw.scales[i]}
        return draw.situation(what, {j: factor * x for j, x in special.items()}).inputs

    factor = _visible_factor(draw, reference, partial(inputs, 0))
    return _situation(what, lambda again: inputs(again, factor))


def _visible_factor(
    draw: Activations, reference: KernelGraph, inputs: Callable[[float], list[Sampled]]
) -> float:
    """Return a factor on inputs at which a reference's results do not vanish in f16."""
    if all(v.dtype is not DType.F16 for v in reference.outputs):
        return 1.0
    found = 1.0
    for factor in _FACTORS:
        outputs = outputs_of(reference, 0, TypedFloat(), inputs(factor), draw.sample)
        if not all(np.isfinite(y).all() for y in outputs):
            break
        found = factor
        if any(bool((np.abs(y) >= _VISIBLE).any()) for y in outputs):
            break
    return found


def _situation(what: str, inputs: Callable[[int], list[Sampled]]) -> Situation:
    # a cast that the reference writes has a large effect there; a candidate without it is better
    return Situation(what, inputs(0), again=inputs, casts=False)


def _opposite(draw: Activations, i: int, j: int) -> Situation:
    """Draw two inputs that are nearly each other's negatives; the others are constant."""
    what = f"inputs {i} and {j} cancel"

    def inputs(again: int) -> list[Sampled]:
        rng, shape = draw.stream(what, again), draw.shapes[i]
        x = rng.standard_normal(shape) * draw.scales[i]
        y = -x * (1.0 + _LEFT * rng.standard_normal(shape))
        return draw.situation(what, {**_constants(draw, what, again), i: x, j: y}).inputs

    return _situation(what, inputs)


# ---- inputs that are added to something


def _added_inputs(
    draw: Activations, reference: KernelGraph, inputs: Sequence[int]
) -> Iterator[int]:
    """Yield the inputs that the reference adds to something, in the sampled part."""
    added = {v for op in reference.ops if op.function in _SUMS for v in op.operands}
    sources = {v: i for i, v in enumerate(reference.inputs) if i in inputs and draw.shapes[i]}
    for op in reference.ops:
        moved = isinstance(op, View) or (isinstance(op, Elementwise) and op.identity)
        if moved and op.operands[0] in sources:
            sources[op.results[0]] = sources[op.operands[0]]
    yield from sorted({i for v, i in sources.items() if v in added})


class _Rest(Yardstick):
    """float64 that notes what an input is added to, or subtracted from; the input is recognised by
    its elements."""

    def __init__(self, x: Array) -> None:
        super().__init__()
        self._x = x
        self.found: Array | None = None

    def binary(self, fn: BinaryFn, a: Planes, b: Planes, dtype: DType) -> Planes:
        if fn in _SUMS:
            for x, other in ((a[0], b[0]), (b[0], a[0])):
                if x.size == self._x.size and np.array_equal(x.ravel(), self._x.ravel()):
                    sign = 1.0 if fn is BinaryFn.ADD else -1.0
                    self._note(sign * other, x.shape)
        return super().binary(fn, a, b, dtype)

    def _note(self, rest: Array, shape: tuple[int, ...]) -> None:
        """Note what is added to each element; where elements are repeated, to the first of them."""
        lead = max(0, rest.ndim - len(shape))
        first = rest[(0,) * lead] if lead else rest
        own = shape[len(shape) - first.ndim :]
        first = first[tuple(slice(None) if n != 1 else slice(1) for n in own)]
        self.found = np.broadcast_to(first, shape).reshape(self._x.shape)


def _opposite_of_rest(draw: Activations, reference: KernelGraph, i: int) -> Situation:
    """Draw an input that is nearly the negative of what it is added to. The rows of all other
    inputs are equal, so that the sum is the same for all rows for which the input is repeated; if
    the input is repeated along rows, the elements of each row are equal."""
    what = f"input {i} cancels what it is added to"
    repeated = draw.shapes[i][-1] != 1

    def inputs(again: int) -> list[Sampled]:
        rng = draw.stream(what, again)
        special: dict[int, Array] = {}
        for j in draw.free:
            shape = draw.shapes[j]
            own = shape[-1:] if repeated else (*shape[:-1], 1)[: len(shape)]
            special[j] = np.broadcast_to(rng.standard_normal(own), shape) * draw.scales[j]
        first = draw.situation(what, special).inputs
        noted = _Rest(first[i].planes[0])
        outputs_of(reference, 0, noted, first, draw.sample)
        if noted.found is not None:
            noise = 1.0 + _LEFT * rng.standard_normal(draw.shapes[i])
            rest = np.where(np.isfinite(noted.found), noted.found, 0.0)
            special[i] = -rest * noise
        return draw.situation(what, special).inputs

    return _situation(what, inputs)


# ---- sums of a candidate


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
        pairs = op.carries or tuple(zip(op.results, op.ends, strict=True))
        # a carried value may be a sum of the values of all steps
        carried = (end for _, end in op.carries)
        self.added = self.added or not self._values.isdisjoint(carried)
        for result, end in pairs:
            if end in self._values or (_is_narrow(result) and not _is_narrow(end)):
                self._values.add(result)


def _is_narrow(v: Value) -> bool:
    return v.dtype.is_half or v.dtype.is_eight_bits


def _rounds(op: Op) -> bool:
    """Return whether an op's results may have fewer digits than its computation."""
    if isinstance(op, Movement | Source):
        return False
    exact = isinstance(op, Elementwise) and op.identity and all(map(_is_narrow, op.operands))
    return not exact and any(map(_is_narrow, op.results))


def _adds(op: Op) -> bool:
    if isinstance(op, Contraction):
        return op.sums
    return op.function in _SUMS
