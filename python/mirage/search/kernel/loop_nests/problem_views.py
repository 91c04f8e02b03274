"""A kernel problem on views of its tensors, in which merged axes are one."""

from __future__ import annotations

from collections.abc import Callable

from mirage.search.algebra.atoms import InAtom, Names, SubAxis, rebuilt
from mirage.search.algebra.axes import Dims
from mirage.search.algebra.normal_form import Coefficient, Mono, NormalForms
from mirage.search.kernel.problems.aligned import aligned_copies, aligned_type
from mirage.search.kernel.problems.merges import Merges, view_sizes
from mirage.search.kernel.problems.problem import KernelProblem, Written
from mirage.search.kernel.problems.repeats import repeated
from mirage.search.kernel.problems.turned import turned_copy
from mirage.semantics.ugraph import Launch, Reshape, TensorType, Value


def views_of(
    problem: KernelProblem,
    algebra: NormalForms,
    dims: tuple[Dims, ...],
    merges: Merges,
    copied: frozenset[int],
) -> tuple[KernelProblem, Written, tuple[Reshape, ...]]:
    """Return the problem on views of its tensors (for those in ``copied``, views of aligned
    copies), the ops that make these views, and the ops that make the outputs from the views of the
    outputs."""

    def view(value: Value, its: Dims) -> Value:
        if not merges.viewed(its):
            return value
        return Value(TensorType(view_sizes(problem, merges, its), value.dtype), value.name)

    reads = {atom.tensor: atom.dims for atom in algebra.atoms if isinstance(atom, InAtom)}
    leaves = tuple(view(v, reads[i]) if i in reads else v for i, v in enumerate(problem.leaves))
    outputs = tuple(view(v, d) for v, d in zip(problem.outputs, dims, strict=True))
    before: list[Launch | Reshape] = []
    hot: set[Value] = set()
    tables, viewed_tables = dict(problem.tables), set[tuple[Value, float]]()
    read: list[Value] = []
    aligned: list[tuple[Value, Value]] = []
    for number, (value, seen) in enumerate(zip(problem.leaves, leaves, strict=True)):
        source = value
        if value is not seen and merges.repeated(reads[number]):
            axes = tuple(a for dim in reads[number] for a in dim)
            own = tuple(problem.table.sizes[a] for a in axes)
            if own != value.shape:
                source = Value(TensorType(own, value.dtype), value.name)
                before.append(Reshape((value,), (source,)))
            copy = repeated(source, axes, merges.whole(reads[number]), problem.table.sizes)
            before.append(copy)
            source = copy.result
            hot.add(seen)
        if source is not seen:
            before.append(Reshape((source,), (seen,)))
        if number in merges.turned:
            turned = turned_copy(seen)
            before.append(turned)
            (seen,) = turned.results
        if number in copied:
            longer = Value(aligned_type(seen.type), seen.name)
            aligned.append((seen, longer))
            seen = longer
        if value in problem.hot:
            hot.add(seen)
        elif value in tables:
            viewed_tables.add((seen, tables[value]))
        read.append(seen)
    before.extend(aligned_copies(aligned))
    after = [(v, w) for v, w in zip(outputs, problem.outputs, strict=True) if v is not w]
    viewed = KernelProblem(
        outputs, tuple(read), problem.definitions, problem.table, problem.combine, frozenset(hot),
        problem.scales, problem.narrower, frozenset(viewed_tables),
        frozenset((v, cut) for v, cut in problem.cuts if v in read), rounded=problem.rounded,
    )  # fmt: skip
    return viewed, tuple(before), tuple(Reshape((v,), (w,)) for v, w in after)


class MergedForms:
    """Copies normal forms into an algebra with merged axes and more levels."""

    def __init__(
        self, source: NormalForms, merges: Merges, levels: Callable[[str], tuple[str, ...]]
    ) -> None:
        self.source, self._merges = source, merges
        self.algebra = NormalForms(levels, source.sizes, source.expand)
        self.algebra.truncated = source.truncated
        self.algebra.sum_products = source.sum_products
        self._names = Names(merges.dims, self._bound, lambda axis: merges.labels((axis,))[0])
        self._polys: dict[int, int] = {}
        self._atoms: dict[int, int] = {}

    def poly(self, number: int) -> int:
        """Return the copy of a polynomial."""
        if number not in self._polys:
            terms: list[tuple[Mono, Coefficient]] = []
            for (atoms, bound), c in self.source.polys[number]:
                new = tuple(sorted(self._atom(x) for x in atoms))
                terms.append(((new, self._bound(bound)), c))
            self._polys[number] = self.algebra.poly(terms)
        return self._polys[number]

    def _bound(self, bound: tuple[SubAxis, ...]) -> tuple[SubAxis, ...]:
        axes = self._merges.labels([a for a, _ in bound])
        return tuple(sorted((a, level) for a in axes for level in self.algebra.levels(a)))

    def _atom(self, number: int) -> int:
        if number not in self._atoms:
            atom = self.source.atoms[number]
            if isinstance(atom, InAtom):
                new = self._merges.read(atom)
            else:
                new = rebuilt(atom, self._names, self.poly)
            self._atoms[number] = self.algebra.atom(new)
        return self._atoms[number]
