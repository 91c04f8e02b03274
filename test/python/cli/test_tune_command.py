"""`mirage tune` of a model keeps the choice where `torch.compile` looks for it; there is no GPU, so
that nothing is timed."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import mirage.torch
import pytest
import torch
from mirage.cli import main
from mirage.cli.commands import tune
from mirage.cli.programs import load_program
from mirage.frontend.program import Program
from mirage.pipeline import measure
from mirage.pipeline.kept_program import key_for
from mirage.pipeline.options import OptimizeOptions
from mirage.pipeline.result import Optimized
from mirage.torch.compiled_graph import StaysEager

FILE = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.RMSNorm(64, dtype=torch.float16)

    def forward(self, x, *, scale=None):
        return self.norm(x) if scale is None else self.norm(x) * scale

net = Net().requires_grad_(False)
example_inputs = {"x": torch.randn(16, 64).half(), "scale": torch.randn(64).half()}
"""
keys: list[tuple[str, str]] = []


def remember(program: Program, options: Mapping[str, Any]) -> Any:
    keys.append(key_for(program, OptimizeOptions.of(**options)))
    raise StaysEager("only looking")


def untimed(optimized: Optimized, *_: Any, **__: Any) -> measure.Measured:
    return measure.Measured(optimized, tuple(1.0 for _ in optimized.finalists))


@pytest.fixture
def tuned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    monkeypatch.setenv("MIRAGE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(measure, "need_gpu", lambda what: None)
    monkeypatch.setattr(measure, "fastest", untimed)
    monkeypatch.setattr(tune, "_device", lambda: "cpu")
    keys.clear()
    torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]

    def run(tuner: Callable[..., Any], *options: str) -> Path:
        monkeypatch.setattr(mirage.torch, "tune", tuner, raising=False)
        file = tmp_path / "model.py"
        file.write_text(FILE)
        assert main(["tune", f"{file}:net", "--jobs", "1", *options]) == 0
        return file

    return run


def explained(model: Any, *inputs: Any, seconds: float, options: dict[str, Any]) -> Any:
    assert seconds == 30.0
    return mirage.torch.explain(
        model, *inputs, options=options, compiler=remember, devices=("cpu",)
    )


def test_torch_compile_looks_where_the_choice_is(
    tuned: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    file = tuned(explained, "--json")
    data = json.loads(capsys.readouterr().out)
    assert data["candidates"]
    assert "only looking" in data["graphs"][0]
    net, given = load_program(f"{file}:net").given
    host = partial(mirage.torch.backend, compiler=remember, devices=("cpu",))
    torch.compile(net, backend=host)(**given)
    first, second = keys
    assert first == second


def test_a_model_that_torch_compile_cannot_trace(
    tuned: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    def tuner(*_: Any, **__: Any) -> None:
        raise RuntimeError("a frame\nand more")

    tuned(tuner)
    said = capsys.readouterr()
    assert "graphs of torch.compile are not tuned: RuntimeError: a frame" in said.out + said.err
