"""Tiles that may overhang their tensors.

The elements outside differ from the others (positions are zero there, and masks may set any value),
so they have ranges of their own (:class:`Tile`).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

from mirage.semantics.bounds import ranges
from mirage.semantics.bounds.ranges import ANY, Range
from mirage.semantics.indexing.indices import unit_free_dims
from mirage.semantics.ugraph import Op, View


@dataclass(frozen=True)
class Edge:
    """The end of a tensor of ``extent`` elements that ``axes`` cut into tiles, along a dimension
    that is counted from the last one (-1)."""

    dim: int
    axes: tuple[str, ...]
    tile: int
    extent: int


Beyond: TypeAlias = "frozenset[Edge]"
"""The edges that some elements are beyond."""
MOST_EDGES = 4
"""The most edges of a tile: there is a range for each set of edges, so further edges are
dropped."""
INNER: Beyond = frozenset()
"""The edges of elements inside of the tensor: none."""


@dataclass(frozen=True)
class Tile:
    """The ranges of a tile's elements: for each set of its edges, the range of the elements beyond
    exactly these."""

    parts: Mapping[Beyond, Range]

    @staticmethod
    def of(x: Range) -> Tile:
        """Return a tile whose elements all have one range."""
        return Tile({INNER: x})

    @property
    def all(self) -> Range:
        """The range of all elements."""
        return ranges.hull(*self.parts.values())

    def outside_of(self, gone: Beyond) -> Range:
        """Return the range of the elements that are beyond none of the given edges."""
        return ranges.hull(*(x for s, x in self.parts.items() if s.isdisjoint(gone)))

    @property
    def edges(self) -> Beyond:
        """The known edges of the tile."""
        return frozenset(e for s in self.parts for e in s)

    def at(self, beyond: Beyond) -> Range:
        """Return the range of the elements beyond exactly these edges."""
        return self.parts[beyond & self.edges]

    def moved(self, dims: Mapping[int, int]) -> Tile:
        """Move the edges to other dimensions. Dimensions count from the last one, in keys and
        values. If an edge is at a dimension that is not a key, the result has no edges."""
        if any(e.dim not in dims for e in self.edges):
            return Tile.of(self.all)
        return Tile(
            {
                frozenset(Edge(dims[e.dim], e.axes, e.tile, e.extent) for e in s): x
                for s, x in self.parts.items()
            }
        )

    def merged(self, gone: Beyond) -> Tile:
        """Return the tile without some of its edges."""
        parts: dict[Beyond, Range] = {}
        for s, x in self.parts.items():
            parts[s - gone] = ranges.hull(parts[s - gone], x) if s - gone in parts else x
        return Tile(parts)

    def along(self, dims: Container[int]) -> Beyond:
        """Return the edges at some dimensions."""
        return frozenset(e for e in self.edges if e.dim in dims)


def each(function: Callable[..., Range], *tiles: Tile) -> Tile:
    """Apply an elementwise function to tiles that are aligned at the last dimension."""
    edges = frozenset(e for t in tiles for e in t.edges)
    if len(edges) > MOST_EDGES:
        return Tile.of(function(*(t.all for t in tiles)))
    return Tile({s: function(*(t.at(s) for t in tiles)) for s in subsets(edges)})


def subsets(edges: Beyond) -> Iterator[Beyond]:
    """Yield all sets of some edges."""
    for count in range(len(edges) + 1):
        yield from map(frozenset, combinations(edges, count))


UNKNOWN = Tile.of(ANY)


def any_other(xs: list[Tile]) -> Tile:
    """Return what is known of a value computed from others about which nothing else is known: it is
    defined where they are."""
    return Tile.of(ranges.any_other(*(x.all for x in xs))) if xs else UNKNOWN


def _at(source: int, result: int, dims: Mapping[int, int]) -> dict[int, int]:
    """Map dimensions of an operand to those of a result, counted from the last one. ``dims`` maps
    the result's dimensions to the operand's; ``source`` and ``result`` are the ranks."""
    return {s - source: r - result for r, s in dims.items()}


def viewed(op: View, x: Tile) -> Tile:
    """Return the ranges of a view, whose elements are in other places. If they are no longer
    counted from the same end, the place of an edge is unknown."""
    source, result = op.operands[0].shape, op.result.shape
    dims = {r: s for r, s in (op.source_dims() or {}).items() if result[r] == source[s]}
    kept = {s - len(source) for s in dims.values()}
    lost = x.along([d for d in range(-len(source), 0) if d not in kept])
    return x.merged(lost).moved(_at(len(source), len(result), dims))


def joined(op: Op, dim: int, xs: list[Tile]) -> Tile:
    """Return the ranges of a tile that joins the given tiles along ``dim``."""
    along = (dim - len(op.result.shape),)
    return each(ranges.hull, *(x.merged(x.along(along)) for x in xs))


def in_shape(source: tuple[int, ...], result: tuple[int, ...], x: Tile) -> Tile:
    """Return the ranges of a tile with other dimensions of size 1."""
    if source == result:
        return x
    return x.moved(_at(len(source), len(result), unit_free_dims(source, result) or {}))
