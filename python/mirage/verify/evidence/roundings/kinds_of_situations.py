"""Kinds of situations: rows, channels, zeros, NaN and scales as they occur in models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import ceil, prod

import numpy as np

from mirage.semantics.scalar import Array, DType
from mirage.verify.evidence.roundings.activations import Activations, Situation
from mirage.verify.evidence.roundings.input_scales import HIGHEST, LOWEST, box_of, within
from mirage.verify.evidence.roundings.not_numbers import never_read, read_by
from mirage.verify.evidence.roundings.rows_of_activations import (
    AVERAGED,
    BOTH_SIGNS,
    GAINS,
    MASKS,
    OUTLIERS,
    ROWS,
)
from mirage.verify.evidence.samples.integer_inputs import RUNS

_MANY = 0.125
"""The share of the elements of an input that are NaN where there are many."""


def number_of_kinds(draw: Activations) -> int:
    """The number of situations of the kinds below, except those of :func:`own_scales`."""
    found = (1 + len(RUNS)) * len(draw.integers)  # at most
    for i in draw.free:
        found += 3 + 1 + 3  # scales, zeros, NaN
        if draw.has_rows(i):
            every = len(ROWS) + (len(MASKS) if i in draw.masks else 0)
            needed = max(1, int(draw.needed(i).sum()))
            found += ceil(every / min(every, needed)) + len(OUTLIERS)
            found += len(ROWS) if i in draw.together else 0
            found += len(AVERAGED) if i in draw.averaged else 0
    return found


def segments(draw: Activations) -> Iterator[Situation | None]:
    """Yield situations in which integers say which of a few segments an element belongs to, the
    same ones in all inputs."""
    if any(draw.graph.inputs[i].dtype is not DType.I1 for i in draw.integers):
        for runs in RUNS:
            name = f"integers equal in runs of {runs:g} of a row"
            yield draw.situation(name, {}, runs=runs) if draw.mine() else None


def rows(draw: Activations) -> Iterator[Situation | None]:
    """Yield situations with rows of all kinds in one input, for each input in turn."""
    for i in draw.free:
        if not draw.has_rows(i):
            continue
        needed = draw.needed(i).reshape(-1)
        # those that matter first, so that each of them is of another kind
        numbers = np.where(needed, needed.cumsum() - 1, (~needed).cumsum() - 1)
        every = (*MASKS, *ROWS) if i in draw.masks else ROWS
        together = max(1, min(int(needed.sum()), len(every)))
        for first in range(0, len(every), together):
            if not draw.mine():
                yield None
                continue
            kinds = [every[k] for k in (first + numbers) % len(every)]
            names = ", ".join(every[(first + k) % len(every)][0] for k in range(together))
            yield draw.of_rows(f"rows of input {i}: {names}", {i: kinds})


def alike(draw: Activations) -> Iterator[Situation | None]:
    """Yield situations in which all rows are of one kind, if a program or an error measure
    combines several rows: a mean far from 0 has no effect next to rows of other kinds, and an
    error that is small relative to the errors of another row would be lost."""
    inputs = [i for i in sorted(draw.together.intersection(draw.free)) if draw.has_rows(i)]
    kinds = sorted(ROWS, key=lambda kind: kind[0] not in BOTH_SIGNS)
    for kind in kinds:
        for i in inputs:
            if not draw.mine():
                yield None
                continue
            every = {i: [kind] * prod(draw.shapes[i][:-1])}
            yield draw.of_rows(f"all rows of input {i}: {kind[0]}", every)


def averaged(draw: Activations) -> Iterator[Situation | None]:
    """Yield situations in which all rows are equal that a program averages, each with other
    weights: the average is that row, and one error of the weights is the error of a whole row."""
    for number, value in enumerate(AVERAGED):
        for i in sorted(draw.averaged.intersection(draw.free)):
            if not draw.mine():
                yield None
                continue
            equal = {i: np.full(draw.shapes[i], value)}
            name = f"all elements of input {i} are {value:g}, draw {number + 1}"
            yield draw.situation(name, equal, fresh=True)


def unlike(draw: Activations) -> Iterator[Situation | None]:
    """Yield situations with a mean far above 0 in one part of a dimension and far below 0 in
    the rest, where rows are combined: a value near the mean of one group is far from the mean
    of the next."""
    high, low = (dict(ROWS)[name] for name in BOTH_SIGNS)
    for i in sorted(draw.meeting.intersection(draw.free)):
        shape = draw.shapes[i]
        for dim in range(len(shape) - 1 if draw.has_rows(i) else 0):
            for what, part in _parts(draw, i, dim):
                if not draw.mine():
                    yield None
                    continue
                rng = draw.stream("unlike", i, dim, what)
                rows = prod(shape[:-1])
                both = [kind(rng, rows, shape[-1]).reshape(shape) for kind in (high, low)]
                place = part.reshape((-1, *(1,) * (len(shape) - dim - 1)))
                name = f"input {i}: mean 300 in {what} of dimension {dim}, -1000 in the rest"
                yield draw.situation(name, {i: np.where(place, *both)})


def _parts(draw: Activations, i: int, dim: int) -> Iterator[tuple[str, Array]]:
    """Yield parts of an input's dimension that are neither empty nor all of the sampled
    indices."""
    size, index = draw.graph.inputs[i].shape[dim], draw.sample.inputs[i][dim]
    index = np.arange(size) if index is None else index
    parts = {
        "what is compared": draw.compared(i, dim),
        "one half": 2 * index < size,
        "the first": index == 0,
    }
    for what, part in parts.items():
        if part.any() and not part.all():
            yield what, part


def outliers(draw: Activations) -> Iterator[Situation | None]:
    """Yield situations with one channel far larger than the others, where the gain is large
    too."""
    for i in draw.free:
        shape = draw.shapes[i]
        if not draw.has_rows(i):
            continue
        for factor, gain in zip(OUTLIERS, GAINS, strict=True):
            if not draw.mine():
                yield None
                continue
            rng = draw.stream("outliers", i, factor)
            channel = int(rng.integers(shape[-1]))
            x = rng.standard_normal(shape) * min(1.0, draw.scales[i] * 64)
            x[..., channel] *= factor
            special = {i: x}
            for g in draw.gains:
                if draw.shapes[g][-1] == shape[-1] and g in draw.free:
                    special[g] = 1.0 + 0.1 * rng.standard_normal(draw.shapes[g])
                    special[g][..., channel] = gain
            yield draw.situation(f"channel of input {i} times {factor:g}, gain {gain:g}", special)


def zeros(draw: Activations) -> Iterator[Situation | None]:
    """Yield situations with rows and columns of zeros."""
    for i in draw.free:
        yield zeroed(draw, i) if draw.mine() else None


def zeroed(draw: Activations, i: int) -> Situation:
    """Draw zeros for some rows and columns of one input, among those that are compared."""
    shape = draw.shapes[i]
    rng = draw.stream("zeros", i)
    x = rng.standard_normal(shape) * draw.scales[i]
    for dim in range(len(shape)):
        at: list[slice | int] = [slice(None)] * len(shape)
        (needed,) = np.nonzero(draw.compared(i, dim))
        at[dim] = int(rng.choice(needed)) if len(needed) else int(rng.integers(shape[dim]))
        x[tuple(at)] = 0.0
    return draw.situation(f"rows and columns of zeros in input {i}", {i: x})


def not_numbers(draw: Activations) -> Iterator[Situation | None]:
    """Yield situations with NaN in elements that the program never reads, and with one or many NaN
    in each input in turn: a single one reaches few results, many meet every mask."""
    read = read_by(draw.graph)
    for i in draw.free:
        unread = never_read(draw.graph.inputs[i], draw.sample.inputs[i], read)
        if unread.any():
            yield nan_where_unread(draw, i, unread) if draw.mine() else None
    for many, i in product((False, True), draw.free):
        if not draw.mine():
            yield None
            continue
        rng = draw.stream("not numbers", i)
        x = np.array(rng.standard_normal(draw.shapes[i]) * draw.scales[i])
        x[tuple(int(rng.integers(n)) for n in draw.shapes[i])] = np.nan
        if many:
            x[rng.random(draw.shapes[i]) < _MANY] = np.nan
        yield draw.situation(f"{'many NaN' if many else 'a NaN'} in input {i}", {i: x})


def nan_where_unread(draw: Activations, i: int, unread: Array) -> Situation:
    """Draw numbers for the elements of an input that the program reads, and NaN for the rest."""
    rng = draw.stream("unread", i)
    x = np.array(rng.standard_normal(draw.shapes[i]) * draw.scales[i])
    x[unread] = np.nan
    return draw.situation(f"NaN in input {i} where nothing reads it", {i: x})


def own_scales(draw: Activations, count: int) -> Iterator[Situation | None]:
    """Yield situations in which every input has its own random scale."""
    for number in range(count):
        if not draw.mine():
            yield None
            continue
        rng = draw.stream("own scales", number)
        powers = rng.integers(LOWEST, HIGHEST + 1, len(draw.scales))
        keep = rng.random(len(draw.scales)) < 0.4
        scales = [
            s if k else within(2.0 ** float(p), v.dtype)
            for s, k, p, v in zip(draw.scales, keep, powers, draw.graph.inputs, strict=True)
        ]
        yield draw.scaled(by_powers(scales), scales)


def single_scales(draw: Activations) -> Iterator[Situation | None]:
    """Yield situations with one input at either end of the scales and the others as usual."""
    boxes = {i: box_of(draw.graph.inputs[i].dtype) for i in draw.free}
    for power in range(3):
        for i, (low, high) in boxes.items():
            yield single_scale(draw, i, (high, low, high - 6)[power]) if draw.mine() else None


def single_scale(draw: Activations, i: int, power: int) -> Situation:
    """Draw one input at a scale of ``2**power``, or the next one that its type has, the others
    as usual."""
    scales = list(draw.scales)
    scales[i] = within(2.0**power, draw.graph.inputs[i].dtype)
    return draw.scaled(by_powers(scales), scales)


def by_powers(scales: Sequence[float]) -> str:
    return "inputs times 2^" + ", ".join(f"{np.log2(s):.3g}" for s in scales)
