"""Tensors of 8-bit floats and products with scales: against PyTorch."""

from __future__ import annotations

from typing import Any

import mirage as mi
import numpy as np
import pytest
import torch
from mirage.frontend.errors import FrontendError
from mirage.frontend.torch_import.rows import lowering
from mirage.semantics.domain import TypedFloat
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import DType, UnaryFn
from mirage.semantics.ugraph import External
from torch_programs.imported_values import Program, outputs, rand

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
SCALED_MM: Any = getattr(torch, "_scaled_mm")  # noqa: B009 (PyTorch has no other name)
A = rand(16, 32, dtype=torch.float32).to(E4M3)
B = rand(48, 32, dtype=torch.float32).to(E4M3)
SCALES = (torch.tensor(0.5), torch.tensor(0.25))
CONVERSIONS: dict[str, Program] = {
    "to e4m3": lambda x: x.to(E4M3),
    "to e5m2": lambda x: x.to(E5M2),
    "there and back": lambda x: x.to(E4M3).to(x.dtype) * 2,
    "one and the other": lambda x: x.to(E5M2).to(E4M3).float(),
    "moved": lambda x: x.to(E4M3).t().reshape(-1)[3:40].to(torch.bfloat16),
    "of one number": lambda x: torch.full((4,), 0.3, dtype=E4M3).float() + x[0, 0].float(),
    "joined": lambda x: torch.cat([x.to(E5M2), x.to(E5M2)], 1),
}


@pytest.mark.parametrize("name", CONVERSIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_conversions(name: str, dtype: torch.dtype) -> None:
    x = torch.cat([rand(8, 8), rand(8, 8) * 1e3, rand(8, 8) * 1e-3, rand(8, 8) * 1e5], 1).to(dtype)
    for ours, theirs in outputs(CONVERSIONS[name], (x,), typed=True):
        np.testing.assert_array_equal(ours, theirs)


def test_wide_numbers_go_by_way_of_f32() -> None:
    """PyTorch does the same: a number close to a tie in float64 is a tie in f32."""
    x = torch.tensor([1.0625 + 1e-12, 1.0625 - 1e-12, 1.1875 + 1e-12, 70000.0], dtype=torch.float64)
    for dtype in (E4M3, E5M2):
        ((ours, theirs),) = outputs(lambda x, t=dtype: x.to(t), (x,), typed=True)
        np.testing.assert_array_equal(ours, theirs)


def scaled(out: torch.dtype, bias: bool = False) -> Program:
    def program(a: Any, b: Any, s: Any, t: Any, *rest: Any) -> torch.Tensor:
        return SCALED_MM(a, b.t(), s, t, bias=rest[0] if bias else None, out_dtype=out)

    return program


@pytest.mark.parametrize("out", [torch.bfloat16, torch.float16, torch.float32])
def test_products_with_scales_of_tensors(out: torch.dtype) -> None:
    ((ours, theirs),) = outputs(scaled(out), (A, B, *SCALES), typed=True)
    np.testing.assert_allclose(ours, theirs, rtol=2.0**-7, atol=1e-4)


@pytest.mark.parametrize("shape", [(1,), (1, 1)])
def test_scales_of_one_number(shape: tuple[int, ...]) -> None:
    scales = tuple(s.reshape(shape) for s in SCALES)
    imported = mi.from_torch(scaled(torch.float32), A, B, *scales)
    (ours,) = _evaluated(imported, A, B, *scales)
    np.testing.assert_allclose(ours, _expected(A, B, *SCALES), rtol=1e-6)


def test_scales_of_rows_and_a_bias() -> None:
    """On a CPU PyTorch has no such product."""
    rows, columns = rand(16, 1, dtype=torch.float32).abs(), rand(1, 48, dtype=torch.float32).abs()
    bias = rand(48, dtype=torch.bfloat16)
    imported = mi.from_torch(scaled(torch.bfloat16, bias=True), A, B, rows, columns, bias)
    assert imported.graph.outputs[0].dtype is DType.BF16
    (ours,) = _evaluated(imported, A, B, rows, columns, bias)
    expected = _expected(A, B, rows, columns) + bias.double().numpy()
    np.testing.assert_allclose(ours, expected, rtol=1e-6, atol=1e-6)


def _evaluated(imported: Any, *inputs: torch.Tensor) -> Any:
    return evaluate_floats(imported.graph, [x.double().numpy() for x in inputs])


def _expected(a: Any, b: Any, s: Any, t: Any) -> Any:
    return ((a.double() @ b.double().t()) * s.double() * t.double()).numpy()


def test_factors_are_read_as_they_are() -> None:
    graph = mi.from_torch(scaled(torch.bfloat16), A, B, *SCALES).graph
    assert [v.dtype for v in graph.inputs[:2]] == [DType.F8E4M3, DType.F8E4M3]
    assert not any(isinstance(op, External) for op in graph.ops)
    products = [op for op in graph.ops if len(op.operands) == 2 and op.result.dtype is DType.F32]
    assert {v.dtype for v in products[0].operands} == {DType.F8E4M3}


@pytest.mark.parametrize(
    "scales",
    [
        (torch.ones(16, 2), torch.ones(2, 48)),  # of blocks
        (torch.ones(16, 1, dtype=torch.float64), torch.ones(1, 48, dtype=torch.float64)),
    ],
)
def test_other_scales_are_named(scales: tuple[torch.Tensor, torch.Tensor]) -> None:
    with pytest.raises((FrontendError, RuntimeError), match="scale"):
        mi.from_torch(scaled(torch.bfloat16), A, B, *scales)


def test_a_pytorch_that_gives_nan_keeps_its_conversion(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lowering, "torch_saturates", lambda: False)
    program = CONVERSIONS["to e4m3"]
    with pytest.raises(FrontendError, match="gives NaN in this PyTorch"):
        mi.from_torch(program, torch.ones(4, 4))
    imported = mi.from_torch(program, torch.ones(4, 4), allow_fallback=True)
    assert any(isinstance(op, External) for op in imported.graph.ops)
    imported = mi.from_torch(CONVERSIONS["to e5m2"], torch.ones(4, 4))
    assert [op.function for op in imported.graph.ops] == [UnaryFn.ROUND_E5M2]


def test_typed_products_are_in_f32() -> None:
    imported = mi.from_torch(scaled(torch.float32), A, B, *SCALES)
    arrays = [x.double().numpy() for x in (A, B, *SCALES)]
    (ours,) = evaluate_floats(imported.graph, arrays, TypedFloat())
    np.testing.assert_allclose(ours, _expected(A, B, *SCALES), rtol=1e-5, atol=1e-6)
