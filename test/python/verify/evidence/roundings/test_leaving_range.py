"""Scales at which a candidate's numbers of f16 leave their range, for inputs of any type."""

from __future__ import annotations

import numpy as np
import pytest
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.verify.evidence.roundings.activations import Activations
from mirage.verify.evidence.roundings.leaving_range import suspects
from mirage.verify.evidence.samples.sampled_outputs import choose_sample


def products(inputs: DType, through: DType | None) -> KernelGraph:
    """Elements times each other, as they are or held in another type between."""
    x, w = (Value(TensorType((8, 32), inputs), name) for name in "xw")
    b = Builder()
    y = b.binary(BinaryFn.MUL, b.cast(x, DType.F32), b.cast(w, DType.F32))
    if through is not None:
        y = b.cast(b.cast(y, through), DType.F32)
    return KernelGraph("products", (x, w), tuple(b.ops), (y,))


def found(inputs: DType, through: DType | None) -> list[str]:
    graphs = products(inputs, None), products(inputs, through)
    sample = choose_sample(graphs, 1e5, np.random.default_rng(0))
    draw = Activations(graphs[0], sample, 0, {})
    return [situation.name for _, situation in suspects(graphs, sample, draw)]


@pytest.mark.parametrize("inputs", [DType.F16, DType.BF16, DType.F32])
def test_products_that_do_not_fit_are_tried(inputs: DType) -> None:
    names = found(inputs, DType.F16)
    assert any("overflow" in name for name in names)
    assert any("loss of digits" in name for name in names)


@pytest.mark.parametrize("inputs", [DType.F16, DType.BF16, DType.F32])
def test_wide_types_hold_them(inputs: DType) -> None:
    assert not found(inputs, DType.BF16)
    assert not found(inputs, None)
