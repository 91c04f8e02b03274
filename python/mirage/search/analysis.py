"""The axes of a kernel problem: what they are named, what the program does with them, and which of
them are one.

Two axes that always occur together and next to each other, outer before inner, in all tensors and
all sums, are *one* axis of a view of these tensors. Where a matmul has both as rows (the heads of
a group and their query rows, which share keys and values; the sequences of a batch and their
tokens) or both as columns, or where both are summed, they are merged: one tile then covers what
two axes would have split, and the tensors are read through reshapes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod

from mirage.search.frames import AxisUse, FrameType
from mirage.search.problem import KernelProblem
from mirage.semantics.axes import Dims, UnlabelableError
from mirage.semantics.normal_form import (
    Algebra,
    Atom,
    Fn2Atom,
    FnAtom,
    IdAtom,
    InAtom,
    MatmulRoles,
    MaxAtom,
    Mono,
    Normalizer,
    SubAxis,
)
from mirage.semantics.ugraph import Reshape, TensorType, Value


@dataclass
class Analysis:
    """A problem on views of its tensors, with its axes named."""

    problem: KernelProblem
    dims: tuple[Dims, ...]  # axes of each output
    use: AxisUse
    before: tuple[Reshape, ...]  # views of the leaves
    after: tuple[Reshape, ...]  # the outputs, out of their views
    _merged: Merges
    _plain: dict[bool, tuple[Algebra, tuple[int, ...]]]

    def normal_forms(self, kind: FrameType, expand: bool) -> tuple[Algebra, tuple[int, ...]]:
        """Normal forms of the outputs, with the sub-axes of a frame type."""
        algebra, polys = self._plain[expand]
        relabelled = _Relabel(algebra, self._merged, kind.levels)
        new = tuple(relabelled.poly(p) for p in polys)
        return relabelled.algebra, new


def analyze(problem: KernelProblem) -> Analysis:
    """Raises :class:`UnlabelableError`."""
    first = _output_dims(problem)
    dims = tuple(_dims_of(problem, first, v) for v in problem.outputs)
    plain: dict[bool, tuple[Algebra, tuple[int, ...]]] = {}
    roles: list[MatmulRoles] = []
    for expand in (False, True):
        algebra = Algebra(FrameType(None, None).levels, problem.table.sizes, expand)
        leaves = {v: i for i, v in enumerate(problem.leaves)}
        normalizer = Normalizer(problem.table, problem.definitions, leaves, algebra)
        polys = tuple(normalizer.poly(v, d) for v, d in zip(problem.outputs, dims, strict=True))
        plain[expand] = algebra, polys
        roles = roles or normalizer.matmuls
    merges = _merges(problem, *plain[False], dims, roles)
    for name, group in merges.groups.items():
        problem.table.sizes[name] = prod(problem.table.sizes[a] for a in group)
    viewed, before, after = _views(problem, plain[False][0], dims, merges)
    merged_dims = tuple(merges.dims(d) for d in dims)
    relabelled = _Relabel(plain[False][0], merges, FrameType(None, None).levels)
    polys = [relabelled.poly(p) for p in plain[False][1]]
    use = _axis_use(viewed, relabelled.algebra, polys, merged_dims[0], merges.roles(roles))
    return Analysis(viewed, merged_dims, use, before, after, merges, plain)


def _output_dims(problem: KernelProblem) -> Dims:
    taken: set[str] = set()
    dims: list[tuple[str, ...]] = []
    for dim in problem.table.dims(problem.outputs[0]):
        names: list[str] = []
        for label in dim:
            name = problem.table.fresh(label, taken)
            taken.add(name)
            names.append(name)
        dims.append(tuple(names))
    return tuple(dims)


def _dims_of(problem: KernelProblem, dims: Dims, output: Value) -> Dims:
    """The axes of an output, when those of the first output are ``dims``."""
    first, rank = problem.outputs[0], len(output.shape)
    own, like = problem.table.dims(output), problem.table.dims(first)[len(dims) - rank :]
    named: list[tuple[str, ...]] = []
    for size, mine, its, names in zip(
        output.shape, own, like, dims[len(dims) - rank :], strict=True
    ):
        sizes = [[problem.table.sizes[x] for x in labels] for labels in (mine, its)]
        if size > 1 and sizes[0] != sizes[1]:
            raise UnlabelableError("expected outputs of one kernel to have the same shape")
        named.append(names if size > 1 else ())
    return tuple(named)


def _axis_use(
    problem: KernelProblem,
    algebra: Algebra,
    polys: Sequence[int],
    dims: Dims,
    roles: tuple[MatmulRoles, ...],
) -> AxisUse:
    free = tuple(a for dim in dims for a in dim)
    bound = {a for poly in polys for a, _ in algebra.bound(poly)}
    every = {a for x in range(len(algebra.atoms)) for a, _ in algebra.atom_free[x]}
    reduced = tuple(sorted((bound | every) - set(free)))
    mixed = tuple(sorted(bound & set(free)))
    return AxisUse(free, reduced, mixed, problem.table.sizes, roles)


# ---- merging


@dataclass(frozen=True)
class Merges:
    """Groups of axes that are one; each has a name of its own."""

    groups: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    split: bool = True  # whether tensors are viewed with one dimension for each axis

    @property
    def names(self) -> dict[str, str]:
        """The new name of each old axis that was merged."""
        return {a: name for name, group in self.groups.items() for a in group}

    def labels(self, axes: Sequence[str]) -> tuple[str, ...]:
        """Axes in order, each group once."""
        names = self.names
        return tuple(dict.fromkeys(names.get(a, a) for a in axes))

    def dims(self, dims: Dims) -> Dims:
        """The dimensions of a tensor's view: as they were, or one for each axis."""
        if not self.viewed(dims):
            return tuple(self.labels(dim) for dim in dims)
        return tuple((a,) for a in self.labels([a for dim in dims for a in dim]))

    def viewed(self, dims: Dims) -> bool:
        """Whether a dimension has several axes, or a group has axes in several dimensions."""
        if not self.split:
            return False
        homes = [{i for i, dim in enumerate(dims) if {*dim} & {*g}} for g in self.groups.values()]
        return any(len(home) > 1 for home in homes) or any(len(self.labels(d)) > 1 for d in dims)

    def roles(self, roles: Sequence[MatmulRoles]) -> tuple[MatmulRoles, ...]:
        """What matmuls do with the merged axes."""
        return tuple(
            MatmulRoles(
                frozenset(self.labels(sorted(m.contracted))),
                frozenset(self.labels(sorted(m.rows))),
                frozenset(self.labels(sorted(m.columns))),
                frozenset(self.labels(sorted(m.batch))),
            )
            for m in roles
        )


def _merges(
    problem: KernelProblem,
    algebra: Algebra,
    outputs: Sequence[int],
    dims: tuple[Dims, ...],
    roles: Sequence[MatmulRoles],
) -> Merges:
    polys, atoms = below(algebra, outputs)
    reads = [atom for atom in atoms if isinstance(atom, InAtom)]
    sequences = [[a for dim in atom.dims for a in dim] for atom in reads]
    sequences += [[a for dim in d for a in dim] for d in dims]
    sums = [{a for a, _ in bound} for poly in polys for (_, bound), _ in algebra.polys[poly]]
    sums += [{a for a, _ in atom.bound} for atom in atoms if isinstance(atom, MaxAtom)]
    if any(len(set(s)) < len(s) for s in sequences):
        return Merges(split=False)

    def together(a: str, b: str) -> bool:
        for s in sequences:
            if (a in s) != (b in s) or (a in s and s.index(a) + 1 != s.index(b)):
                return False
        return all((a in s) == (b in s) for s in sums)

    def useful(a: str, b: str) -> bool:
        sides = [side for m in roles for side in (m.rows, m.columns, m.contracted)]
        if any(a in side and b in side for side in sides):
            return True
        return not any(a in d for out in dims for d in out) and not any(a in s for s in sides)

    after: dict[str, str] = {}
    for s in sequences:
        for a, b in pairwise(s):
            if a not in after and together(a, b) and useful(a, b):
                after[a] = b
    groups: dict[str, tuple[str, ...]] = {}
    taken = set(problem.table.sizes)
    for a in sorted(set(after) - set(after.values())):
        group = [a]
        while group[-1] in after:
            group.append(after[group[-1]])
        name = "".join(group)
        while name in taken:
            name += "_"
        taken.add(name)
        groups[name] = tuple(group)
    # a tensor has one view, however often it is read
    for merges in (Merges(groups), Merges()):
        views = {(atom.tensor, _sizes(problem, merges, atom.dims)) for atom in reads}
        if len(views) == len({tensor for tensor, _ in views}):
            return merges
    return Merges(split=False)


def below(algebra: Algebra, outputs: Sequence[int]) -> tuple[list[int], list[Atom]]:
    """The polynomials and atoms that the outputs are made of."""
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


def _sizes(problem: KernelProblem, merges: Merges, dims: Dims) -> tuple[int, ...]:
    sizes = problem.table.sizes
    one = {name: prod(sizes[a] for a in group) for name, group in merges.groups.items()}
    return tuple(prod(one[a] if a in one else sizes[a] for a in dim) for dim in merges.dims(dims))


def _views(
    problem: KernelProblem, algebra: Algebra, dims: tuple[Dims, ...], merges: Merges
) -> tuple[KernelProblem, tuple[Reshape, ...], tuple[Reshape, ...]]:
    def view(value: Value, its: Dims) -> Value:
        if not merges.viewed(its):
            return value
        return Value(TensorType(_sizes(problem, merges, its), value.dtype), value.name)

    reads = {atom.tensor: atom.dims for atom in algebra.atoms if isinstance(atom, InAtom)}
    leaves = tuple(view(v, reads[i]) if i in reads else v for i, v in enumerate(problem.leaves))
    outputs = tuple(view(v, d) for v, d in zip(problem.outputs, dims, strict=True))
    pairs = [list(zip(problem.leaves, leaves, strict=True))]
    pairs.append(list(zip(outputs, problem.outputs, strict=True)))
    before, after = (tuple(Reshape((v,), (w,)) for v, w in p if v is not w) for p in pairs)
    hot = frozenset(w for v, w in pairs[0] if v in problem.hot)
    viewed = KernelProblem(
        outputs, leaves, problem.definitions, problem.table, problem.combine, hot
    )
    return viewed, before, after


class _Relabel:
    """Copies normal forms into an algebra with merged axes and more levels."""

    def __init__(
        self, source: Algebra, merges: Merges, levels: Callable[[str], tuple[str, ...]]
    ) -> None:
        self.source, self.merges = source, merges
        self.algebra = Algebra(levels, source.sizes, source.expand)
        self.algebra.truncated = source.truncated
        self.algebra.sum_products = source.sum_products
        self._polys: dict[int, int] = {}
        self._atoms: dict[int, int] = {}

    def poly(self, number: int) -> int:
        """The copy of a polynomial."""
        if number not in self._polys:
            terms: list[tuple[Mono, float]] = []
            for (atoms, bound), c in self.source.polys[number]:
                new = tuple(sorted(self._atom(x) for x in atoms))
                terms.append(((new, self._bound(bound)), c))
            self._polys[number] = self.algebra.poly(terms)
        return self._polys[number]

    def _bound(self, bound: tuple[SubAxis, ...]) -> tuple[SubAxis, ...]:
        axes = self.merges.labels([a for a, _ in bound])
        return tuple(sorted((a, level) for a in axes for level in self.algebra.levels(a)))

    def _atom(self, number: int) -> int:
        if number not in self._atoms:
            match self.source.atoms[number]:
                case InAtom(tensor, dims):
                    atom = InAtom(tensor, self.merges.dims(dims))
                case FnAtom(fn, arg):
                    atom = FnAtom(fn, self.poly(arg))
                case Fn2Atom(fn, a, b):
                    atom = Fn2Atom(fn, self.poly(a), self.poly(b))
                case MaxAtom(bound, arg):
                    atom = MaxAtom(self._bound(bound), self.poly(arg))
                case IdAtom(arg):
                    atom = IdAtom(self.poly(arg))
            self._atoms[number] = self.algebra.atom(atom)
        return self._atoms[number]
