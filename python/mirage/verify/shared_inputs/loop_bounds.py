"""Integers for inputs that bound loops, for programs that are executed to compare them.

With small numbers a loop would always take only its first steps, whatever its bounds are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from mirage.semantics.scalar import Array
from mirage.semantics.ugraph import KernelGraph, View, launches, loops

_DRAWS = 4
"""The number of draws of integers that bound loops."""
_OFTEN = 1 / 8
"""The share of these integers that lie far beyond the bounds."""
_FAR = 1 << 40
"""A number beyond any number of steps, and exact in float64."""


def bounds_in_place(
    graph: KernelGraph, contents: Mapping[int, Array], seed: int
) -> Iterator[Mapping[int, Array]]:
    """Yield ``contents`` several times, with integers in the inputs that bound loops: numbers for
    which different steps are taken, and some beyond."""
    bounds = {i: ends for i, ends in bounding_inputs(graph).items() if i not in contents}
    if not bounds:
        yield contents
        return
    rng = np.random.default_rng(seed)
    for _ in range(_DRAWS):
        held = dict(contents)
        for i, (least, most) in bounds.items():
            shape = graph.inputs[i].shape
            beyond = (most - least) // 2 + 1
            drawn = rng.integers(least - beyond, most + beyond, shape)
            far = rng.choice([-_FAR, _FAR], shape)
            held[i] = np.where(rng.random(shape) < _OFTEN, far, drawn).astype(np.float64)
        yield held


def bounding_inputs(graph: KernelGraph) -> dict[int, tuple[int, int]]:
    """Return the inputs (by number) whose integers bound loops, and the range in which they do."""
    views = {op.result: op.operands[0] for op in graph.ops if isinstance(op, View)}
    numbers = {value: i for i, value in enumerate(graph.inputs)}
    found: dict[int, tuple[int, int]] = {}
    for launch in launches(graph.ops):
        operand = dict(zip(launch.body.params, launch.operands, strict=True))
        for loop in loops(launch):
            readings = () if loop.steps is None else loop.steps.readings
            for param, reading in zip(loop.operands, readings, strict=True):
                value = operand[param]
                while value in views:
                    value = views[value]
                if value in numbers:
                    least, most = found.get(numbers[value], (reading.least, reading.most))
                    ends = min(least, reading.least), max(most, reading.most)
                    found[numbers[value]] = ends
    return found
