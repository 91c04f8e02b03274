"""Which derivations warpgroups may multiply, and gain by it: what the ops of a loop say, whatever
the sizes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from mirage.search.kernel.moves import Edge, Goal, Product, Reduction

IsLoaded = Callable[[Goal], bool]
"""Whether a value is a tile as it is loaded."""


def gains_by_warpgroups(made: Sequence[Edge], is_loaded: IsLoaded) -> bool:
    """Whether a loop that has these ops, operands first, does nothing but multiply loaded tiles, or
    goes on from products to further products, which is where it gains: their factors stay in
    registers."""
    products = [edge for edge in made if isinstance(edge, Product)]
    if all(edge.in_rings for edge in made):
        return all(is_loaded(child) for edge in products for child in edge.children)
    multiplied: set[Goal] = set()
    for edge in made:
        if isinstance(edge, Product) or any(c in multiplied for c in edge.children):
            multiplied.add(edge.goal)
    return any(child in multiplied for edge in products for child in edge.children)


def computes_a_right_factor(
    made: Sequence[Edge], is_loaded: IsLoaded, labels: Callable[[Goal], Sequence[str]]
) -> bool:
    """Whether some product would have a right factor that is computed, which warpgroups cannot
    read: it comes from registers, on the left only.

    What is computed for a product is its left factor, so that the axis which it sums runs along the
    columns. If that factor is made of another product, these are the columns of the right factor
    there.
    """
    columns: dict[Goal, set[str]] = defaultdict(set)
    for edge in reversed(made):  # users first
        own = columns[edge.goal]
        computed = [child for child in edge.children if not is_loaded(child)]
        if isinstance(edge, Product):
            for child in computed:
                if own and own <= {*labels(child)} - {edge.axis}:
                    return True
                columns[child].add(edge.axis)
        elif not isinstance(edge, Reduction):
            for child in computed:
                columns[child] |= own
    return False
