"""Errors on activations: the inputs of each kind of program, and the detection of wrong programs;
on the CPU, with PyTorch in place of compiled kernels."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

from activations import (
    DTYPES,
    EPS,
    GROUPS,
    HEADS,
    KINDS,
    OUTPUTS,
    Case,
    Inputs,
    Tensor,
    measure,
    situations,
)

ROWS, FEATURES = 4, 64


def written(function: Callable[..., Tensor]) -> Callable[[Inputs, Inputs], Any]:
    """Wrap a function as a program that writes its output."""
    return lambda x, y: y[0].copy_(function(*x))


def one_pass(x: Tensor, gain: Tensor, bias: Tensor) -> Tensor:
    """A layer norm whose variance is a difference of means: its digits cancel where the mean is
    large."""
    wide = x.float()
    mean = wide.mean(-1, keepdim=True)
    variance = ((wide * wide).mean(-1, keepdim=True) - mean * mean).clamp(min=0.0)
    return ((wide - mean) * torch.rsqrt(variance + EPS) * gain + bias).to(x.dtype)


@pytest.mark.parametrize("linear", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_inputs_of_each_situation_are_those_of_the_program(kind: str, linear: bool) -> None:
    case = Case(kind, linear, "f16", ROWS, FEATURES)
    norm, per_head = (FEATURES,), (FEATURES // HEADS,)
    own = {
        "layer_norm": [norm, norm],
        "rms_norm": [],
        "rms_norm_gain": [norm],
        "group_norm": [norm, norm],
        "qk_norm": [per_head],
        "softmax": [],
        "cross_entropy": [(ROWS, FEATURES)],
    }[kind]
    expected = [(ROWS, FEATURES), *own, *([(OUTPUTS, FEATURES)] if linear else [])]
    found = list(situations(case))
    assert FEATURES % GROUPS == 0
    assert len({name for name, _ in found}) == len(found)
    for name, inputs in found:
        assert [tuple(x.shape) for x in inputs] == expected, name
        assert {x.dtype for x in inputs} == {DTYPES["f16"]}, name


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["layer_norm", "softmax"])
def test_pytorch_itself_is_right(kind: str, dtype: str) -> None:
    case = Case(kind, False, dtype, ROWS, FEATURES)
    row = measure(case, written(case.program()), device="cpu")
    assert row["wrong"] == []
    assert row["situations"] == len(list(situations(case)))


def test_a_variance_of_one_pass_is_found_out() -> None:
    row = measure(Case("layer_norm", False, "f16", ROWS, 768), written(one_pass), device="cpu")
    assert row["wrong"]
    assert row["worst"]["ours"] > 2.0 * row["worst"]["torch"]


def test_what_is_not_written_is_found_out() -> None:
    """Outputs are NaN beforehand."""
    case = Case("rms_norm", False, "f16", ROWS, FEATURES)
    row = measure(case, lambda x, y: None, device="cpu")
    assert len(row["wrong"]) == row["situations"]
