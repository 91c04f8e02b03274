"""Tuning times the candidates of each graph, and a later start uses the fastest; with a simulated
timer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import mirage.torch
import pytest
import torch
from mirage.pipeline.optimize import load_found, optimize
from mirage.pipeline.options import OptimizeOptions
from mirage.runtime.errors import NoGpuError

OPTIONS: dict[str, Any] = {
    "chip": "sm_90a", "candidates": 3, "finalists": 2, "jobs": 1, "cubin": False,
    "check_kernels": False, "pytorch_where_faster": True, "budget": 600.0,
}  # fmt: skip
X, W = torch.randn(16, 64).half(), torch.randn(64, 32).half()


def last_is_fastest(calls: Sequence[Any], sets: Sequence[Any]) -> Iterator[list[float]]:
    while True:
        yield [10.0 - i for i in range(len(calls))]


def model(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.relu(x @ w)


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MIRAGE_FRESH", raising=False)
    monkeypatch.setenv("MIRAGE_CACHE_DIR", str(tmp_path / "cache"))
    torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_tuning_needs_a_gpu() -> None:
    with pytest.raises(NoGpuError, match="tuning needs a GPU"):
        mirage.torch.tune(model, X, W)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_later_start_has_the_fastest() -> None:
    programs: list[Any] = []

    def load(program: Any, options: Any) -> Any:
        programs.append(program)
        return load_found(program, OptimizeOptions.of(**OPTIONS), run=False)

    tuned = partial(
        mirage.torch.tune, model, X, W, options=OPTIONS, timer=last_is_fastest, load=load,
        devices=("cpu",),
    )  # fmt: skip
    explained = tuned()
    assert "9 µs measured on no GPU" in str(explained)
    (program,) = programs
    again = load_found(program, OptimizeOptions.of(**OPTIONS), run=False)
    assert again is not None
    assert again.report.measured is not None
    places = [place for place, _ in again.report.measured.microseconds]
    assert len(places) == 2
    assert again.place == places[-1]
    other = optimize(program, OptimizeOptions.of(**{**OPTIONS, "fresh": True}))
    assert other.place == places[0]
