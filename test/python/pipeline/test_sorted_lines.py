"""Many long lines are sorted by a kernel: from PyTorch to PTX that the emulator executes."""

from __future__ import annotations

from collections.abc import Callable

import mirage as mi
import pytest
import torch
from executed_programs import executed
from mirage.frontend.torch_import.rows.reductions import ranking
from mirage.pipeline.commands.emulate import emulate
from mirage.semantics.argsort import Argsort
from mirage.semantics.ugraph import External, Launch
from thorough import some_of

Tensor = torch.Tensor
OPTIONS = executed(candidates=1, budget=300.0, use_cache=False)
NAN, INF = float("nan"), float("inf")


def drawn(*shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
    ends = torch.iinfo(dtype)
    generator = torch.Generator().manual_seed(len(shape))
    x = torch.randint(ends.min, ends.max, shape, generator=generator, dtype=dtype)
    x.view(-1)[::3] = x.view(-1)[0]
    x.view(-1)[1:3] = torch.tensor([ends.min, ends.max], dtype=dtype)
    return x


def numbers(*shape: int) -> Tensor:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    x.view(-1)[:9] = torch.tensor([NAN, INF, -0.0, 0.0, -INF, 1e-44, -1e-44, NAN, 0.0])
    return x


def stable(x: Tensor, dim: int, descending: bool = False) -> tuple[Tensor, Tensor]:
    values, places = torch.sort(x, stable=True, dim=dim, descending=descending)
    return values, places


PROGRAMS: dict[str, tuple[Callable[..., tuple[Tensor, ...]], Tensor]] = {
    "floats": (lambda x: (*stable(x, -1), *stable(x, 0, True)), numbers(3, 40)),
    "halves": (lambda x: stable(x, 1, True), numbers(2, 33, 3).half()),
    "integers": (lambda x: (*stable(x, -1), *stable(x, -1, True)), drawn(2, 140)),
    "small integers": (lambda x: stable(x, 0), drawn(70, 5, dtype=torch.int8)),
    "the largest": (lambda x: x.topk(7, -1)[:1], numbers(3, 70)[1:]),
    "of one rank": (lambda x: (*x.nanmedian(-1), *x.median(0), *x.kthvalue(3)), numbers(3, 40)),
}


@pytest.mark.parametrize("name", some_of(PROGRAMS, every=2))
def test_sorted_lines(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking, "FEW_PAIRS", 0)
    program, x = PROGRAMS[name]
    found = mi.optimize(mi.from_torch(program, x, allow_fallback=True).program, OPTIONS)
    assert any(isinstance(op, Launch) for op in found.graph.ops)
    calls = [op.target for op in found.graph.ops if isinstance(op, External)]
    assert {"aten.narrow.default", "aten.reshape.default"}.issuperset(calls)  # views
    for one, other in zip(emulate(found, x), program(x), strict=True):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)


def test_which_lines_are_sorted() -> None:
    def sorts(*shape: int, calls: bool = True) -> bool:
        x = torch.empty(shape, device="meta")
        imported = mi.from_torch(lambda x: x.sort(-1), x, allow_fallback=calls)
        return any(isinstance(op, Argsort) for op in imported.program.graph.ops)

    assert sorts(256, 512)
    assert not sorts(256, 512, calls=False)  # proofs know comparisons and sums
    assert not sorts(4, 64)
    assert not sorts(8, 5000)
