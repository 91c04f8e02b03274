"""The exponentials that the stored maxima of a launch cover.

A later launch that computes the same exponentials again may use a stored maximum if it covers all
elements. Along some axes of the argument, the stored tensor has one maximum for each index. Over
the other axes the maximum is taken: in the tile, over the steps of loops, or over the parts that
correspond to other elements of the stored tensor. The maximum over all of these covers everything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from mirage.semantics.ugraph import TileMap
from mirage.transforms.shifts.expressions import Cut
from mirage.transforms.shifts.recomputed import First
from mirage.transforms.shifts.shifts import Align, Origin, Seen, Shift


class Coverage:
    """The coverage of the shifts of a launch; ``firsts`` are its exponentials."""

    def __init__(
        self, firsts: Mapping[Shift, First], extents: Mapping[str, int], grid: frozenset[str]
    ) -> None:
        self.firsts = firsts
        self.extents = extents
        self.grid = grid

    def seen(
        self, shift: Shift, dims: Sequence[int], shape: tuple[int, ...], tile_map: TileMap
    ) -> Seen:
        """Return, for the arguments whose maximum is ``shift``, the dimension of the stored tensor
        that corresponds to each axis, or None. The tensor has ``shape`` (its dimension ``dims[i]``
        as dimension ``i``, -1 for size 1) and is stored along ``tile_map``.
        """
        found: dict[int, tuple[int | None, ...]] = {}
        own: Align = tuple(None if d < 0 else d for d in dims)
        for source, align in self._sources(shift, own):
            for key, along in self._of(source, align, shape, tile_map).items():
                found.setdefault(key, along)
        return found

    def _sources(self, shift: Shift, align: Align) -> list[tuple[Shift, Align]]:
        """Return the shifts from which it is computed, with their alignment to the tensor; those
        that miss some steps of a loop are left out.
        """
        if shift.inner is not None:
            return self._sources(shift.inner, align) if shift.inner.running else []
        parts = [
            (part, tuple(None if d is None else dims[d] for d in align))
            for part, dims in shift.leaves.items()
        ]
        return [s for part in parts for s in self._sources(*part)] if parts else [(shift, align)]

    def _of(self, shift: Shift, align: Align, shape: tuple[int, ...], tile_map: TileMap) -> Seen:
        if shift.origin is Origin.LOADED:
            return self._again(shift, align, shape, tile_map)
        first = self.firsts.get(shift)
        if first is None:
            return {}
        argument = first.argument
        along: list[int | None] = []
        for axis, cut in enumerate(argument.cuts):
            dim = argument.dims.index(axis) if axis in argument.dims else None
            along.append(self._index(dim, cut, align, shape, tile_map))
            if along[-1] is None and dim is not None and dim in align:
                return {}  # one maximum for each index in a tile, over the tiles of a loop
        parts = _axes_of_parts(tile_map, along)
        if not all(
            at is not None or self._covered(cut, parts)
            for at, cut in zip(along, argument.cuts, strict=True)
        ):
            return {}
        return {argument.key: tuple(along)}

    def _again(self, shift: Shift, align: Align, shape: tuple[int, ...], tile_map: TileMap) -> Seen:
        """Return maxima that were loaded and are stored again, over more elements."""
        tensor = shift.tensor
        assert tensor is not None
        if shift.loop is not None:
            return {}
        where = zip(shift.map, shift.shape, tensor.shape, strict=True)
        cuts = [Cut(axes, n, size) for axes, n, size in where]
        at = [self._index(d, cut, align, shape, tile_map) for d, cut in enumerate(cuts)]
        found: dict[int, tuple[int | None, ...]] = {}
        for key, before in tensor.seen.items():
            along = tuple(None if t is None else at[t] for t in before)
            parts = _axes_of_parts(tile_map, along)
            kept = {t for t in before if t is not None}
            if all(
                at[t] is not None
                or (t not in kept and t not in align and self._covered(cut, parts))
                for t, cut in enumerate(cuts)
            ):
                found[key] = along
        return found

    def _index(
        self,
        dim: int | None,
        cut: Cut,
        align: Align,
        shape: tuple[int, ...],
        tile_map: TileMap,
    ) -> int | None:
        """Return the dimension of the stored tensor whose indices are those of a dimension of the
        shift that is cut in this way.
        """
        for i, (a, size, axes) in enumerate(zip(align, shape, tile_map, strict=True)):
            same = (dim is not None and a == dim) or (cut.tile == 1 and bool(cut.axes))
            if same and axes == cut.axes and size == cut.size:
                return i
        return None

    def _covered(self, cut: Cut, parts: set[str]) -> bool:
        """Return whether a maximum over tiles, in all steps of their loops and in all stored
        ``parts``, covers the whole dimension.
        """
        whole = cut.tile * prod(self.extents[a] for a in cut.axes) >= cut.size
        return whole and parts.issuperset(a for a in cut.axes if a in self.grid)


def _axes_of_parts(tile_map: TileMap, along: Sequence[int | None]) -> set[str]:
    """Return the grid axes that cut dimensions of the stored tensor that correspond to no axis of
    the argument: each index there is a part.
    """
    return {axis for i, axes in enumerate(tile_map) if i not in along for axis in axes}
