"""torch.compile(backend="mirage") of graphs with sizes that are known only at the call: a number of
rows stays dynamic, other sizes have one program each, and nothing ever fails."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pytest
import torch
from mirage.frontend.program import Program
from mirage.pipeline.call import sized_emulator
from mirage.pipeline.optimize import optimize_class
from mirage.pipeline.options import OptimizeOptions
from mirage.torch.compiled_graph import Report
from mirage.torch.explanation import Explanation
from mirage.torch.graph_compiler import MOST_SIZES, backend
from mirage.torch.sized_graph import SizedClass
from thorough import some_of
from torch._dynamo import mark_dynamic
from torch_programs.any_size import any_size
from torch_programs.op_by_op import op_by_op

SIZES = (2, 3, 5, 7, 11, 13, 16, 17, 31, 64, 1)

reports: list[Report] = []


def alone(program: Program, options: Mapping[str, Any]) -> Any:
    return op_by_op(program, options)


host = partial(
    backend, compiler=alone, class_compiler=any_size, devices=("cpu",), watch=reports.append
)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    reports.clear()
    torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]
    yield
    torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]


def same(got: Any, want: Any) -> None:
    got, want = ([r] if isinstance(r, torch.Tensor) else list(r) for r in (got, want))
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
        assert a.stride() == b.stride()


def classes() -> list[str]:
    return [r.sizes for r in reports if "up to" in r.sizes]


# ---- a number of rows


def layer(x: torch.Tensor, w: torch.Tensor) -> Any:
    y = torch.softmax(x @ w, -1)
    return y, y.transpose(1, 2), x[:, 1:]


def with_a_call(x: torch.Tensor, w: torch.Tensor) -> Any:
    y = torch.special.i0e(x @ w)
    return torch.relu(y).reshape(x.shape[0] * 3, 4) * 2


def with_rows_of_its_own(x: torch.Tensor, w: torch.Tensor) -> Any:
    start = w[:1].expand(x.shape[0], 1, 4)
    return torch.cat([start, x @ w], 1).softmax(-1) + torch.arange(x.shape[0])[:, None, None]


def that_writes(x: torch.Tensor, w: torch.Tensor) -> Any:
    x[:, 1] = 2.0
    return x @ w


@pytest.mark.parametrize(
    ("function", "how"),
    some_of(
        [
            *((layer, how) for how in ("dynamic", "mark_dynamic", "automatic")),
            # How TorchDynamo learns of the size is over when a graph comes: its content is ours.
            *((f, "automatic") for f in (with_a_call, with_rows_of_its_own, that_writes)),
        ],
        every=6,
    ),
)
def test_one_program_serves_a_class(function: Callable[..., Any], how: str) -> None:
    fast = torch.compile(function, backend=host, dynamic=True if how == "dynamic" else None)
    w = torch.randn(8, 4)
    for n in SIZES:
        x = torch.randn(n, 3, 8) if n != 3 else torch.randn(4, 3, 8)
        if how == "mark_dynamic" and n > 1:
            mark_dynamic(x, 0)
        mine, theirs = x.clone(), x.clone()
        if how == "mark_dynamic" and n > 1:
            mark_dynamic(mine, 0)
        same(fast(mine, w), function(theirs, w))
        same(mine, theirs)
    assert not [r.reason for r in reports if r.reason]
    (name,) = {text.split()[1] for text in classes()}
    assert classes() == [f"for {name} up to {most}" for most in (4, 8, 32, 64)]
    # the rest: a batch of one, and the first size, for which TorchDynamo did not know better
    assert len(reports) - len(classes()) <= (2 if how == "automatic" else 1)


def test_tokens_are_rows_in_proportion() -> None:
    """Batches of 6 tokens, flattened by the caller."""

    def function(tokens: torch.Tensor, batch: torch.Tensor) -> Any:
        return torch.relu(tokens.view(-1, 6, 8)) + batch[:, None]

    def model(x: torch.Tensor) -> Any:
        tokens = x.flatten(0, 1)
        torch._dynamo.graph_break()  # pyright: ignore[reportPrivateUsage]
        return function(tokens, x.sum(1))

    fast = torch.compile(model, backend=host, dynamic=True)
    for n in (2, 5, 7, 31):
        x = torch.randn(n, 6, 8)
        same(fast(x), model(x))
    assert not [r.reason for r in reports if r.reason]


def test_other_sizes_that_change_have_classes_of_their_own() -> None:
    """The batch is the number of rows; each length has a program."""
    fast = torch.compile(layer, backend=host, dynamic=True)
    w = torch.randn(8, 4)
    for n in (6, 5, 7):
        for length in (3, 4, 6):
            x = torch.randn(n, length, 8)
            same(fast(x, w), layer(x, w))
    assert len(classes()) == 3


def test_symbols_of_one_value_are_one_size() -> None:
    """TorchDynamo does not know that these are equal, since no op combines them."""

    def function(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        rows = torch.arange(ids.shape[0])[:, None]
        return torch.relu(ids) * mask[rows, torch.arange(6)]

    fast = torch.compile(function, backend=host)
    for n, m in ((6, 6), (5, 5), (7, 7), (7, 9), (5, 9)):
        x, mask = torch.randn(n, 6), torch.randn(m, 6)
        mark_dynamic(x, 0)
        mark_dynamic(mask, 0)
        same(fast(x, mask), function(x, mask))
    assert len(classes()) == 2  # masks of as many rows, and masks of 9
    assert len(reports) == 2


def test_weights_are_seen_and_real_kernels_run() -> None:
    """End to end: searched, compiled, executed in the emulator."""

    def emulated(found: SizedClass, options: Mapping[str, Any]) -> Any:
        chosen = OptimizeOptions.of(
            chip="sm_80", candidates=1, jobs=1, use_cache=False, budget=30, **options
        )
        return found.runner(optimize_class(found.source, chosen, found.name), sized_emulator)

    model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.GELU()).requires_grad_(False)
    fast = torch.compile(model, backend=partial(host, class_compiler=emulated), dynamic=True)
    for n in (5, 7, 8):
        x = torch.randn(n, 8)
        same(fast(x), model(x))
        model[0].weight.mul_(1.5)
    (report,) = reports
    said = str(Explanation((report,)))
    assert "up to 8, 1 kernel, " in said
    assert " µs predicted" in said


# ---- graphs without rows


def test_inner_sizes_have_one_program_each_up_to_a_limit(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x * 2, -1)

    fast = torch.compile(function, backend=host)
    with caplog.at_level(logging.INFO, "mirage.torch"):
        for n in (*range(2, MOST_SIZES + 6), 3):
            x = torch.randn(4, n)
            mark_dynamic(x, 1)
            same(fast(x), function(x))
    assert not classes()
    why = "for 3, (4, 3) alone (a size is dynamic that is not an outermost dimension)"
    assert reports[1].sizes == why
    text = str(Explanation(tuple(reports)))
    assert f"graph 1: 2 ops, {why}, compiled" in text
    limit = "for all other sizes, stays with PyTorch: it is compiled for 16 sets of sizes already"
    assert f"graph {MOST_SIZES}: 2 ops, {limit}" in text
    assert len(reports) == MOST_SIZES + 1
    assert caplog.text.count("others stay eager") == 1


def test_a_contracted_size_has_one_program_each() -> None:
    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ w) + x.sum(-1, keepdim=True)

    fast = torch.compile(function, backend=host)
    for n in (7, 12, 5, 7):
        x, w = torch.randn(4, n), torch.randn(n, 6)
        for tensor, dim in ((x, 1), (w, 0)):
            mark_dynamic(tensor, dim)
        same(fast(x, w), function(x, w))
    assert [r.sizes.partition(" (a size")[0] for r in reports] == [
        f"for {n}, (4, {n}), ({n}, 6) alone" for n in (7, 12, 5)
    ]


@pytest.mark.parametrize(
    "function",
    some_of(
        [
            lambda x: x - x.mean(0),
            lambda x: x / x.shape[0],
            lambda x: x.softmax(0),
            lambda x: x @ x.transpose(0, 1)[:, :8] if x.shape[0] > 3 else x,
            lambda x: x + torch.ones(x.shape[0], 8).cumsum(1).sum(0),
            lambda x: x.flip(0),
        ],
        every=2,
    ),
)
def test_rows_that_depend_on_each_other_have_one_program_for_each_size(
    function: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    fast = torch.compile(function, backend=host, dynamic=True)
    with caplog.at_level(logging.INFO, "mirage.torch"):
        for n in (9, 10, 11, 13):
            x = torch.randn(n, 8)
            same(fast(x), function(x))
    assert not classes()
    assert "is compiled for each size, not for any s" in caplog.text
    assert all(r.sizes.endswith(")") for r in reports[1:])


def test_numbers_that_change_are_no_sizes() -> None:
    def function(x: torch.Tensor, n: int) -> torch.Tensor:
        return x * n

    fast = torch.compile(function, backend=host)
    for n in (2, 3, 5, 7):
        x = torch.randn(4, 8)
        same(fast(x, n), function(x, n))
    assert not [r.reason for r in reports if r.reason]


def test_a_class_that_fails_leaves_its_sizes_to_programs_of_their_own(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(found: SizedClass, options: Mapping[str, Any]) -> Any:
        raise ZeroDivisionError("by accident")

    fast = torch.compile(layer, backend=partial(host, class_compiler=broken), dynamic=True)
    w = torch.randn(8, 4)
    with caplog.at_level(logging.INFO, "mirage.torch"):
        for n in (4, 5, 7):
            x = torch.randn(n, 3, 8)
            same(fast(x, w), layer(x, w))
    assert caplog.text.count("ZeroDivisionError: by accident") == 1
    assert len([r for r in reports if r.compiled]) == 3
