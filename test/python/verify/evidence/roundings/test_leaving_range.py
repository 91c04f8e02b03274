"""Scales at which a candidate's f16 numbers leave their range, for inputs of any type."""

from __future__ import annotations

import numpy as np
import pytest
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.verify.evidence.roundings.activations import LARGEST, Activations
from mirage.verify.evidence.roundings.kinds_of_situations import own_scales, single_scales
from mirage.verify.evidence.roundings.leaving_range import suspects
from mirage.verify.evidence.samples.sampled_outputs import choose_sample


def products(inputs: DType, through: DType | None) -> KernelGraph:
    """Products of elements, directly or held in another type in between."""
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


def scaled_product(through: DType | None, x_type: DType = DType.F8E4M3) -> KernelGraph:
    """A product of narrow numbers times an f32 scale, held in another type in between."""
    x, w = (
        Value(TensorType(shape, x_type), name) for name, shape in zip("xw", SHAPES, strict=True)
    )
    s = Value(TensorType((), DType.F32), "s")
    b = Builder()
    scale = b.binary(BinaryFn.MUL, s, b.constant(2.0**-12))
    if through is not None:
        scale = b.cast(b.cast(scale, through), DType.F32)
    y = b.binary(BinaryFn.MUL, b.matmul(b.cast(x, DType.F32), b.cast(w, DType.F32)), scale)
    y = b.cast(y, DType.BF16)
    return KernelGraph("scaled product", (x, w, s), tuple(b.ops), (y,))


SHAPES = (8, 32), (32, 16)


@pytest.mark.parametrize("inputs", [DType.F8E4M3, DType.F8E5M2, DType.F16])
@pytest.mark.parametrize("seed", range(3))
def test_what_is_narrow_stays_inside_of_its_own_range(inputs: DType, seed: int) -> None:
    """The loss of digits of a scale is not visible where a product is zero because its factors
    vanish. (Of normal numbers at the least scale of f8e5m2, four times its least number, a tenth is
    rounded to zero.)"""
    graphs = scaled_product(None, inputs), scaled_product(DType.F16, inputs)
    sample = choose_sample(graphs, 1e5, np.random.default_rng(0))
    tried = list(suspects(graphs, sample, Activations(graphs[0], sample, seed, {})))
    assert any("loss of digits" in situation.name for _, situation in tried)
    for _, situation in tried:
        for x, v in zip(situation.inputs, graphs[0].inputs, strict=True):
            size = np.abs(x.planes[0])
            assert (size > 0.0).mean() > 0.85, situation.name
            assert (size < LARGEST[v.dtype]).mean() > 0.9, situation.name


def test_every_input_has_scales_that_its_type_has() -> None:
    """A situation with factors that are all zero, or all the largest number, shows nothing."""
    graph = scaled_product(None)
    sample = choose_sample([graph], 1e5, np.random.default_rng(0))
    draw = Activations(graph, sample, 0, {})
    every = [*single_scales(draw), *own_scales(draw, 6), draw.scaled("small", [2.0**-12] * 3)]
    for situation in every:
        assert situation is not None
        for x in situation.inputs[:2]:
            assert (np.abs(x.planes[0]) > 0.0).mean() > 0.9, situation.name
            assert (np.abs(x.planes[0]) < LARGEST[DType.F8E4M3]).mean() > 0.9, situation.name
