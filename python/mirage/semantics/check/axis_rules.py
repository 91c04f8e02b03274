"""Rules of axes and maps: which axes are in scope, and that tiles cover their tensors."""

from __future__ import annotations

from math import prod

from mirage.semantics.check.op_rules import InvalidGraph
from mirage.semantics.ugraph import Launch, TileMap, Value, axis_extents


class LaunchScope:
    """The facts about a launch that its checks collect."""

    def __init__(self, launch: Launch, where: str) -> None:
        self.launch = launch
        self.where = where
        self.extents = axis_extents(launch)
        self.grid = {a.name for a in launch.grid}
        self.defined: set[Value] = set()
        self.depends: dict[Value, frozenset[str]] = {}  # grid and loop axes a value depends on
        self.number = 0

    def check_axes(self, at: str, axes: tuple[str, ...], scope: frozenset[str]) -> None:
        for axis in axes:
            if axis not in scope:
                known = ", ".join(f"'{a}'" for a in sorted(scope)) or "none"
                raise InvalidGraph("C6", at, f"expected an axis in scope ({known}), got '{axis}'")
        if len(set(axes)) != len(axes):
            raise InvalidGraph("C6", at, f"expected distinct axes in one dimension, got {axes}")

    def check_map(
        self,
        at: str,
        tile_map: TileMap,
        tile: tuple[int, ...],
        shape: tuple[int, ...],
        scope: frozenset[str],
    ) -> None:
        if not len(tile_map) == len(tile) == len(shape):
            raise InvalidGraph(
                "C2",
                at,
                f"expected a map and a tile of rank {len(shape)}, got {tile_map} and {tile}",
            )
        for dim, (axes, t, size) in enumerate(zip(tile_map, tile, shape, strict=True)):
            self.check_axes(at, axes, scope)
            parts = prod(self.extents[a] for a in axes)
            if parts * t < size:
                raise InvalidGraph(
                    "C7", at, f"dimension {dim}: expected tile * parts >= {size}, got {t} * {parts}"
                )
