"""The factors of a product, and the terms of a sum, that a derivation has to distinguish.

A product of many factors can be computed in as many ways as it can be grouped. Most of these do not
differ in cost: factors with the same axes that are known in the same phase may be multiplied first,
and so may factors that a sum connects. The same holds for the terms of a sum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations

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
from mirage.search.algebra.normal_form import Coefficient, Mono, NormalForms

Summands = list[tuple[Mono, Coefficient]]

_SubAxes = frozenset[SubAxis]
_Factors = tuple[tuple[tuple[int, tuple[SubAxis, ...]], ...], _SubAxes, _SubAxes]

LEFT_OUT = {
    "goals": "in some types of frame all values after the first ones",
    "factors": "of a product of many factors most ways to group them",
    "groupings": "of a sum of many terms most ways to group them",
}
"""The bounds of derivations, and what each excludes."""


@dataclass
class Groupings:
    """The groupings of products and sums in one algebra."""

    algebra: NormalForms
    max_factors: int
    left_out: set[str] = field(default_factory=set[str])
    """The bounds of :data:`LEFT_OUT` that excluded something."""

    def __post_init__(self) -> None:
        self._products_known: dict[Mono, _Factors] = {}
        self._late: dict[int, _SubAxes] = {}  # the sums over steps or parts in each atom
        self._sums_inside = self._arguments()

    def clusters(self, atoms: tuple[int, ...], bound: tuple[SubAxis, ...]) -> list[tuple[int, ...]]:
        """Group atoms that never need to be distinguished (same axes, same phase), and atoms that a
        sum connects."""
        algebra = self.algebra
        groups: dict[object, list[int]] = {}
        for x in atoms:
            late = self._late.get(x)
            if late is None:
                late = frozenset(b for b in algebra.atom_bound[x] if b[1] in "TG")
                self._late[x] = late
            groups.setdefault((algebra.atom_free[x], late), []).append(x)
        clusters = [tuple(g) for g in groups.values()]
        return self._tie(clusters, bound)

    def _tie(
        self, clusters: list[tuple[int, ...]], bound: tuple[SubAxis, ...]
    ) -> list[tuple[int, ...]]:
        for sub in bound:
            carry = [c for c in clusters if any(sub in self.algebra.atom_free[x] for x in c)]
            if len(carry) > 1:
                clusters = [c for c in clusters if c not in carry]
                clusters.append(tuple(sorted(x for c in carry for x in c)))
        return sorted(clusters)

    def halves(
        self, clusters: list[tuple[int, ...]]
    ) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Yield all splits of the clusters into two non-empty parts, with the first cluster in the
        left one."""
        head, rest = clusters[0], clusters[1:]
        if len(clusters) > self.max_factors:
            self.left_out.add("factors")
            yield head, tuple(x for c in rest for x in c)
            return
        for count in range(len(rest)):
            for chosen in combinations(range(len(rest)), count):
                left = head + tuple(x for i in chosen for x in rest[i])
                right = tuple(x for i, c in enumerate(rest) if i not in chosen for x in c)
                yield left, right

    def own(self, atoms: tuple[int, ...], bound: tuple[SubAxis, ...]) -> tuple[SubAxis, ...]:
        """Return the sums that are over axes of the factors."""
        free, _ = self.algebra.of_atoms(atoms)
        return tuple([b for b in bound if b in free])

    def common_factors(
        self, terms: Summands
    ) -> Iterator[tuple[tuple[tuple[int, ...], tuple[SubAxis, ...]], Summands]]:
        """Yield factors that all terms share, with the sums that only these factors have, and the
        terms without them."""
        shared = list(terms[0][0][0])
        for (atoms, _), _ in terms[1:]:
            pool = list(atoms)
            kept: list[int] = []
            for x in shared:
                if x in pool:
                    pool.remove(x)
                    kept.append(x)
            shared = kept
        if not shared:
            return
        groups: dict[frozenset[SubAxis], list[int]] = {}
        for x in shared:
            groups.setdefault(self.algebra.atom_free[x], []).append(x)
        units = list(groups.values())
        for count in range(1, len(units) + 1):
            for chosen in combinations(units, count):
                common = tuple(sorted(x for u in chosen for x in u))
                rest = self._divide(terms, common)
                if rest is not None:
                    yield rest

    def _divide(
        self, terms: Summands, common: tuple[int, ...]
    ) -> tuple[tuple[tuple[int, ...], tuple[SubAxis, ...]], Summands] | None:
        own: tuple[SubAxis, ...] | None = None
        rest: Summands = []
        for (atoms, bound), c in terms:
            left = list(atoms)
            for x in common:
                left.remove(x)
            mine = self.own(common, bound)
            if own is not None and mine != own:
                return None
            own = mine
            if any(b in self.algebra.atom_free[x] for x in left for b in mine):
                return None
            rest.append(((tuple(left), tuple(b for b in bound if b not in mine)), c))
        assert own is not None
        return (common, own), rest

    def splits(self, terms: Summands) -> Iterator[tuple[Summands, Summands]]:
        """Yield all ways to add in two parts, as far as terms need to be distinguished; and sums
        that are needed elsewhere, each with the rest."""
        every = set(terms)
        for part in self._sums_inside:
            if part < every:
                yield [t for t in terms if t in part], [t for t in terms if t not in part]
        groups = self._alike_terms(terms)
        if len(groups) == 1:  # a chain that begins with a term that is not negated
            groups = [[t] for t in sorted(terms, key=lambda t: t[1] < 0)]
            groups = [groups[0], [t for g in groups[1:] for t in g]]
        head, rest = groups[0], groups[1:]
        many = len(rest) > 5
        if many:
            self.left_out.add("groupings")
        for count in range(1 if many else len(rest)):
            for chosen in combinations(range(len(rest)), count):
                left = [*head, *(t for i in chosen for t in rest[i])]
                right = [t for i, g in enumerate(rest) if i not in chosen for t in g]
                yield left, right

    def _arguments(self) -> list[frozenset[tuple[Mono, Coefficient]]]:
        """Return the sums of several terms that are factors of products or arguments of functions:
        if one of them is a part of another sum, it need not be added again."""
        found: dict[int, None] = {}
        for atom in self.algebra.atoms:
            match atom:
                case FnAtom(arg=arg) | MaxAtom(arg=arg) | SoFarAtom(arg=arg):
                    found[arg] = None
                case RoundAtom(arg=arg) | IdAtom(arg):
                    found[arg] = None
                case Fn2Atom(_, a, b):
                    found.update({a: None, b: None})
                case InAtom():
                    pass
        polys = self.algebra.polys
        return [frozenset(polys[p]) for p in found if len(polys[p]) > 1]

    def _alike_terms(self, terms: Summands) -> list[Summands]:
        """Group the terms that never need to be distinguished in this sum.

        Terms are alike if they have the same sums, the same phase, and the same factors among those
        that several terms have. They can be added first at no cost, since a common factor, a sum
        over an axis and a phase are the same for all of them. If all terms are alike in this way,
        those with the same axes never need to be distinguished."""
        factors = [self._factors(mono) for mono, _ in terms]
        uses = Counter(f for own, _, _ in factors for f in own)
        groups: dict[object, Summands] = {}
        alike: dict[object, Summands] = {}
        for term, (own, steps, free) in zip(terms, factors, strict=True):
            key = term[0][1], steps, tuple(f for f in own if uses[f] > 1)
            groups.setdefault(key, []).append(term)
            alike.setdefault(free, []).append(term)
        return list((groups if len(groups) > 1 else alike).values())

    def _factors(self, mono: Mono) -> _Factors:
        """Return the factors of a product with the sums over their axes (a factor is common to two
        terms only if those are the same), the sub-axes that determine its phase, and its axes."""
        found = self._products_known.get(mono)
        if found is None:
            atoms, bound = mono
            free = self.algebra.mono_free(mono)
            own = tuple((x, self.own((x,), bound)) for x in dict.fromkeys(atoms))
            inside = (b for x in atoms for b in self.algebra.atom_bound[x])
            steps = frozenset(b for b in (*inside, *free) if b[1] in "TG")
            found = self._products_known[mono] = own, steps, free
        return found
