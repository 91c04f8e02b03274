"""Bounds on the terms of a value that is written as a quotient of polynomials, and how they follow
from the bounds of the op's operands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field, replace

from mirage.semantics.indexing.relations import Joined, Regrouped, Same, Taken
from mirage.semantics.ops.kinds import relations_of
from mirage.semantics.ugraph import Launch, Movement, TileMap, axis_extents

Count = Counter[Hashable]
Places = frozenset[int | str]


@dataclass(frozen=True)
class TermBounds:
    """Bounds for one value, written as a quotient of polynomials in inputs and exponentials.

    ``top`` and ``bottom`` count the summed index variables of each digit in a term of numerator and
    denominator; ``degree`` and ``exps`` bound the degree and the number of exponential factors of
    (numerator, denominator). ``varies`` are the dimensions (counted from the end: -1 is the last)
    and grid or loop axes (by name) along which the denominator may not be constant, ``key``
    identifies the denominator (None: it is 1). ``power`` counts the summed index variables in a
    term of an exponent and ``power_degree`` bounds its degree; a logarithm turns exponents into
    values again.
    """

    top: Count = field(default_factory=Count)
    bottom: Count = field(default_factory=Count)
    degree: tuple[int, int] = (0, 0)
    exps: tuple[int, int] = (0, 0)
    varies: Places = frozenset()
    key: Hashable = None
    power: Count = field(default_factory=Count)
    power_degree: int = 0


def most(a: Count, b: Count) -> Count:
    """Return the larger count of each digit."""
    return a | b


def _sum(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    return a[0] + b[0], a[1] + b[1]


def multiply(a: TermBounds, b: TermBounds) -> TermBounds:
    """Return the bounds for a product."""
    key = (a.key if b.key is None else b.key) if a.key is None or b.key is None else (a.key, b.key)
    return TermBounds(
        a.top + b.top,
        a.bottom + b.bottom,
        _sum(a.degree, b.degree),
        _sum(a.exps, b.exps),
        a.varies | b.varies,
        key,
        most(a.power, b.power),
        max(a.power_degree, b.power_degree),
    )


def add(a: TermBounds, b: TermBounds) -> TermBounds:
    """Return the bounds for a sum."""
    if a.key == b.key:
        return TermBounds(
            most(a.top, b.top),
            most(a.bottom, b.bottom),
            (max(a.degree[0], b.degree[0]), max(a.degree[1], b.degree[1])),
            (max(a.exps[0], b.exps[0]), max(a.exps[1], b.exps[1])),
            a.varies | b.varies,
            a.key,
            most(a.power, b.power),
            max(a.power_degree, b.power_degree),
        )
    return TermBounds(
        most(a.top + b.bottom, b.top + a.bottom),
        a.bottom + b.bottom,
        (max(a.degree[0] + b.degree[1], b.degree[0] + a.degree[1]), a.degree[1] + b.degree[1]),
        (max(a.exps[0] + b.exps[1], b.exps[0] + a.exps[1]), a.exps[1] + b.exps[1]),
        a.varies | b.varies,
        b.key if a.key is None else a.key if b.key is None else ("sum", a.key, b.key),
        most(a.power, b.power),
        max(a.power_degree, b.power_degree),
    )


def tile_place(launch: Launch, tile_map: TileMap, tile: tuple[int, ...]) -> Hashable:
    """Identify the elements that a tile holds in each block and step."""
    extents = axis_extents(launch)
    return tuple(
        (t, *((a, extents[a]) for a in axes)) for t, axes in zip(tile, tile_map, strict=True)
    )


def moved(s: TermBounds, key: Hashable, varies: Places) -> TermBounds:
    """Return the bounds for the denominators at other places, where they vary along ``varies``."""
    if s.key is None:
        return s
    return replace(s, key=key, varies=varies)


def loaded(varies: Places, tile_map: TileMap) -> Places:
    """Return the places along which the denominators of a loaded tile vary."""
    rank = len(tile_map)
    axes = (a for d, group in enumerate(tile_map) if d - rank in varies for a in group)
    return frozenset((*varies, *axes))


def stored(varies: Places, tile_map: TileMap) -> Places:
    """Return the places along which the denominators of a stored tensor vary."""
    rank = len(tile_map)
    return frozenset(
        d - rank
        for d, group in enumerate(tile_map)
        if d - rank in varies or any(a in varies for a in group)
    )


def rearranged(op: Movement, varies: Places) -> Places:
    """Return the places along which the denominators of a movement's result vary."""
    new = len(op.result.shape)
    places: set[int | str] = {v for v in varies if isinstance(v, str)}
    named: set[int] = set()
    for relation in relations_of(op, "where denominators vary"):
        rank = len(op.operands[getattr(relation, "operand", 0)].shape)
        match relation:
            case Regrouped():
                named.update(relation.result)
                if any(d - rank in varies for d in relation.dims):
                    places.update(d - new for d in relation.result)
            case Same() | Taken() | Joined():
                named.add(relation.result)
                if relation.dim - rank in varies or isinstance(relation, Joined):
                    places.add(relation.result - new)
    # Repeated along the others, from a dimension of size 1 or from none.
    return frozenset((*places, *(v for v in varies if isinstance(v, int) and v + new not in named)))
