"""Values that are kept only where a number is above or below another one.

``where(n > 1, x / n, x)`` divides by ``n`` where ``n`` is larger than 1, and drops the quotient
everywhere else. So it is ``where(n > 1, x / max(n, 1), x)``, whose divisor is positive everywhere.
``where(x > 0, log(x), 0)`` takes the logarithm of positive numbers only: of ``max(x, 2^-149)``, as
there is no smaller number in the types of kernels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction

from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.substitute import with_operands, without_dead_ops
from mirage.semantics.ugraph import (
    Binary,
    Elementwise,
    KernelGraph,
    Op,
    Structure,
    TensorType,
    Value,
)

_OWES = (
    UnaryFn.RECIPROCAL, UnaryFn.SQRT, UnaryFn.RSQRT, UnaryFn.LOG, UnaryFn.LOG1P, BinaryFn.DIV,
    BinaryFn.FLOOR_DIV, BinaryFn.REMAINDER, BinaryFn.POW,
)  # fmt: skip
"""Functions that are not defined for all numbers."""
_BELOW = (BinaryFn.LT, BinaryFn.LE)
_LEAST = {BinaryFn.MAX: Fraction(1, 1 << 149), BinaryFn.MIN: Fraction(-1, 1 << 149)}
"""The numbers next to zero above and below it."""

_Makers = Mapping[Value, Op]


def with_bounds(graph: KernelGraph) -> KernelGraph:
    """Return a program in which values that are kept only where a number is within bounds are
    computed from the number within these bounds, if they may be undefined elsewhere. It is the same
    function, element by element."""
    makers: dict[Value, Op] = {v: op for op in graph.ops for v in op.results}
    ops: list[Op] = []
    for op in graph.ops:
        if op.function is BinaryFn.KEEP:
            b = Builder()
            kept = _within_bounds(b, op, makers)
            ops += b.ops
            op = with_operands(op, (op.operands[0], kept)) if b.ops else op
        op = _as_limit(op, makers) or op
        ops.append(op)
    changed = tuple(ops) != graph.ops
    return without_dead_ops(replace(graph, ops=tuple(ops))) if changed else graph


def keeps_from_undefined(graph: KernelGraph) -> bool:
    """Return whether a mask keeps some of what may be undefined elsewhere, so that its argument
    says nothing about where the program is defined. Kernels may do so, too."""
    return any(isinstance(op, Structure) for op in graph.ops) or bool(_keepers(graph))


def without_kept(graph: KernelGraph) -> KernelGraph:
    """Return a program in which masks keep ones in place of values that may be undefined elsewhere,
    so that nothing is computed only to be kept."""
    keepers = _keepers(graph)
    ops: list[Op] = []
    for op in graph.ops:
        if op in keepers:
            truth, kept = op.operands
            b = Builder()
            ones = b.broadcast(b.constant(1, kept.dtype), kept.shape)
            ops += b.ops
            op = with_operands(op, (truth, ones))
        ops.append(op)
    return without_dead_ops(replace(graph, ops=tuple(ops)))


def _keepers(graph: KernelGraph) -> set[Op]:
    """Return the ops that keep, by a mask, what may be undefined elsewhere. Constants are defined,
    and whether the caller's masks leave anything of a row is examined separately."""
    found = set[Op]()
    owes, constants, whole_rows = set[Value](), set[Value](), _of_whole_rows(graph)
    for op in graph.ops:
        kept = op.operands[1] if op.function is BinaryFn.KEEP else None
        if kept in owes and op.operands[0] not in whole_rows:
            found.add(op)
        argument = op.operands[-1:] if op.function is BinaryFn.DIV else op.operands
        if op.number is not None or constants.issuperset(op.operands):
            constants.update(op.results)
        elif (op.function in _OWES and not constants.issuperset(argument)) or (
            not owes.isdisjoint(op.operands)
        ):
            owes.update(op.results)
    return found


def _of_whole_rows(graph: KernelGraph) -> set[Value]:
    """Return the values that are computed from counts of truth values and do not depend on
    floats."""
    given = {v for v in graph.inputs if v.dtype is DType.I1 or v.dtype.is_integer}
    counts = set[Value]()
    for op in graph.ops:
        if op.number is not None:
            given.update(op.results)
        elif given.issuperset(op.operands):
            given.update(op.results)
            if isinstance(op.function, ReduceFn) or not counts.isdisjoint(op.operands):
                counts.update(op.results)
    return counts


def _as_limit(op: Op, makers: _Makers) -> Op | None:
    """Return the larger or the smaller of a number and a constant, if an op chooses it."""
    if op.function is not BinaryFn.ADD:
        return None
    for one, other in (op.operands, op.operands[::-1]):
        first, second = _kept(one, makers), _kept(other, makers)
        if first is None or second is None:
            continue
        (p, a), (q, c) = first, second
        negated, compared = makers.get(q), makers.get(p)
        if negated is None or negated.function is not UnaryFn.NOT or negated.operands[0] is not p:
            continue
        if compared is not None and compared.function in _BELOW and {*compared.operands} == {a, c}:
            fn = BinaryFn.MIN if compared.operands[0] is a else BinaryFn.MAX
            if op.results[0].shape in (a.shape, c.shape):
                return Binary((a, c), op.results, fn)
    return None


def _kept(x: Value, makers: _Makers) -> tuple[Value, Value] | None:
    """Return a truth value and what it keeps: a value, or a constant by which it is multiplied."""
    op = makers.get(x)
    if op is None or op.function not in (BinaryFn.KEEP, BinaryFn.MUL):
        return None
    truth, kept = op.operands
    if op.function is BinaryFn.KEEP:
        return truth, kept
    cast, constant = makers.get(truth), makers.get(kept)
    if cast is None or constant is None or constant.number is None:
        return None
    is_truth = isinstance(cast, Elementwise) and cast.identity
    return (cast.operands[0], kept) if is_truth and cast.operands[0].dtype is DType.I1 else None


def _within_bounds(b: Builder, op: Op, makers: dict[Value, Op]) -> Value:
    """Write the value that an op keeps."""
    kept = op.operands[1]
    for x, fn, bound, beyond in _bounds(op.operands[0], makers):
        limited = Builder()
        if beyond and makers[bound].number == 0:
            bound = limited.constant(_LEAST[fn], bound.dtype)
        again = _Again(makers, x, limited.binary(fn, x, bound))
        found = again.of(kept)
        if again.owes:
            kept = found
            b.ops += [*limited.ops, *again.ops]
            makers.update((v, o) for o in b.ops for v in o.results)
    return kept


def _bounds(
    truth: Value, makers: _Makers, *, holds: bool = True
) -> Iterator[tuple[Value, BinaryFn, Value, bool]]:
    """Yield numbers that are at least (``max``) or at most (``min``) a constant where a truth value
    holds, or does not hold, and whether they are never the constant itself."""
    op = makers.get(truth)
    if op is None:
        return
    if op.function is UnaryFn.NOT:
        yield from _bounds(op.operands[0], makers, holds=not holds)
    elif op.function is (BinaryFn.AND if holds else BinaryFn.OR):
        for v in op.operands:
            yield from _bounds(v, makers, holds=holds)
    elif op.function in _BELOW:
        low, high = op.operands if holds else op.operands[::-1]
        beyond = (op.function is BinaryFn.LT) is holds
        for x, fn, bound in ((high, BinaryFn.MAX, low), (low, BinaryFn.MIN, high)):
            made = makers.get(bound)
            same = x.dtype is bound.dtype and not x.dtype.is_integer
            if made is not None and made.number is not None and same and not bound.shape:
                yield x, fn, bound, beyond


class _Again:
    """Elementwise ops, with another number in place of one of the values that they read."""

    def __init__(self, makers: _Makers, x: Value, instead: Value) -> None:
        self.makers, self.found = makers, {x: instead}
        self.ops: list[Op] = []
        self.owes = False

    def of(self, value: Value) -> Value:
        """Return the value, computed from the other number if it depends on it."""
        if value not in self.found:
            self.found[value] = self._made(value)
        return self.found[value]

    def _made(self, value: Value) -> Value:
        op = self.makers.get(value)
        if not isinstance(op, Elementwise):
            return value
        operands = tuple(map(self.of, op.operands))
        if operands == op.operands:
            return value
        result = Value(TensorType(value.shape, value.dtype))
        self.owes = self.owes or op.function in _OWES
        self.ops.append(replace(with_operands(op, operands), results=(result,)))
        return result
