"""Normal forms: every value of a program as a sum of products over named axes.

A *polynomial* is a sum of monomials with coefficients. A *monomial* is a multiset of atoms and a
set of summed sub-axes. An *atom* is an input with its axes, a scalar function of a polynomial, a
maximum over axes of a polynomial, its sum or maximum so far along an axis, a rounded polynomial, or
a *frozen* polynomial (a sum that is used as one factor). Everything is interned: equal normal forms
are equal integers.

A *sub-axis* is a pair (axis, level). A frame (see ``mirage.search.kernel.loop_nests.frames``)
splits a reduced axis into the levels ``G`` (over the grid), ``T`` (over the steps of a loop) and
``L`` (inside a tile); an axis that is not split has the level ``L`` only. A sum over an axis binds
all its levels; a value that has bound some of them is a partial sum.

Two policies exist for a product of sums: *frozen* keeps each sum as one factor, *expanded*
multiplies out (which is what lets a mean be subtracted after a loop).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction

from mirage.search.algebra.atoms import (
    Atom,
    Fn2Atom,
    FnAtom,
    IdAtom,
    InAtom,
    MaxAtom,
    Names,
    RoundAtom,
    SoFarAtom,
    SubAxis,
    rebuilt,
)
from mirage.semantics.numbers import Number
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn

Mono = tuple[tuple[int, ...], tuple[SubAxis, ...]]
"""The sorted atoms (with repetition) and the sorted summed sub-axes of a monomial."""
Coefficient = Number | int
Terms = tuple[tuple[Mono, Coefficient], ...]
MAX_TERMS = 24


@dataclass
class NormalForms:
    """Interns atoms and polynomials and does arithmetic on them."""

    levels: Callable[[str], tuple[str, ...]]
    sizes: dict[str, int]
    expand: bool = False
    atoms: list[Atom] = field(default_factory=list[Atom])
    polys: list[Terms] = field(default_factory=list[Terms])
    atom_free: list[frozenset[SubAxis]] = field(default_factory=list[frozenset[SubAxis]])
    atom_bound: list[frozenset[SubAxis]] = field(default_factory=list[frozenset[SubAxis]])
    truncated: bool = False
    sum_products: bool = (
        False  # whether a product of sums was met, that is, whether ``expand`` matters
    )
    _free: list[frozenset[SubAxis]] = field(default_factory=list[frozenset[SubAxis]])
    _bound: list[frozenset[SubAxis]] = field(default_factory=list[frozenset[SubAxis]])
    _mono_free: dict[Mono, frozenset[SubAxis]] = field(
        default_factory=dict[Mono, frozenset[SubAxis]]
    )
    _of_atoms: dict[tuple[int, ...], tuple[frozenset[SubAxis], frozenset[SubAxis]]] = field(
        default_factory=dict[tuple[int, ...], tuple[frozenset[SubAxis], frozenset[SubAxis]]]
    )
    _atom_index: dict[Atom, int] = field(default_factory=dict[Atom, int])
    _poly_index: dict[Terms, int] = field(default_factory=dict[Terms, int])

    # ---- interning

    def atom(self, atom: Atom) -> int:
        """Return the number of an atom."""
        found = self._atom_index.get(atom)
        if found is not None:
            return found
        free: frozenset[SubAxis]
        bound: frozenset[SubAxis] = frozenset()
        match atom:
            case InAtom():
                free = frozenset((a, v) for dim in atom.dims for a in dim for v in self.levels(a))
            case FnAtom() | SoFarAtom() | RoundAtom() | IdAtom():
                free, bound = self.free(atom.arg), self.bound(atom.arg)
            case Fn2Atom():
                free = self.free(atom.a) | self.free(atom.b)
                bound = self.bound(atom.a) | self.bound(atom.b)
            case MaxAtom():
                free = self.free(atom.arg) - frozenset(atom.bound)
                bound = self.bound(atom.arg) | frozenset(atom.bound)
        self.atoms.append(atom)
        self.atom_free.append(free)
        self.atom_bound.append(bound)
        self._atom_index[atom] = len(self.atoms) - 1
        return len(self.atoms) - 1

    def poly(self, terms: Iterable[tuple[Mono, Coefficient]]) -> int:
        """Return the number of a polynomial; like terms are added, zero terms dropped."""
        total: dict[Mono, Coefficient] = {}
        for mono, c in terms:
            total[mono] = total[mono] + c if mono in total else c
        key = tuple(sorted([item for item in total.items() if item[1]]))
        found = self._poly_index.get(key)
        if found is None:
            found = self._poly_index[key] = len(self.polys)
            self.polys.append(key)
            none: frozenset[SubAxis] = frozenset()
            free = [self.mono_free(mono) for mono, _ in key]
            self._free.append(free[0] if len(free) == 1 else none.union(*free))
            bound = [self.of_atoms(atoms)[1].union(own) for (atoms, own), _ in key]
            self._bound.append(bound[0] if len(bound) == 1 else none.union(*bound))
        return found

    def monomial(self, mono: Mono) -> int:
        """Return the number of the polynomial that is one monomial."""
        terms: Terms = ((mono, 1),)
        found = self._poly_index.get(terms)
        return self.poly(terms) if found is None else found

    def mono_free(self, mono: Mono) -> frozenset[SubAxis]:
        """Return the sub-axes on which a monomial still depends."""
        found = self._mono_free.get(mono)
        if found is None:
            found = self._mono_free[mono] = self.of_atoms(mono[0])[0].difference(mono[1])
        return found

    def of_atoms(self, atoms: tuple[int, ...]) -> tuple[frozenset[SubAxis], frozenset[SubAxis]]:
        """Return the sub-axes on which a product of atoms depends, and those that were summed
        inside."""
        found = self._of_atoms.get(atoms)
        if found is None:
            free, bound = ([each[a] for a in atoms] for each in (self.atom_free, self.atom_bound))
            none: frozenset[SubAxis] = frozenset()
            found = self._of_atoms[atoms] = none.union(*free), none.union(*bound)
        return found

    def free(self, poly: int) -> frozenset[SubAxis]:
        """Return the sub-axes on which a polynomial still depends."""
        return self._free[poly]

    def bound(self, poly: int) -> frozenset[SubAxis]:
        """Return the sub-axes that were summed anywhere inside."""
        return self._bound[poly]

    # ---- arithmetic

    def constant(self, c: Coefficient) -> int:
        """Return a constant polynomial."""
        return self.poly([(((), ()), _plain(c))])

    def constant_value(self, poly: int) -> Coefficient | None:
        """Return the value of a constant polynomial, or None."""
        terms = self.polys[poly]
        if not terms:
            return 0
        return terms[0][1] if len(terms) == 1 and terms[0][0] == ((), ()) else None

    def single(self, atom: int) -> int:
        """Return the polynomial that is one atom."""
        inner = self.atoms[atom]
        if isinstance(inner, IdAtom):
            return inner.arg
        return self.poly([(((atom,), ()), 1)])

    def add(self, a: int, b: int, factor: Coefficient = 1) -> int:
        """Return ``a + factor * b``."""
        return self.poly([*self.polys[a], *((m, factor * c) for m, c in self.polys[b])])

    def scale(self, a: int, factor: Coefficient) -> int:
        """Return ``factor * a``."""
        return self.poly((m, factor * c) for m, c in self.polys[a])

    def frozen(self, a: int) -> int:
        """Return ``a`` as one factor (monomials without sums do not change)."""
        terms = self.polys[a]
        if len(terms) == 1:
            (mono, c) = terms[0]
            if not mono[1]:
                return a
            unit = self.poly([(mono, 1)])
            return self.poly([(((self.atom(IdAtom(unit)),), ()), c)])
        if not terms:
            return a
        return self.poly([(((self.atom(IdAtom(a)),), ()), 1)])

    def _collide(self, a: int, b: int) -> bool:
        names = {x for (_, bound), _ in self.polys[a] for x, _ in bound}
        used = {x for (_, bound), _ in self.polys[b] for x, _ in bound}
        for (atoms, _), _ in self.polys[b]:
            for atom in atoms:
                used |= {x for x, _ in self.atom_free[atom]}
        return bool(names & used)

    def mul(self, a: int, b: int) -> int:
        """Return ``a * b``."""
        for x, y in ((a, b), (b, a)):
            c = self.constant_value(x)
            if c is not None:
                return self.scale(y, c)
        n, m = len(self.polys[a]), len(self.polys[b])
        if n > 1 or m > 1:
            self.sum_products = True
            many = self.expand and n * m <= MAX_TERMS
            if self.expand and not many:
                self.truncated = True
            if not many:
                a, b = (self.frozen(x) if len(self.polys[x]) > 1 else x for x in (a, b))
        if self._collide(a, b):
            a = self.frozen(a) if len(self.polys[a]) == 1 else self._freeze_terms(a)
        if self._collide(b, a):
            b = self.frozen(b) if len(self.polys[b]) == 1 else self._freeze_terms(b)
        terms: list[tuple[Mono, Coefficient]] = []
        for (atoms_a, bound_a), ca in self.polys[a]:
            for (atoms_b, bound_b), cb in self.polys[b]:
                mono = (tuple(sorted(atoms_a + atoms_b)), tuple(sorted(bound_a + bound_b)))
                terms.append((mono, ca * cb))
        return self.poly(terms)

    def _freeze_terms(self, a: int) -> int:
        out = self.constant(0)
        for term in self.polys[a]:
            out = self.add(out, self.frozen(self.poly([term])))
        return out

    def sum(self, a: int, axes: Iterable[str]) -> int:
        """Return the sum over whole axes; a term that does not depend on an axis is multiplied by
        its extent."""
        for axis in axes:
            terms: list[tuple[Mono, Coefficient]] = []
            for (atoms, bound), c in self.polys[a]:
                if (axis, "L") in self.mono_free(
                    (atoms, bound)
                ):  # a sum inside may bind the same name
                    subs = tuple((axis, v) for v in self.levels(axis))
                    terms.append(((atoms, tuple(sorted(bound + subs))), c))
                else:
                    terms.append(((atoms, bound), c * self.sizes[axis]))
            a = self.poly(terms)
        return a

    def inverse(self, a: int) -> int:
        """Return ``1 / a``."""
        terms = self.polys[a]
        if len(terms) != 1:
            return self.single(self.atom(FnAtom(UnaryFn.RECIPROCAL, a)))
        (atoms, bound), c = terms[0]
        inverse = _plain(Fraction(1) / c)
        if bound:
            unit = self.poly([((atoms, bound), 1)])
            return self.scale(self.single(self.atom(FnAtom(UnaryFn.RECIPROCAL, unit))), inverse)
        out = self.constant(inverse)
        for x in atoms:
            out = self.mul(out, self._inverse_atom(x))
        return out

    def _inverse_atom(self, x: int) -> int:
        match self.atoms[x]:
            case FnAtom(UnaryFn.RECIPROCAL, arg):
                return self.frozen(arg)
            case FnAtom(UnaryFn.SQRT, arg):
                return self.single(self.atom(FnAtom(UnaryFn.RSQRT, arg)))
            case FnAtom(UnaryFn.RSQRT, arg):
                return self.single(self.atom(FnAtom(UnaryFn.SQRT, arg)))
            case _:
                return self.single(self.atom(FnAtom(UnaryFn.RECIPROCAL, self.single(x))))

    def unary(self, fn: UnaryFn, a: int) -> int:
        """Apply a scalar function to ``a``."""
        if fn is UnaryFn.NEG:
            return self.scale(a, -1)
        if fn is UnaryFn.SQUARE:
            return self.mul(a, a)
        if fn is UnaryFn.RECIPROCAL:
            return self.inverse(a)
        return self.single(self.atom(FnAtom(fn, a)))

    def rounded(self, dtype: DType, a: int) -> int:
        """Round ``a`` to a type of 16 bits."""
        return self.single(self.atom(RoundAtom(dtype, a)))

    def binary(self, fn: BinaryFn, a: int, b: int, whole: bool = False) -> int:
        """Apply a function to two values; with ``whole``, a quotient does not become a product with
        the inverse."""
        if fn is BinaryFn.ADD:
            return self.add(a, b)
        if fn is BinaryFn.SUB:
            return self.add(a, b, -1)
        if fn is BinaryFn.MUL:
            constants = self.constant_value(a), self.constant_value(b)
            if 0 in constants and None in constants:  # NaN for infinite numbers
                return self.single(self.atom(Fn2Atom(fn, a, b)))
            return self.mul(a, b)
        if fn is BinaryFn.DIV and not whole:
            return self.mul(a, self.inverse(b))
        if fn is BinaryFn.POW:
            power = self._power(a, self.constant_value(b))
            if power is not None:
                return power
        return self.single(self.atom(Fn2Atom(fn, a, b)))

    def _power(self, a: int, exponent: Coefficient | None) -> int | None:
        if exponent == 0.5:
            return self.unary(UnaryFn.SQRT, a)
        if exponent == -0.5:
            return self.unary(UnaryFn.RSQRT, a)
        if exponent in (1, 2, 3, 4, -1, -2):
            out = a
            for _ in range(int(abs(exponent)) - 1):
                out = self.mul(out, a)
            return self.inverse(out) if exponent < 0 else out
        return None


def renamed(algebra: NormalForms, poly: int, old: str, new: str) -> int:
    """Return a polynomial with another name for an axis on which it depends; ``new`` is a name of
    an equally long axis that does not occur in it, and both have the same levels."""

    def name(axis: str) -> str:
        return new if axis == old else axis

    names = Names(lambda dims: tuple(tuple(map(name, d)) for d in dims), lambda b: b, name)

    def atom(number: int) -> int:
        if not any(axis == old for axis, _ in algebra.atom_free[number]):
            return number
        return algebra.atom(rebuilt(algebra.atoms[number], names, poly_of))

    def poly_of(number: int) -> int:
        return algebra.poly(
            ((tuple(sorted(map(atom, atoms))), bound), c)
            for (atoms, bound), c in algebra.polys[number]
        )

    return poly_of(poly)


def _plain(c: Coefficient) -> Coefficient:
    """Return an integral coefficient as an integer, which is faster than an equal fraction; most
    coefficients are integral."""
    return c.numerator if isinstance(c, Fraction) and c.denominator == 1 else c


def inputs_of(algebra: NormalForms, polys: Iterable[int]) -> Iterator[InAtom]:
    """Yield the inputs in some normal forms."""
    seen: set[int] = set()
    left = list(polys)
    while left:
        poly = left.pop()
        if poly in seen:
            continue
        seen.add(poly)
        for x in {x for (atoms, _), _ in algebra.polys[poly] for x in atoms}:
            match algebra.atoms[x]:
                case InAtom() as atom:
                    yield atom
                case Fn2Atom(_, a, b):
                    left += (a, b)
                case FnAtom(arg=arg) | MaxAtom(arg=arg) | SoFarAtom(arg=arg):
                    left.append(arg)
                case RoundAtom(arg=arg) | IdAtom(arg):
                    left.append(arg)
