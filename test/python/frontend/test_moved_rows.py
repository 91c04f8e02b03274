"""Rows that move to other places: one lookup by numbers that are known at import."""

from __future__ import annotations

from collections.abc import Callable

import mirage as mi
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.positions import Gather

Tensor = torch.Tensor
Images = Callable[[Tensor], Tensor]


def windows(x: Tensor) -> Tensor:
    """Swin's shifted windows."""
    b, h, w, c = x.shape
    x = torch.roll(x, (-2, -1), (1, 2)).view(b, h // 4, 4, w // 4, 4, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)


def back(x: Tensor) -> Tensor:
    """From windows to an image."""
    y = x.reshape(2, 2, 3, 4, 4, 32).permute(0, 1, 3, 2, 4, 5).reshape(2, 8, 12, 32)
    return torch.roll(y, (2, 1), (1, 2))


def merged(x: Tensor) -> Tensor:
    """Swin's patches, which are merged in groups of four."""
    return torch.cat([x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)], -1)


def padded(x: Tensor) -> Tensor:
    return F.pad(x, (0, 0, 1, 2, 2, 1))


MOVED: dict[str, tuple[Images, int]] = {
    "windows": (windows, 1),
    "back to an image": (back, 1),
    "patches": (merged, 1),
    "padded": (padded, 2),
    "padded, then moved": (lambda x: torch.roll(padded(x), (1, 1), (1, 2)), 2),
    "computed before and after": (lambda x: torch.relu(windows(x * 2) + 1), 1),
    "of two tensors": (lambda x: windows(x).reshape(-1) + windows(x + 1).reshape(-1), 1),
}
"""Programs, and the number of tables that they read."""
OTHERS: dict[str, Images] = {
    "short rows": lambda x: F.pad(x.permute(0, 3, 1, 2), (1, 1, 1, 1)),
    "one join": lambda x: torch.roll(x, 1, 1),
    "padded with ones": lambda x: F.pad(x, (0, 0, 1, 1, 1, 1), value=1.0),
    "windows that overlap": lambda x: x[0, 0].reshape(-1).unfold(0, 16, 4),
    "two sources": lambda x: torch.cat([torch.roll(x, (1, 1), (1, 2)), x * 2]),
}


def example(dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(2, 8, 12, 32, generator=torch.Generator().manual_seed(1)).to(dtype)


@pytest.mark.parametrize("name", MOVED)
def test_rows_are_looked_up(name: str) -> None:
    function, tables = MOVED[name]
    x = example()
    program = mi.from_torch(function, x).program
    ops = program.graph.ops
    assert not any(op.joined_along is not None for op in ops)
    assert sum(isinstance(op, Gather) for op in ops) == (2 if name == "of two tensors" else 1)
    held = [p.data.numpy() for p in program.parameters]
    assert len(held) == tables
    assert sum(t.nbytes for t in held) * 8 < x.nbytes * tables
    (y,) = evaluate_floats(program.graph, [x.numpy(), *held])
    np.testing.assert_allclose(y, function(x).numpy(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", OTHERS)
def test_other_joins_stay(name: str) -> None:
    program = mi.from_torch(OTHERS[name], example()).program
    assert not any(isinstance(op, Gather) for op in program.graph.ops)
    assert any(op.joined_along is not None for op in program.graph.ops)


def test_what_is_also_read_as_it_is_stays() -> None:
    def both(x: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.roll(x, (1, 1), (1, 2))
        return y, torch.relu(F.pad(y, (0, 0, 1, 1)))

    x = example()
    program = mi.from_torch(both, x).program
    held = [p.data.numpy() for p in program.parameters]
    found = evaluate_floats(program.graph, [x.numpy(), *held])
    for y, expected in zip(found, both(x), strict=True):
        np.testing.assert_allclose(y, expected.numpy(), rtol=1e-6, atol=1e-6)


def test_batches_of_any_size_keep_their_joins() -> None:
    sized = mi.from_torch(
        windows, example(), dynamic_shapes={"x": {0: torch.export.Dim("n", min=1, max=4)}}
    )
    assert not any(isinstance(op, Gather) for op in sized.at(4).graph.ops)
