"""Places in images, maxima with their places, and functions with an order as a parameter, against
PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from thorough import some_of
from torch_programs.imported_programs import check, rand

Tensor = torch.Tensor
IMAGE, GRID = rand(2, 3, 5, 7), rand(2, 4, 3, 2)
POOLED = rand(2, 3, 7, 9)
OFTEN = torch.tensor([[3.0, 1, 1, 3, 2], [5, 4, 3, 2, 1], [0, 0, -1, -1, -1]])


def pooled(size: object, *options: object) -> Callable[..., object]:
    return lambda x: F.max_pool2d(x, size, *options, return_indices=True)  # pyright: ignore


def sampled(**options: object) -> Callable[..., object]:
    return lambda x, g: F.grid_sample(x, g, **options)  # pyright: ignore


ROWS: dict[str, tuple[Callable[..., object], tuple[Tensor, ...]]] = {
    "places of maxima": (pooled(2), (POOLED,)),
    "of windows that overlap": (pooled((3, 2), (2, 1), (1, 1)), (POOLED,)),
    "of windows that are not dense": (pooled(2, 2, 0, 2), (POOLED,)),
    "of windows beyond the end": (pooled(3, 2, 1, 1, True), (rand(2, 3, 8, 6),)),
    "of windows beyond one end": (pooled((2, 4), (3, 3), (0, 2), 1, True), (rand(2, 7, 6),)),
    "of windows beyond the end that are not dense": (pooled(2, 3, 0, 3, True), (rand(2, 8, 9),)),
    "of a row": (lambda x: F.max_pool1d(x, 3, 2, 1, return_indices=True), (rand(3, 8),)),
    "of a space": (
        lambda x: F.max_pool3d(x, 2, return_indices=True), (rand(2, 4, 5, 4),)
    ),
    "of the first": (pooled(2, 1), (torch.zeros(1, 1, 4, 4),)),
    "of nothing finite": (pooled(3, 2, 1), (torch.full((1, 1, 4, 4), -torch.inf),)),
    "of equal ones": (pooled(3, 2, 1, 1, True), (torch.zeros(1, 2, 6, 6),)),
    "between pixels": (sampled(align_corners=False), (IMAGE, GRID)),
    "from corner to corner": (sampled(align_corners=True), (IMAGE, GRID)),
    "at the border": (sampled(padding_mode="border", align_corners=False), (IMAGE, 2 * GRID)),
    "a transformed image": (
        lambda x, t: F.grid_sample(x, F.affine_grid(t, [2, 3, 4, 4], align_corners=False),
                                   align_corners=False),
        (IMAGE, rand(2, 2, 3)),
    ),
    "logarithms of sums": (
        lambda x: (torch.logcumsumexp(x, 1), torch.logcumsumexp(40 * x, 0)), (rand(5, 6),)
    ),
    "most frequent": (lambda x: (*torch.mode(x, 1), *torch.mode(x, 0, True)), (OFTEN,)),
    "products of three": (torch.nn.functional.bilinear, (rand(4, 3), rand(4, 5), rand(6, 3, 5))),
}  # fmt: skip


@pytest.mark.parametrize("name", some_of(ROWS, every=3))
def test_rows(name: str) -> None:
    program, inputs = ROWS[name]
    check(program, *inputs)


def test_running_sums_of_infinite_exponents() -> None:
    inf = torch.inf
    x = torch.tensor([[-inf, -inf, 0.5, 100, -200], [1, inf, 2, -inf, 3]], dtype=torch.float64)
    check(lambda x: torch.logcumsumexp(x, 1), x)


def test_places_that_are_no_numbers() -> None:
    """The result there is NaN too, as at infinite places; far outside it is zero."""
    grid = GRID.clone()
    grid[0, 0, 0, 0], grid[0, 1, 1, 1], grid[1, 0, 0] = torch.nan, torch.inf, -1e30
    check(sampled(align_corners=False), IMAGE, grid)


def test_a_maximum_may_be_no_number() -> None:
    x = POOLED.clone()
    x[0, 0, 1, 1] = x[0, 0, 1, 2] = x[1, 2, 4, 4] = torch.nan
    check(pooled(3, 2, 1), x)


@pytest.mark.parametrize("seed", some_of(range(4), every=2))
def test_places_of_few_numbers_in_padded_windows(seed: int) -> None:
    """The first of equal maxima and the last NaN, next to infinity and padding."""
    numbers = torch.tensor([1.0, 1.0, 0.0, -torch.inf, -torch.inf, torch.nan])
    generator = torch.Generator().manual_seed(seed)
    x = numbers[torch.randint(6 - seed % 2, (2, 3, 6, 8), generator=generator)]
    for options in ((3, 2, 1), (3, 2, 1, 1, True), ((4, 3), (3, 1), (2, 1), 1, True)):
        check(pooled(*options), x)


def test_inverse_error_function() -> None:
    x = torch.cat((torch.linspace(-1, 1, 201), torch.tensor([1e-6, 0.9999999, -0.99999, 1.5])))
    check(torch.erfinv, x.float(), rtol=2e-6)
