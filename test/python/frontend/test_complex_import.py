"""Complex tensors inside of a program, as pairs of real ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mirage as mi
import pytest
import torch
from mirage.frontend.errors import FrontendError
from thorough import some_of
from torch import nn
from torch_programs.imported_programs import check, rand

Tensor = torch.Tensor
X, A = rand(2, 5, 3, 8), rand(5, 4)


def turned(x: Tensor, angle: Tensor) -> Tensor:
    """Rotary embedding as in the original code of Llama."""
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
    turn = torch.polar(torch.ones_like(angle), angle)
    return torch.view_as_real(pairs * turn[None, :, None]).flatten(3)


def z(x: Tensor) -> Tensor:
    return torch.view_as_complex(x.unflatten(-1, (-1, 2)))


ROWS: dict[str, tuple[Callable[..., object], tuple[Tensor, ...]]] = {
    "rotary": (lambda x: turned(x, A), (X,)),
    "arithmetic": (
        lambda x, a: tuple(
            torch.view_as_real(y)
            for y in (
                z(x) + z(x) * z(x),
                z(x) - z(x).conj() * 2,
                -z(x) * a[:3],
                a[:3] * z(x).conj() * z(x)[0, 0],
            )
        ),
        (X, rand(4, 4)),
    ),
    "numbers": (lambda x: torch.view_as_real(z(x) * (1 + 2j) / 2j + (1 - 1j)), (X,)),
    "real and complex operands": (
        lambda x, a: tuple(
            torch.view_as_real(y)
            for y in (
                z(x) + x[..., :4],
                a[0] - z(x),
                2 - z(x) + 3,
                torch.where(a[0] > 0, z(x), a[1]),
            )
        ),
        (X, rand(4, 4)),
    ),
    "exponentials": (lambda x: torch.view_as_real(torch.exp(1j * x)), (X,)),
    "means": (lambda x: tuple(map(torch.view_as_real, (z(x).mean(), z(x).mean((0, -1))))), (X,)),
    "products of matrices": (
        lambda x, a: tuple(
            torch.view_as_real(y)
            for y in (z(x) @ z(a), z(x)[0, 0] @ z(a), torch.bmm(z(x)[0], z(x)[0].mT), z(a).t())
        ),
        (X, rand(4, 6)),
    ),
    "rows": (lambda x, at: torch.view_as_real(z(x)[:, at]), (X, torch.tensor([2, 0, 2]))),
    "parts": (lambda x: (z(x).real, z(x).imag + 1, torch.complex(x, x * 2).imag), (X,)),
    "views": (
        lambda x: tuple(
            torch.view_as_real(y)
            for y in (
                z(x).transpose(-1, 1),
                z(x).permute(2, 0, -1, 1).contiguous(),
                z(x)[:, 1:4, -1],
                z(x)[:, :, None].expand(2, 5, 7, 3, 4),
                z(x).reshape(10, 12),
                z(x).unsqueeze(-1).squeeze(-1),
                torch.cat([z(x), z(x) * 2], -1),
            )
        ),
        (X,),
    ),
}


@pytest.mark.parametrize("name", some_of(ROWS, every=3))
def test_rows(name: str) -> None:
    program, inputs = ROWS[name]
    check(program, *inputs)


class Table(nn.Module):
    """A module with a table that is not in its state, so that it is computed at import."""

    def __init__(self) -> None:
        super().__init__()
        angle = torch.outer(torch.arange(5.0), torch.tensor([1.0, 0.1, 0.01, 0.001])).double()
        self.register_buffer("angle", angle, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return turned(x, self.angle)


class ComplexTable(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.turn = torch.polar(torch.ones_like(A), A)

    def forward(self, x: Tensor) -> Tensor:
        return torch.view_as_real(z(x) * self.turn[:, None]).flatten(3)


@pytest.mark.parametrize("module", [Table(), ComplexTable()])
def test_a_table_is_computed_at_import(module: nn.Module) -> None:
    imported = check(module, X)
    names = [p.name for p in imported.program.parameters]
    assert names
    assert all(name.startswith("folded_") for name in names)


REFUSED: dict[str, tuple[Callable[..., object], tuple[Any, ...]]] = {
    "no rule": (lambda x: torch.view_as_real(z(x).sin()), (X,)),
    "a power": (lambda x: torch.view_as_real(z(x) ** 2j), (X,)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    program, inputs = REFUSED[name]
    with pytest.raises(FrontendError):
        mi.from_torch(program, *inputs)
