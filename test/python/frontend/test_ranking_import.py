"""Sorted orders, the largest elements and histograms, against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mirage as mi
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from mirage.frontend.errors import UnsupportedOpError
from mirage.frontend.torch_import.rows.reductions import scans
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.ops.kinds import Lookup
from mirage.semantics.ugraph import Cumulate, External, Reduce
from torch_programs.imported_programs import check, evaluate, rand

Tensor = torch.Tensor
X = rand(4, 5, 6)
IDS = torch.tensor([[3, 0, 4, 1, 2], [2, 2, 0, 4, 0]])
NAN, INF = float("nan"), float("inf")
EDGES = torch.tensor([[1.0, NAN, 3.0, -INF], [INF, 2.0, INF, NAN], [-INF, NAN, -0.0, 0.0]]).double()


def stable(x: Tensor, dim: int, descending: bool = False) -> tuple[Tensor, Tensor]:
    values, places = torch.sort(x, stable=True, dim=dim, descending=descending)
    return values, places


ROWS: dict[str, tuple[Callable[..., object], tuple[Tensor, ...]]] = {
    "topk": (lambda x: (*x.topk(2), *x.topk(3, 1), *x.topk(1, 0)), (X,)),
    "the least": (lambda x: (*x.topk(2, largest=False), *x.topk(6, largest=False)), (X,)),
    "topk of one line": (lambda x: (*x[0, 0].topk(4), x[1, 1].topk(1)[1]), (X,)),
    "sort": (lambda x: (*x.sort(), *x.sort(1), *x.sort(0, descending=True)), (X,)),
    "argsort": (lambda x: (x.argsort(1), x.argsort(-1, descending=True)), (X,)),
    "sort of integers": (lambda i: (*stable(i, 1), *stable(i, 0, True)), (IDS,)),
    "sort of small integers": (
        lambda i: (*stable(i.to(torch.int8), 1), *stable(i > 2, 1, True), *stable(i.int(), 0)),
        (IDS,),
    ),
    "not a number": (lambda x: (*stable(x, 1), *stable(x, 1, True), x.topk(3)[0]), (EDGES,)),
    "equal elements": (lambda i: (*stable(i.double(), 1), *stable(i.double(), 1, True)), (IDS,)),
    "largest with its place": (
        lambda x: (*x.max(1), *x.max(-1, keepdim=True), *x.min(0)),
        (X,),
    ),
    "the least of small integers": (
        lambda i: (i.amin(0), i.amin(1), *i.min(1), i.argmin(0), i.cummin(1)[0]),
        ((IDS - 130).to(torch.int8),),
    ),
    "histogram": (
        lambda i: (
            i.float().histc(5, 0, 4),
            i.float().histc(3, 0, 4),
            i.float().histc(2, -3, 3),
            i.double().flatten().histc(4, 0, 4),
            i.float().histc(9, 1, 3),
        ),
        (IDS,),
    ),
    "running sum": (
        lambda x: (x.cumsum(0), x.cumsum(-1), x[0, 0].cumsum(0), x[0, 0, 0].cumsum(0)),
        (X,),
    ),
    "running sum that is not finite": (lambda x: (x.cumsum(1), x.cumsum(0)), (EDGES,)),
    "running sum in another type": (
        lambda i: (
            i.cumsum(1, dtype=torch.float64),
            i.float().histc(5, 0, 4).cumsum(0, dtype=torch.int32),
            (i > 2).cumsum(0, dtype=torch.int32),
        ),
        (IDS,),
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_rows(name: str) -> None:
    program, inputs = ROWS[name]
    check(program, *inputs)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_types(dtype: torch.dtype) -> None:
    check(lambda x: (*stable(x, -1), x.topk(2, 1)[0], x.cumsum(0)), X.to(dtype), rtol=2e-2)


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_any_order(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 99)))
    few = torch.tensor([0.0, 1.0, -1.0, 2.5, NAN, INF, -INF], dtype=torch.float64)
    x = few[torch.randint(0, len(few), shape, generator=generator)]
    descending = data.draw(st.booleans())
    check(lambda x: stable(x, dim, descending), x)
    count = data.draw(st.integers(1, shape[dim]))
    check(lambda x: x.topk(count, dim, largest=descending)[0], x)


def test_equal_elements_come_in_their_order() -> None:
    imported = mi.from_torch(lambda x: x.topk(3), torch.zeros(2, 5))
    values, places = evaluate(imported, [torch.tensor([[1.0, 2, 1, 2, 1], [0, 0, 0, 0, 0]])])
    np.testing.assert_array_equal(values, [[2, 2, 1], [0, 0, 0]])
    np.testing.assert_array_equal(places, [[1, 3, 0], [0, 1, 2]])


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_any_histogram(data: st.DataObject) -> None:
    low = data.draw(st.integers(-9, 9))
    high = low + data.draw(st.integers(1, 40))
    bins = data.draw(st.integers(1, 50))
    x = torch.arange(low - 3, high + 4)
    check(lambda i: i.float().histc(bins, low, high), x)


REFUSED: dict[str, tuple[Callable[..., object], tuple[Tensor, ...], str]] = {
    "a long line": (lambda x: x.topk(2)[0], (torch.zeros(2, 5000),), "an order of 5000 elements"),
    "many lines": (lambda x: x.sort()[0], (torch.zeros(70, 1024),), "in 70 lines"),
    "histogram of fractions": (lambda x: x.histc(4, 0, 4), (X.float(),), "of fractions"),
    "histogram between fractions": (
        lambda i: i.float().histc(4, 0, 0.5), (IDS,), "a histogram of fractions"
    ),
    "histogram without limits": (lambda i: i.float().histc(4), (IDS,), "from 0 to 0"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    program, inputs, text = REFUSED[name]
    with pytest.raises(UnsupportedOpError, match=text):
        mi.from_torch(program, *inputs)


def test_a_long_order_stays_one_call() -> None:
    imported: Any = mi.from_torch(
        lambda x: x.topk(2)[1] + 1, torch.zeros(2, 5000), allow_fallback=True
    )
    assert [op.target for op in imported.graph.ops if isinstance(op, External)] == ["aten.topk"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool], ids=str)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_what_stands_at_the_places_of_an_order_is_in_order(dim: int, dtype: torch.dtype) -> None:
    x = torch.randn(5, 6, generator=torch.Generator().manual_seed(1)).to(dtype)

    def by_places(x: torch.Tensor) -> torch.Tensor:
        return x.gather(dim, stable(x, dim)[1])

    graph = mi.from_torch(by_places, x).graph
    assert not any(isinstance(op, Lookup) and op.operands for op in graph.ops)
    (got,) = evaluate_floats(graph, [x.double().numpy()])
    assert torch.equal(torch.from_numpy(got), by_places(x).double())


def test_integers_of_any_size_in_order_are_looked_up() -> None:
    """Their places are compared once, and no tensor of pairs is added up."""
    x = torch.randint(-(2**62), 2**62, (5, 6), generator=torch.Generator().manual_seed(1))
    graph = mi.from_torch(lambda x: x.sort(-1), x, allow_fallback=True).graph
    assert not any(isinstance(op, Reduce) and op.result.dtype.is_integer for op in graph.ops)


def test_places_of_another_tensor_or_dimension_are_looked_up() -> None:
    x, y = torch.randn(6, 6), torch.randn(6, 6)
    for program in (
        lambda x, y: y.gather(1, x.argsort(1)),
        lambda x, y: x.gather(0, x.argsort(1)),
        lambda x, y: (x + y).gather(1, x.argsort(1)),
    ):
        graph = mi.from_torch(program, x, y).graph
        assert any(isinstance(op, Lookup) and op.operands for op in graph.ops)
        (got,) = evaluate_floats(graph, [v.numpy() for v in (x, y)][: len(graph.inputs)])
        assert torch.allclose(torch.from_numpy(got).float(), program(x, y))


LENGTHS = (1, 9, 16, 33, 130, 300)


@pytest.mark.parametrize("length", LENGTHS)
def test_long_scans_are_computed_in_blocks(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks that divide the row, or whose last one is shorter; blocks of blocks."""
    monkeypatch.setattr(scans, "LONGEST", 16)
    monkeypatch.setattr(scans, "BLOCK", 8)
    x = torch.randint(-3, 4, (2, length), generator=torch.Generator().manual_seed(length)).double()
    check(lambda x: (x.cumsum(-1), (x > 0).cumsum(1), *x.cummax(-1), *x.cummin(1)), x)
    check(lambda x: (x.t().cumsum(0), *x.t().cummax(0), x[..., None].repeat(1, 1, 3).cumsum(1)), x)
    check(lambda x: (x.flip(1).cumsum(1).flip(0, 1), x.flip(-1).cummax(-1)[0].flip(-1)), x)


def test_running_maxima_that_are_no_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    for longest in (4096, 2):
        monkeypatch.setattr(scans, "LONGEST", longest)
        monkeypatch.setattr(scans, "BLOCK", 2)
        check(lambda x: (*x.cummax(-1), *x.cummin(0), *x.cummin(-1), *x.cummax(0)), EDGES)


def test_a_long_scan_takes_linear_work() -> None:
    """For a row of 2^20 numbers, no op computes more numbers than the row has."""
    program = mi.from_torch(lambda x: x.cumsum(-1), torch.empty(1, 1 << 20))
    sizes = [v.type.size for op in program.graph.ops for v in op.results]
    assert max(sizes) <= 1 << 20


def test_what_is_turned_around_is_summed_from_the_other_end() -> None:
    """Nothing is looked up in reverse, whatever the order of dimensions."""

    def program(x: Tensor) -> tuple[Tensor, ...]:
        turned = x.flip(1, 2)
        return turned.cumsum(1).flip(2, 1), turned.flip(2).cumsum(2).flip(1), turned.flip((1, 2))

    check(program, X)
    graph = mi.from_torch(program, X).graph
    assert not any(isinstance(op, Lookup) and op.operands for op in graph.ops)


def test_scans_of_integers_are_one_call_each() -> None:
    """Unless f32 can hold all of their values."""
    i = torch.randint(-9, 9, (3, 40), generator=torch.Generator().manual_seed(0))
    check(
        lambda i: (i.cumsum(-1), i.flip(-1).cumsum(-1).flip(-1), *i.cummax(1), (i > 0).cumsum(1)), i
    )
    graph = mi.from_torch(lambda i: (i.cumsum(-1), i.cummin(0)[0]), i).graph
    assert sum(isinstance(op, Cumulate) for op in graph.ops) == 2


def test_counts_of_given_truth_values_are_sums_of_floats() -> None:
    """Like those of truth values that the program computes."""
    truths = torch.tensor([[True, False, True, True]])
    check(lambda m: m.cumsum(-1), truths)
    graph = mi.from_torch(lambda m: m.cumsum(-1), truths).graph
    (total,) = [op for op in graph.ops if isinstance(op, Cumulate)]
    assert not total.result.dtype.is_integer
