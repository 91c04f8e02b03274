"""Inputs like those of models, for the part of the inputs that a sample of the outputs needs."""

from __future__ import annotations

import numpy as np
from mirage.semantics.builder import Builder
from mirage.semantics.region import Demand
from mirage.semantics.scalar import BinaryFn, DType
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.verify.evidence.roundings.activations import Activations
from mirage.verify.evidence.roundings.kinds_of_situations import not_numbers, zeros
from mirage.verify.evidence.samples.sampled_outputs import Sample


def test_inputs_of_which_nothing_is_needed_stay_as_they_are() -> None:
    """Rows of the second input may be outside of all examined tiles."""
    build = Builder()
    x, y = (Value(TensorType((4, 8), DType.F16)) for _ in range(2))
    result = build.binary(BinaryFn.ADD, x, y)
    graph = KernelGraph("sum", (x, y), tuple(build.ops), (result,))
    nothing = (np.arange(0), None)
    demand = Demand({x: (None, None), y: nothing, result: (None, None)}, {})
    sample = Sample(((None, None),), (demand,), ((None, None), nothing), 1.0, 0.0, 32)
    draw = Activations(graph, sample, 1)
    assert draw.free == [0]
    for situation in (*zeros(draw), *not_numbers(draw)):
        assert situation is not None
        assert situation.inputs[1].planes[0].shape == (0, 8)
