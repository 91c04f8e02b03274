"""Errors name lines of the user's code, not of code that it calls."""

from __future__ import annotations

import inspect
import os
import sysconfig

import mirage
import pytest
import torch
from mirage.frontend.errors import ImportFailedError
from mirage.frontend.torch_import.capture.places import is_user_file


def test_whose_a_file_is() -> None:
    assert is_user_file(__file__)
    for file in (inspect.__file__, torch.__file__, mirage.__file__, "<string>"):
        assert not is_user_file(file)
    installed = os.path.join(sysconfig.get_path("stdlib"), "site-packages", "model", "layers.py")
    assert is_user_file(installed)


def test_a_call_that_does_not_fit_is_the_callers() -> None:
    def f(x: torch.Tensor, *, y: torch.Tensor) -> torch.Tensor:
        return x + y

    x = torch.zeros(4, 8)
    with pytest.raises(ImportFailedError) as raised:
        mirage.from_torch(f, x, x)
    assert raised.value.location is not None
    assert raised.value.location.file == __file__
