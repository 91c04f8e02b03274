"""Partial results that a launch loads: the maximum that they are converted to, and where it is
taken."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from mirage.semantics.ugraph import Load, Loop, TileMap, Value
from mirage.transforms.shifts.facts import LaunchFacts, LoadedShift
from mirage.transforms.shifts.shifts import Origin, Shift, TensorShift, TensorTerms, Term, Terms

HELD = 4096
"""The elements of ``m`` that a block may hold in order to know the maximum before its loops."""
MATRIX = 2
"""The most dimensions of a tile that may be larger than one."""


class Loading:
    """The shifts that start at loads of a launch; ``operands`` has the shifts that its params
    carry."""

    def __init__(
        self,
        operands: Mapping[Value, TensorTerms],
        facts: LaunchFacts,
        extents: Mapping[str, int],
        grid: frozenset[str],
    ) -> None:
        self.operands = operands
        self.facts = facts
        self.extents = extents
        self.grid = grid
        self.loaded: dict[tuple[object, ...], Shift] = {}

    def terms(self, op: Load, loop: Loop | None) -> Terms:
        """Return the terms of a loaded tile."""
        found: dict[Shift, Term] = {}
        carried: list[LoadedShift] = []
        for tensor, term in self.operands.get(op.operands[0], {}).items():
            dims = {a: d for d, a in enumerate(term.align) if a is not None}
            tile_map = tuple(op.map[dims[i]] if i in dims else () for i in range(len(tensor.shape)))
            tile = tuple(
                op.result.shape[dims[i]] if i in dims else 1 for i in range(len(tensor.shape))
            )
            shift = self.before_loops(tensor, tile_map, tile)
            if shift is None:
                shift = self._shift(tensor, tile_map, tile, loop)
            found[shift] = term
            carried.append(LoadedShift(shift, tile_map, tile))
        if carried:
            self.facts.loads[op] = tuple(carried)
        return found

    def finish(self) -> None:
        """Apply demands on shifts that are taken before the loops to all of the loops' steps."""
        for shift in self.loaded.values():
            if shift.reduced:
                shift.constant.update(d for d, axes in shift.steps.items() if axes - {()})

    def tensors(self) -> list[TensorShift]:
        """Return the shifts whose partial results are among the operands."""
        return list(dict.fromkeys(t for terms in self.operands.values() for t in terms))

    def _shift(
        self, tensor: TensorShift, tile_map: TileMap, tile: tuple[int, ...], loop: Loop | None
    ) -> Shift:
        key = (tensor, tile_map, tile, loop)
        if key not in self.loaded:
            axes = frozenset(a for axes in tile_map for a in axes)
            self.loaded[key] = Shift(
                Origin.LOADED, tile, tensor.exps, loop, axes, tensor=tensor, map=tile_map
            )
        return self.loaded[key]

    def before_loops(
        self, tensor: TensorShift, tile_map: TileMap, tile: tuple[int, ...]
    ) -> Shift | None:
        """Return one shift for everything that the block reads of a tensor, whatever the loops
        around the loads.

        ``m`` is in device memory, so its maximum can be known before the first partial result is
        read: no running maximum is needed, and loads in different loops (or in none) share it.
        Return None if the loops do not cut a contiguous part, or if ``m`` is too large to be held.
        """
        cuts = [tuple(a for a in axes if a in self.grid) for axes in tile_map]
        steps = [tuple(a for a in axes if a not in self.grid) for axes in tile_map]
        if any(c + s != axes for c, s, axes in zip(cuts, steps, tile_map, strict=True)):
            return None
        shape = tuple(
            t * prod(self.extents[a] for a in s) if c or not s else n
            for n, t, c, s in zip(tensor.shape, tile, cuts, steps, strict=True)
        )
        if prod(shape) > HELD or sum(n > 1 for n in shape) > MATRIX:
            return None
        shift = self._shift(tensor, tuple(cuts), shape, None)
        for d, axes in enumerate(steps):
            known = shift.steps.setdefault(d, {axes})
            if axes not in known:
                known.add(axes)
                shift.constant.add(d)  # cut in two ways: only a common maximum fits both
        return shift
