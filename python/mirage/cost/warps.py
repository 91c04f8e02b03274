"""The ways in which the warps of a block may share a matmul, and their cost.

The code generator chooses the sharing for all matmuls of a block together, by the estimated
instructions of one warp (``include/mirage/Target/WarpSharing.h``, whose functions are used here
too). Here each matmul is considered alone (or with the one that computes its operand), so the
answer is a set: every sharing that is not clearly worse than the best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from mirage import _target

T = TypeVar("T")

EXCHANGE = _target.EXCHANGE_COST
"""The cost, in instructions, of waiting when warps exchange values through shared memory."""


@dataclass(frozen=True)
class Product:
    """A matmul: its padded extents, the bytes of an element, and how often a block computes it."""

    m: int
    n: int
    k: int
    width: int
    trips: int
    accumulated: bool
    """Whether a loop sums the results, so that warps can add theirs once, after it."""


@dataclass(frozen=True)
class WarpGrid:
    """The numbers of warps along the rows and columns of the result and along the contraction."""

    m: int
    n: int
    k: int


@lru_cache(maxsize=4096)
def grid_costs(p: Product, warps: int) -> tuple[tuple[WarpGrid, float], ...]:
    """Return every way to share a product, with its cost in instructions of a warp."""
    grids = [WarpGrid(*g) for g in _target.warp_grids(p.m, p.n, p.k, p.width, warps)]
    return tuple((grid, _cost(p, grid)) for grid in grids)


def _cost(p: Product, grid: WarpGrid) -> float:
    product = _target.product_cost(p.m, p.n, p.k, p.width, grid.m, grid.n, grid.k)
    held = p.m * p.n / (32 * grid.m * grid.n)
    cost = p.trips * product
    if grid.k > 1:
        sums = _target.warp_sum_cost(held, grid.k, held / grid.k)
        cost += sums * (1 if p.accumulated else p.trips)
    return cost + p.trips * _target.spill_cost(held)


@lru_cache(maxsize=4096)
def chain_costs(
    first: Product, second: Product, warps: int
) -> tuple[tuple[tuple[WarpGrid, WarpGrid, bool], float], ...]:
    """Return every way to share two products, the first of which computes an operand of the second,
    and whether values change warps between them.
    """
    pairs: list[tuple[tuple[WarpGrid, WarpGrid, bool], float]] = []
    for a, cost_a in grid_costs(first, warps):
        registers = first.m * first.n / (32 * a.m * a.n)
        for b, cost_b in grid_costs(second, warps):
            stays = (a.m, a.n, 1) == (b.m, b.k, b.n) and a.k == 1
            # shared sums can go to any warp
            move = 0.0 if stays or a.k > 1 else _target.exchange_cost(2 * registers)
            # work on each value in between, more where warps hold copies
            between = 4 * registers + (EXCHANGE if a.n > 1 else 0.0)
            pairs.append(((a, b, not stays), cost_a + cost_b + first.trips * (move + between)))
    return tuple(pairs)


def near_best(options: Sequence[tuple[T, float]], slack: float) -> list[T]:
    """Return the options that cost at most ``slack`` times the least cost plus an exchange, the
    best first."""
    ordered = sorted(options, key=lambda option: option[1])
    return [option for option, cost in ordered if cost <= slack * ordered[0][1] + EXCHANGE]
