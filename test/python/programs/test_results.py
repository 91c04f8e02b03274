"""Programs that are extreme cases, each executed and compared with PyTorch: results that are
inputs, views, constants or not tensors; inputs that are not read or passed several times; sizes of
0 and 1; tensors of rank 0 to 6; f64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mirage as mi
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from mirage.frontend.errors import FrontendError
from mirage.pipeline.commands.emulate import emulate
from mirage.pipeline.optimize import optimize
from mirage.pipeline.options import NothingFoundError
from mirage.semantics.ugraph import External, Launch
from thorough import some_of

Function = Callable[..., Any]
FAST = {"candidates": 1, "jobs": 1, "budget": 20, "check_kernels": False}


def randn(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(sum(shape) + len(shape))
    return torch.randn(shape, generator=generator)


X, Y, W = randn(4, 6), randn(4, 6).flip(0), randn(6, 8)


def solved(function: Function, *inputs: Any, **options: Any) -> mi.Optimized:
    imported = mi.from_torch(function, *inputs, **options)
    return imported.superoptimize(**FAST)


def check(function: Function, *inputs: Any, **options: Any) -> tuple[mi.Optimized, tuple[Any, ...]]:
    """Compare the program in the emulator with PyTorch, with numbers other than those at import."""
    optimized = solved(function, *inputs, **options)
    fresh = [x * 0.5 + 0.25 if isinstance(x, torch.Tensor) else x for x in inputs]
    want = function(*fresh)
    got = emulate(optimized, *(x for x in fresh if isinstance(x, torch.Tensor)))
    expected = want if isinstance(want, tuple | list) else (want,)
    assert len(got) == len(expected)
    for mine, theirs in zip(got, expected, strict=True):
        if isinstance(theirs, torch.Tensor):
            assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
            torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-4, equal_nan=True)
        else:
            assert type(mine) is type(theirs)
            assert mine == theirs
    return optimized, got


def kernels(optimized: mi.Optimized) -> int:
    """Launches, and other ops that become kernels."""
    return sum(not isinstance(op, External) for op in optimized.graph.ops)


# ---- results


VIEWS: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "an input": (lambda x: x, (X,)),
    "inputs in another order": (lambda x, y: (y, x, y), (X, Y)),
    "transpose": (lambda x: x.t(), (X,)),
    "permute": (lambda x: x.permute(2, 0, 1), (randn(2, 3, 4),)),
    "reshape": (lambda x: x.reshape(2, 3, 4), (X,)),
    "slice": (lambda x: x[1:3, 2:], (X,)),
    "row": (lambda x: x[2], (X,)),
    "every second": (lambda x: x[::2], (X,)),
    "expand": (lambda x: x.expand(5, 4, 6), (X,)),
    "chunks": (lambda x: x.chunk(3, 1), (X,)),
    "unbind": (lambda x: x.unbind(0), (X,)),
    "constant": (lambda x: torch.full((3, 2), 0.3), (X,)),
    "constants": (lambda x: (x, torch.ones(3), torch.zeros(2, 2, dtype=torch.float16)), (X,)),
}


@pytest.mark.parametrize("name", VIEWS)
def test_no_kernel_is_needed(name: str) -> None:
    function, inputs = VIEWS[name]
    optimized, _ = check(function, *inputs, allow_fallback=name == "every second")
    assert kernels(optimized) == 0


MIXED: dict[str, tuple[Function, tuple[Any, ...], int]] = {
    "an input and a result": (lambda x, y: (x, x + y), (X, Y), 1),
    "a result twice": (lambda x: ((y := x * 2), y), (X,), 1),
    "a result and its transpose": (lambda x: ((y := x * 2), y.t()), (X,), 1),
    "chunks of a result": (lambda x: (x * 2).chunk(2, 1), (X,), 1),
    "rows of a result": (lambda x: (x * 2).unbind(0), (X,), 1),
    "a view that is read too": (lambda x, w: (x.t(), x.t() @ w), (X.t().contiguous(), W), 1),
    "a constant that is read too": (lambda x: ((c := torch.full((6,), 0.3)), x * c), (X,), 1),
    "None and numbers": (lambda x: (x * 2, None, 3, 0.5, True, x.shape[0]), (X,), 1),
    "all sorts": (lambda x, y: (x, x[0], (z := x * y), None, z[1], z, torch.ones(2)), (X, Y), 1),
    "a view that has to be copied": (lambda x: x.t().reshape(24), (X,), 1),
    "a part that has to be copied": (lambda x: x[:, 1:].t()[1:].reshape(-1), (X,), 1),
    "only a join": (lambda a, b: torch.cat([a, b]), (X, randn(3, 6)), 1),
    "a join and its parts": (lambda a, b: (torch.cat([a, b], 1), a, b[1:]), (X, Y), 1),
}


@pytest.mark.parametrize("name", some_of(MIXED, every=3))
def test_kernels_write_what_is_computed(name: str) -> None:
    function, inputs, most = MIXED[name]
    optimized, _ = check(function, *inputs)
    launched = sum(isinstance(op, Launch) for op in optimized.graph.ops)
    assert launched <= most


def test_results_in_a_structure_come_flat() -> None:
    def function(x: torch.Tensor) -> dict[str, Any]:
        return {"a": x * 2, "b": [x, (x + 1,)]}

    got = emulate(solved(function, X), X)
    for mine, theirs in zip(got, (X * 2, X, X + 1), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_views_of_inputs_are_views_and_copies_are_copies() -> None:
    optimized = solved(lambda x: (x, x.t(), x.clone(), x.clone()[0], x.contiguous()), X)
    x = X.clone()
    same, turned, copy, row, _ = emulate(optimized, x)
    assert same is x
    assert turned.data_ptr() == x.data_ptr()
    x.add_(1.0)
    torch.testing.assert_close(turned, x.t())
    torch.testing.assert_close(copy, X)
    torch.testing.assert_close(row, X[0])


def test_a_copy_within_a_program_is_no_op() -> None:
    graph = mi.from_torch(lambda x: x.clone().exp().clone() + 1, X).graph
    assert len(graph.ops) == 3


# ---- inputs


def test_inputs_that_are_not_read() -> None:
    optimized, _ = check(lambda x, y, z: x + z, X, randn(3), Y)
    with pytest.raises(mi.MirageError, match=r"expected 3 input tensors"):
        emulate(optimized, X, Y)
    check(lambda x, y: y, X, Y)


def test_one_tensor_for_several_inputs_is_not_one_input() -> None:
    optimized, _ = check(lambda a, b, c: a * b + c, X, X, X)
    (got,) = emulate(optimized, X, Y, X + Y)
    torch.testing.assert_close(got, X * Y + X + Y)
    (got,) = emulate(optimized, Y, Y, Y)
    torch.testing.assert_close(got, Y * Y + Y)


# ---- calls of PyTorch


CALLS: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "beside a view": (lambda x, t: (x.cos() * t).sum(), (X, Y)),
    "of a view": (lambda x: x.t().cos(), (X,)),
    "of a view that is read too": (lambda x, w: (x.t().cos(), x.t() @ w), (X.t().contiguous(), W)),
    "of a view of a result": (lambda x: (x * 2).t().cos() + 1, (X,)),
    "between kernels": (lambda x, w: ((x @ w).cos() @ w.t()).exp(), (X, W)),
    "of a constant": (lambda x: torch.full((6,), 0.3).cos() * x, (X,)),
    "alone": (lambda x: x.cos(), (X,)),
    "and its operand": (lambda x: ((y := x * 2), y.cos(), y[0], x), (X,)),
}


@pytest.mark.parametrize("name", some_of(CALLS, every=3))
def test_calls(name: str) -> None:
    function, inputs = CALLS[name]
    check(function, *inputs, allow_fallback=True)


# ---- sizes


EMPTY: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "elements": (lambda x: x * 2 + 1, (randn(0, 6),)),
    "sum": (lambda x: x.sum(0), (randn(0, 6),)),
    "sum of all": (lambda x: x.sum(), (randn(0, 6),)),
    "sum that stays empty": (lambda x: x.sum(1), (randn(0, 6),)),
    "sum that is read": (lambda x, y: x.sum(0) * 2 + y, (randn(0, 6), randn(6))),
    "matmul": (lambda x, w: x @ w, (randn(4, 0), randn(0, 6))),
    "matmul and more": (lambda x, w, y: (x @ w).exp() + y, (randn(4, 0), randn(0, 6), X)),
    "no rows": (lambda x, w: torch.softmax(x @ w, -1), (randn(0, 4), randn(4, 6))),
    "norm": (lambda x: torch.nn.functional.layer_norm(x, (6,)), (randn(0, 6),)),
    "join": (lambda x, y: torch.cat([x, y]) * 2, (randn(0, 6), X)),
    "only a join": (lambda x, y: torch.cat([x, y]), (randn(0, 6), X)),
    "join of nothing": (lambda x, y: torch.cat([x, y], 1), (randn(0, 6), randn(0, 2))),
    "join of three": (lambda x, y, z: torch.cat([x, y, z]), (X, randn(0, 6), Y)),
    "slice": (lambda x: x[2:2], (X,)),
    "slice that is summed": (lambda x: x[2:2].sum(0) + x, (X,)),
    "beside others": (lambda x, y: (x * 2, y * 2, x), (randn(3, 0), X)),
    "views": (lambda x: (x.t(), x.reshape(0), x), (randn(0, 6),)),
}


@pytest.mark.parametrize("name", some_of(EMPTY, every=3))
def test_no_elements(name: str) -> None:
    function, inputs = EMPTY[name]
    check(function, *inputs)


def test_what_nothing_has_is_refused_in_one_line() -> None:
    for function in (lambda x: x.mean(0), lambda x: x.var(0)):
        with pytest.raises(FrontendError, match=r"no elements|a variance of 0 elements") as caught:
            mi.from_torch(function, randn(0, 6))
        assert "\n" not in str(caught.value)
    check(lambda x: x.mean(1), randn(0, 6))
    check(lambda x: x.mean(0), randn(0, 6), allow_fallback=True)


ONES: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "sum": (lambda x: x.sum() + x, (randn(1, 1),)),
    "matmul": (lambda x, w: x @ w, (randn(1, 1), randn(1, 1))),
    "row by column": (lambda x, w: x @ w, (randn(1, 7), randn(7, 1))),
    "column by row": (lambda x, w: x @ w, (randn(7, 1), randn(1, 7))),
    "softmax of one": (lambda x: torch.softmax(x, -1), (randn(4, 1),)),
    "norm of one": (lambda x: torch.nn.functional.layer_norm(x, (1,)), (randn(4, 1),)),
    "attention of one": (
        lambda q, k, v: torch.softmax(q @ k.transpose(-1, -2), -1) @ v,
        (randn(1, 1, 4), randn(1, 1, 4), randn(1, 1, 4)),
    ),
    "scalar": (lambda x: x * 2 + 1, (randn(),)),
    "scalar and tensor": (lambda x, y: (x * y, x), (randn(), X)),
    "scalar views": (lambda x: (x.reshape(1, 1), x.expand(3), x), (randn(),)),
    "sum of a scalar": (lambda x: x.exp().sum(), (randn(),)),
}


@pytest.mark.parametrize("name", some_of(ONES, every=3))
def test_sizes_of_one(name: str) -> None:
    function, inputs = ONES[name]
    check(function, *inputs)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    shape=st.lists(st.sampled_from([0, 1, 1, 2, 3]), min_size=0, max_size=6),
    dims=st.sets(st.integers(0, 5)),
    wide=st.booleans(),
)
def test_every_rank_with_every_size(shape: list[int], dims: set[int], wide: bool) -> None:
    x = randn(*shape)
    reduced = sorted(d for d in dims if d < len(shape))

    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * 2 + 1
        return (y.sum(reduced) if reduced else y, x.flatten(), torch.exp(x) if wide else x)

    check(function, x)


# ---- types


@pytest.mark.parametrize("mixed", [False, True])
def test_f64_stays_with_pytorch(mixed: bool) -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.nn.functional.layer_norm((x @ w) * 0.1, (8,)).softmax(-1)
        return y, y.float() * 2 if mixed else y.sum()

    optimized, _ = check(function, X.double(), W.double())
    launched = any(isinstance(op, Launch) for op in optimized.graph.ops)
    assert launched == mixed


# ---- other entry points


def test_a_built_graph_may_return_its_input() -> None:
    graph = mi.new_kernel_graph("g")
    x = graph.new_input((4, 6), dtype=mi.float32, name="x")
    y = graph.exp(x)
    graph.mark_output(x, y, y, graph.transpose(y, 1, 0))
    optimized = optimize(graph, mi.OptimizeOptions(candidates=1, jobs=1))
    got = emulate(optimized, X)
    for mine, theirs in zip(got, (X, X.exp(), X.exp(), X.exp().t()), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_an_artifact_has_kernels_only() -> None:
    with pytest.raises(NothingFoundError, match="one artifact"):
        _ = solved(lambda x, y: (x, x + y), X, Y).artifact
    assert solved(lambda x: x * 2, X).artifact.manifest.kernels


def test_other_finalists_return_the_same() -> None:
    imported = mi.from_torch(lambda x, w: (x, (y := x @ w), y.t(), None), X, W)
    optimized = imported.superoptimize(candidates=3, finalists=2, jobs=1)
    for number in range(len(optimized.finalists)):
        got = emulate(optimized.with_finalist(number), X, W)
        torch.testing.assert_close(got[2], (X @ W).t(), rtol=1e-3, atol=1e-4)
        assert got[0] is X
        assert got[3] is None
