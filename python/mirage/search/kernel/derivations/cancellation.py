"""Differences of sums, in which all digits may cancel."""

from __future__ import annotations

from collections.abc import Iterable

from mirage.search.algebra.atoms import (
    Atom,
    Fn2Atom,
    FnAtom,
    IdAtom,
    InAtom,
    MaxAtom,
    RoundAtom,
    SoFarAtom,
)
from mirage.search.algebra.normal_form import NormalForms
from mirage.semantics.scalar import UnaryFn

_ROOTS = (UnaryFn.SQRT, UnaryFn.RSQRT, UnaryFn.RECIPROCAL, UnaryFn.LOG)


def cancels(algebra: NormalForms, polys: Iterable[int]) -> int:
    """Return how many functions take a difference of sums (such as a variance as ``E[x^2] -
    E[x]^2``, in which all digits may cancel)."""
    found: set[int] = set()
    seen: set[int] = set()

    def visit(poly: int) -> None:
        if poly in seen:
            return
        seen.add(poly)
        for (atoms, _), _ in algebra.polys[poly]:
            for number in atoms:
                atom = algebra.atoms[number]
                for arg in _arguments(atom):
                    visit(arg)
                if isinstance(atom, FnAtom) and atom.fn in _ROOTS and _differs(atom.arg):
                    found.add(atom.arg)

    def _differs(poly: int) -> bool:
        signs = {c > 0 for (_, bound), c in algebra.polys[poly] if bound or _sums(poly)}
        return len(signs) == 2

    def _sums(poly: int) -> bool:
        return bool(algebra.bound(poly))

    for poly in polys:
        visit(poly)
    return len(found)


def _arguments(atom: Atom) -> tuple[int, ...]:
    match atom:
        case InAtom():
            return ()
        case FnAtom(arg=arg) | MaxAtom(arg=arg) | SoFarAtom(arg=arg) | RoundAtom(arg=arg):
            return (arg,)
        case IdAtom(arg):
            return (arg,)
        case Fn2Atom(_, a, b):
            return (a, b)
