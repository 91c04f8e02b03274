"""Arguments and results of classes that programs cannot have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mirage as mi
import pytest
import torch
from mirage.frontend.errors import GraphTypeError

X = torch.ones(4, 8)


@dataclass
class Outcome:
    y: torch.Tensor


REFUSED: dict[str, tuple[Callable[[Any], object], object, str]] = {
    "a result": (
        lambda x: Outcome(x * 2), X, "results .*Outcome; return its contents in a tuple or a dict"
    ),
    "an argument": (lambda x: x.y, Outcome(X), "inputs .*Outcome; pass its contents"),
    "an array": (lambda x: x, X.numpy(), "ndarray; torch.from_numpy makes a tensor of it"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_helps_is_said(name: str) -> None:
    program, given, message = REFUSED[name]
    with pytest.raises(GraphTypeError, match=message) as caught:
        mi.from_torch(program, given)
    assert caught.value.location is not None
    assert caught.value.location.file == __file__
