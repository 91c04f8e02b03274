"""Writes to inputs and buffers, which become new values without PyTorch's conversion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from mirage.frontend.torch_import import export_program, from_torch
from mirage.frontend.torch_import.capture import decompositions
from mirage.mlir_io import graph_to_text
from thorough import some_of
from torch import Tensor, nn
from torch.export.graph_signature import OutputKind
from torch_programs.op_by_op import op_by_op

AT = torch.tensor([1])


class Written(nn.Module):
    """Applies ``function`` to an input, an index, and a buffer."""

    kept: Tensor

    def __init__(self, function: Callable[[Tensor, Tensor, Tensor], Any]) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("kept", torch.arange(12.0).view(3, 4))

    def forward(self, x: Tensor, at: Tensor) -> Any:
        return self.function(x, at, self.kept)


def store(x: Tensor, at: Tensor, kept: Tensor) -> Any:
    return kept.index_copy_(0, at, x[:1]).sum(0) + kept


def stores(x: Tensor, at: Tensor, kept: Tensor) -> Any:
    """Reads before, between and after writes, also to an input."""
    y = kept * 2.0
    kept.index_copy_(0, at, x[:1])
    z = kept * 3.0
    kept.index_copy_(0, at + 1, x[1:2]).mul_(2.0)
    x.index_copy_(0, at, y[2:])
    return y + z, kept.view(2, 6).sum(0), x, kept


def in_between(x: Tensor, at: Tensor, kept: Tensor) -> Any:
    """A view of the new value."""
    rows = kept.index_copy_(0, at, x[:1])[1:]
    return rows * 2.0


def stale(x: Tensor, at: Tensor, kept: Tensor) -> Any:
    """A view that was created earlier reflects the write."""
    rows = kept[1:].view(-1)
    kept.index_copy_(0, at, x[:1])
    return rows * 2.0


def through(x: Tensor, at: Tensor, kept: Tensor) -> Any:
    """A write to a view."""
    kept[1].mul_(2.0)
    return kept + x


def narrow(x: Tensor, at: Tensor, kept: Tensor) -> Any:
    """The type of the sum is wider than that of the tensor."""
    at.add_(at.new_ones(1, dtype=torch.int32))
    x.add_(at.double())
    return x + kept


QUICK = (store, stores, in_between)
OTHERS = (stale, through, narrow)


def inputs() -> tuple[Tensor, Tensor]:
    return torch.arange(12.0).view(3, 4) * 0.25 + 1.0, AT.clone()


def is_quick(module: nn.Module, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Return whether PyTorch's conversion is not used."""

    def asked(*args: object) -> None:
        raise AssertionError

    program = export_program(module, inputs())
    with monkeypatch.context() as patch:
        patch.setattr(decompositions, "_run", asked)
        try:
            decompositions.decomposed(program, in_place=False)
        except AssertionError:
            return False
    return True


@pytest.mark.parametrize("function", some_of([*QUICK, *OTHERS], every=2))
def test_both_ways_lead_to_the_same(function: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_quick(Written(function), monkeypatch) == (function in QUICK)

    def imported() -> Any:
        return from_torch(
            Written(function), *inputs(), allow_fallback=True, allow_updates=True
        ).program

    quick = imported()
    monkeypatch.setattr(decompositions, "_stays", lambda node: False)
    taken_apart = imported()
    assert quick.updates == taken_apart.updates
    assert graph_to_text(quick.graph) == graph_to_text(taken_apart.graph)


@pytest.mark.parametrize("function", [*QUICK, *OTHERS])
def test_new_values_are_those_of_pytorch(function: Any) -> None:
    module, given = Written(function), inputs()
    imported = from_torch(Written(function), *given, allow_fallback=True, allow_updates=True)
    found = op_by_op(imported.program, {})(*inputs())
    wanted = module(*given)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    held = [p.index for p in imported.program.parameters]
    rest = iter(given)
    values = [module.kept if i in held else next(rest) for i in range(3)]
    updates = [values[i] for i in imported.program.updates]
    for got, want in zip(found, [*updates, *wanted], strict=True):
        torch.testing.assert_close(got, want)


def test_the_program_of_the_caller_stays_as_it_is() -> None:
    program = export_program(Written(stores), inputs())
    before = str(program.graph)
    found = decompositions.decomposed(program, in_place=False)
    assert str(program.graph) == before
    assert {spec.kind for spec in program.graph_signature.output_specs} == {OutputKind.USER_OUTPUT}
    kinds = [spec.kind for spec in found.graph_signature.output_specs]
    assert kinds[:2] == [OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION]
