"""Captured programs: buffers, copies, writes, and programs that cannot be captured. A recorder
replaces CUDA graphs here: the recorded calls run again on the same memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mirage
import pytest
import torch
from mirage.runtime import Model, NoGpuError, load
from mirage.runtime.dispatch.plan import Call, Plan
from mirage.runtime.errors import ArgumentShapeError, CaptureError
from mirage.runtime.launching.captured import CapturedModel, check_capturable
from torch import nn

OPTIONS = {"budget": 100, "candidates": 1, "jobs": 1, "finalists": 1, "check_kernels": False}


class Step(nn.Module):
    """Writes to an argument and to its state, and counts."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inner = nn.Linear(16, 16, bias=False)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, x: torch.Tensor, at: torch.Tensor, cache: torch.Tensor) -> Any:
        self.steps += 1
        cache.index_copy_(1, at, self.inner(x))
        return {"sum": cache.sum(1), "steps": self.steps * 2}


def inputs(seed: int = 1, at: int = 3) -> tuple[Any, ...]:
    torch.manual_seed(seed)
    return torch.randn(2, 1, 16), torch.tensor([at]), torch.randn(2, 8, 16)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MIRAGE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        found = tmp_path_factory.mktemp("models") / "step.mirage"
        mirage.export(Step().eval(), *inputs(), path=found, options=OPTIONS)
        yield found


def model_at(path: Path) -> Model:
    found = load(path, device="cpu")
    assert isinstance(found, Model)
    return found


class Tape:
    """A recorder: replays call the same functions on the same tensors, with results in the same
    memory."""

    def __init__(self) -> None:
        self.prepared = self.replays = 0

    def __call__(
        self, prepare: Callable[[], Any], run: Callable[[], Any], device: torch.device
    ) -> Any:
        prepare()
        self.prepared += 1
        before = prepare()  # shapes and types; a capture runs nothing

        def replay() -> None:
            self.replays += 1
            for name, y in run().items():
                before[name].copy_(y)

        return replay, before


def test_a_capture_changes_nothing(path: Path) -> None:
    model, (x, at, cache) = model_at(path), inputs()
    old = cache.clone()
    tape = Tape()
    CapturedModel(model, (x, at, cache), {}, tape)
    assert tape.prepared == 1
    assert torch.equal(cache, old)
    assert int(model.state["steps"]) == 0


def test_calls_are_those_of_the_model(path: Path) -> None:
    model, (x, at, cache) = model_at(path), inputs()
    theirs, expected = cache.clone(), Step().eval()
    step = CapturedModel(model, (x, at, cache), {}, Tape())
    results = []
    for number in range(3):
        y, place, _ = inputs(seed=number, at=2 * number)
        got = step(y, place, cache)
        with torch.no_grad():
            want = expected(y, place, theirs)
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(cache, theirs, rtol=1e-4, atol=1e-5)
        results.append(got["sum"].data_ptr())
    assert int(model.state["steps"]) == 3
    assert len(set(results)) == 1  # the same memory at each call


def test_what_is_in_the_buffers_is_not_copied(path: Path) -> None:
    model, (x, at, cache) = model_at(path), inputs()
    step = CapturedModel(model, (x, at, cache), {}, Tape())
    assert [b.data_ptr() == given.data_ptr() for b, given in zip(step.inputs, (x, at, cache))] == [
        False, False, True,
    ]  # fmt: skip
    y, place, _ = inputs(seed=5, at=6)
    theirs = cache.clone()
    step.inputs[0].copy_(y)
    step.inputs[1].copy_(place)
    got = step.replay()
    want = Step().eval()(y, place, theirs)
    torch.testing.assert_close(got["sum"], want["sum"], rtol=1e-4, atol=1e-5)
    again = step(*step.inputs)
    assert again is got


def test_what_is_written_to_is_the_same_at_each_call(path: Path) -> None:
    model, (x, at, cache) = model_at(path), inputs()
    tape = Tape()
    step = CapturedModel(model, (x, at, cache), {}, tape)
    with pytest.raises(CaptureError, match="cache: expected the tensor that the program was capt"):
        step(x, at, cache.clone())
    assert tape.replays == 0
    with pytest.raises(ArgumentShapeError):
        step(x[:1], at, cache)


def test_there_are_no_cuda_graphs_on_the_cpu(path: Path) -> None:
    with pytest.raises(NoGpuError, match="cannot capture a CUDA graph on cpu"):
        model_at(path).captured(*inputs())


@pytest.mark.parametrize("op", ["aten.nonzero.default", "aten.masked_select.default"])
def test_calls_that_wait_are_named(op: str) -> None:
    plan = Plan(2, (Call("aten.add.Tensor", (0, 1), (2,)), Call(op, (2, 1), (3,))), (3,))
    with pytest.raises(CaptureError, match=f"step 1 of the program, {op}, stays with PyTorch"):
        check_capturable(plan)
    check_capturable(Plan(2, plan.steps[:1], (2,)))
