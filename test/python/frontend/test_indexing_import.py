"""Lookups and stores by index, and reductions to truth values and positions, against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mirage as mi
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from mirage.frontend.errors import UnsupportedOpError
from mirage.semantics.ugraph import Elementwise, External
from mirage.transforms.partition.exact_integers import integers_as_calls
from thorough import some_of
from torch_programs.imported_programs import check, evaluate, rand

Tensor = torch.Tensor
X = rand(4, 5, 6)
I, J = torch.tensor([3, -1, 0]), torch.tensor([[-5, 4], [1, 1]])
K = torch.tensor([1, 3], dtype=torch.int32)
P = X > 0.3
IDS = torch.tensor([[3, 0, 4], [1, 1, 2]])


aten_index: Any = torch.ops.aten.index.Tensor


def put(dim: int) -> Callable[..., Tensor]:
    def program(x: Tensor, i: Tensor, v: Tensor) -> Tensor:
        x = x.clone()
        x[(slice(None),) * dim + (i,)] = v
        return x

    return program


def store_where(x: Tensor, p: Tensor) -> Tensor:
    x = x.clone()
    x[p] = 7.0
    return x


ROWS: dict[str, tuple[Callable[..., object], tuple[Tensor, ...]]] = {
    "one index": (lambda x, i: x[i], (X, I)),
    "one index further in": (lambda x, i, j: (x[:, i], x[..., j]), (X, I, J)),
    "one row": (lambda x, i: (aten_index(x, [i[0]]), aten_index(x, [None, i[1]])), (X, I)),
    "neighbours": (lambda x, i: (x[i, i], x[:, i, i]), (X, I)),
    "apart": (lambda x, i: x[i, :, i], (X, I)),
    "all": (lambda x, i, j: x[i[:, None, None], j, j], (X, I, J)),
    "types of indices": (lambda x, k, i: (x[k], x[k, i[:2]]), (X, K, I)),
    "known indices": (lambda x: x[:, torch.tensor([2, -1, 0])], (X,)),
    "index_select": (lambda x, i: (x.index_select(1, i), x.index_select(-1, i[0])), (X, IDS[0])),
    "gather": (
        lambda x, i: (
            x.gather(1, i[:, :, None]),
            x[0].gather(-1, i % 2),
            x[0, 0].gather(0, i[0]),
            x[1:2].gather(1, i[:1, :, None]),
            x.gather(2, i[:1, None]),
        ),
        (X, IDS),
    ),
    "take_along_dim": (
        lambda x, y: torch.take_along_dim(x, torch.tensor([[[0], [3], [4]]]), 1) + y,
        (X, rand(1)),
    ),
    "flip": (lambda x: (x.flip(0), x.flip((1, -1))), (X,)),
    "roll": (
        lambda x: (
            x.roll(-1, 1),
            x.roll((2, 1), (0, 2)),
            x.roll(7),
            x.roll((3, 2), (1, 1)),
        ),
        (X,),
    ),
    "scatter": (
        lambda x, i, s: (x.scatter(1, i, s), x.scatter(1, i, 2.5), x.scatter(-1, i[:, :1], s)),
        (X[0], torch.tensor([[5, 0], [1, 4], [3, 2], [0, 5], [2, 3]]), rand(5, 2)),
    ),
    "scatter of integers": (
        lambda i, s: torch.zeros_like(i).scatter(1, s, 1),
        (torch.arange(12).reshape(3, 4), torch.tensor([[1], [3], [0]])),
    ),
    "scatter of truth values": (
        lambda x, i, p: torch.where(torch.zeros_like(x).bool().scatter(1, i, p), -1.0, x),
        (X[0], torch.tensor([[5, 0], [1, 4], [3, 2], [0, 5], [2, 3]]), rand(5, 2) > 0),
    ),
    "index_copy": (
        lambda x, i, s, one: (x.index_copy(1, i, s), x.index_copy(1, one, s[:, :1])),
        (X, IDS[0], rand(4, 3, 6), torch.tensor([2])),
    ),
    "index_copy of the last two": (lambda x, i: x.index_copy(0, i, x[1:3] * 2), (X, IDS[0, :2])),
    "index_fill": (
        lambda x, i, n, v: (
            x.index_fill(1, i, 2.5),
            x.index_fill(-1, i[:1], v),
            n.index_fill(0, i, 3),
        ),
        (X, torch.tensor([-1, 2, -5]), torch.arange(6), torch.tensor(0.5)),
    ),
    "stores": (put(0), (X, I, rand(3, 5, 6))),
    "stores further in": (put(1), (X, I, rand(4, 3, 6))),
    "stores that repeat": (put(2), (X, I, rand(3))),
    "one store": (put(1), (X, torch.tensor([-1]), rand(4, 1, 6))),
    "stores of a number where a mask is true": (store_where, (X, P)),
    "stores where a mask of rows is true": (store_where, (X, P[:, 0, 0])),
    "one_hot": (lambda i: F.one_hot(i, 6), (IDS,)),
    "any and all": (
        lambda p, x: (p.any(), p.all(), p.any(1), p.all(-1, keepdim=True), (x > -9).all(), x.any()),
        (P, X),
    ),
    "norms": (
        lambda x: (
            torch.linalg.vector_norm(x),
            x.norm(dim=-1, keepdim=True),
            torch.linalg.vector_norm(x, 1, dim=(0, 2)),
            torch.linalg.vector_norm(x, float("inf"), dim=1),
            F.normalize(x, dim=1),
        ),
        (X,),
    ),
    "batch norm": (
        lambda x, m, w: (
            F.batch_norm(x, m, m.abs() + 0.1, w, w + 1),
            F.batch_norm(x[:, :, 0], m, m.abs() + 0.1),
        ),
        (X, rand(5), rand(5)),
    ),
    "counts": (
        lambda i: (
            i.ne(1).int().cumsum(1),
            i.ne(1).cumsum(0),
            i.cumsum(-1) + 1,
            i.flip(0).cumsum(1),
        ),
        (IDS,),
    ),
    "argmax": (
        lambda x, i: (x.argmax(-1), x.argmin(0, keepdim=True), x.argmax(), i.argmax(1)),
        (X, IDS),
    ),
    "first of several maxima": (lambda i: ((i > 2).int().argmax(-1), i.float().argmin(1)), (IDS,)),
}


@pytest.mark.parametrize("name", some_of(ROWS))
def test_rows(name: str) -> None:
    program, inputs = ROWS[name]
    check(program, *inputs)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_types(dtype: torch.dtype) -> None:
    def program(x: Tensor, i: Tensor) -> tuple[Tensor, ...]:
        normed = F.batch_norm(x, x[0, :, 0], x[0, :, 0] ** 2)
        return x[:, i], x.index_copy(0, i[:1], x[:1] * 2), x.norm(dim=-1), normed

    check(program, X.to(dtype), IDS[0], rtol=2e-2, atol=1e-2)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_any_dimensions_by_any_indices(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 99)))
    common = data.draw(st.sampled_from([(1,), (3,), (2, 3)]))
    which = data.draw(st.lists(st.booleans(), min_size=len(shape), max_size=len(shape)))
    if not any(which):
        return
    indices = [torch.randint(-n, n, common, generator=generator) for n in shape]
    if common == (2, 3):
        indices[0] = indices[0][:, :1]
    x = torch.randn(shape, dtype=torch.float64, generator=generator)

    def program(x: Tensor, *given: Tensor) -> Tensor:
        left = iter(given)
        return x[tuple(next(left) if one else slice(None) for one in which)]

    check(program, x, *(i for i, one in zip(indices, which, strict=True) if one))


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_elements_by_any_indices(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    count = data.draw(st.integers(1, shape[dim]))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 99)))
    order = torch.rand(shape, generator=generator).argsort(dim).narrow(dim, 0, count)
    x = torch.randn(shape, dtype=torch.float64, generator=generator)
    check(
        lambda x, i, s: (x.gather(dim, i), x.scatter(dim, i, s), x.scatter(dim, i, -3.0)),
        x, order, torch.randn(shape, dtype=torch.float64, generator=generator),
    )  # fmt: skip


# ---- numbers that are not, and indices outside


def evaluated(program: Callable[..., object], *inputs: Tensor) -> list[np.ndarray]:
    return evaluate(mi.from_torch(program, *inputs), list(inputs))


NAN, INF = float("nan"), float("inf")
EDGES = torch.tensor([[1.0, NAN, 3.0, NAN], [INF, 2.0, INF, -INF], [-INF, -INF, -INF, -INF]])


def test_not_a_number_is_the_extreme_one() -> None:
    check(lambda x: (x.argmax(1), x.argmin(1), x.argmax(), (x != x).any(1)), EDGES.double())


def test_what_is_not_stored_over_is_as_it_was() -> None:
    x = EDGES.double()
    s = torch.tensor([[NAN], [INF], [2.0]], dtype=torch.float64)
    check(
        lambda x, i, s: (x.scatter(1, i, s), x.index_copy(1, i[0], s), x.gather(1, i)),
        x, torch.tensor([[2], [0], [3]]), s,
    )  # fmt: skip


def test_the_last_of_stores_that_meet_counts() -> None:
    x, i, s = torch.zeros(4), torch.tensor([2, 1, 2]), torch.tensor([1.0, 2.0, 3.0])
    for program in (
        lambda x, i, s: x.scatter(0, i, s),
        lambda x, i, s: x.index_copy(0, i, s),
        put(0),
    ):
        (got,) = evaluated(program, x, i, s)
        np.testing.assert_array_equal(got, [0, 2, 3, 0])


@pytest.mark.parametrize("bad", some_of([-6, 5, 2**40, -(2**40)], every=2))
def test_an_index_outside_reads_no_number(bad: int) -> None:
    i = torch.tensor([2, bad])
    x = rand(5, 5)
    fine = torch.tensor([1, 0])
    for program in (
        lambda x, i: x[i],
        lambda x, i: x[:, i].T,
        lambda x, i: x.T.index_select(1, i).T,
    ):
        (got,) = evaluated(program, x, fine)
        graph = mi.from_torch(program, x, fine)
        (got,) = evaluate(graph, [x, i])
        assert np.isfinite(got[0]).all()
        assert np.isnan(got[1]).all()
    graph = mi.from_torch(lambda x, i, j: x[i, j], x, fine, fine)
    for pair in ((i, fine), (fine, i)):
        (got,) = evaluate(graph, [x, *pair])
        assert list(np.isnan(got)) == [False, True]
    graph = mi.from_torch(lambda x, i: x.gather(1, i), x, fine[None].expand(5, 2).contiguous())
    (got,) = evaluate(graph, [x, i[None].expand(5, 2)])
    assert np.isfinite(got[:, 0]).all()
    assert np.isnan(got[:, 1]).all()


@pytest.mark.parametrize("bad", [-1, 5, 2**40])
def test_an_index_outside_is_written_nowhere(bad: int) -> None:
    x, i = rand(5, 3), torch.tensor([bad, 3])
    graph = mi.from_torch(lambda x, i: x.index_copy(0, i, x[:2] * 2), x, torch.tensor([0, 1]))
    (got,) = evaluate(graph, [x, i])
    expected = x.clone()
    expected[3] = x[1] * 2
    np.testing.assert_array_equal(got, expected.numpy())


REFUSED: dict[str, tuple[Callable[..., object], tuple[Tensor, ...], str]] = {
    "a part of the other dimensions": (
        lambda x, i: x.scatter_add(1, i, x), (X[0], IDS), "for a part of"
    ),
    "norm of another order": (lambda x: x.norm(-3), (X,), "a norm of order -3"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    program, inputs, text = REFUSED[name]
    with pytest.raises(UnsupportedOpError, match=text):
        mi.from_torch(program, *inputs)


def test_many_stores_stay_one_call() -> None:
    x, i = torch.zeros(4096, 2), torch.arange(4096)
    imported: Any = mi.from_torch(lambda x, i: x.index_copy(0, i, x * 2), x, i, allow_fallback=True)
    assert [op.target for op in imported.graph.ops if isinstance(op, External)] == [
        "aten.index_copy"
    ]
    assert "4096 stores to 4096 places" in imported.stays[0].reason


def test_a_line_that_is_repeated_is_looked_up_once() -> None:
    """Weights of classes, as read by a loss: no place in a table of all rows is computed."""
    w, targets = rand(6), torch.tensor([[4], [0], [2]])
    imported = mi.from_torch(lambda w, t: w.expand(3, 6).gather(1, t), w, targets)
    assert not any(isinstance(op, Elementwise) for op in imported.graph.ops)
    assert max(v.type.size for op in imported.graph.ops[1:] for v in op.operands) == 6
    check(lambda w, t: w.expand(3, 6).gather(1, t), w, targets)


def test_places_that_are_known_to_be_inside_need_no_call() -> None:
    """The token before the first end token, which may be the last one of all."""
    x, ids = rand(3, 5, 4), torch.tensor([[2, 0, 0, 1, 0], [0, 2, 1, 1, 1], [1, 1, 1, 1, 1]])

    def program(x: Tensor, ids: Tensor) -> Tensor:
        return x[torch.arange(3), (ids == 0).int().argmax(-1) - 1]

    imported = mi.from_torch(program, x.float(), ids, allow_fallback=True)
    assert not imported.stays
    assert not any(isinstance(op, External) for op in integers_as_calls(imported.graph).ops)
    check(program, x, ids)
