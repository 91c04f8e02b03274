"""The axes of a kernel problem: their names, their uses in the program, and the axes that are
merged.

Two axes that always occur together and adjacent, outer before inner, in all tensors and all sums,
are *one* axis of a view of these tensors. They are merged if a matmul has both as rows (the heads
of a group and their query rows, which share keys and values; the sequences of a batch and their
tokens) or both as columns, or if both are summed: one tile then covers what two axes would have
split, and the tensors are read through reshapes. A small tensor that has only one of the two (the
mask of the rows of a group) can be repeated along the other one first, and a factor whose rows
start at odd places can be copied into longer rows, from which boxes can be copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, prod

from mirage.search.algebra.atoms import InAtom, SoFarAtom
from mirage.search.algebra.axes import Dims, UnlabelableError
from mirage.search.algebra.normal_form import NormalForms, inputs_of
from mirage.search.algebra.normalizer import MatmulRoles, Normalizer
from mirage.search.kernel.loop_nests.frames import AxisUse, FrameType
from mirage.search.kernel.loop_nests.problem_views import MergedForms, views_of
from mirage.search.kernel.problems.aligned import may_align
from mirage.search.kernel.problems.merges import Merges, find_merges
from mirage.search.kernel.problems.narrowing import multiplied_only
from mirage.search.kernel.problems.one_tile import NARROWEST, of_parts_of_rows
from mirage.search.kernel.problems.problem import KernelProblem, Written
from mirage.search.kernel.problems.row_classes import find_classes
from mirage.semantics.ugraph import Reshape, Value

PlainForms = dict[bool, tuple[NormalForms, tuple[int, ...]]]
"""The normal forms of the outputs, with and without sums multiplied out."""


@dataclass
class Analysis:
    """A problem on views of its tensors, with named axes."""

    problem: KernelProblem
    dims: tuple[Dims, ...]  # axes of each output
    use: AxisUse
    before: Written  # the views of the leaves
    after: tuple[Reshape, ...]  # the outputs, computed from their views
    _merged: Merges
    _plain: PlainForms
    loses: bool = False
    """Whether multiplying out products of sums removes a tensor from the normal forms of outputs
    that depend on it, so that a NaN in it would be lost."""
    shifted: int | None = None
    """The tensor whose rows are in classes, so that its boxes are shifted, if there is one."""
    classes: int = 1
    """The number of these classes."""
    coarse: frozenset[int] = frozenset()
    """The tensors of 8-bit floats whose products may be summed as in hardware."""

    def has(self, kind: FrameType) -> bool:
        """Return whether the analysis applies to kernels of a frame type."""
        whole = self.problem.combine or self.shifted is not None or self.use.twice
        return not (whole and kind.split) and (not self.use.twice or kind.loop in self.use.twice)

    def normal_forms(self, kind: FrameType, expand: bool) -> tuple[NormalForms, tuple[int, ...]]:
        """Return the normal forms of the outputs, with the sub-axes of a frame type."""
        algebra, polys = self._plain[expand]
        relabelled = MergedForms(algebra, self._merged, kind.levels)
        new = tuple(relabelled.poly(p) for p in polys)
        return relabelled.algebra, new

    @cached_property
    def reads(self) -> tuple[InAtom, ...]:
        """The tensors, with their axes, that every derivation loads: those in the normal forms both
        with sums kept as factors and with sums multiplied out."""
        kept, expanded = (dict.fromkeys(inputs_of(*self._plain[e])) for e in (False, True))
        both = (atom for atom in kept if atom in expanded)
        return tuple(self._merged.read(atom) for atom in both)

    def reads_first(self, kind: FrameType) -> tuple[InAtom, ...]:
        """Return the tensors that the first kernel loads: the combine kernel may load those that
        have neither steps nor parts."""
        cut = {kind.loop, kind.split, kind.inner}
        return tuple(
            atom
            for atom in self.reads
            if kind.split is None or any(a in cut for dim in atom.dims for a in dim)
        )


def analyze(problem: KernelProblem, shifts: bool = False, held: float = inf) -> list[Analysis]:
    """Return the problem unchanged; with small tensors repeated, if that merges more axes; if boxes
    could not be copied from some factors, with aligned copies of them, and (with ``shifts``) with
    the rows of one in classes; and with rows of ``held`` or more elements read twice. Raises
    :class:`UnlabelableError`, also if kernels would not read a tensor whose NaN makes the result
    NaN.
    """
    first = _output_dims(problem)
    dims = tuple(_dims_of(problem, first, v) for v in problem.outputs)
    plain, roles = _normal_forms(problem, dims)
    losses = {e: losing(problem, *plain[e]) for e in (False, True)}
    if losses[False]:
        names = ", ".join(v.name or str(v.type) for v in losses[False])
        raise UnlabelableError(f"{names} cancels, and a NaN in it would be lost")
    found = [find_merges(problem, *plain[False], dims, roles)]
    if not problem.combine:
        more = find_merges(problem, *plain[False], dims, roles, repeat=True)
        found.extend([more] if more.groups.keys() - found[0].groups.keys() else [])
    analyses = [_analysis(problem, plain, dims, roles, merges) for merges in found]
    if not problem.combine:
        leaves = analyses[0].problem.leaves
        factors = _factors(plain[False][0], found[0], roles)
        odd = frozenset(i for i in factors if may_align(leaves[i].type))
        if odd:
            analyses.append(_analysis(problem, plain, dims, roles, found[0], odd))
        use, inputs = analyses[0].use, list(inputs_of(*plain[False]))
        axes = frozenset(use.free).difference(use.mixed)
        rows = find_classes(problem, inputs, factors, found[0], use.matmuls, axes)
        if shifts and rows is not None:
            cut = _analysis(problem, plain, dims, roles, rows.merges, rows.copied)
            use = replace(cut.use, lines=rows.lines)
            analyses.append(replace(cut, use=use, shifted=rows.shifted, classes=rows.count))
        long = frozenset(a for a in use.mixed if problem.table.sizes[a] >= held)
        if long and not roles:
            analyses += _read_twice(problem, dims, long, use)
    for analysis in analyses:
        analysis.loses = bool(losses[True])
        analysis.coarse = multiplied_only(problem)
    return analyses


def _normal_forms(
    problem: KernelProblem, dims: tuple[Dims, ...], apart: frozenset[str] = frozenset()
) -> tuple[PlainForms, list[MatmulRoles]]:
    """Return the normal forms of the outputs, with sums kept as factors and multiplied out, and the
    roles of axes in products. Sums have other names for the axes ``apart`` of outputs."""
    plain: PlainForms = {}
    roles: list[MatmulRoles] = []
    for expand in (False, True):
        algebra = NormalForms(FrameType(None, None).levels, problem.table.sizes, expand)
        leaves = {v: i for i, v in enumerate(problem.leaves)}
        normalizer = Normalizer(
            problem.table, problem.definitions, leaves, algebra, apart, problem.rounded
        )
        polys = tuple(normalizer.poly(v, d) for v, d in zip(problem.outputs, dims, strict=True))
        plain[expand] = algebra, polys
        roles = roles or normalizer.matmuls
    return plain, roles


def _read_twice(
    problem: KernelProblem, dims: tuple[Dims, ...], rows: frozenset[str], use: AxisUse
) -> list[Analysis]:
    """Return the problem with sums that read ``rows`` in a loop, apart from the tile that has them
    whole; nothing if anything other than sums and maxima has them whole. ``use`` describes the axes
    of the unchanged problem."""
    plain, roles = _normal_forms(problem, dims, rows)
    merges = find_merges(problem, *plain[False], dims, roles)
    found = _analysis(problem, plain, dims, roles, merges)
    read = frozenset(found.use.reduced).difference(use.reduced)
    if not read or not rows.issubset(found.use.free) or not rows.isdisjoint(found.use.mixed):
        return []
    mixed = tuple(sorted({*found.use.mixed, *rows}))
    return [replace(found, use=replace(found.use, mixed=mixed, twice=read))]


def losing(problem: KernelProblem, algebra: NormalForms, polys: Sequence[int]) -> list[Value]:
    """Return the tensors that an output is computed from and that its normal form does not
    contain."""
    numbers = {v: i for i, v in enumerate(problem.leaves)}
    lost: dict[Value, None] = {}
    for output, poly in zip(problem.outputs, polys, strict=True):
        kept = {atom.tensor for atom in inputs_of(algebra, [poly])}
        read = (v for v in _read(problem, output) if numbers[v] not in kept)
        lost.update(dict.fromkeys(v for v in read if not v.dtype.is_integer))
    return list(lost)


def _read(problem: KernelProblem, output: Value) -> Iterator[Value]:
    """Yield the leaves that an output is computed from."""
    leaves, seen, left = set(problem.leaves), {output}, [output]
    while left:
        value = left.pop()
        if value in leaves:
            yield value
            continue
        op = problem.definitions.get(value)
        new = [v for v in (() if op is None else op.operands) if v not in seen]
        seen.update(new)
        left += new


def _factors(algebra: NormalForms, merges: Merges, roles: Sequence[MatmulRoles]) -> set[int]:
    """Return the tensors that products contract and whose rows may be extended with zeros: from
    their columns only sums of products are computed. (The exponential of a zero score is one, and
    that score may be far above the others.)"""
    inputs = [atom for atom in algebra.atoms if isinstance(atom, InAtom)]
    others = (x for x, atom in enumerate(algebra.atoms) if not isinstance(atom, InAtom))
    computed = {a for x in others for a, _ in algebra.atom_free[x]}
    contracted = {a for m in roles for a in m.contracted}
    found: set[int] = set()
    for atom in inputs:
        columns = merges.dims(atom.dims)[-1] if atom.dims else ()
        own = {a for name in columns for a in merges.groups.get(name, (name,))}
        if computed.isdisjoint(own) and any(a in contracted for dim in atom.dims for a in dim):
            found.add(atom.tensor)
    return found


def _analysis(
    problem: KernelProblem,
    plain: PlainForms,
    dims: tuple[Dims, ...],
    roles: list[MatmulRoles],
    merges: Merges,
    copied: frozenset[int] = frozenset(),
) -> Analysis:
    for name, group in merges.groups.items():
        problem.table.sizes[name] = prod(problem.table.sizes[a] for a in group)
    viewed, before, after = views_of(problem, plain[False][0], dims, merges, copied)
    merged_dims = tuple(merges.dims(d) for d in dims)
    relabelled = MergedForms(plain[False][0], merges, FrameType(None, None).levels)
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
    """Return the axes of an output, given the axes ``dims`` of the first output: those of aligned
    dimensions, or of all dimensions in order, if sizes of 1 are in other places or if a dimension
    of one output is several of the other. If the output has one number for each part of a row,
    these are the axes of the row without those within a part."""
    first, rank = problem.outputs[0], len(output.shape)
    table = problem.table
    own, its = table.dims(output), table.dims(first)
    if output.shape != first.shape and output.type.size == first.type.size:
        mine, theirs = ([table.sizes[x] for d in of for x in d] for of in (own, its))
        if mine == theirs:
            names = iter([name for dim in dims for name in dim])
            return tuple(tuple(next(names) for _ in dim) for dim in own)
    if of_parts_of_rows(output.shape, first.shape):
        mine, theirs = ([table.sizes[x] for x in dim] for dim in (own[-2], its[-1]))
        if mine == theirs[: len(mine)]:
            return (*dims[:-1], dims[-1][: len(mine)], ())
    named: list[tuple[str, ...]] = []
    if rank > len(dims):
        raise UnlabelableError("expected outputs of one kernel to have the same shape")
    for size, mine, like, names in zip(
        output.shape, own, its[len(dims) - rank :], dims[len(dims) - rank :], strict=True
    ):
        sizes = [[table.sizes[x] for x in labels] for labels in (mine, like)]
        if size > 1 and sizes[0] != sizes[1]:
            raise UnlabelableError("expected outputs of one kernel to have the same shape")
        named.append(names if size > 1 else ())
    return tuple(named)


def _axis_use(
    problem: KernelProblem,
    algebra: NormalForms,
    polys: Sequence[int],
    dims: Dims,
    roles: tuple[MatmulRoles, ...],
) -> AxisUse:
    free = tuple(a for dim in dims for a in dim)
    bound = {a for poly in polys for a, _ in algebra.bound(poly)}
    every = {a for x in range(len(algebra.atoms)) for a, _ in algebra.atom_free[x]}
    reduced = tuple(sorted((bound | every) - set(free)))
    whole = {atom.axis for atom in algebra.atoms if isinstance(atom, SoFarAtom)}
    mixed = tuple(sorted((bound | whole) & set(free)))
    narrowest = max(1, NARROWEST // problem.narrower)
    return AxisUse(free, reduced, mixed, problem.table.sizes, roles, narrowest)
