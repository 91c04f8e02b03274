"""Ops that stay with PyTorch as one call each, between parts that are compiled."""

from __future__ import annotations

from collections.abc import Callable

import mirage as mi
import pytest
import torch
import torch.nn.functional as F
from mirage.semantics.ugraph import External
from mirage.transforms.partition.partition import Part, partition
from thorough import some_of
from torch_programs.op_by_op import op_by_op

Tensor = torch.Tensor


def rand(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


X, Y, IMAGE = rand(6, 8), rand(6, 8) - 0.5, rand(2, 3, 8, 8)
INTS = torch.arange(48).reshape(6, 8) - 20
SHIFTS = INTS % 5
CALLS: dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...]]] = {
    "signbit": (lambda x: torch.signbit(x * 0), (X,)),
    "copysign.Tensor": (lambda x, y: torch.copysign(x, y * x), (X, Y)),
    "lgamma": (torch.lgamma, (X.abs(),)),
    "digamma": (torch.digamma, (X.abs(),)),
    "polygamma": (lambda x: torch.polygamma(1, x), (X.abs(),)),
    "i0": (torch.i0, (X,)),
    "special_i1": (torch.special.i1, (X,)),
    "special_ndtri": (lambda x: torch.special.ndtri(x.sigmoid()), (X,)),
    "nextafter": (torch.nextafter, (X, Y)),
    "gcd": (torch.gcd, (INTS, SHIFTS)),
    "lcm": (torch.lcm, (INTS, SHIFTS)),
    "convolution": (lambda x, w: F.conv2d(x, w, padding=1), (IMAGE, rand(4, 3, 3, 3))),
    "convolution, in groups": (
        lambda x, w: F.conv2d(x, w, groups=3, padding=1), (IMAGE, rand(6, 1, 3, 3)),
    ),
    "convolution, of a line": (
        lambda x, w: F.conv1d(x, w, stride=2, padding=1), (rand(2, 3, 16), rand(4, 3, 3)),
    ),
    "convolution, transposed": (
        lambda x, w: F.conv_transpose2d(x, w, stride=2), (IMAGE, rand(3, 4, 2, 2)),
    ),
    "_linalg_det": (lambda x: torch.linalg.det(x[:, :6]), (X,)),
    "_linalg_slogdet": (lambda x: torch.linalg.slogdet(x[:, :6])[1], (X,)),
    "fractional_max_pool2d": (
        lambda x, at: F.fractional_max_pool2d(x, 2, output_size=3, _random_samples=at),
        (IMAGE, torch.rand(2, 3, 2)),
    ),
    "masked_scatter": (lambda x, y: x.masked_scatter(x > 0, y), (X, Y)),
}  # fmt: skip


@pytest.mark.parametrize("name", some_of(CALLS, every=3))
def test_one_call_between_parts(name: str) -> None:
    function, inputs = CALLS[name]

    def program(*xs: Tensor) -> Tensor:
        return torch.tanh(function(*xs).float()) * 2

    imported = mi.from_torch(program, *inputs, allow_fallback=True)
    (stays,) = imported.stays
    assert stays.op.removeprefix("aten.") == name.split(",")[0]
    assert stays.reason
    steps = partition(imported.graph)
    assert any(isinstance(s, Part) for s in steps)
    targets = [s.target for s in steps if isinstance(s, External)]
    assert targets.count(stays.op) == 1
    (actual,) = op_by_op(imported.program, {})(*inputs)
    torch.testing.assert_close(actual, program(*inputs))


def test_double_precision_stays_op_by_op() -> None:
    """Kernels do not compute with f64: an op that would become several calls remains one call; the
    ops before and after it are compiled."""

    def program(x: torch.Tensor) -> torch.Tensor:
        wide = torch.special.erf(x.double()).sort(-1).values
        return wide.float() * 2

    x = torch.randn(4, 9)
    imported = mi.from_torch(program, x, allow_fallback=True)
    called = [op.target for op in imported.graph.ops if isinstance(op, External)]
    assert called == ["aten.erf", "aten.sort"]
