"""How the warps of a block may share a matmul, and what that costs them.

The code generator chooses the sharing for all matmuls of a block together, by estimated
instructions of one warp; here each matmul is looked at alone (and with the one that computes its
operand), so the answer is a set: every sharing that is not clearly worse than the best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

T = TypeVar("T")

EXCHANGE = 150.0
"""Instructions' worth of waiting when warps exchange values through shared memory."""
HELD = 128
"""f32 values of one tile that a thread can hold; more count as spilled."""
SPILL = 20.0


@dataclass(frozen=True)
class Product:
    """A matmul: padded extents, bytes of an element, and how often a block computes it."""

    m: int
    n: int
    k: int
    width: int
    trips: int
    accumulated: bool
    """Whether a loop sums the results, so that warps can add theirs up once, after it."""


@dataclass(frozen=True)
class WarpGrid:
    """Warps along the rows and columns of the result and along the contraction."""

    m: int
    n: int
    k: int


@lru_cache(maxsize=4096)
def grid_costs(p: Product, warps: int) -> tuple[tuple[WarpGrid, float], ...]:
    """Every way to share a product, with the instructions of a warp that it takes."""
    step = 16 if p.width == 2 else 8
    found: list[tuple[WarpGrid, float]] = []
    size = warps
    while size >= 1:
        for gm in _powers(size):
            for gn in _powers(size // gm):
                grid = WarpGrid(gm, gn, size // (gm * gn))
                if size < warps and grid.k > 1:
                    continue  # warps that are left over hold copies, which must not be summed
                if _fits(p.m, 16 * gm) and _fits(p.n, 8 * gn) and _fits(p.k, step * grid.k):
                    found.append((grid, _cost(p, grid)))
        size //= 2
    return tuple(found)


def _cost(p: Product, grid: WarpGrid) -> float:
    m, n, k = p.m / grid.m, p.n / grid.n, p.k / grid.k
    products = m / 16 * (n / 8) * (k * p.width / 32) * (1 if p.width == 2 else 6)
    reads = (m + n) * k * p.width / 512
    cost = p.trips * (2 * products + 4 * reads)
    if grid.k > 1:
        held, summed = m * n / 32, p.m * p.n / (32 * grid.m * grid.n * grid.k)
        sums = EXCHANGE + 2 * held + 2 * grid.k * summed
        cost += sums * (1 if p.accumulated else p.trips)
    return cost + p.trips * SPILL * max(0.0, m * n / 32 - HELD)


@lru_cache(maxsize=4096)
def chain_costs(
    first: Product, second: Product, warps: int
) -> tuple[tuple[tuple[WarpGrid, WarpGrid, bool], float], ...]:
    """Every way to share two products of which the first computes an operand of the second, and
    whether values change warps between them.
    """
    pairs: list[tuple[tuple[WarpGrid, WarpGrid, bool], float]] = []
    for a, cost_a in grid_costs(first, warps):
        registers = first.m * first.n / (32 * a.m * a.n)
        for b, cost_b in grid_costs(second, warps):
            stays = (a.m, a.n, 1) == (b.m, b.k, b.n) and a.k == 1
            # sums of what warps share can go to any warp
            move = 0.0 if stays or a.k > 1 else EXCHANGE + 8 * registers
            # work on each value in between, more where warps hold copies
            between = 4 * registers + (EXCHANGE if a.n > 1 else 0.0)
            pairs.append(((a, b, not stays), cost_a + cost_b + first.trips * (move + between)))
    return tuple(pairs)


def near_best(options: Sequence[tuple[T, float]], slack: float) -> list[T]:
    """Options that cost at most ``slack`` times the least and an exchange more, the best first."""
    ordered = sorted(options, key=lambda option: option[1])
    return [option for option, cost in ordered if cost <= slack * ordered[0][1] + EXCHANGE]


def _powers(limit: int) -> list[int]:
    return [1 << i for i in range(limit.bit_length())]


def _fits(extent: int, multiple: int) -> bool:
    return extent & -extent >= multiple
