"""Kernels that store new rows of caches at an index: what is written, and what is not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import mirage
import pytest
import torch
from mirage.emulator.tensors import run_on_tensors
from mirage.pipeline.call import Runner
from mirage.pipeline.checks.kernel_check import Outcome
from mirage.pipeline.options import OptimizeOptions
from mirage.runtime import Model, TruncatedArtifactError, UnreadableArtifactError, load
from mirage.runtime.dispatch.plan import Call, Launch
from mirage.runtime.errors import ArgumentAliasError
from mirage.semantics.row_updates import updated_inputs
from thorough import some_of
from torch import nn

OPTIONS = {"budget": 100, "candidates": 1, "jobs": 1, "finalists": 1}
ROWS, HEADS, LENGTH, WIDTH = 2, 4, 8, 16


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MIRAGE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


class Step(nn.Module):
    """A token's rotated keys and values go to caches; a query attends to all of them."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        torch.manual_seed(0)
        width = HEADS * WIDTH
        self.q = nn.Linear(width, width, bias=False, dtype=dtype)
        self.k = nn.Linear(width, width, bias=False, dtype=dtype)
        self.v = nn.Linear(width, width, bias=False, dtype=dtype)

    def forward(
        self, x: torch.Tensor, at: torch.Tensor, keys: torch.Tensor, values: torch.Tensor
    ) -> torch.Tensor:
        split = ROWS, 1, HEADS, WIDTH
        q, k, v = (f(x).view(split).transpose(1, 2) for f in (self.q, self.k, self.v))
        keys.index_copy_(2, at, k * k.float().pow(2).mean(-1, keepdim=True).rsqrt().to(k.dtype))
        values.index_copy_(2, at, v)
        scores = (q @ keys.transpose(2, 3)).float().softmax(-1).to(q.dtype)
        return (scores @ values).transpose(1, 2).reshape(ROWS, 1, HEADS * WIDTH)


def inputs(dtype: torch.dtype, at: int) -> tuple[Any, ...]:
    torch.manual_seed(1)
    cached = (torch.randn(ROWS, HEADS, LENGTH, WIDTH, dtype=dtype) for _ in range(2))
    return (
        torch.randn(ROWS, 1, HEADS * WIDTH, dtype=dtype),
        torch.tensor([at]),
        *cached,
    )


def exported(module: nn.Module, path: Path, *args: Any) -> Model:
    mirage.export(module.eval(), *args, path=path, options=OPTIONS)
    found = load(path, device="cpu")
    assert isinstance(found, Model)
    return found


def calls(model: Model) -> list[str]:
    return [s.op for s in model.manifest.plan.steps if isinstance(s, Call)]


def stores(model: Model) -> int:
    return sum(len(s.updates) for s in model.manifest.plan.steps if isinstance(s, Launch))


@pytest.fixture(scope="module", params=["float16", "bfloat16", "float32"])
def step(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    dtype = getattr(torch, request.param)
    path = tmp_path_factory.mktemp("step") / "step.mirage"
    return dtype, exported(Step(dtype), path, *inputs(dtype, 3))


@pytest.mark.parametrize("at", some_of([0, 3, LENGTH - 1], every=9))
def test_rows_are_stored_and_seen_by_what_comes_after(step: Any, at: int) -> None:
    dtype, model = step
    assert not any("index_copy" in op for op in calls(model))
    assert stores(model) == 2
    mine, theirs, old = inputs(dtype, at), inputs(dtype, at), inputs(dtype, at)
    with torch.no_grad():
        want = Step(dtype)(*theirs)
    got = model(*mine)
    near: dict[str, Any] = {"rtol": 3e-2, "atol": 3e-2} if dtype is not torch.float32 else {}
    torch.testing.assert_close(got, want, **near)
    others = [n for n in range(LENGTH) if n != at]
    for before, after, expected in zip(old[2:], mine[2:], theirs[2:]):
        torch.testing.assert_close(after, expected, **near)
        assert torch.equal(after[:, :, others], before[:, :, others])
        assert not torch.equal(after[:, :, at], before[:, :, at])


@pytest.mark.parametrize("at", some_of([-1, LENGTH, LENGTH + 1, -(1 << 62), 1 << 40], every=3))
def test_an_index_that_names_no_row_stores_nothing(step: Any, at: int) -> None:
    """No byte next to the row is written: the emulator detects accesses out of bounds."""
    dtype, model = step
    mine, old = inputs(dtype, at), inputs(dtype, at)
    model(*mine)
    assert torch.equal(mine[2], old[2])
    assert torch.equal(mine[3], old[3])


def test_what_is_written_to_has_memory_of_its_own(step: Any) -> None:
    dtype, model = step
    x, at, keys, _ = inputs(dtype, 1)
    with pytest.raises(ArgumentAliasError, match="separate memory"):
        model(x, at, keys, keys)


def test_an_index_of_32_bits(tmp_path: Path) -> None:
    class Narrow(nn.Module):
        def forward(self, x: torch.Tensor, at: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
            cache.index_copy_(1, at, x * 2)
            return cache.sum(1)

    def given() -> tuple[Any, ...]:
        torch.manual_seed(0)
        at = torch.tensor([5], dtype=torch.int32)
        return torch.randn(3, 1, 24), at, torch.randn(3, LENGTH, 24)

    model = exported(Narrow(), tmp_path / "narrow.mirage", *given())
    assert stores(model) == 1
    mine, (x, at, cache) = given(), given()
    torch.testing.assert_close(model(*mine), Narrow()(x, at.long(), cache))
    torch.testing.assert_close(mine[2], cache)


# ---- stores that remain calls


class AlsoReturned(nn.Module):
    def forward(self, x: torch.Tensor, at: torch.Tensor, cache: torch.Tensor) -> Any:
        y = torch.softmax(x, -1)
        cache.index_copy_(1, at, y)
        return y, cache * 2


class OldOneIsRead(nn.Module):
    def forward(self, x: torch.Tensor, at: torch.Tensor, cache: torch.Tensor) -> Any:
        y = torch.softmax(x, -1) + cache.mean(1, keepdim=True)
        cache.index_copy_(1, at, y)
        return cache * 2


class SeveralRows(nn.Module):
    def forward(self, x: torch.Tensor, at: torch.Tensor, cache: torch.Tensor) -> Any:
        cache.index_copy_(1, torch.cat((at, at + 1)), torch.softmax(torch.cat((x, x), 1), -1))
        return cache * 2


@pytest.mark.parametrize("module", [AlsoReturned, OldOneIsRead, SeveralRows])
def test_others_are_calls(module: type[nn.Module], tmp_path: Path) -> None:
    def given() -> tuple[Any, ...]:
        torch.manual_seed(0)
        return torch.randn(3, 1, 24), torch.tensor([5]), torch.randn(3, LENGTH, 24)

    model = exported(module(), tmp_path / "apart.mirage", *given())
    assert stores(model) == 0
    mine, theirs = given(), given()
    torch.testing.assert_close(model(*mine), module()(*theirs), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(mine[2], theirs[2], rtol=1e-4, atol=1e-5)


def test_without_writing_the_input_stays_as_it_was() -> None:
    """Programs always return the new values of the tensors that they update."""
    dtype = torch.float32
    args = inputs(dtype, 2)
    module = Step(dtype).eval()
    program = mirage.from_torch(module, *args, allow_fallback=True, allow_updates=True)
    found = mirage.optimize(program, OptimizeOptions.of(**OPTIONS))
    assert sum(len(updated_inputs(s.graph)) for s in found.steps if s.graph is not None) == 2
    assert found.report.checks
    assert all(c.outcome is Outcome.PASSED for c in found.report.checks), found.report.checks
    runner = Runner(found.program, found.graph, found.steps)
    mine, theirs, old = inputs(dtype, 2), inputs(dtype, 2), inputs(dtype, 2)
    with torch.no_grad():
        want = Step(dtype)(*theirs)
    for write in (False, True):
        got = runner(emulated, mine, None, write=write)
        torch.testing.assert_close(got, (theirs[2], theirs[3], want), rtol=1e-4, atol=1e-5)
        assert torch.equal(mine[2], old[2]) != write
        assert torch.equal(mine[3], old[3]) != write


def emulated(number: int, compiled: Any, given: list[torch.Tensor], follows: bool) -> Any:
    return run_on_tensors(compiled.artifact, given)


def test_a_manifest_that_says_other_updates_than_its_parts(step: Any, tmp_path: Path) -> None:
    _, model = step
    path = tmp_path / "changed"
    shutil.copytree(model.artifact.path, path)
    file = path / "manifest.json"
    data = json.loads(file.read_text())
    (storing,) = (s for s in data["steps"] if s.get("updates"))
    storing["updates"] = storing["updates"][::-1]
    file.write_text(json.dumps(data))
    with pytest.raises(TruncatedArtifactError, match="to be written to, as part"):
        load(path, device="cpu")
    storing["updates"] = [99]
    file.write_text(json.dumps(data))
    with pytest.raises(UnreadableArtifactError, match="numbers of operands, each with a result"):
        load(path, device="cpu")


class Halves(nn.Module):
    """A row that consists of parts rotated in both directions."""

    def forward(self, x: torch.Tensor, at: torch.Tensor, cache: torch.Tensor) -> torch.Tensor:
        y = torch.softmax(x, -1)
        half = y.shape[-1] // 2
        turned = torch.cat((y[..., :half] * 2 - y[..., half:], y[..., half:] * 3), -1)
        cache.index_copy_(1, at, turned)
        return cache.sum(1)


def test_a_row_that_is_joined(tmp_path: Path) -> None:
    def given(at: int) -> tuple[Any, ...]:
        torch.manual_seed(0)
        return torch.randn(3, 1, 32), torch.tensor([at]), torch.randn(3, LENGTH, 32)

    model = exported(Halves(), tmp_path / "halves.mirage", *given(5))
    assert stores(model) == 1
    for at in (0, 5, LENGTH - 1):
        mine, theirs = given(at), given(at)
        got, want = model(*mine), Halves()(*theirs)
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(mine[2], theirs[2], rtol=1e-4, atol=1e-5)
    mine, old = given(LENGTH), given(LENGTH)
    model(*mine)
    assert torch.equal(mine[2], old[2])


class Turned(nn.Module):
    """Pairs of neighbouring elements of a token's keys are rotated: two results that alternate in
    the row."""

    def forward(
        self,
        x: torch.Tensor,
        c: torch.Tensor,
        s: torch.Tensor,
        at: torch.Tensor,
        keys: torch.Tensor,
    ) -> torch.Tensor:
        a, b = x.view(ROWS, 1, HEADS, WIDTH // 2, 2).unbind(-1)
        turned = torch.stack((a * c - b * s, a * s + b * c), -1).flatten(3)
        keys.index_copy_(2, at, turned.transpose(1, 2))
        return keys.float().sum(2)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("at", some_of([0, LENGTH - 1, LENGTH], every=4))
def test_pairs_of_neighbours_are_stored_by_kernels(
    dtype: torch.dtype, at: int, tmp_path: Path
) -> None:
    def given(at: int) -> tuple[Any, ...]:
        torch.manual_seed(2)
        x = torch.randn(ROWS, 1, HEADS * WIDTH, dtype=dtype)
        angles = (torch.randn(WIDTH // 2, dtype=dtype) for _ in range(2))
        return x, *angles, torch.tensor([at]), torch.randn(ROWS, HEADS, LENGTH, WIDTH, dtype=dtype)

    model = exported(Turned(), tmp_path / "turned.mirage", *given(3))
    assert not any("index_copy" in op for op in calls(model))
    mine, theirs = given(at), given(at)
    model(*mine)
    if at < LENGTH:
        Turned()(*theirs)
    near: dict[str, Any] = {"rtol": 2e-2, "atol": 2e-2} if dtype is not torch.float32 else {}
    torch.testing.assert_close(mine[-1], theirs[-1], **near)
    others = [n for n in range(LENGTH) if n != at]
    assert torch.equal(mine[-1][:, :, others], given(at)[-1][:, :, others])
