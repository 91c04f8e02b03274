"""Graphs with complex inputs and results, and results that are lazy views, or views with other
types, as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from mirage.torch.compiled_graph import Report
from mirage.torch.graph_compiler import backend
from thorough import some_of
from torch_programs.op_by_op import op_by_op

Tensor = torch.Tensor


def x() -> Tensor:
    return torch.randn(8, 4)


def z() -> Tensor:
    return torch.randn(4, 6, dtype=torch.complex64)


def stored(a: Tensor, b: Tensor) -> Tensor:
    a.index_copy_(0, torch.tensor([2]), b[:1])
    return a[0] * 2


def rotary(a: Tensor, turn: Tensor) -> Tensor:
    return torch.view_as_real(torch.view_as_complex(a.unflatten(-1, (-1, 2))) * turn).flatten(-2)


PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Tensor, ...]]]] = {
    "a table that is an input": (rotary, lambda: (x(), torch.polar(torch.ones(2), x()[0, :2]))),
    "conjugates of an input": (lambda a: (a.conj(), a.mH, a * 2), lambda: (z(),)),
    "conjugates of a result": (lambda a: (b := a * 2, b.conj(), b.real, b.mH), lambda: (z(),)),
    "a negative of an input": (lambda a: (a.conj().imag, a * 2), lambda: (z(),)),
    "conjugates after a write": (lambda a: (a.mul_(2), a.conj()), lambda: (z(),)),
    "an input that is a conjugate": (lambda a: (a.t(), a.real, a * 2), lambda: (z().conj(),)),
    "numbers": (lambda a: (a * (1 + 2j) / 2j, 1 - a, a * 3j + 2), lambda: (z(),)),
    "conversions": (lambda a: (a.cfloat(), a.cdouble(), a.half().cfloat() * 2), lambda: (x(),)),
    "sums": (lambda a: (a.sum(0, dtype=torch.complex128), a[0, 0].sum(), a.mT * 2), lambda: (z(),)),
    "views of other strides": (
        lambda a: torch.channel_shuffle((a.mT * 2j).view(1, 6, 2, 2), 3),
        lambda: (z(),),
    ),
    "a store": (stored, lambda: (z(), z())),
    "a store to a conjugate": (stored, lambda: (z().conj(), z())),
    "a store to other strides": (stored, lambda: (z().t(), z().t())),
    "another type": (lambda a: (a.view(torch.int32)[1:], a * 2), lambda: (x(),)),
    "narrow elements": (lambda a: (a.view(torch.float16), a * 2), lambda: (x()[1:],)),
    "types of a result": (lambda a: (b := a * 2, b.view(torch.int32), b.t()), lambda: (x(),)),
    "pairs as complex": (lambda a: (torch.view_as_complex(a[:, :2]), a * 2), lambda: (x(),)),
}


@pytest.mark.parametrize("name", some_of(PROGRAMS, every=3))
def test_as_eager(name: str) -> None:
    torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]
    function, inputs = PROGRAMS[name]
    reports: list[Report] = []
    host = partial(backend, compiler=op_by_op, devices=("cpu",), watch=reports.append)
    found: list[list[Tensor]] = []
    for run in (torch.compile(function, backend=host), function):
        torch.manual_seed(0)
        given = inputs()
        results = run(*given)
        results = [results] if isinstance(results, Tensor) else list(results)
        results[0].mul_(2)  # what shares memory with it changes, too
        found.append([*results, *given])
    assert [report.reason for report in reports] == [""]
    assert reports[0].compiled is not None
    for got, want in zip(*found, strict=True):
        torch.testing.assert_close(got, want, check_stride=True, equal_nan=True)


def test_memory_that_the_type_does_not_fit() -> None:
    """Memory of floats can be viewed as elements of 8 bytes only at every second place."""
    torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]

    def function(a: Tensor) -> tuple[Tensor, Tensor]:
        return a.view(torch.float64), a * 2

    compiled = torch.compile(
        function, backend=partial(backend, compiler=op_by_op, devices=("cpu",))
    )
    whole = torch.randn(34)
    torch.testing.assert_close(compiled(whole[2:]), function(whole[2:]))
    with pytest.raises(RuntimeError, match="divisible"):
        compiled(whole[1:33])
