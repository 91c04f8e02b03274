"""Lookups by known indices along inner dimensions, or of one row, are slices (addresses)."""

from __future__ import annotations

from collections.abc import Callable

import mirage as mi
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from mirage.frontend.torch_import.rows.movement.known_places import pieces
from mirage.pipeline.commands.emulate import emulate
from mirage.semantics.positions import Lookup
from mirage.semantics.ugraph import External, Launch
from thorough import some_of

Tensor = torch.Tensor
X = torch.randn(2, 3, 6, 10, generator=torch.Generator().manual_seed(0))
PROGRAMS: dict[str, Callable[[Tensor], Tensor]] = {
    "reflected": lambda x: F.pad(x, (2, 1, 1, 3), mode="reflect") * 2,
    "repeated": lambda x: F.pad(x, (3, 1, 2, 0), mode="replicate") * 2,
    "from the other end": lambda x: F.pad(x, (3, 1, 2, 0), mode="circular") * 2,
    "of a line": lambda x: F.pad(x[0, 0], (2, 2), mode="reflect") + 1,
    "the last one": lambda x: x[:, :, [-1]] + 1,
    "a row": lambda x: x[[1, 1]] + 1,
    "by a list": lambda x: x[:, :, [0, 1, 2, -1]] + 1,
    "selected": lambda x: x.index_select(3, torch.tensor([4, 4, 4, 0, 1, 2])) + 1,
}


@pytest.mark.parametrize("name", some_of(PROGRAMS, every=2))
def test_kernels_load_slices(name: str) -> None:
    program = PROGRAMS[name]
    imported = mi.from_torch(program, X, allow_fallback=True)
    assert not any(isinstance(op, Lookup | External) for op in imported.graph.ops)
    optimized = imported.superoptimize(candidates=1, jobs=1, use_cache=False, cubin=False)
    assert any(isinstance(op, Launch) for op in optimized.graph.ops)
    (got,) = emulate(optimized, X)
    assert torch.equal(got, program(X))


def test_many_pieces_are_looked_up() -> None:
    imported = mi.from_torch(lambda x: F.pad(x[0], (9, 9), mode="reflect"), X, allow_fallback=True)
    assert any(isinstance(op, Lookup) for op in imported.graph.ops)


def test_pieces() -> None:
    numbers = np.array([3, 3, 3, 4, 5, 5, 5, 2, 0, 1, 7])
    found = list(pieces(numbers))
    assert found == [(3, 2, 0), (3, 3, 1), (5, 2, 0), (2, 1, 1), (0, 2, 1), (7, 1, 1)]
    parts = (np.arange(n) * step + start for start, n, step in found)
    assert np.array_equal(np.concatenate(list(parts)), numbers)
