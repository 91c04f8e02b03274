"""The factors of normal forms: an input with its axes, a scalar function of a polynomial, a maximum
over axes of one, its sum or maximum so far along an axis, one that is rounded, and a sum that is
kept as one factor.

Polynomials are numbers here (:mod:`mirage.search.algebra.normal_form` interns them).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from mirage.search.algebra.axes import Dims
from mirage.semantics.scalar import BinaryFn, CumulateFn, DType, UnaryFn

SubAxis = tuple[str, str]


@dataclass(frozen=True)
class InAtom:
    """An input tensor, read with the given axes."""

    tensor: int
    dims: Dims


@dataclass(frozen=True)
class FnAtom:
    """A scalar function of a polynomial."""

    fn: UnaryFn
    arg: int


@dataclass(frozen=True)
class Fn2Atom:
    """A function of two polynomials that is not a ring operation (max, min, pow)."""

    fn: BinaryFn
    a: int
    b: int


@dataclass(frozen=True)
class MaxAtom:
    """The maximum of a polynomial over sub-axes."""

    bound: tuple[SubAxis, ...]
    arg: int


@dataclass(frozen=True)
class SoFarAtom:
    """The sum, maximum or product of a polynomial over the indices of an axis up to each one, or
    before each one if ``exclusive``; from the last one on if ``reversed``."""

    fn: CumulateFn
    exclusive: bool
    reversed: bool
    axis: str
    arg: int


@dataclass(frozen=True)
class RoundAtom:
    """A polynomial that is rounded to a type of 16 bits."""

    dtype: DType
    arg: int


@dataclass(frozen=True)
class IdAtom:
    """A polynomial that is kept as one factor."""

    arg: int


Atom = InAtom | FnAtom | Fn2Atom | MaxAtom | SoFarAtom | RoundAtom | IdAtom


@dataclass(frozen=True)
class Names:
    """Other names of axes in an atom: of the axes of a tensor, of summed sub-axes, and of the one
    axis along which something is so far."""

    dims: Callable[[Dims], Dims]
    bound: Callable[[tuple[SubAxis, ...]], tuple[SubAxis, ...]]
    axis: Callable[[str], str]


def rebuilt(atom: Atom, names: Names, poly: Callable[[int], int]) -> Atom:
    """Return an atom with other names, of the polynomials that ``poly`` gives for its own."""
    match atom:
        case InAtom(tensor, dims):
            return InAtom(tensor, names.dims(dims))
        case FnAtom(fn, arg):
            return FnAtom(fn, poly(arg))
        case Fn2Atom(fn, a, b):
            return Fn2Atom(fn, poly(a), poly(b))
        case MaxAtom(bound, arg):
            return MaxAtom(names.bound(bound), poly(arg))
        case SoFarAtom():
            return replace(atom, axis=names.axis(atom.axis), arg=poly(atom.arg))
        case RoundAtom(dtype, arg):
            return RoundAtom(dtype, poly(arg))
        case IdAtom(arg):
            return IdAtom(poly(arg))
