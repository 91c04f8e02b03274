"""The tiles of goals, for many sizes at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mirage.cost.compilable import MAX_WIDE_DIMS
from mirage.cost.uniform import uniform, where
from mirage.search.algebra.atoms import InAtom
from mirage.search.algebra.axes import Dims
from mirage.search.kernel.derivations.derive import Derivations, Goal
from mirage.search.kernel.loop_nests.columns import Columns
from mirage.search.kernel.loop_nests.phases import Where
from mirage.semantics.ugraph import Value

Num = Any


@dataclass
class GoalTiles:
    """The tiles of the goals of one AND-OR graph, over columns of sizes."""

    derivations: Derivations
    columns: Columns
    tensors: list[Value]
    sizes: dict[str, int]

    def __post_init__(self) -> None:
        self._labels: dict[Goal, tuple[str, ...]] = {}
        self._elements: dict[tuple[str, ...], Num] = {}
        self._wide: dict[tuple[str, ...], Num] = {}
        self._fits: dict[tuple[str, ...], Num] = {}
        self._runs: dict[Dims, Num] = {}
        self._maps: dict[Dims, Num] = {}
        self._last: dict[str, bool] = {}
        self._innermost = Where.LOOP if self.derivations.kind.inner is None else Where.INNER

    def labels(self, goal: Goal) -> tuple[str, ...]:
        """Return the axes along which the value is a tile."""
        found = self._labels.get(goal)
        if found is None:
            free = self.derivations.algebra.free(goal[0])
            found = self._labels[goal] = tuple(sorted(a for a, level in free if level == "L"))
        return found

    def in_loop(self, goal: Goal) -> bool:
        """Return whether the value changes with the step of the (inner) loop."""
        return self.derivations.where(goal) is self._innermost

    def elements(self, labels: tuple[str, ...]) -> Num:
        """Return the number of elements of a tile."""
        found = self._elements.get(labels)
        if found is None:
            found = np.ones(self.columns.count)
            for a in labels:
                found = found * self.columns.tile[a]
            self._elements[labels] = found
        return found

    def is_last(self, axis: str) -> bool:
        """Return whether rows of the tensors that have the axis run along it."""
        found = self._last.get(axis)
        if found is None:
            atoms = self.derivations.algebra.atoms
            read = [atom.dims for atom in atoms if isinstance(atom, InAtom)]
            own = [dims for dims in read if any(axis in dim for dim in dims)]
            found = self._last[axis] = all(axis in dims[-1] for dims in own)
        return found

    def wide(self, labels: tuple[str, ...]) -> Num:
        """Return the number of axes along which a tile is larger than one."""
        found = self._wide.get(labels)
        if found is None:
            found = self._wide[labels] = self.columns.wide(labels)
        return found

    def fits(self, labels: tuple[str, ...]) -> Num:
        """Return where a tile has no more wide axes than kernels can have."""
        found = self._fits.get(labels)
        if found is None:
            found = self._fits[labels] = uniform(self.wide(labels) <= MAX_WIDE_DIMS)
        return found

    def _run(self, dims: Dims) -> Num:
        """Return the number of contiguous elements of a tile's rows in device memory."""
        found = self._runs.get(dims)
        if found is None:
            found = self._runs[dims] = self._counted_run(dims)
        return found

    def _counted_run(self, dims: Dims) -> Num:
        run: Num = 1.0
        whole: Num = np.True_
        for dim in reversed(dims):
            for a in reversed(dim):
                tile, size = self.columns.tile[a], self.sizes[a]
                run = where(whole, run * np.minimum(tile, size), run)
                whole = whole & (tile >= size)
        return run

    def _gap(self, dims: Dims) -> Num:
        """Return the number of elements from one run of a tile to the next; 0 if there is one."""
        gap: Num = 0.0
        in_run: Num = np.True_
        stride = 1
        for a in (a for dim in reversed(dims) for a in reversed(dim)):
            gap = where(~in_run & (np.asarray(gap) == 0) & (self.columns.tile[a] > 1), stride, gap)
            in_run = in_run & (self.columns.tile[a] >= self.sizes[a])
            stride *= self.sizes[a]
        return gap

    def map_ok(self, dims: Dims) -> Num:
        """Return whether tiles along merged dimensions are contiguous blocks of them."""
        found = self._maps.get(dims)
        if found is None:
            found = self._maps[dims] = self.columns.contiguous(dims, self.sizes)
        return found
