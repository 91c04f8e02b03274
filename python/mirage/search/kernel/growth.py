"""Which values may be rounded to f16: those that grow no faster than what the program rounds.

A tensor core multiplies numbers of 16 bits, so what a kernel computes and then multiplies is
rounded to them. ``x * gain`` may leave f16 although ``x``, ``gain`` and the normalised
``x * rsqrt(mean(x^2)) * gain`` do not: it grows with both scales at once. The *growth* of a
monomial says with which power of the scale of each tensor it grows, once they are large; that of a
polynomial is the set of its monomials' growths.

A value may be rounded if each of its growths is nothing, or that of a tensor that is there, or that
of a value that the program itself keeps in 16 bits. This steers the search to kernels whose
rounding errors are acceptable, and proves nothing: the verifier measures.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from mirage.search.algebra.normal_form import Algebra, Fn2Atom, FnAtom, IdAtom, InAtom, MaxAtom
from mirage.search.kernel.problem import KernelProblem
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import Binary, Constant, Matmul, Op, Reduce, Unary, Value

Powers = frozenset[tuple[int, Fraction]]
"""For each tensor with which power of its scale a value grows; powers of 0 are left out."""
Growth = frozenset[Powers]
NOTHING: Powers = frozenset()
_STILL: Growth = frozenset({NOTHING})
_MOST = 16
_BOUNDED = (UnaryFn.EXP, UnaryFn.SIGMOID, UnaryFn.TANH, UnaryFn.LOG)
"""Exponentials are taken relative to their maximum before they are run."""


def _times(a: Powers, b: Powers) -> Powers:
    total = dict(a)
    for tensor, power in b:
        total[tensor] = total.get(tensor, Fraction(0)) + power
    return frozenset((t, p) for t, p in total.items() if p)


def _product(a: Growth, b: Growth) -> Growth:
    return frozenset(_times(x, y) for x in a for y in b)


def _power(growth: Growth, power: Fraction) -> Growth:
    """A negative power of a sum shrinks with it where all that grows in it grows alike."""
    if power < 0 and len(growth - {NOTHING}) != 1:
        return _STILL
    grown = growth if power > 0 else growth - {NOTHING}
    return frozenset(frozenset((t, p * power) for t, p in powers) for powers in grown)


def _of_function(fn: UnaryFn, x: Growth) -> Growth:
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
            return _STILL if fn in _BOUNDED else x


@dataclass
class Narrowing:
    """What may be rounded to 16 bits in a kernel problem. All of it, unless they are those of
    f16."""

    allowed: Growth | None  # None: anything
    _polys: dict[tuple[int, int], Growth] = field(
        default_factory=dict[tuple[int, int], "Growth"], init=False
    )

    def may_round(self, algebra: Algebra, poly: int) -> bool:
        """Whether the value of a normal form may be rounded; tensors are numbers of 16 bits as
        they are."""
        return self.allowed is None or self._of(algebra, poly) <= self.allowed

    def _of(self, algebra: Algebra, poly: int) -> Growth:
        key = (id(algebra), poly)
        if key not in self._polys:
            growths: set[Powers] = set()
            for (atoms, _), _ in algebra.polys[poly]:
                product = _STILL
                for atom in atoms:
                    both = _product(product, self._atom(algebra, atom))
                    product = frozenset(sorted(both, key=str)[:_MOST])
                growths |= product
            self._polys[key] = frozenset(growths)
        return self._polys[key]

    def _atom(self, algebra: Algebra, number: int) -> Growth:
        match algebra.atoms[number]:
            case InAtom(tensor, _):
                return frozenset({frozenset({(tensor, Fraction(1))})})
            case FnAtom(fn, arg):
                return _of_function(fn, self._of(algebra, arg))
            case Fn2Atom(fn, a, b):
                both = self._of(algebra, a), self._of(algebra, b)
                return both[0] | both[1] if fn in (BinaryFn.MAX, BinaryFn.MIN) else _STILL
            case MaxAtom(_, arg) | IdAtom(arg):
                return self._of(algebra, arg)


def narrowing_of(problem: KernelProblem, half: DType | None) -> Narrowing:
    """What may be rounded to ``half``, the type of the operands of products."""
    if half is not DType.F16:
        return Narrowing(None)
    allowed: set[Powers] = {NOTHING}
    known: dict[Value, Growth] = {}
    for i, v in enumerate(problem.leaves):
        known[v] = frozenset({frozenset({(i, Fraction(1))})})
        allowed |= known[v]
    for value, op in _in_order(problem):
        known[value] = _of_op(op, [known[v] for v in op.operands])
        if value.dtype.is_half and value not in problem.outputs:
            allowed |= known[value]
    return Narrowing(frozenset(allowed))


def _in_order(problem: KernelProblem) -> Iterable[tuple[Value, Op]]:
    done: dict[Value, Op] = {}

    def visit(value: Value) -> None:
        if value in done or value in problem.leaves or value not in problem.definitions:
            return
        op = problem.definitions[value]
        for operand in op.operands:
            visit(operand)
        done[value] = op

    for value in problem.outputs:
        visit(value)
    return done.items()


def _of_op(op: Op, operands: list[Growth]) -> Growth:
    if isinstance(op, Constant):
        return _STILL
    if isinstance(op, Unary):
        return _of_function(op.fn, operands[0])
    if isinstance(op, Matmul):
        return _product(*operands)
    if isinstance(op, Binary):
        a, b = operands
        match op.fn:
            case BinaryFn.MUL:
                return _product(a, b)
            case BinaryFn.DIV:
                return _product(a, _power(b, Fraction(-1)))
            case BinaryFn.POW:
                return _STILL
            case _:
                return a | b
    if isinstance(op, Reduce) or len(operands) == 1:
        return operands[0]
    return frozenset(powers for growth in operands for powers in growth)


def cancels(algebra: Algebra, polys: Iterable[int]) -> int:
    """How many functions take a difference of sums (a variance as ``E[x^2] - E[x]^2``, of which no
    digits may be left)."""
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


_ROOTS = (UnaryFn.SQRT, UnaryFn.RSQRT, UnaryFn.RECIPROCAL, UnaryFn.LOG)


def _arguments(atom: InAtom | FnAtom | Fn2Atom | MaxAtom | IdAtom) -> tuple[int, ...]:
    match atom:
        case InAtom():
            return ()
        case FnAtom(_, arg) | MaxAtom(_, arg) | IdAtom(arg):
            return (arg,)
        case Fn2Atom(_, a, b):
            return (a, b)
