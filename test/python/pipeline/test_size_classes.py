"""Programs with a dynamic size through all stages: imported, searched for each class, executed at
sizes of each class, and compared with float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mirage as mi
import numpy as np
import pytest
import torch
from mirage.emulator.run_artifact import check_artifact
from mirage.frontend.errors import DynamicShapeError
from mirage.frontend.program import Program, SizedProgram
from mirage.pipeline.call import sized_emulator
from mirage.pipeline.checks.kernel_check import Outcome
from mirage.pipeline.optimize import optimize_sizes
from mirage.pipeline.size_bounds import least_of
from mirage.pipeline.size_classes import OptimizedSizes, classes_of, with_splits
from mirage.runtime.dispatch.plan import Call
from mirage.runtime.errors import ArgumentCountError, ArgumentShapeError, ArgumentSizeError
from mirage.runtime.launching.by_size import read_sizes
from thorough import some_of
from torch.export import Dim

HALF = torch.float16
OPTIONS: dict[str, Any] = {
    "chip": "sm_80", "budget": 60, "jobs": 1, "use_cache": False, "check_kernels": False,
    "candidates": 4, "finalists": 1, "cubin": False, "numerics": False,
    "bounds": {"plans": 20, "columns": 400, "samples": 1, "derivations": 2},
}  # fmt: skip
"""The chosen kernels are always executed here, and rounding errors are those of the same program
without sizes; some candidates relate rows to each other."""


def optimized(
    function: Callable[..., object], most: int, *inputs: torch.Tensor, rows: int = 1, **options: Any
) -> OptimizedSizes:
    shapes = [{0: Dim("batch", min=1, max=most)} if i < rows else None for i in range(len(inputs))]
    graph = mi.from_torch(function, *inputs, dynamic_shapes=shapes)
    return graph.superoptimize(**{**OPTIONS, **options})


def emulated(found: OptimizedSizes, *tensors: torch.Tensor) -> tuple[Any, ...]:
    """Return the result of a call without a GPU."""
    return found.run(sized_emulator, tensors)


def silu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


def test_a_norm_and_a_product(tmp_path: Path) -> None:
    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.rms_norm(x, (48,)) @ w

    def meaning(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        norm = np.sqrt((x**2).mean(1, keepdims=True) + np.finfo(np.float32).eps)
        return x / norm @ w

    x, w = torch.zeros(9, 48, dtype=HALF), torch.zeros(48, 32, dtype=HALF)
    found = optimized(f, 50, x, w, check_kernels=True, numerics=True)
    assert [c.at_most for c in found.classes] == [4, 8, 32, 64]
    assert all(k.outcome is not Outcome.FAILED for c in found.classes for k in c.checks)
    assert any(k.outcome is Outcome.PASSED for c in found.classes for k in c.checks)
    table = read_sizes(found.save(tmp_path / "table"))
    for size, number in ((1, 0), (7, 1), (16, 2), (33, 3), (50, 3)):
        at, artifact = table.at(size)
        assert at == number
        run = check_artifact(artifact, meaning)
        assert run.outputs[0].shape == (size, 32)
    with pytest.raises(ArgumentSizeError, match="expected a size from 1 to 50"):
        table.at(51)
    assert "batch up to 64" in found.describe()


def test_rows_of_several_tokens_and_tiles_across_them() -> None:
    def f(x: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor) -> torch.Tensor:
        return x + torch.nn.functional.silu(x @ w1) @ w2

    found = optimized(
        f, 16, torch.zeros(9, 3, 32, dtype=HALF), torch.zeros(32, 64, dtype=HALF),
        torch.zeros(64, 32, dtype=HALF), bounds={}, finalists=4,
    )  # fmt: skip
    for size in (1, 7, 16):
        _, artifact = found.table.at(size)
        check_artifact(artifact, lambda x, w1, w2: x + silu(x @ w1) @ w2)


def test_sizes_with_one_block_for_each_row_start_no_others() -> None:
    def meaning(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.einsum("bij,bjk->bik", x, y)

    x, y = torch.zeros(9, 16, 32, dtype=HALF), torch.zeros(9, 32, 16, dtype=HALF)
    found = optimized(torch.matmul, 16, x, y, rows=2)
    blocks: list[int] = []
    for size in (1, 5, 16):
        _, artifact = found.table.at(size)
        check_artifact(artifact, meaning)
        blocks.append(artifact.manifest.kernels[0].grid[0])
    assert blocks[0] < blocks[1] < blocks[2]


def test_a_module_with_weights_on_tensors() -> None:
    torch.manual_seed(0)
    layer = torch.nn.Sequential(torch.nn.Linear(32, 48), torch.nn.GELU(), torch.nn.Linear(48, 16))
    found = optimized(layer, 8, torch.zeros(7, 32))
    assert [c.at_most for c in found.classes] == [4, 8]
    for size in (1, 5, 8):
        x = torch.randn(size, 32)
        (y,) = emulated(found, x)
        torch.testing.assert_close(y, layer(x).detach(), rtol=1e-4, atol=1e-4)
    with pytest.raises(ArgumentSizeError, match=r"expected a size from 1 to 8.*got 9"):
        emulated(found, torch.zeros(9, 32))
    with pytest.raises(ArgumentShapeError, match=r"expected shape \(n, 32\), got \(3, 31\)"):
        emulated(found, torch.zeros(3, 31))
    with pytest.raises(ArgumentCountError, match=r"expected 1 input tensors .*got 2"):
        emulated(found, torch.zeros(3, 32), torch.zeros(3, 32))


def test_rows_that_depend_on_each_other_are_refused() -> None:
    def at(size: int) -> Program:
        return mi.from_torch(lambda x: x.softmax(0), torch.zeros(size, 8)).program

    with pytest.raises(DynamicShapeError, match="rows along batch that do not depend on each"):
        optimize_sizes(SizedProgram("batch", 1, 32, (0,), at))


@pytest.mark.parametrize(
    ("least", "most", "classes"),
    [
        (1, 4, (4,)),
        (1, 5, (4, 8)),
        (1, 12, (4, 8, 16)),
        (1, 17, (4, 8, 32)),
        (17, 256, (32, 64, 128, 256)),
        (1, 256, (4, 8, 32, 64, 128, 256)),
        (1, 300, (4, 8, 32, 64, 128, 256, 304)),
        (1, 32768, (4, 8, *(32 << i for i in range(9)), 32768)),  # twelve sets of kernels
    ],
)
def test_classes(least: int, most: int, classes: tuple[int, ...]) -> None:
    def at(size: int) -> Program:
        raise AssertionError(f"expected no program, {size} was asked for")

    assert classes_of(SizedProgram("n", least, most, (0,), at)) == classes
    assert len(classes) <= 12
    smallest = [1, *(bound + 1 for bound in classes)]
    if least == 1:
        assert [least_of(bound) for bound in classes] == smallest[:-1]


@dataclass(frozen=True)
class Solved:
    """A class that is split, with its smallest size."""

    least: int
    at_most: int


def split_at(least: int, bounds: Sequence[int], wanted: dict[int, int | None]) -> list[Solved]:
    """Classes up to ``bounds``; the class up to each key of ``wanted`` is to be split."""
    smallest = [least, *(bound + 1 for bound in bounds)]
    classes: Any = [Solved(a, b) for a, b in zip(smallest, bounds)]
    solve: Any = Solved
    return with_splits(classes, least, lambda c: wanted.get(c.at_most), solve)  # type: ignore[return-value]


def test_classes_are_split() -> None:
    assert split_at(1, (64, 128), {}) == [Solved(1, 64), Solved(65, 128)]
    found = split_at(1, (64, 128, 256), {128: 96, 96: 80})
    # the upper half would be split again at the same size, which is outside of it
    assert found == [
        Solved(1, 64), Solved(65, 80), Solved(81, 96), Solved(97, 128), Solved(129, 256)
    ]  # fmt: skip
    assert split_at(50, (64,), {64: 48}) == [Solved(50, 64)]  # no size that is called
    bounds = tuple(16 * n for n in range(4, 15))
    many = split_at(1, bounds, {64: 32, 32: 16, 224: 216})
    assert [c.at_most for c in many] == [32, *bounds]  # twelve at most


# ---- calls of PyTorch between parts


def test_calls_between_parts_get_the_size() -> None:
    """One call takes its shape from the size, one stays with PyTorch, one makes rows from a tensor
    without rows."""
    token = torch.randn(1, 1, 32)

    def f(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.cat([token.expand(x.shape[0], 1, 32), torch.relu(x)], dim=1) @ w
        z = torch.special.i0e(y)
        return torch.softmax(z, -1), z.view(x.shape[0] * 4, 16)

    x, w = torch.randn(7, 3, 32), torch.randn(32, 16)
    shapes = [{0: Dim("batch", min=1, max=8)}, None]
    sizes = mi.from_torch(f, x, w, dynamic_shapes=shapes, allow_fallback=True)
    found = sizes.superoptimize(**OPTIONS)
    assert not found.is_one_artifact
    assert any(isinstance(s, Call) for s in found.classes[0].plan.plan.steps)
    for size in (1, 7, 8):
        x = torch.randn(size, 3, 32)
        for got, want in zip(emulated(found, x, w), f(x, w), strict=True):
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
    with pytest.raises(ArgumentSizeError, match=r"expected a size from 1 to 8.*got 9"):
        emulated(found, torch.zeros(9, 3, 32), w)


def test_rows_are_looked_up_and_numbered_by_calls() -> None:
    table = torch.randn(50, 32)

    def f(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = torch.nn.functional.embedding(ids, table)
        rows = torch.arange(ids.shape[0])[:, None, None]
        seen = mask[rows, torch.arange(6)]  # as for the masks of Transformers
        scores = (x @ x.transpose(1, 2)).masked_fill(~seen.expand(-1, 6, 6), float("-inf"))
        return torch.softmax(scores, -1) @ x

    ids, mask = torch.randint(50, (7, 6)), torch.ones(7, 6, dtype=torch.bool)
    batch = {0: Dim("batch", min=1, max=8)}
    sizes = mi.from_torch(f, ids, mask, dynamic_shapes=[batch, batch], allow_fallback=True)
    found = sizes.superoptimize(**OPTIONS)
    for size in (1, 5, 8):
        ids, mask = torch.randint(50, (size, 6)), torch.rand(size, 6) < 0.7
        mask[:, 0] = True
        (got,) = emulated(found, ids, mask)
        torch.testing.assert_close(got, f(ids, mask), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: x + w.expand(x.shape[0], 8).sum(0),
        lambda x, w: x + w.expand(x.shape[0], 8).amax(0),
        lambda x, w: x + torch.arange(x.shape[0]).to(x.dtype)[:, None].expand(-1, 8).sum(0) * w,
    ],
)
def test_what_is_summed_over_rows_of_no_input_is_refused(function: Callable[..., object]) -> None:
    shapes = [{0: Dim("batch", min=1, max=16)}, None]

    def whole_way() -> None:
        sizes = mi.from_torch(
            function, torch.zeros(9, 8), torch.zeros(8), dynamic_shapes=shapes, allow_fallback=True
        )
        sizes.superoptimize(chip="sm_80", budget=5, jobs=1, use_cache=False)

    with pytest.raises(DynamicShapeError):
        whole_way()


def test_rows_are_not_divided_into_classes() -> None:
    """Their number need not be a multiple of anything; for a single size boxes of such rows are
    shifted."""

    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return x @ w

    inputs = torch.zeros(1024, 255, dtype=HALF), torch.zeros(255, 256, dtype=HALF)
    options: dict[str, Any] = {
        "chip": "h200", "budget": 60, "jobs": 1, "use_cache": False, "check_kernels": False,
        "numerics": False, "candidates": 1,
    }  # fmt: skip
    one = mi.from_torch(f, *inputs).superoptimize(**options, compile=False)
    assert any(len(v.shape) == 3 for op in one.graph.ops for v in op.operands)
    shapes = [{0: Dim("batch", min=1000, max=1024)}, None]
    sized = mi.from_torch(f, *inputs, dynamic_shapes=shapes)
    (found,) = sized.superoptimize(**options).classes
    assert all(len(v.shape) == 2 for op in found.optimized.graph.ops for v in op.operands)


RUNNING: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "positions": lambda x: (x.cumsum(-1) - 1).clamp(min=0),
    "the largest so far": lambda x: x.cummax(-1)[0],
    "the smallest in a row": lambda x: x.amin(-1) * 3,
    "columns in reverse": lambda x: x.flip(1) * 2,
    "some columns": lambda x: x[:, torch.tensor([4, 1, 1])] * 2,
}


@pytest.mark.parametrize("name", some_of(RUNNING, every=6))
@pytest.mark.parametrize("dtype", some_of([torch.int64, torch.float32], 2))
def test_along_rows_of_any_number(name: str, dtype: torch.dtype) -> None:
    function = RUNNING[name]
    x = torch.randint(-(2**40), 2**40, (9, 7)) if dtype is torch.int64 else torch.randn(9, 7)
    graph = mi.from_torch(
        function, x, dynamic_shapes=[{0: Dim("batch", min=1, max=9)}], allow_fallback=True
    )
    found = graph.superoptimize(**OPTIONS)
    for rows in (1, 3, 9):
        (y,) = emulated(found, x[:rows].contiguous())
        torch.testing.assert_close(y, function(x[:rows]))
