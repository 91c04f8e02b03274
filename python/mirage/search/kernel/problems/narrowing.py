"""The values that a kernel may round to 16 bits: those that grow no faster than values that the
program rounds.

A value may be rounded if, for all scales of the inputs, it is no larger than the largest value that
the program itself keeps in 16 bits (including its inputs), and if it is not a part of a sum: parts
may be large where their sum is not, and then the sum has the large errors of their rounding. This
guides the search to kernels whose rounding errors are acceptable, but proves nothing: the verifier
measures the errors.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from mirage.search.algebra.atoms import (
    Fn2Atom,
    FnAtom,
    IdAtom,
    InAtom,
    MaxAtom,
    RoundAtom,
    SoFarAtom,
)
from mirage.search.algebra.normal_form import NormalForms
from mirage.search.kernel.problems.growth import Scales, Sizes, growth_of, of_function
from mirage.search.kernel.problems.problem import KernelProblem
from mirage.semantics.scalar import BinaryFn, DType
from mirage.semantics.ugraph import Contraction, KernelGraph, Movement, Op, Value

_EQUAL = 1e-9


@dataclass
class Narrowing:
    """The values that may be rounded to ``half``, the type of products' operands, in a kernel that
    reads tensors of those ``scales``. Without such a type, all values may be."""

    half: DType | None = None
    scales: Scales = field(default_factory=lambda: Scales((), np.zeros(0)))
    full: frozenset[int] = frozenset()
    """The numbers of the tensors of 32 bits."""
    _polys: dict[int, Sizes] = field(default_factory=dict[int, "Sizes"], init=False)
    """The sizes of the normal forms of ``_algebra``; numbers in another algebra mean other normal
    forms."""
    _products: dict[tuple[int, ...], Sizes] = field(
        default_factory=dict[tuple[int, ...], "Sizes"], init=False
    )
    _may: dict[int, bool] = field(default_factory=dict[int, bool], init=False)
    """Whether each of these may be rounded."""
    _algebra: NormalForms | None = field(default=None, init=False)

    def may_round(self, algebra: NormalForms, poly: int) -> bool:
        """Return whether the value of a normal form may be rounded. Every computed value that is
        not a part of a sum may be rounded to bf16, which has the range of f32, but not tensors that
        the program is given, or stores, in f32."""
        if is_part_of_sum(algebra, poly):
            return False
        if self.half is None:
            return True
        if self.half is DType.BF16 and not self._is_full(algebra, poly):
            return True
        sizes = self._of(algebra, poly)
        if poly not in self._may:
            self._may[poly] = bool((sizes <= self.scales.kept + _EQUAL).all())
        return self._may[poly]

    def _is_full(self, algebra: NormalForms, poly: int) -> bool:
        """Return whether a normal form is a tensor of 32 bits."""
        match algebra.polys[poly]:
            case ((((number,), ()), _),):
                atom = algebra.atoms[number]
                return isinstance(atom, InAtom) and atom.tensor in self.full
            case _:
                return False

    def _of(self, algebra: NormalForms, poly: int) -> Sizes:
        if algebra is not self._algebra:
            self._algebra, self._products, self._polys, self._may = algebra, {}, {}, {}
        if poly not in self._polys:
            terms = [self._product(algebra, atoms) for (atoms, _), _ in algebra.polys[poly]]
            nothing = self._product(algebra, ())
            self._polys[poly] = reduce(np.maximum, terms) if terms else nothing
        return self._polys[poly]

    def _product(self, algebra: NormalForms, atoms: tuple[int, ...]) -> Sizes:
        """Return the size of a product, or of a sum of such products."""
        if atoms not in self._products:
            factors = [self._atom(algebra, atom) for atom in atoms]
            one = np.zeros_like(self.scales.kept)
            self._products[atoms] = reduce(np.add, factors, one)
        return self._products[atoms]

    def _atom(self, algebra: NormalForms, number: int) -> Sizes:
        match algebra.atoms[number]:
            case InAtom(tensor, _):
                return self.scales.leaves[tensor]
            case FnAtom(fn, arg):
                return of_function(fn, self._of(algebra, arg))
            case Fn2Atom(BinaryFn.DIV, a, b):
                return self._of(algebra, a) - self._of(algebra, b)
            case Fn2Atom(fn, a, b):
                both = np.maximum(self._of(algebra, a), self._of(algebra, b))
                return both if fn in (BinaryFn.MAX, BinaryFn.MIN) else np.zeros_like(both)
            case MaxAtom(arg=arg) | SoFarAtom(arg=arg) | RoundAtom(arg=arg) | IdAtom(arg):
                return self._of(algebra, arg)


def is_part_of_sum(algebra: NormalForms, poly: int) -> bool:
    """Return whether a term of a normal form is summed over a part of the sub-axes of an axis,
    so that other parts of the sum are added later."""
    for (_, bound), _ in algebra.polys[poly]:
        for axis in {axis for axis, _ in bound}:
            if any((axis, level) not in bound for level in algebra.levels(axis)):
                return True
    return False


def half_type(tensors: list[Value]) -> DType | None:
    """Return the 16-bit type of a program whose inputs are 16-bit in tiles, or None."""
    kinds = [v.dtype.in_tile for v in tensors if v.type.size > 1]
    halves = [k for k in kinds if k.is_half]
    if not halves or any(k is DType.F64 for k in kinds):
        return None
    return max(sorted(set(halves), key=lambda k: k.value), key=halves.count)


def narrowing_of(problem: KernelProblem, half: DType | None) -> Narrowing:
    """Return the values that may be rounded to ``half``, the type of products' operands."""
    if half is None:
        return Narrowing()
    full = (i for i, v in enumerate(problem.leaves) if v.dtype.bytes == 4)
    return Narrowing(half, problem.scales or _alone(problem), frozenset(full))


def multiplied_only(problem: KernelProblem) -> frozenset[int]:
    """Return the tensors of 8-bit floats that the program only multiplies, unconverted. Sums of
    such products need not be more exact than the hardware's products of 8 bits. For a tensor that
    the program converts to a wider type, they must be as exact as in that type."""
    views = {v: v for v in problem.leaves if v.dtype.is_eight_bits}
    others: set[Value] = set()
    multiplied: set[Value] = set()
    for op in dict.fromkeys(problem.definitions.values()):
        read = {views[v] for v in op.operands if v in views}
        if isinstance(op, Movement) and read:
            views.update(dict.fromkeys(op.results, next(iter(read))))
            others |= read if len(read) > 1 else set()
        elif isinstance(op, Contraction) and len(op.operands) == 2:
            multiplied |= read
        else:
            others |= read
    stored = {views[v] for v in problem.outputs if v in views}
    kept = multiplied - others - stored
    return frozenset(i for i, v in enumerate(problem.leaves) if v in kept)


def _alone(problem: KernelProblem) -> Scales:
    """Return the scales for a problem that is a program of its own."""
    ops: dict[Op, None] = {}

    def visit(value: Value) -> None:
        if value in problem.leaves or value not in problem.definitions:
            return
        op = problem.definitions[value]
        if op not in ops:
            for operand in op.operands:
                visit(operand)
            ops[op] = None

    for value in problem.outputs:
        visit(value)
    graph = KernelGraph("alone", problem.leaves, tuple(ops), problem.outputs)
    return growth_of(graph).scales(problem.leaves)
