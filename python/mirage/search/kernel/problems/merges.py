"""The axes that are merged into one, and the resulting views of tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod

from mirage.cost.compilable import MAX_ROWS
from mirage.search.algebra.atoms import Atom, Fn2Atom, InAtom, MaxAtom, SoFarAtom
from mirage.search.algebra.axes import Dims
from mirage.search.algebra.normal_form import NormalForms
from mirage.search.algebra.normalizer import MatmulRoles
from mirage.search.kernel.problems.problem import KernelProblem

REPEATED_BYTES = 4 << 20
"""The most bytes that a repeated tensor may have."""


@dataclass(frozen=True)
class Merges:
    """Groups of axes that are merged, each of which has a new name; axes that are cut in two."""

    groups: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    split: bool = True  # whether tensors are viewed with one dimension for each axis
    cuts: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """The outer and the inner part of each axis that is cut."""
    turned: frozenset[int] = frozenset()
    """The tensors of which kernels read a copy with the last two dimensions exchanged."""

    @property
    def names(self) -> dict[str, str]:
        """The new name of each old axis that was merged."""
        return {a: name for name, group in self.groups.items() for a in group}

    def labels(self, axes: Sequence[str]) -> tuple[str, ...]:
        """Return the axes in order, with each group once, and both parts of those that are cut."""
        names = self.names
        merged = dict.fromkeys(names.get(a, a) for a in axes)
        return tuple(part for a in merged for part in self.cuts.get(a, (a,)))

    def read(self, atom: InAtom) -> InAtom:
        """Return how kernels read a tensor."""
        dims = self.dims(atom.dims)
        if atom.tensor in self.turned:
            dims = (*dims[:-2], dims[-1], dims[-2])
        return InAtom(atom.tensor, dims)

    def dims(self, dims: Dims) -> Dims:
        """Return the dimensions of a tensor's view: unchanged, or one for each axis."""
        if not self.viewed(dims):
            return tuple(self.labels(dim) for dim in dims)
        return tuple((a,) for a in self.labels([a for dim in dims for a in dim]))

    def viewed(self, dims: Dims) -> bool:
        """Return whether a dimension has several axes, or a group has axes in several
        dimensions."""
        if not self.split:
            return False
        if self.repeated(dims):
            return True
        homes = [{i for i, dim in enumerate(dims) if {*dim} & {*g}} for g in self.groups.values()]
        return any(len(home) > 1 for home in homes) or any(len(self.labels(d)) > 1 for d in dims)

    def repeated(self, dims: Dims) -> bool:
        """Return whether a tensor has some but not all axes of a group, so that its view repeats
        it."""
        have = {a for dim in dims for a in dim}
        return any(0 < len(have & {*g}) < len(g) for g in self.groups.values())

    def whole(self, dims: Dims) -> tuple[str, ...]:
        """Return the axes of a tensor and those that its groups add, in order."""
        groups = {a: group for group in self.groups.values() for a in group}
        return tuple(dict.fromkeys(x for dim in dims for a in dim for x in groups.get(a, (a,))))

    def roles(self, roles: Sequence[MatmulRoles]) -> tuple[MatmulRoles, ...]:
        """Return the roles of the merged axes in matmuls. A tile has one position along the inner
        part of an axis that is cut, as along the axes of a batch."""
        inner = {part for _, part in self.cuts.values()}

        def labels(axes: frozenset[str]) -> frozenset[str]:
            return frozenset(self.labels(sorted(axes)))

        found: list[MatmulRoles] = []
        for m in roles:
            sides = labels(m.rows), labels(m.columns)
            batch = labels(m.batch) | (inner & (sides[0] | sides[1]))
            found.append(
                MatmulRoles(labels(m.contracted), sides[0] - inner, sides[1] - inner, batch)
            )
        return tuple(found)


def find_merges(
    problem: KernelProblem,
    algebra: NormalForms,
    outputs: Sequence[int],
    dims: tuple[Dims, ...],
    roles: Sequence[MatmulRoles],
    repeat: bool = False,
) -> Merges:
    """Return the axes to merge; with ``repeat``, also axes of which small tensors have only one."""
    polys, atoms = below(algebra, outputs)
    reads = [atom for atom in atoms if isinstance(atom, InAtom)]
    sequences = [[a for dim in atom.dims for a in dim] for atom in reads]
    free = [_may_repeat(problem, atom) if repeat else 0 for atom in reads] + [0] * len(dims)
    sequences += [[a for dim in d for a in dim] for d in dims]
    sums = [{a for a, _ in bound} for poly in polys for (_, bound), _ in algebra.polys[poly]]
    sums += [{a for a, _ in atom.bound} for atom in atoms if isinstance(atom, MaxAtom)]
    sums += [{atom.axis} for atom in atoms if isinstance(atom, SoFarAtom)]
    if any(len(set(s)) < len(s) for s in sequences):
        return Merges(split=False)
    indices = _index_axes(problem, reads)

    def together(a: str, b: str) -> bool:
        for s, factor in zip(sequences, free, strict=True):
            if (a in s) != (b in s):
                if problem.table.sizes[b if a in s else a] > factor:
                    return False
            elif a in s and s.index(a) + 1 != s.index(b):
                return False
        return all((a in s) == (b in s) for s in (*sums, *indices))

    moves = _are_copies(algebra, outputs) and _reorders_rows(sequences)

    def useful(a: str, b: str) -> bool:
        if moves:  # longer rows, or tiles of more of them
            return True
        sides = [side for m in roles for side in (m.rows, m.columns, m.contracted)]
        if any(a in side and b in side for side in sides):
            return True
        return not any(a in d for out in dims for d in out) and not any(a in s for s in sides)

    after: dict[str, str] = {}
    for s in sequences:
        for a, b in pairwise(s):
            if a in after or _straddled(problem.table.sizes[b], roles, {a, b}):
                continue
            if together(a, b) and useful(a, b):
                after[a] = b
    groups = _named(after, set(problem.table.sizes))
    # a tensor has one view, however often it is read
    for merges in (Merges(groups), Merges()):
        views = {(atom.tensor, view_sizes(problem, merges, atom.dims)) for atom in reads}
        if len(views) == len({tensor for tensor, _ in views}):
            return merges
    return Merges(split=False)


def _named(after: Mapping[str, str], taken: set[str]) -> dict[str, tuple[str, ...]]:
    """Return the groups of axes that come one ``after`` the other, by names that are not taken."""
    groups: dict[str, tuple[str, ...]] = {}
    for a in sorted(set(after) - set(after.values())):
        group = [a]
        while group[-1] in after:
            group.append(after[group[-1]])
        name = "".join(group)
        while name in taken:
            name += "_"
        taken.add(name)
        groups[name] = tuple(group)
    return groups


def _are_copies(algebra: NormalForms, outputs: Sequence[int]) -> bool:
    """Return whether each output is a tensor that is read, perhaps times a number."""
    for poly in outputs:
        terms = [term for term, _ in algebra.polys[poly]]
        if len(terms) != 1:
            return False
        ((numbers, bound),) = terms
        if bound or len(numbers) != 1 or not isinstance(algebra.atoms[numbers[0]], InAtom):
            return False
    return True


def _reorders_rows(sequences: Sequence[Sequence[str]]) -> bool:
    """Return whether two tensors have their axes in different orders, but the same axis along their
    rows: otherwise tiles run along the rows of both."""
    first, *others = sequences
    return any([*s] != [*first] and [*s[-1:]] == [*first[-1:]] for s in others)


def _index_axes(problem: KernelProblem, reads: Sequence[InAtom]) -> list[set[str]]:
    """Return the axes along which rows that are looked up have their indices, for each tensor."""
    ranks = dict(problem.rows)
    found: list[set[str]] = []
    for atom in reads:
        rank = ranks.get(problem.leaves[atom.tensor], 0)
        found.append({a for dim in atom.dims[:rank] for a in dim})
    return found


def _straddled(inner: int, roles: Sequence[MatmulRoles], axes: set[str]) -> bool:
    """Return whether tiles along two merged axes would contain the end of one row of the inner
    axis, ``inner`` long, and the start of the next, in a kernel that multiplies other matrices in
    other blocks: no proof relates the two. Unmerged, each row has a last tile that is cut short.
    Rows that are all multiplied by the same matrix need no such care: they are one axis."""
    if not any(m.batch for m in roles):
        return False
    sides = (side for m in roles for side in (m.rows, m.columns))
    return inner > MAX_ROWS and inner % MAX_ROWS > 0 and any(axes <= side for side in sides)


def below(algebra: NormalForms, outputs: Sequence[int]) -> tuple[list[int], list[Atom]]:
    """Return the polynomials and atoms that the outputs consist of."""
    stack, polys, atoms = list(outputs), dict.fromkeys(outputs), dict[int, None]()
    while stack:
        for (numbers, _), _ in algebra.polys[stack.pop()]:
            for number in numbers:
                if number in atoms:
                    continue
                atoms[number] = None
                atom = algebra.atoms[number]
                args: tuple[int, ...] = ()
                if isinstance(atom, Fn2Atom):
                    args = atom.a, atom.b
                elif not isinstance(atom, InAtom):
                    args = (atom.arg,)
                stack.extend(p for p in args if p not in polys)
                polys.update(dict.fromkeys(args))
    return list(polys), [algebra.atoms[x] for x in atoms]


def _may_repeat(problem: KernelProblem, atom: InAtom) -> int:
    """Return how often a tensor may be repeated; its last axis must stay the last one."""
    if not atom.dims or not atom.dims[-1]:
        return 0
    return REPEATED_BYTES // problem.leaves[atom.tensor].type.bytes


def view_sizes(problem: KernelProblem, merges: Merges, dims: Dims) -> tuple[int, ...]:
    sizes = problem.table.sizes
    one = {name: prod(sizes[a] for a in group) for name, group in merges.groups.items()}
    return tuple(prod(one[a] if a in one else sizes[a] for a in dim) for dim in merges.dims(dims))
