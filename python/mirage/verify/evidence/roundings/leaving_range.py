"""The situations in which a candidate's f16 values leave their range although the reference's do
not.

Every value that a program rounds to f16 (in casts, stores and operands of products) grows in its
own way with the scale of each input: ``x * gain`` grows with both, ``x * rsqrt(mean(x^2)) * gain``
with the gain alone. The growth is measured: both programs run in float64, at a few sets of scales,
and note the sizes of the values that they round. In between, the logarithm of a size is taken to be
linear in the logarithms of the scales. Among many sets of scales, those are chosen at which this
estimate says that a value of the candidate overflows or vanishes and none of the reference does.
The situations that :func:`suspects` yields are then run, so the estimate decides only which
situations are tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from mirage.semantics.domain import Float64, Planes
from mirage.semantics.evaluation.evaluate import Sampled, evaluate_sampled
from mirage.semantics.scalar import Array, BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, all_ops
from mirage.verify.evidence.roundings.activations import Activations, Situation
from mirage.verify.evidence.roundings.input_scales import HIGHEST, LOWEST, WIDEST, box_of
from mirage.verify.evidence.roundings.side_by_side import alike, chunks, stacked
from mirage.verify.evidence.samples.sampled_outputs import Sample

_OVER, _UNDER = 16.0, -14.0  # powers of two: the ends of f16's normal numbers
_MARGIN = 1.0
_STEP = 5.0
_TRIED = 4096
_MOST_INPUTS = 12
_PICKED = 2  # situations for each end and base
# powers of two, relative to the usual scales: at the second, the epsilons of norms dominate
_BASES = (0.0, -7.0)


class Sizes(Float64):
    """float64 that notes the size of every value that is rounded to f16, in order, for each of
    ``count`` sets of inputs; the sets are the first dimension of arrays."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.largest: list[Array] = []
        self.typical: list[Array] = []

    def _note(self, x: Planes, dtype: DType) -> Planes:
        if dtype is DType.F16:
            each = [_size(part) for part in x[0]]  # a single set, if all are equal
            largest, typical = np.array(each).T
            self.largest.append(np.broadcast_to(largest, (self.count,)))
            self.typical.append(np.broadcast_to(typical, (self.count,)))
        return x

    def unary(self, fn: UnaryFn, x: Planes, dtype: DType) -> Planes:
        return self._note(super().unary(fn, x, dtype), dtype)

    def binary(self, fn: BinaryFn, a: Planes, b: Planes, dtype: DType) -> Planes:
        return self._note(super().binary(fn, a, b, dtype), dtype)

    def matmul(self, a: Planes, b: Planes, dtype: DType) -> Planes:
        return self._note(super().matmul(a, b, dtype), dtype)

    def reduce(self, fn: ReduceFn, x: Planes, dims: tuple[int, ...], dtype: DType) -> Planes:
        return self._note(super().reduce(fn, x, dims, dtype), dtype)

    def cast(self, x: Planes, dtype: DType) -> Planes:
        return self._note(super().cast(x, dtype), dtype)


def _size(x: Array) -> tuple[float, float]:
    """Return the sizes of the largest number of a value and of a typical one, as powers of two."""
    size = np.abs(x)
    finite = size[np.isfinite(size) & (size > 0.0)] if size.size else size
    if not finite.size:
        return -np.inf, np.inf
    # Half of the numbers are smaller: a few tiny numbers do no harm.
    return float(np.log2(finite.max())), float(np.log2(np.median(finite)))


def suspects(
    graphs: Sequence[KernelGraph],
    sample: Sample,
    draw: Activations,
    active: Callable[[int], bool] = lambda number: True,
    first: int = 0,
    step: int = 1,
) -> Iterator[tuple[int, Situation]]:
    """Yield situations in which a candidate's values may leave the range of f16 and the reference's
    may not, with the number of the candidate. Only ``active`` candidates are considered, every
    ``step``-th from ``first`` on. ``graphs`` are the reference and the candidates."""
    floats = [i for i in draw.free if not graphs[0].inputs[i].dtype.is_integer]
    halves = [i for i in floats if graphs[0].inputs[i].dtype is DType.F16]
    moved = sorted(floats, key=lambda i: i not in halves)[:_MOST_INPUTS]
    numbers = [n for n in range(first, len(graphs) - 1, step) if active(n)]
    if not halves:  # the numbers of f16 are computed by the candidate
        numbers = [n for n in numbers if _has_halves(graphs[n + 1])]
    if not moved or not numbers:
        return
    natural = np.log2(np.array(draw.scales))
    widest = (LOWEST, HIGHEST) if halves else WIDEST
    boxes = np.array([box_of(v.dtype, widest) for v in graphs[0].inputs])
    for base in _BASES:
        points = _points(np.clip(natural + base, *boxes.T), moved)
        places = [0, *(n + 1 for n in numbers if active(n))]
        sizes: dict[int, list[_Sizes]] = {place: [] for place in places}
        for some in chunks(points, sample):
            inputs = [draw.magnified(point.tolist()) for point in some]
            for place in places:
                found: dict[int, _Sizes] = {}
                for those in alike(inputs):
                    values = _sizes(graphs, place, sample, [inputs[k] for k in those])
                    found.update(zip(those, values, strict=True))
                sizes[place] += [found[k] for k in range(len(some))]
        for place in places[1:]:
            pair = sizes[0], sizes[place]
            for what, powers in _found(pair, draw, points, moved, halves, boxes):
                yield (
                    place - 1,
                    draw.scaled(
                        f"{what} at inputs times 2^" + ", ".join(f"{p:.3g}" for p in powers),
                        [2.0 ** float(p) for p in powers],
                    ),
                )


def _has_halves(graph: KernelGraph) -> bool:
    return any(v.dtype is DType.F16 for op in all_ops(graph.ops) for v in op.results)


def _points(base: Array, moved: list[int]) -> list[Array]:
    """Return a set of scales and, for each input, the set in which only its scale differs."""
    points = [base]
    for i in moved:
        point = base.copy()
        point[i] += _STEP if base[i] < 0.0 else -_STEP
        points.append(point)
    return points


_Sizes = tuple[Array, Array]
"""The sizes of a program's values: the largest element of each, and a typical one."""


def _found(
    sizes: tuple[list[_Sizes], list[_Sizes]],
    draw: Activations,
    points: list[Array],
    moved: list[int],
    halves: list[int],
    boxes: Array,
) -> Iterator[tuple[str, Array]]:
    """Yield scales, as powers of two, at which the estimate says that the candidate leaves the
    range. ``sizes`` are those of the reference and of the candidate at each of the points;
    ``halves`` are the inputs of type f16, and ``boxes`` has the ends of the scales of each."""
    base = points[0]
    powers = _box(draw.stream("box", *base), base, moved, boxes)
    offsets = (powers - base)[:, moved]
    signs = np.array([points[k + 1][i] - base[i] for k, i in enumerate(moved)])
    # for each program: the largest and the typical size of each value
    estimates: list[list[Array]] = []
    for number in range(2):
        rows: list[Array] = []
        for kind in range(2):
            at = [s[kind] for s in sizes[number]]
            with np.errstate(invalid="ignore", over="ignore"):
                slope = np.stack([(p - at[0]) / d for p, d in zip(at[1:], signs, strict=True)], 1)
                estimate = at[0][:, None] + np.nan_to_num(slope) @ offsets.T
            rows.append(estimate)
        estimates.append(rows)
    (high_r, low_r), (high_c, low_c) = estimates
    inputs = powers[:, halves].max(1) + 2.5 if halves else -np.inf
    over_r = np.maximum(high_r.max(0, initial=-np.inf), inputs) + np.zeros(len(powers))
    over_c = high_c.max(0, initial=-np.inf)
    room = np.minimum(_OVER - over_r, over_c - _OVER)
    least = powers[:, halves].min(1) if halves else np.inf
    under_r = np.minimum(low_r.min(0, initial=np.inf), least)
    under_c = low_c.min(0, initial=np.inf)
    with np.errstate(invalid="ignore"):
        room_under = np.minimum(under_r, _UNDER) - under_c
    room_under[over_r > _OVER - _MARGIN] = -np.inf
    for what, distance in (("overflow", room), ("loss of digits", room_under)):
        for at in np.argsort(-distance)[:_PICKED]:
            if distance[at] > _MARGIN:
                yield what, powers[at]


def _box(rng: np.random.Generator, base: Array, moved: list[int], boxes: Array) -> Array:
    """Draw many sets of scales; most of them leave most inputs at their usual scale."""
    powers = np.tile(base, (_TRIED, 1))
    for i in moved:
        change = rng.random(_TRIED) < 0.6
        powers[change, i] = rng.integers(boxes[i, 0], boxes[i, 1] + 1, int(change.sum()))
    return powers


def _sizes(
    graphs: Sequence[KernelGraph], number: int, sample: Sample, sets: Sequence[Sequence[Sampled]]
) -> list[_Sizes]:
    """Measure the sizes of the values of one program, for each set of inputs."""
    domain = Sizes(len(sets))
    evaluate_sampled(graphs[number], domain, stacked(sets), sample.demands[number], sets=1)
    shape = (len(domain.largest), len(sets))
    largest, typical = (np.reshape(x, shape) for x in (domain.largest, domain.typical))
    return list(zip(largest.T, typical.T, strict=True))
