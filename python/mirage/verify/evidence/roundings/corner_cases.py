"""Corner cases: rows of equal truth values, integers that floats cannot represent, and numbers that
f16 cannot represent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from mirage.semantics.scalar import DType
from mirage.verify.evidence.roundings.activations import LARGEST, Activations, Situation
from mirage.verify.evidence.roundings.kinds_of_situations import by_powers
from mirage.verify.evidence.samples.integer_inputs import looked_up, of_any_size


def truths(draw: Activations) -> Iterator[Situation | None]:
    """Yield situations with rows of truth values that are all true, all false, or true only at one
    end."""
    for i in draw.integers:
        if draw.graph.inputs[i].dtype is not DType.I1:
            continue
        if not draw.mine():
            yield None
            continue
        shape = draw.shapes[i] or (1,)
        columns = np.arange(shape[-1])
        kinds = [columns < 0, columns == 0, columns >= 0, columns == shape[-1] - 1]
        turns = np.arange(prod(shape[:-1])) % len(kinds)
        x = np.stack(kinds)[turns].astype(np.float64).reshape(draw.shapes[i])
        yield draw.situation(f"truth values of input {i}: none, one or all of a row", {i: x})


def large_integers(draw: Activations, powers: Sequence[int] = (24,)) -> Iterator[Situation | None]:
    """Yield situations with integers about powers of two, which floats with fewer bits do not all
    represent: f32 at 2^24, bf16 and f16 at 2^12, and 2^17 is more than f16 has."""
    for power in powers:
        wide = of_any_size(draw.graph, power + 2)
        those = [i for i in draw.integers if draw.graph.inputs[i] in wide]
        if those and not draw.mine():
            yield None
        elif those:
            name = f"integers about 2^{power}"
            streams = {i: draw.stream(name, i) for i in those}
            special = {i: 2.0**power + streams[i].integers(-2, 6, draw.shapes[i]) for i in those}
            yield draw.situation(name, special)


def whole_types(draw: Activations) -> Iterator[Situation | None]:
    """Yield situations in which all integers of 8 and 16 bits are any of their types, and any of
    the upper quarter, whose sums do not cancel: f16 holds each byte, but not the products of two,
    nor all sums."""
    narrow = {v for v in draw.graph.inputs if v.dtype in (DType.I8, DType.I16)}
    narrow -= looked_up(draw.graph).keys()
    those = [i for i in draw.integers if draw.graph.inputs[i] in narrow]
    for name, least in (("any", -1.0), ("large", 0.5)) if those else ():
        if not draw.mine():
            yield None
            continue
        name = f"{name} integers of 8 and 16 bits"
        ends = {i: 1 << (draw.graph.inputs[i].dtype.bits - 1) for i in those}
        streams = {i: draw.stream(name, i) for i in those}
        special = {
            i: streams[i].integers(int(least * ends[i]), ends[i], draw.shapes[i]) for i in those
        }
        yield draw.situation(name, {i: x.astype(np.float64) for i, x in special.items()})


def beyond_f16(draw: Activations) -> Iterator[Situation | None]:
    """Yield situations in which one input, of a type other than f16, has many numbers beyond the
    range of f16."""
    for i in draw.free:
        if draw.graph.inputs[i].dtype is DType.F16:
            continue
        if not draw.mine():
            yield None
            continue
        scales = list(draw.scales)
        scales[i] = LARGEST[DType.F16]
        yield draw.scaled(by_powers(scales), scales)
