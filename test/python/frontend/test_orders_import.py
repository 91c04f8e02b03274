"""Running results along a dimension, medians, extremes of any type, distances, complex numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from thorough import some_of
from torch_programs.imported_values import Program, Tensor, outputs, rand

X = rand(3, 5, 7)
LINE = torch.tensor([[3.0, math.nan, -2.0, 7.0], [1.0, 1.0, 0.0, math.inf]], dtype=torch.float64)
ORDERS = (0, 0.5, 1, 2, 3, math.inf, -math.inf)
INTS = torch.tensor([[3, -9, 3, 0, 8], [-(2**40), 5, 5, -1, 2]])
TRUTH = INTS > 0


def as_complex(x: Tensor) -> Tensor:
    return torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))


def complex_parts(x: Tensor) -> tuple[Tensor, ...]:
    z = as_complex(x)
    quotient = z / (z + z.conj() * 0.3)
    return z.abs(), z.angle(), torch.view_as_real(z.sum(0)), torch.view_as_real(quotient)


CASES: dict[str, tuple[Program, Tensor]] = {
    "products": (lambda x: (x.cumprod(-1), x.cumprod(0), x[:, :1].cumprod(1)), X),
    "products of integers": (lambda x: (x.cumprod(1), x.prod(), x.prod(1)), INTS[:1]),
    "how many are accepted": (lambda x: (x == 1).long().cumprod(1).sum(1), INTS),
    "products of truth values": (lambda x: (x.cumprod(1), x.prod(1)), TRUTH),
    "maxima": (lambda x: (*x.cummax(1), *x.cummin(-1)), X.round()),
    "maxima of no numbers": (lambda x: (*x.cummax(1), *x.cummin(-1)), LINE),
    "maxima of integers": (lambda x: (*x.cummax(1), *x.cummin(0)), INTS),
    "medians": (lambda x: (x.median(), *x.median(1), *x.median(-1, keepdim=True)), X),
    "medians of no numbers": (lambda x: (*x.median(-1), *x.nanmedian(-1)), LINE),
    "medians of integers": (lambda x: (x.median(1).values, x.median()), INTS),
    "in order": (lambda x: (*x.kthvalue(2, 1), *x.kthvalue(7)), X),
    "quantiles": (lambda x: (x.quantile(0.3, 1), x.quantile(0.9)), X),
    "extremes of integers": (
        lambda x: (x.amin(1), x.min(), *x.min(0), *x.max(1), x.argmin(), *x.aminmax()),
        INTS,
    ),
    "extremes of truth values": (lambda x: (x.amin(1), x.min(), x.amax(0), *x.max(1)), TRUTH),
    "of a number": (lambda x: (*x.max(0), *x.min(0), x.argmax(0), x.softmax(0)), X[0, 0, 0]),
    "norms": (
        lambda x: tuple(torch.linalg.vector_norm(x, p, dim=(0, -1)) for p in ORDERS),
        X,
    ),
    "distances of pairs": (lambda x: tuple(torch.pdist(x[0], p) for p in (1.0, 2.0, 3.0)), X),
    "signs of integers": (lambda x: (x.signbit(), (x > 0).signbit()), INTS),
    "distances": (lambda x: tuple(torch.cdist(x, x[:, :2] + 1, p=p) for p in (1.0, 2.0, 3.0)), X),
    "one distance": (lambda x: (torch.dist(x, x * 2), torch.dist(x, x[:1], 1)), X),
    "places in lines": (
        lambda x: (torch.searchsorted(x.sort(-1).values, x), torch.searchsorted(x[0, 0], x)),
        X.sort(-1).values,
    ),
    "complex": (complex_parts, rand(3, 8)),
    "diagonals": (lambda x: (x.diagonal(), x.diagonal(1)), INTS),
    "diagonals of truth values": (lambda x: x.diagonal(), TRUTH),
    "truth values": (lambda x: (x + x.flip(1), x.any(()), x.all(())), TRUTH),
}  # fmt: skip


@pytest.mark.parametrize("name", some_of(CASES, every=3))
def test_cases(name: str) -> None:
    program, x = CASES[name]
    for ours, expected in outputs(program, (x.clone(),), typed=False):
        np.testing.assert_allclose(ours, expected, rtol=1e-12, atol=1e-12)


def test_a_scatter_into_a_part() -> None:
    def program(x: Tensor, i: Tensor) -> tuple[Tensor, Tensor]:
        return x.scatter(1, i, 1.5), x.scatter(1, i, x * 2)

    i = torch.tensor([[0, 4], [2, 3]])
    for ours, expected in outputs(program, (rand(3, 5), i), typed=False):
        np.testing.assert_array_equal(ours, expected)
