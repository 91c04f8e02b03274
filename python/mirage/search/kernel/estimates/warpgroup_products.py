"""The derivations whose products warpgroups may compute, and those that gain by it, according to
the ops of a loop and regardless of sizes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from mirage.search.kernel.derivations.moves import Edge, Goal, Product, Reduction

IsLoaded = Callable[[Goal], bool]
"""A function that returns whether a value is a tile in the form in which it is loaded."""


def gains_by_warpgroups(made: Sequence[Edge], is_loaded: IsLoaded) -> bool:
    """Return whether a loop with these ops, operands first, either does nothing but multiply loaded
    tiles, or continues from products to further products. The second case is the one that gains,
    because the factors of the further products remain in registers."""
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
    """Return whether some product would have a computed right factor, which warpgroups cannot read:
    a computed factor is in registers, and only a left factor can be.

    A value that is computed for a product is its left factor, so the axis that the product sums
    runs along its columns. If that factor is computed from another product, these are the columns
    of the right factor there."""
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
