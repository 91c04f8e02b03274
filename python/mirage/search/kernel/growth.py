"""How fast the values of a program grow with what it reads, and what it keeps in 16 bits.

A tensor core multiplies numbers of 16 bits, so what a kernel computes and then multiplies is
rounded to them. ``x * gain`` may leave f16 although ``x``, ``gain`` and the normalised
``x * rsqrt(mean(x^2)) * gain`` do not: it grows with both scales at once. The *growth* of a
monomial says with which power of the scale of each input it grows, once they are large; that of a
polynomial is the set of its monomials' growths.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from mirage.semantics.scalar import BinaryFn, UnaryFn
from mirage.semantics.ugraph import Binary, Constant, KernelGraph, Matmul, Op, Reduce, Unary, Value

Powers = frozenset[tuple[int, Fraction]]
"""For each input with which power of its scale a value grows; powers of 0 are left out."""
Growth = frozenset[Powers]
NOTHING: Powers = frozenset()
STILL: Growth = frozenset({NOTHING})
MOST = 16
"""What grows in more ways than so many counts as an input of its own."""
_BOUNDED = (UnaryFn.EXP, UnaryFn.SIGMOID, UnaryFn.TANH, UnaryFn.LOG)
"""Exponentials are taken relative to their maximum before they are run."""


@dataclass(frozen=True)
class Scales:
    """The growths of what a kernel reads, and of all that the program keeps in 16 bits."""

    leaves: tuple[Growth, ...]
    kept: Growth


@dataclass(frozen=True)
class Growths:
    """The growths of a program's values, and of all that it keeps in 16 bits."""

    values: dict[Value, Growth]
    kept: Growth

    def scales(self, leaves: tuple[Value, ...]) -> Scales:
        """What a kernel that reads ``leaves`` is to know of them."""
        return Scales(tuple(self.values[v] for v in leaves), self.kept)


def growths_of(graph: KernelGraph) -> Growths:
    """How each value of a program grows with its inputs."""
    values: dict[Value, Growth] = {}
    kept = {NOTHING}
    read = {v for op in graph.ops for v in op.operands}

    def add(value: Value, growth: Growth | None) -> None:
        own = frozenset({frozenset({(len(values), Fraction(1))})})
        values[value] = own if growth is None or len(growth) > MOST else growth
        if value.dtype.is_half and (value in read or value in graph.inputs):
            kept.update(values[value])

    for value in graph.inputs:
        add(value, None)
    for op in graph.ops:
        growth = _of_op(op, [values[v] for v in op.operands])
        for value in op.results:
            add(value, growth)
    return Growths(values, frozenset(kept))


def _times(a: Powers, b: Powers) -> Powers:
    total = dict(a)
    for tensor, power in b:
        total[tensor] = total.get(tensor, Fraction(0)) + power
    return frozenset((t, p) for t, p in total.items() if p)


def product(a: Growth, b: Growth) -> Growth:
    """That of a product."""
    return frozenset(_times(x, y) for x in a for y in b)


def _power(growth: Growth, power: Fraction) -> Growth:
    """A negative power of a sum shrinks with it where all that grows in it grows alike."""
    if power < 0 and len(growth - {NOTHING}) != 1:
        return STILL
    grown = growth if power > 0 else growth - {NOTHING}
    return frozenset(frozenset((t, p * power) for t, p in powers) for powers in grown)


def of_function(fn: UnaryFn, x: Growth) -> Growth:
    """That of a function of something."""
    match fn:
        case UnaryFn.SQUARE:
            return _power(x, Fraction(2))
        case UnaryFn.SQRT:
            return _power(x, Fraction(1, 2))
        case UnaryFn.RSQRT:
            return _power(x, Fraction(-1, 2))
        case UnaryFn.RECIPROCAL:
            return _power(x, Fraction(-1))
        case _:
            return STILL if fn in _BOUNDED else x


def _of_op(op: Op, operands: list[Growth]) -> Growth:
    if isinstance(op, Constant):
        return STILL
    if isinstance(op, Unary):
        return of_function(op.fn, operands[0])
    if isinstance(op, Matmul):
        return product(*operands)
    if isinstance(op, Binary):
        a, b = operands
        match op.fn:
            case BinaryFn.MUL:
                return product(a, b)
            case BinaryFn.DIV:
                return product(a, _power(b, Fraction(-1)))
            case BinaryFn.POW:
                return STILL
            case _:
                return a | b
    if isinstance(op, Reduce) or len(operands) == 1:
        return operands[0]
    return frozenset(powers for growth in operands for powers in growth)
