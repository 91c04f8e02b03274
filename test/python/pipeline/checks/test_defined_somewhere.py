"""Programs that are not defined for any inputs are the user's errors; no others are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import mirage as mi
import pytest
import torch
from mirage.frontend.errors import InvalidGraphError
from mirage.frontend.program import Program
from mirage.pipeline.checks.defined_somewhere import check_defined_somewhere
from mirage.pipeline.commands.export import export

Tensor = torch.Tensor
Function = Callable[..., object]
X = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
MASKED = torch.full((4, 8), float("-inf"))


class Scaled(torch.nn.Module):
    """Defined for values that it may hold, but not for its present ones: these may be loaded
    later."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("variance", torch.full((8,), -1.0))

    def forward(self, x: Tensor) -> Tensor:
        return (x.square() + 1e3) * torch.sqrt(self.get_buffer("variance"))


NOWHERE: dict[str, tuple[Function, str]] = {
    "a logarithm of what is negative": (lambda x: torch.log(-(x * x) - 1), "`log`"),
    "a root of what is negative": (lambda x: torch.sqrt(-x.abs() - 1).sum(-1), "`sqrt`"),
    "a logarithm of what is less than one": (lambda x: torch.log(x.sin() - 2) * 3, "`log`"),
    "a quotient by zero": (lambda x: x / (x - x), "`div`"),
    "a constant that f16 does not hold": (
        lambda x: x.half() + torch.full((8,), 70000.0).half(), "constant of f16; numbers"),
}  # fmt: skip
SOMEWHERE: dict[str, Function] = {
    "a root of data": lambda x: torch.sqrt(x - 1e4),
    "a logarithm of large data": lambda x: torch.log(x.sum() - 3e5),
    "an angle near five": lambda x: torch.asin(x - 5),
    "a share": lambda x: torch.log(x) + torch.log(1 - x),
    "a mask": lambda x: x.masked_fill(torch.ones(8, 8).tril()[:4] == 0, float("-inf")).softmax(-1),
    "a row that is masked": lambda x: torch.cat([x, x + MASKED]).softmax(-1),
    "a mask alone": lambda x: (x, MASKED[:, :2] * 1.0),
    "whole numbers": lambda x: (x / (x - x), x > 0),
    "what a module may hold": Scaled(),
}


def program(function: Function) -> Program:
    return mi.from_torch(function, X).program


@pytest.mark.parametrize(("rows", "classes"), [(16, 8), (128, 64), (4096, 10)])
def test_a_mean_over_rows_each_of_which_has_a_class(rows: int, classes: int) -> None:
    x, target = torch.randn(rows, classes), torch.zeros(rows, dtype=torch.int64)
    check_defined_somewhere(mi.from_torch(torch.nn.functional.cross_entropy, x, target).program)


def test_zeros_and_ones_in_place_of_truth_values() -> None:
    """Any other number makes the summands infinite."""
    lowest = torch.finfo(torch.float32).min
    x, left = torch.randn(2, 4, 24), torch.ones(2, 24, dtype=torch.int64)
    imported = mi.from_torch(
        lambda x, left: torch.softmax(x + (1.0 - left[:, None].float()) * lowest, -1), x, left
    )
    check_defined_somewhere(imported.program)


@pytest.mark.parametrize("name", NOWHERE)
def test_a_program_that_is_defined_nowhere(name: str) -> None:
    function, what = NOWHERE[name]
    with pytest.raises(InvalidGraphError, match=what) as found:
        check_defined_somewhere(program(function))
    assert found.value.location is not None
    assert Path(found.value.location.file).name == Path(__file__).name


@pytest.mark.parametrize("name", SOMEWHERE)
def test_a_program_that_is_defined_somewhere(name: str) -> None:
    check_defined_somewhere(program(SOMEWHERE[name]))


def test_nothing_is_written(tmp_path: Path) -> None:
    function, _ = NOWHERE["a quotient by zero"]
    with pytest.raises(InvalidGraphError):
        mi.from_torch(function, X).superoptimize(candidates=1, jobs=1, use_cache=False)
    with pytest.raises(InvalidGraphError):
        export(function, X, path=tmp_path / "f.mirage", options={"use_cache": False})
    assert not list(tmp_path.iterdir())
