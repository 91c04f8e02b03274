"""The elements of a tile beyond the end of its tensor, where loads give zeros: whether a value is
zero there, or at least finite, so that a sum over the axis needs no mask."""

from __future__ import annotations

from mirage.search.algebra.atoms import FnAtom, IdAtom, InAtom, RoundAtom
from mirage.search.algebra.normal_form import NormalForms
from mirage.semantics.scalar import UNARY, Algebra

_ATOMS = {fn: row for fn, row in UNARY.items() if row.algebra is Algebra.OPAQUE}
_ZERO = frozenset(fn for fn, row in _ATOMS.items() if row.zero_at_zero)
"""The functions that are zero at zero."""
_FINITE = frozenset(fn for fn, row in _ATOMS.items() if row.closed)
"""The functions that are finite at finite arguments (roots of negative numbers aside)."""


def finite_beyond(algebra: NormalForms, poly: int, axis: str) -> bool:
    """Return whether zeros outside the tensors give finite values (no function could be infinite
    there)."""
    for (atoms, _), _ in algebra.polys[poly]:
        for x in atoms:
            if not any(a == axis for a, _ in algebra.atom_free[x]):
                continue
            atom = algebra.atoms[x]
            if isinstance(atom, IdAtom | RoundAtom) or (
                isinstance(atom, FnAtom) and atom.fn in _FINITE
            ):
                if not finite_beyond(algebra, atom.arg, axis):
                    return False
            elif not isinstance(atom, InAtom):
                return False
    return True


def zero_beyond(algebra: NormalForms, poly: int, axis: str) -> bool:
    """Return whether zeros outside the tensors make the value zero there."""
    if not finite_beyond(algebra, poly, axis):
        return False
    for (atoms, bound), _ in algebra.polys[poly]:
        summed = any(a == axis for a, _ in bound)  # such a factor is the same everywhere
        if summed or not any(_zero_atom(algebra, x, axis) for x in atoms):
            return False
    return True


def _zero_atom(algebra: NormalForms, x: int, axis: str) -> bool:
    if not any(a == axis for a, _ in algebra.atom_free[x]):
        return False
    atom = algebra.atoms[x]
    if isinstance(atom, IdAtom | RoundAtom) or (isinstance(atom, FnAtom) and atom.fn in _ZERO):
        return zero_beyond(algebra, atom.arg, axis)
    return isinstance(atom, InAtom)
