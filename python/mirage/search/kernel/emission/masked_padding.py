"""Elements of tiles beyond the end of their tensors, and the masks that keep them from counting in
reductions and products.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from mirage.search.algebra.normal_form import NormalForms
from mirage.search.kernel.derivations.derive import Goal
from mirage.search.kernel.derivations.moves import Reduction
from mirage.search.kernel.emission.tile_tails import finite_beyond, zero_beyond
from mirage.search.kernel.emission.tile_views import upright
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import DType, ReduceFn
from mirage.semantics.ugraph import Value


@dataclass(frozen=True)
class Sizes:
    """One column: the sizes of tiles, loop steps and grid parts, and the schedule."""

    tile: dict[str, int]
    steps: dict[str, int]
    grid: dict[str, int]
    warps: int
    stages: int
    warpgroups: bool = False
    cluster: int = 1

    def covered(self, axis: str) -> int:
        """Return the number of indices of an axis that all tiles together have."""
        return self.tile[axis] * self.steps.get(axis, 1) * self.grid.get(axis, 1)


@dataclass(frozen=True)
class Padding:
    """Masks the tiles of one launch."""

    algebra: NormalForms
    sizes: Sizes
    extents: dict[str, int]
    axes_of: Callable[[str], tuple[str, ...]]
    """The grid and loop axes that split an axis, outermost first."""

    def _exact(self, axis: str) -> bool:
        return self.sizes.covered(axis) == self.extents[axis]

    def mask(self, build: Builder, x: Value, dim: int, axis: str, fill: float) -> Value:
        """Replace the elements outside the tensor."""
        x = upright(build, x)
        return build.mask(x, len(x.shape) + dim, self.axes_of(axis), self.extents[axis], fill)

    def guard(self, build: Builder, x: Value, edge: Reduction, dim: int | None = None) -> Value:
        """Mask the elements outside the tensor before the first reduction along an axis."""
        child, axis = edge.children[0], edge.axis
        algebra = self.algebra
        whole = {(axis, level) for level in algebra.levels(axis)} <= algebra.free(child[0])
        if self._exact(axis) or not whole:  # or partially reduced already
            return x
        if edge.fn is ReduceFn.SUM and zero_beyond(algebra, child[0], axis):
            return x
        fill = 0.0 if edge.fn is ReduceFn.SUM else -inf
        if x.dtype.is_half:
            x = build.cast(x, DType.F32)
        return self.mask(build, x, -1 if dim is None else dim, axis, fill)

    def needed(self, left: Goal, right: Goal, axis: str) -> tuple[bool, bool]:
        """Return which operands of a product must be masked so that elements outside the tensor add
        nothing."""
        if self._exact(axis):
            return False, False
        zero = [zero_beyond(self.algebra, g[0], axis) for g in (left, right)]
        finite = [finite_beyond(self.algebra, g[0], axis) for g in (left, right)]
        if (zero[0] and finite[1]) or (zero[1] and finite[0]):
            return False, False
        return not zero[0], not zero[1]
