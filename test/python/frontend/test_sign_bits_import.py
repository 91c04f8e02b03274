"""Sign bits of numbers, integers and stored floats are read by kernels, with those of zeros."""

from __future__ import annotations

from collections.abc import Callable

import mirage as mi
import pytest
import torch
from mirage.pipeline.commands.emulate import emulate
from thorough import some_of

Tensor = torch.Tensor
ZEROS = [0.0, -0.0, 1.5, -2.5, float("inf"), -float("inf"), 1e-40, -1e-40]
X = torch.tensor([[x] * 8 for x in ZEROS])
PROGRAMS: dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...]]] = {
    "of a tensor": (torch.copysign, (X, X.t())),
    "of a row in 16 bits": (lambda x, y: torch.copysign(x, y[:1]), (X, X.t().half())),
    "of a number": (lambda x: torch.copysign(x, -0.0) + torch.copysign(x, 3), (X[2:4],)),
    "of integers": (torch.copysign, (X, torch.arange(-4, 4))),
    "of truth values": (torch.copysign, (X, X > 1)),
    "the bit": (torch.signbit, (X,)),
    "what it chooses": (lambda x: torch.where(torch.signbit(x.t()), x, 0.5 * x), (X,)),
}


@pytest.mark.parametrize("name", some_of(PROGRAMS, every=2))
def test_kernels_read_them(name: str) -> None:
    program, inputs = PROGRAMS[name]
    imported = mi.from_torch(program, *inputs, allow_fallback=True)
    assert not imported.stays
    optimized = imported.superoptimize(candidates=1, jobs=1, use_cache=False, cubin=False)
    (got,), want = emulate(optimized, *inputs), program(*inputs)
    assert got.dtype == want.dtype
    assert torch.equal(got, want)
    if want.dtype.is_floating_point and "chooses" not in name:  # where the sign of a zero is lost
        assert torch.equal(torch.signbit(got), torch.signbit(want))


def test_none_is_read_of_what_the_program_computes() -> None:
    imported = mi.from_torch(lambda x, y: torch.copysign(x, x * y), X, X, allow_fallback=True)
    assert [stays.op for stays in imported.stays] == ["aten.copysign.Tensor"]
