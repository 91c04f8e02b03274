"""The rows of a factor in classes: all rows of a class start equally far after a multiple of 16
bytes.

Rows of 4095 elements start at any element, but every eighth of them at a multiple of 16 bytes. The
axis of these rows is cut in two, groups of rows and the number of a row in its group. A block has
rows of one number. Its loop begins at the multiple of 16 bytes before them, and the tensor memory
accelerator copies its boxes from there (:mod:`mirage.cost.shifted_loops`). The other factor's boxes
must start anywhere along the loop's axis, so its rows must not run along that axis: if they do, a
small kernel turns it first.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from mirage.cost.boxes import starts_anywhere
from mirage.cost.compilable import MAX_BOX_RANK
from mirage.search.algebra.atoms import InAtom
from mirage.search.algebra.axes import Dims
from mirage.search.algebra.normalizer import MatmulRoles
from mirage.search.kernel.problems.aligned import ROW_BYTES
from mirage.search.kernel.problems.merges import Merges, view_sizes
from mirage.search.kernel.problems.problem import KernelProblem
from mirage.semantics.ugraph import TensorType

_FEWEST_TURNED = 56
"""The fewest rows that a factor must have to be turned. For fewer, products without warpgroups take
less time (16 rows of 4095, 4096 columns, on an H200: 13.3 µs, and 17.6 with a factor that is
turned)."""


@dataclass(frozen=True)
class RowClasses:
    """The factor whose rows are in classes, and their number; the axes, with the one of its rows
    cut in two and the factors that are turned; the axes that run along whole lines of these; and
    the factors that are copied into longer rows."""

    shifted: int
    count: int
    merges: Merges
    lines: frozenset[str]
    copied: frozenset[int]


def find_classes(
    problem: KernelProblem,
    inputs: Sequence[InAtom],
    factors: Collection[int],
    merges: Merges,
    roles: Sequence[MatmulRoles],
    axes: Collection[str],
) -> RowClasses | None:
    """Return the classes of rows of the only factor that boxes cannot be copied from and that is
    contracted along its rows, or of the larger one of two, the other of which is turned. None if
    there is no such factor, or if its rows are not a whole number of groups. ``roles`` are those of
    the merged axes, and ``axes`` those that can be cut."""
    if len(roles) != 1 or not merges.split:
        return None
    (role,) = roles
    views = {atom.tensor: _View.of(problem, merges, atom) for atom in inputs}
    uneven = [v for v in views.values() if v.tensor in factors and not starts_anywhere(v.type)]
    along = [v for v in uneven if v.dims[-1] and {*v.dims[-1]} <= role.contracted]
    along.sort(key=lambda view: view.type.bytes)
    if not 1 <= len(along) <= 2 or len(views) < len(inputs):
        return None
    *turned, shifted = along
    axis, count = shifted.rows, shifted.classes
    if axis is None or any(not _is_turned(problem, view) for view in turned):
        return None
    if axis not in role.rows | role.columns or axis not in axes:
        return None
    if problem.table.sizes[axis] % count or shifted.rank >= MAX_BOX_RANK:
        return None
    if any(problem.leaves[shifted.tensor] is leaf for leaf, _ in problem.cuts):
        return None
    names = _fresh(axis, problem.table.sizes)
    problem.table.sizes[names[0]] = problem.table.sizes[axis] // count
    problem.table.sizes[names[1]] = count
    cut = replace(merges, cuts={axis: names}, turned=frozenset(v.tensor for v in turned))
    copied = frozenset(v.tensor for v in uneven if v not in along)
    lines = frozenset(view.rows for view in turned if view.rows is not None)
    return RowClasses(shifted.tensor, count, cut, lines, copied)


@dataclass(frozen=True)
class _View:
    """A tensor as kernels of the problem read it."""

    tensor: int
    type: TensorType
    dims: Dims

    @staticmethod
    def of(problem: KernelProblem, merges: Merges, atom: InAtom) -> _View:
        kind = problem.leaves[atom.tensor].dtype
        sizes = view_sizes(problem, merges, atom.dims)
        return _View(atom.tensor, TensorType(sizes, kind), merges.dims(atom.dims))

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def rows(self) -> str | None:
        """The axis of its rows."""
        one = self.rank >= 2 and len(self.dims[-1]) == len(self.dims[-2]) == 1
        return self.dims[-2][0] if one else None

    @property
    def classes(self) -> int:
        """The least number of rows that together are a multiple of 16 bytes."""
        row, count = self.type.shape[-1] * self.type.dtype.bytes, 1
        while row * count % ROW_BYTES:
            count *= 2
        return count


def _is_turned(problem: KernelProblem, view: _View) -> bool:
    return view.rows is not None and problem.table.sizes[view.rows] >= _FEWEST_TURNED


def _fresh(axis: str, taken: dict[str, int]) -> tuple[str, str]:
    """Return names for the groups and for the rows of a group."""
    end = ""
    while f"{axis}g{end}" in taken or f"{axis}j{end}" in taken:
        end += "_"
    return f"{axis}g{end}", f"{axis}j{end}"
