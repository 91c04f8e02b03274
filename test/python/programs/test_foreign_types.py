"""Tensors of types that kernels do not have: complex numbers, unsigned integers, floats of 8 bits.
Calls of PyTorch pass them on; computations with their parts have kernels."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mirage as mi
import pytest
import torch
from executed_programs import executed
from mirage.mlir_io import graph_from_text, graph_to_text
from mirage.pipeline.commands.compare import verify_programs
from mirage.pipeline.commands.emulate import emulate
from mirage.pipeline.whole_model import IncompleteModelError
from mirage.runtime import load
from mirage.runtime.dispatch.carriers import CARRIERS, carried, name_of, seen_as
from mirage.runtime.errors import ArgumentTypeError
from mirage.semantics.signature import signature
from mirage.semantics.ugraph import External
from mirage.verify import SignatureMismatch
from thorough import some_of
from torch import nn

Function = Callable[..., Any]
OPTIONS = executed(budget=60.0, use_cache=False)


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(5), dtype=dtype)


X = normal(8, 32)
Z = normal(8, 32, dtype=torch.complex64)
BYTES = torch.arange(256, dtype=torch.uint8).reshape(8, 32)


def solved(program: Function, *inputs: torch.Tensor) -> mi.Optimized:
    return mi.optimize(mi.from_torch(program, *inputs, allow_fallback=True), OPTIONS)


class Spectrum(nn.Module):
    """A transform, magnitudes and a linear layer, weighted by complex numbers that it holds."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(17, 8)
        self.weight = nn.Parameter(normal(17, dtype=torch.complex64))
        self.levels: torch.Tensor
        self.register_buffer("levels", torch.arange(8, dtype=torch.uint8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear((torch.fft.rfft(x) * self.weight).abs()) * self.levels


def updated_view(x: torch.Tensor) -> torch.Tensor:
    return torch.as_strided(x * 2, (8, 4), (4, 1), 3) + torch.tensor([1.0, 2.0, 3.0, 4.0])


PROGRAMS: dict[str, tuple[Function, tuple[torch.Tensor, ...]]] = {
    "a transform and a layer": (Spectrum().eval(), (X,)),
    "there and back": (lambda x: torch.fft.ifft(torch.fft.fft(x) * 2).real + x, (X,)),
    "conjugates": (lambda z: torch.fft.fft(z.conj()).conj().transpose(0, 1), (Z,)),
    "halves": (lambda z: torch.view_as_real(z.exp()) @ torch.ones(2, 3), (Z,)),
    "complex results": (torch.fft.rfft, (X,)),
    "complex inputs that are results": (lambda z: (z, z * z), (Z,)),
    "a complex number": (lambda z: (z * (1 + 2j)).real, (Z,)),
    "sums with complex numbers": (lambda z: ((z + 2j) / (3 - 1j) - z / 1j).imag, (Z,)),
    "a power": (lambda z: torch.pow(z, 2j).real, (Z + 3,)),
    "a sum with a real tensor": (lambda z, x: (z + x).abs(), (Z, X)),
    "values of a matrix": (lambda x: torch.linalg.eigvals(x[:8, :8]).abs().sum(), (X,)),
    "bytes in": (lambda x: x.float() @ torch.ones(32, 4), (BYTES,)),
    "bytes through": (lambda x, y: (x + 1, torch.relu(y), x), (BYTES, X)),
    "bytes out": (lambda x: (x * 255).clamp(0, 255).to(torch.uint8), (X,)),
    "floats of 8 bits": (lambda x: x.to(torch.float8_e4m3fn).float() * 2, (X,)),
    "strides": (updated_view, (X,)),
    "a list of them": (lambda z, x: torch.cat([z.exp(), torch.fft.fft(x)]).abs(), (Z, X)),
}


@pytest.mark.parametrize("name", some_of(PROGRAMS, 18))
def test_every_one_has_a_result(name: str) -> None:
    program, inputs = PROGRAMS[name]
    optimized = solved(program, *inputs)
    fresh = [x.flip(0) for x in inputs]
    with torch.no_grad():
        want = program(*fresh)
    got = emulate(optimized, *fresh)
    for mine, theirs in zip(got, want if isinstance(want, tuple) else (want,), strict=True):
        assert mine.dtype is theirs.dtype
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)


def test_what_is_computed_of_a_spectrum_has_kernels() -> None:
    imported = mi.from_torch(Spectrum().eval(), X, allow_fallback=True)
    assert [call.op for call in imported.stays][:1] == ["aten._fft_r2c"]
    calls = [op.target for op in imported.graph.ops if isinstance(op, External)]
    assert calls == ["aten._fft_r2c"]
    assert solved(Spectrum().eval(), X).artifacts


def test_complex_numbers_need_no_calls_where_pairs_do() -> None:
    imported = mi.from_torch(lambda z: (z * z).abs(), Z)
    assert not any(isinstance(op, External) for op in imported.graph.ops)


def test_weights_are_the_modules_own() -> None:
    module = Spectrum().eval()
    optimized = solved(module, X)
    with torch.no_grad():
        module.weight.mul_(2j)
        module.levels.add_(3)
        want = module(X)
    (got,) = emulate(optimized, X)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


def test_calls_are_written_with_what_they_see() -> None:
    graph = mi.from_torch(PROGRAMS["there and back"][0], X, allow_fallback=True).graph
    again = graph_from_text(graph_to_text(graph))
    assert signature(again.graph) == signature(graph)
    assert any(op.seen_as for op in again.graph.ops if isinstance(op, External))


def test_inputs_are_of_the_type_that_was_imported() -> None:
    optimized = solved(PROGRAMS["bytes in"][0], BYTES)
    with pytest.raises(ArgumentTypeError, match="expected a tensor of uint8, got float32"):
        emulate(optimized, X)


def test_a_program_with_a_transform_is_saved_and_loaded(tmp_path: Path) -> None:
    module = nn.Sequential(nn.Linear(32, 32)).eval()

    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.fft.irfft(torch.fft.rfft(module(x)) * 2, n=32)

    model = load(solved(program, X).save(tmp_path / "saved"), device="cpu")
    (got,) = model(X)
    torch.testing.assert_close(got, program(X).detach(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["bytes in", "bytes out", "complex results"])
def test_types_that_an_artifact_does_not_describe_are_named(name: str, tmp_path: Path) -> None:
    program, inputs = PROGRAMS[name]
    with pytest.raises(IncompleteModelError, match=r"tensors of (uint8|complex64)"):
        solved(program, *inputs).save(tmp_path / "saved")
    assert not (tmp_path / "saved").exists()


def test_programs_on_them_are_not_compared() -> None:
    program = mi.from_torch(lambda z: z * z, Z).program
    with pytest.raises(SignatureMismatch, match="got complex64"):
        verify_programs(program, program)


@pytest.mark.parametrize("name", CARRIERS)
def test_what_carries_a_tensor_is_its_memory(name: str) -> None:
    dtype = getattr(torch, name)
    x = torch.zeros(4, 6, dtype=dtype)[1:, ::2]
    carrier = carried(x)
    assert carrier.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert tuple(carrier.shape) == CARRIERS[name].shape((3, 3))
    back = seen_as(carrier, name)
    assert name_of(back) == name
    assert (back.shape, back.stride()) == (x.shape, x.stride())
