"""Programs as operators of PyTorch."""

from __future__ import annotations

import pytest
import torch
from mirage.runtime.serialization.manifest import Manifest
from mirage.torch.operators import BadOperatorNameError, custom_op
from small_artifacts.small_artifact import small_artifact


class OnTheHost:
    """Computes the same as the small artifact, without a GPU."""

    def __init__(self) -> None:
        self.manifest: Manifest = small_artifact().manifest

    def __call__(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (x + x,)


def test_operator_in_eager_and_compiled_code() -> None:
    twice = custom_op(OnTheHost(), "twice_for_test")
    x = torch.randn(8, 8)
    torch.testing.assert_close(twice(x), x + x)
    torch.testing.assert_close(torch.ops.mirage.twice_for_test(x), x + x)
    torch.library.opcheck(torch.ops.mirage.twice_for_test.default, (x,))

    def function(t: torch.Tensor) -> torch.Tensor:
        return torch.ops.mirage.twice_for_test(t) + 1

    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), 2 * x + 1)


@pytest.mark.parametrize("name", ["", "two words", "a.b", "Upper", "9x"])
def test_bad_names(name: str) -> None:
    with pytest.raises(BadOperatorNameError, match="expected a name"):
        custom_op(OnTheHost(), name)


def test_taken_names() -> None:
    custom_op(OnTheHost(), "taken_for_test")
    with pytest.raises(BadOperatorNameError, match="registered already"):
        custom_op(OnTheHost(), "taken_for_test")
