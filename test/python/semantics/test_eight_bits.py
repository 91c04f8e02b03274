"""Floats of 8 bits: rounded once, as in PyTorch, and typed by the builder."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from mirage.runtime.serialization.manifest import ELEMENT_BYTES, TORCH_NAMES
from mirage.semantics.builder import Builder, ShapeError
from mirage.semantics.domain import TypedFloat
from mirage.semantics.evaluation.evaluate import evaluate, evaluate_floats
from mirage.semantics.scalar import ROUNDING_TO, UNARY, BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value

TYPES = tuple(ROUNDING_TO)


def every(dtype: DType) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """All finite numbers of a type, in order."""
    numbers = np.arange(256, dtype=np.uint8).view(dtype.numpy).astype(np.float64)
    return np.unique(numbers[np.isfinite(numbers)])


@pytest.mark.parametrize("dtype", TYPES)
def test_facts(dtype: DType) -> None:
    assert (dtype.bits, dtype.bytes) == (8, 1)
    assert (dtype.in_tile, dtype.computed) == (DType.F16, DType.F32)
    assert not dtype.is_half
    assert not dtype.is_integer
    assert ELEMENT_BYTES[dtype.value] == 1
    torch_type = getattr(torch, TORCH_NAMES[dtype.value])
    assert torch.finfo(torch_type).max == every(dtype)[-1]
    numbers = every(dtype)
    np.testing.assert_array_equal(DType.F16.round(numbers), numbers)  # tiles hold all of them


@pytest.mark.parametrize("dtype", TYPES)
def test_numbers_are_rounded_once(dtype: DType) -> None:
    numbers = every(dtype)
    middle = (numbers[1:] + numbers[:-1]) / 2
    np.testing.assert_array_equal(dtype.round(numbers), numbers)
    # close to a tie in float64, which float32 would round to a tie
    np.testing.assert_array_equal(dtype.round(np.nextafter(middle, np.inf)), numbers[1:])
    np.testing.assert_array_equal(dtype.round(np.nextafter(middle, -np.inf)), numbers[:-1])
    bits = dtype.round(middle).astype(dtype.numpy).view(np.uint8)
    assert (bits % 2 == 0).all()


@pytest.mark.parametrize("dtype", TYPES)
def test_pytorch_rounds_alike(dtype: DType) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 1 << 32, 1 << 16, dtype=np.uint32).view(np.float32)
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    x = np.concatenate([x, halves])
    theirs = torch.from_numpy(x).to(getattr(torch, TORCH_NAMES[dtype.value])).float().numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours = UNARY[ROUNDING_TO[dtype]].evaluate(x)
    np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(np.signbit(ours), np.signbit(theirs))


def test_what_is_too_large() -> None:
    x = np.array([464.0, 464.1, 1e9, np.inf, -np.inf, np.nan])
    np.testing.assert_array_equal(DType.F8E4M3.round(x), [448, 448, 448, 448, -448, np.nan])
    x = np.array([61439.0, 61440.0, -1e9, np.inf, np.nan])
    np.testing.assert_array_equal(DType.F8E5M2.round(x), [57344, np.inf, -np.inf, np.inf, np.nan])


@pytest.mark.parametrize("fn", [UnaryFn.ROUND_E4M3, UnaryFn.ROUND_E5M2])
def test_types_of_results(fn: UnaryFn) -> None:
    b, x = Builder(), Value(TensorType((4, 4), DType.F16))
    q = b.unary(fn, x)
    dtype = UNARY[fn].rounds_to
    assert q.dtype is dtype
    assert Builder(in_block=True).unary(fn, x).dtype is DType.F32
    assert b.transpose(q, (1, 0)).dtype is b.concat((q, q), 0).dtype is dtype
    for y in (
        b.matmul(q, q), b.binary(BinaryFn.ADD, q, q), b.unary(UnaryFn.NEG, q),
        b.reduce(ReduceFn.SUM, q, (0,)), b.softmax(q, 1), b.rms_norm(q),
    ):  # fmt: skip
        assert y.dtype is DType.F32
    assert b.matmul(q, x).dtype is DType.F32
    assert b.cast(q, DType.BF16).dtype is DType.BF16


@pytest.mark.parametrize("dtype", TYPES)
def test_conversions_that_round_have_a_name(dtype: DType) -> None:
    x = Value(TensorType((4,), DType.F32))
    with pytest.raises(ShapeError, match=f"round with unary {ROUNDING_TO[dtype].value}"):
        Builder().cast(x, dtype)


@pytest.mark.parametrize("fn", [UnaryFn.ROUND_E4M3, UnaryFn.ROUND_E5M2])
def test_evaluation(fn: UnaryFn) -> None:
    b, x = Builder(), Value(TensorType((64,), DType.F32))
    y = b.cast(b.unary(fn, x), DType.F32)
    graph = KernelGraph("g", (x,), tuple(b.ops), (y,))
    given = np.random.default_rng(0).standard_normal(64).astype(np.float32) * 100
    expected = UNARY[fn].evaluate(given)
    assert (expected != given).any()
    np.testing.assert_array_equal(evaluate_floats(graph, [given])[0], expected)
    (typed,) = evaluate(graph, TypedFloat(), [(given,)])
    np.testing.assert_array_equal(typed[0], expected)
