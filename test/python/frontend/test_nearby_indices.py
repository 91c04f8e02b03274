"""The kernel that looks rows up computes the indices that a program computes from its inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mirage as mi
import pytest
import torch
import torch.nn.functional as F
from mirage.semantics.integers import Integers
from mirage.semantics.ugraph import Elementwise
from thorough import some_of
from torch_programs.imported_programs import evaluate

Tensor = torch.Tensor
TABLE, IDS = torch.randn(9, 4), torch.tensor([[0, 3], [7, 2]])
PROGRAMS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "one further": lambda x, i: F.embedding(i + 1, x) * 2,
    "narrowed": lambda x, i: F.embedding(i.to(torch.int32), x) * 2,
    "positions after a start": lambda x, i: x[torch.arange(2) + i[0]] * 2,
    "several steps": lambda x, i: F.embedding((i * 2).clamp(max=8) // 2, x) * 2,
    "from the end": lambda x, i: x[i - 4] * 2,
    "of each line": lambda x, i: x[torch.arange(2)[:, None], i // 2] * 2,
    "each in its segment": lambda x, i: F.embedding(i % 3 + torch.tensor([0, 3]), x) * 2,
}


@pytest.mark.parametrize("name", some_of(PROGRAMS, 3))
def test_indices_are_computed_where_they_are_used(name: str) -> None:
    program = PROGRAMS[name]
    imported = mi.from_torch(program, TABLE, IDS, allow_fallback=True)
    found = imported.program
    assert sum(isinstance(op, Integers) for op in found.graph.ops) == 1
    integers = (op for op in found.graph.ops if op.results[0].dtype.is_integer)
    assert not any(isinstance(op, Elementwise) for op in integers)
    (got,) = evaluate(imported, [TABLE, IDS])
    torch.testing.assert_close(torch.as_tensor(got).float(), program(TABLE, IDS))
    assert all(limit.steps or limit.below == 9 for limit in found.limits)
    assert found.limits or "//" in name or name in ("several steps", "each in its segment")


def test_large_lookups_have_their_indices_in_memory() -> None:
    table: Any = torch.empty(9, 1 << 17)
    found = mi.from_torch(PROGRAMS["one further"], table, IDS, allow_fallback=True).program
    assert not any(isinstance(op, Integers) and op.formula.tables for op in found.graph.ops)
