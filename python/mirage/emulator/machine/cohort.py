"""A cohort: warps at the same instruction, executed by one vectorised operation.

Rows are warps of the resident blocks (row = block * warps_per_block + warp), columns are lanes. All
register files have shape [rows, 32]. A cohort selects rows (`select`: None for all, a slice where
the rows are evenly spaced, so that NumPy gives views, else an index array) and, where not all lanes
of its rows are active, carries a mask [n, 32].
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mirage.emulator.machine.flags import all_of

if TYPE_CHECKING:
    from mirage.emulator.machine.machine import Machine

Array = np.ndarray[Any, Any]
Select = None | slice | Array


class Cohort:
    """Warps at the same instruction; see the module's docstring. `rows` is sorted and has no
    duplicates."""

    __slots__ = ("_select", "machine", "mask", "n", "rows")

    def __init__(self, machine: Machine, rows: Array, mask: Array | None) -> None:
        self.machine = machine
        self.rows = rows
        self.n = len(rows)
        self.mask = mask
        self._select: Select | bool = False

    @property
    def select(self) -> Select:
        if self._select is False:
            self._select = _selection(self.rows, self.machine.warps)
        return self._select  # type: ignore[return-value]

    def masked(self, mask: Array | None) -> Cohort:
        """Return the same rows with another mask."""
        cohort = Cohort(self.machine, self.rows, mask)
        cohort._select = self._select
        return cohort

    def keep(self, rows: Any) -> Cohort:
        """Return only the rows for which the bool array `rows` [n] is true."""
        if all_of(rows):
            return self
        return Cohort(self.machine, self.rows[rows], None if self.mask is None else self.mask[rows])

    def active(self) -> Array:
        """Return the mask, all true if there is none; do not write to it."""
        return np.ones((self.n, 32), bool) if self.mask is None else self.mask

    def spread(self, array: Array) -> Array:
        """Broadcast an array to [n, 32]; do not write to it."""
        shape = (self.n, 32)
        return array if array.shape == shape else np.broadcast_to(array, shape)

    def take(self, array: Array) -> Array:
        """Return the cohort's rows of an array whose first axis is all rows."""
        return array if self.select is None else array[self.select]


def _selection(rows: Array, total: int) -> Select:
    n = len(rows)
    if n == total:
        return None
    first, last = int(rows[0]), int(rows[-1])
    if n == 1:
        return slice(first, first + 1)
    step, rest = divmod(last - first, n - 1)
    if rest == 0 and (n == 2 or step == 1 or bool((np.diff(rows) == step).all())):
        return slice(first, last + 1, step)
    return rows
