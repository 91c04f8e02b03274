"""Sums and other reductions by index, compared with PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import some_of
from torch_programs.imported_programs import check, rand

Tensor = torch.Tensor
X, S = rand(5, 4), rand(7, 4)
I = torch.tensor([[3, 0, 4, 1], [3, 3, 4, 0], [0, 1, 4, 1], [1, 0, 4, 3], [3, 0, 0, 0],
                  [1, 1, 1, 1], [0, 3, 4, 4]])  # fmt: skip
LINE, BELOW = torch.tensor([3, 0, 3, 1, 3, 4, 0]), torch.tensor([-1, 0, -1, 2, 1, -5, 4])
W, IDS = rand(9, 3), torch.tensor([[1, 8, 3, 3], [0, 2, 2, 5], [7, 7, 7, 1]])
FLAT, OFFSETS = IDS.reshape(-1), torch.tensor([0, 0, 5, 9])


def reduced(how: str, own: bool, dim: int) -> Callable[..., Tensor]:
    def program(x: Tensor, i: Tensor, s: Tensor) -> Tensor:
        if dim:
            x, i, s = x.T, i.T, s.T
        return x.scatter_reduce(dim, i, s, how, include_self=own)

    return program


def bag(mode: str, **options: object) -> Callable[..., Tensor]:
    return lambda w, *x: F.embedding_bag(x[0], w, *x[1:], mode=mode, **options)  # pyright: ignore


ROWS: dict[str, tuple[Callable[..., object], tuple[Tensor, ...]]] = {
    **{
        f"{how}, {'with' if own else 'without'} what is there, {dim}": (
            reduced(how, own, dim), (X, I, S),
        )
        for how in ("sum", "mean", "amax", "amin") for own in (True, False) for dim in (0, 1)
    },
    "rows by index": (
        lambda x, i, s: (
            x.index_reduce(0, i, s, "mean"),
            x.index_reduce(0, i, s, "amin", include_self=False),
            x.T.index_reduce(1, i, s.T, "amax"),
        ),
        (X, LINE, S),
    ),
    "put": (
        lambda x, i, s: (x.put(i, s), x.put(i.view(7, 1), s.view(7, 1), accumulate=True)),
        (X, BELOW * 3, rand(7)),
    ),
    "added by one index": (
        lambda x, i, s: x.index_put((i,), s, accumulate=True), (X, BELOW, S)
    ),
    "added by two indices": (
        lambda x, i, j, s: x.index_put((i, j), s, accumulate=True),
        (X, BELOW, LINE % 4, rand(7)),
    ),
    "added further in, repeated": (
        lambda x, i, s: torch.ops.aten.index_put(x, [None, i], s, True),
        (rand(3, 5, 2), BELOW, rand(7, 2)),
    ),
    "added apart": (
        lambda x, i, j, s: torch.ops.aten.index_put(x, [i, None, j], s, True),
        (rand(5, 2, 4), BELOW[:, None], torch.tensor([1, 3, 0]), rand(7, 3, 2)),
    ),
    "patches that overlap": (
        lambda x: F.fold(x, (5, 6), (3, 2), stride=(1, 2), padding=(1, 0)), (rand(2, 12, 15),)
    ),
    "bags": (
        lambda w, i: (bag("sum")(w, i), bag("mean")(w, i), bag("max")(w, i)), (W, IDS)
    ),
    "bags of several sizes": (
        lambda w, i, o: (bag("sum")(w, i, o), bag("mean")(w, i, o), bag("max")(w, i, o)),
        (W, FLAT, OFFSETS),
    ),
    "bags with an end": (
        bag("mean", include_last_offset=True), (W, FLAT, torch.tensor([0, 3, 9, 12]))
    ),
    "weights": (
        lambda w, i, f: F.embedding_bag(i, w, mode="sum", per_sample_weights=f),
        (W, IDS, rand(3, 4)),
    ),
    "padding": (
        lambda w, i, o: (
            bag("mean", padding_idx=7)(w, i.reshape(3, 4)),
            bag("max", padding_idx=3)(w, i, o),
            bag("sum", padding_idx=2)(w, i, o),
        ),
        (W, FLAT, OFFSETS),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", some_of(ROWS, every=3))
def test_rows(name: str) -> None:
    program, inputs = ROWS[name]
    check(program, *inputs)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_any_indices(data: st.DataObject) -> None:
    size, count = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 9))
    index = torch.tensor(data.draw(st.lists(st.integers(-size, size - 1), min_size=count,
                                            max_size=count)))  # fmt: skip
    how = data.draw(st.sampled_from(["sum", "mean", "amax", "amin"]))
    x, s = rand(size, 2), rand(count, 2)
    check(lambda x, i, s: x.index_put((i,), s, accumulate=True), x, index, s)
    check(lambda x, i, s: x.index_reduce(0, i, s, "mean" if how == "sum" else how), x,
          index % size, s)  # fmt: skip


def test_what_is_not_chosen_has_no_say() -> None:
    """An infinite part reaches only its own place."""
    s = S.clone()
    s[3, 0], s[4, 1] = torch.inf, -torch.inf
    for how in ("sum", "mean", "amax", "amin"):
        check(reduced(how, True, 0), X, I, s)
