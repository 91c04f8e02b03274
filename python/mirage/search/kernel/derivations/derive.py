"""All ways to compute a value in a frame: an AND-OR graph over normal forms.

A *goal* is a normal form with its set of bound sub-axes and the stage in which it is needed: stage
1 is the kernel itself, stage 2 the combine kernel that sums over the grid. An *edge* computes a
goal from other goals by one op. Edges lead only to goals that the targets need, so nothing has to
be pruned, and every edge makes the normal form smaller, so the graph is acyclic.

The phase of a value follows from its normal form: in the loop, after it, or in a nest of loops
(:mod:`mirage.search.kernel.loop_nests.phases`); if it has summed the grid's sub-axis it lives in
the combine kernel. A value that has summed the grid's sub-axis and still depends on it has no
derivation; neither does a value without a phase.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from mirage.search.algebra.atoms import (
    Fn2Atom,
    FnAtom,
    IdAtom,
    InAtom,
    MaxAtom,
    RoundAtom,
    SoFarAtom,
    SubAxis,
)
from mirage.search.algebra.normal_form import Mono, NormalForms, inputs_of
from mirage.search.kernel.derivations.groupings import Groupings, Summands
from mirage.search.kernel.derivations.moves import (
    SUMS,
    Accumulate,
    Apply,
    Edge,
    Gather,
    Goal,
    Load,
    Number,
    Pair,
    Product,
    ReduceTile,
    Rounded,
    Scale,
)
from mirage.search.kernel.derivations.so_far import Cumulate
from mirage.search.kernel.loop_nests.frames import FrameType
from mirage.search.kernel.loop_nests.phases import Phases, Where
from mirage.search.kernel.problems.narrowing import Narrowing
from mirage.semantics.scalar import BinaryFn, ReduceFn, UnaryFn


@dataclass
class Derivations:
    """The AND-OR graph below some targets. ``integers`` are the numbers of the integer tensors."""

    algebra: NormalForms
    kind: FrameType
    allow_matmul: bool = True
    narrowing: Narrowing = field(default_factory=Narrowing)
    integers: frozenset[int] = frozenset()
    allow_wide: bool = True
    max_factors: int = 9
    max_goals: int = 4000
    edges: dict[Goal, tuple[Edge, ...]] = field(default_factory=dict[Goal, tuple[Edge, ...]])
    order: list[Goal] = field(default_factory=list[Goal])
    pruned: int = 0
    left_out: set[str] = field(default_factory=set[str])
    """The bounds of :data:`LEFT_OUT` that excluded something."""
    wide: bool = False  # whether some product needs operands of 32 bits

    def __post_init__(self) -> None:
        self.phases = Phases(self.algebra, self.kind)
        self.groupings = Groupings(self.algebra, self.max_factors, self.left_out)
        self._inside: dict[int, int] = {}
        """The normal forms inside of frozen atoms, by those of the atoms alone."""
        self._tile_axes: dict[int, frozenset[str]] = {}

    def solve(self, goal: Goal) -> bool:
        """Return whether ``goal`` has a derivation; fill ``edges`` and ``order`` (children
        first)."""
        return self._solved(self.canonical(goal))

    def _solved(self, goal: Goal) -> bool:
        """Solve a goal that is canonical."""
        known = self.edges.get(goal)
        if known is not None:
            return bool(known)
        if len(self.edges) >= self.max_goals:
            self.left_out.add("goals")
            return False
        self.edges[goal] = ()
        if not self._phase_ok(goal):
            self.pruned += 1
            return False
        seen: set[Edge] = set()
        good: list[Edge] = []
        for edge in self._expand(goal):
            before = len(seen)
            seen.add(edge)
            if len(seen) == before:
                continue
            if all(self._solved(child) for child in edge.children):
                good.append(edge)
            else:
                self.pruned += 1
        self.edges[goal] = tuple(good)
        self.order.append(goal)
        return bool(good)

    def canonical(self, goal: Goal) -> Goal:
        """Return the goal inside of a goal that is one frozen atom; other goals do not change."""
        poly, stage = goal
        inside = self._inside.get(poly)
        if inside is None:
            inside = self._inside[poly] = self._canonical(poly)
        return goal if inside == poly else (inside, stage)

    def _canonical(self, poly: int) -> int:
        terms = self.algebra.polys[poly]
        while (
            len(terms) == 1 and terms[0][1] == 1 and not terms[0][0][1] and len(terms[0][0][0]) == 1
        ):
            atom = self.algebra.atoms[terms[0][0][0][0]]
            if not ((isinstance(atom, MaxAtom) and not atom.bound) or isinstance(atom, IdAtom)):
                break
            poly = atom.arg
            terms = self.algebra.polys[poly]
        return poly

    # ---- phases

    def _phase_ok(self, goal: Goal) -> bool:
        poly, stage = goal
        split = (self.kind.split, "G")
        free, bound = self.algebra.free(poly), self.algebra.bound(poly)
        if split in free & bound or not self.phases.possible(poly):
            return False
        combined = split in bound
        if stage == 1:
            return not combined
        # stage 2 sees the grid summed, no part of it and nothing of the loop
        if any(level in "GT" for _, level in free):
            return False
        return combined or not any(level == "T" for _, level in bound)

    def where(self, goal: Goal) -> Where:
        """Return the innermost body with whose step the value changes."""
        return self.phases.where(goal[0])

    def is_nest(self, edges: list[Edge]) -> bool:
        """Return whether a derivation has a sum for the inner loop."""
        return any(
            isinstance(e, Accumulate)
            and e.axis == self.kind.inner
            and self.phases.within_nest(e.children[0][0])
            for e in edges
        )

    def _goal(self, terms: Summands, stage: int) -> Goal:
        return self.canonical((self.algebra.poly(terms), stage))

    def _one(self, atoms: tuple[int, ...], bound: tuple[SubAxis, ...], stage: int) -> Goal:
        poly = self.algebra.monomial((tuple(sorted(atoms)), tuple(sorted(bound))))
        return self.canonical((poly, stage))

    # ---- expansion

    def _expand(self, goal: Goal) -> Iterator[Edge]:
        poly, stage = goal
        terms = self.algebra.polys[poly]
        if not terms:
            yield Number(goal, (), 0)
        elif len(terms) == 1:
            (mono, c) = terms[0]
            if mono == ((), ()):
                yield Number(goal, (), c)
            elif c != 1:
                yield Scale(goal, (self._goal([(mono, 1)], stage),), c)
            else:
                yield from self._monomial(goal, mono)
        else:
            yield from self._sum(goal)

    def _monomial(self, goal: Goal, mono: Mono) -> Iterator[Edge]:
        atoms, bound = mono
        if len(atoms) == 1 and not bound:
            yield from self._atom(goal, atoms[0])
            return
        for sub in self._last_sums(bound):
            rest = tuple(b for b in bound if b != sub)
            yield from self._sum_edge(goal, [((atoms, rest), 1)], sub, ReduceFn.SUM)
        if len(atoms) > 1:
            yield from self._products(goal, mono)
            if self.allow_matmul and goal[1] == 1:
                for axis, level in bound:
                    if level == "L":
                        rest = tuple(b for b in bound if b != (axis, "L"))
                        yield from self._matmuls(goal, [((atoms, rest), 1)], axis)

    def _last_sums(self, bound: tuple[SubAxis, ...]) -> Iterator[SubAxis]:
        """Yield the sub-axes that may be summed last: before a grid sum, the tile and loop sums of
        its axis must be complete."""
        grid = [b for b in bound if b[1] == "G"]
        if grid:
            yield from grid
            return
        yield from bound

    def _sum_edge(self, goal: Goal, inner: Summands, sub: SubAxis, fn: ReduceFn) -> Iterator[Edge]:
        axis, level = sub
        move = SUMS[level]
        stage = goal[1]
        if move is Gather:
            yield move(goal, (self._goal(inner, 1),), axis, fn)
        elif stage == 1 or move is ReduceTile:
            child = self._goal(inner, stage)
            if move is ReduceTile or self.phases.ends(child[0], goal[0], axis):
                yield move(goal, (child,), axis, fn)

    def _atom(self, goal: Goal, x: int) -> Iterator[Edge]:
        stage = goal[1]
        match self.algebra.atoms[x]:
            case InAtom():
                yield Load(goal, (), x)
            case FnAtom(fn, arg):
                yield Apply(goal, (self.canonical((arg, stage)),), fn)
            case Fn2Atom(fn, a, b):
                children = (self.canonical((a, stage)), self.canonical((b, stage)))
                yield Pair(goal, children, fn)
            case RoundAtom(dtype, arg):
                yield Rounded(goal, (self.canonical((arg, stage)),), dtype)
            case MaxAtom(bound, arg):
                for sub in self._last_sums(bound):
                    rest = tuple(b for b in bound if b != sub)
                    atom = self.algebra.atom(MaxAtom(rest, arg))
                    inner: Summands = [(((atom,), ()), 1)]
                    yield from self._sum_edge(goal, inner, sub, ReduceFn.MAX)
            case SoFarAtom() as atom:
                if self.algebra.levels(atom.axis) == ("L",):  # a tile has the whole axis
                    yield Cumulate(goal, (self.canonical((atom.arg, stage)),), atom)
            case IdAtom(arg):
                raise AssertionError(f"a goal that is a frozen atom must be canonical: {arg}")

    # ---- products

    def _products(self, goal: Goal, mono: Mono) -> Iterator[Edge]:
        atoms, bound = mono
        clusters = self.groupings.clusters(atoms, bound)
        if len(clusters) == 1:
            if not bound:  # one cluster: a chain in canonical order
                yield self._product(goal, (atoms[:1], ()), (atoms[1:], ()))
            return
        for left, right in self.groupings.halves(clusters):
            sides = ((half, self.groupings.own(half, bound)) for half in (left, right))
            yield self._product(goal, *sides)

    def _product(self, goal: Goal, left: Mono, right: Mono) -> Edge:
        """Return the edge that multiplies one side with the other, or divides by its inverse."""
        one, other = (self._one(*side, goal[1]) for side in (left, right))
        return (
            self._quotient(goal, left, other)
            or self._quotient(goal, right, one)
            or Pair(goal, (one, other), BinaryFn.MUL)
        )

    def _quotient(self, goal: Goal, factor: Mono, other: Goal) -> Edge | None:
        """Return a division in place of a product with the inverse of a count, as programs write
        it: a third of three is one, while three times a rounded third is not."""
        atoms, bound = factor
        atom = self.algebra.atoms[atoms[0]]
        if len(atoms) > 1 or bound or not isinstance(atom, FnAtom):
            return None
        if atom.fn is not UnaryFn.RECIPROCAL or not self._counts(atom.arg):
            return None
        return Pair(goal, (other, self.canonical((atom.arg, goal[1]))), BinaryFn.DIV)

    def _counts(self, poly: int) -> bool:
        """Return whether a polynomial consists of integers only and contains no sum."""
        read = {atom.tensor for atom in inputs_of(self.algebra, [poly])}
        return bool(read) and read <= self.integers and not self.algebra.bound(poly)

    def _matmuls(self, goal: Goal, terms: Summands, axis: str) -> Iterator[Edge]:
        """Yield products summed over the tile's part of ``axis``: the common factor of all terms
        times the rest."""
        if len(terms) == 1:
            (atoms, bound), _ = terms[0]
            clusters = self.groupings.clusters(atoms, bound)
            if len(clusters) < 2:
                return
            for left, right in self.groupings.halves(clusters):
                a = self._one(left, self.groupings.own(left, bound), goal[1])
                b = self._one(right, self.groupings.own(right, bound), goal[1])
                yield from self._matmul(goal, a, b, axis)
            return
        for common, rest in self.groupings.common_factors(terms):
            a = self._one(*common, goal[1])
            b = self._goal(rest, goal[1])
            yield from self._matmul(goal, a, b, axis)

    def _matmul(self, goal: Goal, a: Goal, b: Goal, axis: str) -> Iterator[Edge]:
        if not self._is_matmul(a, b, axis):
            return
        wide = not all(self.narrowing.may_round(self.algebra, g[0]) for g in (a, b))
        self.wide |= wide
        if self.allow_wide or not wide:
            yield Product(goal, (a, b), axis, wide)

    def _is_matmul(self, a: Goal, b: Goal, axis: str) -> bool:
        rows, columns = self._axes_of_tile(a[0]), self._axes_of_tile(b[0])
        return axis in rows and axis in columns and rows != columns

    def _axes_of_tile(self, poly: int) -> frozenset[str]:
        """Return the axes of which a tile of a value has several elements."""
        found = self._tile_axes.get(poly)
        if found is None:
            free = self.algebra.free(poly)
            found = self._tile_axes[poly] = frozenset(x for x, level in free if level == "L")
        return found

    # ---- sums of several terms

    def _sum(self, goal: Goal) -> Iterator[Edge]:
        terms = list(self.algebra.polys[goal[0]])
        stage = goal[1]
        scales = {abs(c) for _, c in terms}
        if len(scales) == 1 and (factor := scales.pop()) != 1:
            signs: Summands = [(m, 1 if c > 0 else -1) for m, c in terms]
            yield Scale(goal, (self._goal(signs, stage),), factor)
            return
        common = set(terms[0][0][1]).intersection(*(set(m[1]) for m, _ in terms))
        for sub in self._last_sums(tuple(sorted(common))):
            inner = [((m[0], tuple(b for b in m[1] if b != sub)), c) for m, c in terms]
            yield from self._sum_edge(goal, inner, sub, ReduceFn.SUM)
            if sub[1] == "L" and self.allow_matmul and stage == 1:
                yield from self._matmuls(goal, inner, sub[0])
        for factor_terms, rest in self.groupings.common_factors(terms):
            other = self._goal(rest, stage)
            yield self._quotient(goal, factor_terms, other) or Pair(
                goal, (self._one(*factor_terms, stage), other), BinaryFn.MUL
            )
        for left, right in self.groupings.splits(terms):
            yield self._added(goal, left, right)

    def _added(self, goal: Goal, left: Summands, right: Summands) -> Edge:
        stage = goal[1]
        if all(c < 0 for _, c in left) and any(c > 0 for _, c in right):
            left, right = right, left
        if all(c < 0 for _, c in right):
            negated = self._goal([(m, -c) for m, c in right], stage)
            return Pair(goal, (self._goal(left, stage), negated), BinaryFn.SUB)
        children = (self._goal(left, stage), self._goal(right, stage))
        return Pair(goal, children, BinaryFn.ADD)
