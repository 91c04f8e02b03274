"""Shifts of exponentials on which no result depends, left out.

A program that computes ``exp(x - s)`` with ``s = max(x)``, as PyTorch decomposes ``log_softmax``
and as people write softmax, needs the maximum before it can sum: a further pass over ``x``. On real
numbers the shift has no effect if every value that it changes has a factor ``exp(c s)`` or a
summand ``c s`` that the results no longer have: a quotient of two exponentials, or a logarithm to
which the shift is added again. The search starts from the program without such shifts; the
stabilizing rewrite takes all exponentials relative to maxima that kernels compute on the way.

A shift counts if it is constant along a dimension of the exponential, and if no other exponential
is taken of what cancels it (``exp`` of ``log_softmax``), whose argument would have no bound. Later
shifts go first: where a running maximum is written out, they depend on earlier ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from mirage.semantics.builder import Builder
from mirage.semantics.homogeneous import POWERS
from mirage.semantics.numbers import Number
from mirage.semantics.ops.kinds import is_cast
from mirage.semantics.scalar import BinaryFn, UnaryFn
from mirage.semantics.substitute import with_operands, without_dead_ops
from mirage.semantics.ugraph import (
    Contraction,
    KernelGraph,
    Op,
    Value,
    View,
)

Align = tuple["int | None", ...]
"""The dimension of the shift that corresponds to each dimension of a value."""


_SUMS = (BinaryFn.ADD, BinaryFn.SUB)


class _StaysError(Exception):
    """Something depends on the shift in another way."""


@dataclass(frozen=True)
class _Change:
    """What a value loses without the shift ``s``: the factor ``exp(degree s)`` if ``factor``,
    otherwise the summand ``degree s``, which is all of it if ``zero``."""

    factor: bool
    degree: Number
    align: Align
    zero: bool = False


def without_cancelled_shifts(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` without the shifts on which no result depends; the same object if there are
    none. Values that do not change remain the same values."""
    tried: set[Value] = set()
    while True:
        shift = next((s for s in _shifts(graph) if s not in tried), None)
        if shift is None:
            return graph
        tried.add(shift)
        try:
            graph = _Removal(graph, shift).run()
        except _StaysError:
            continue


def _shifts(graph: KernelGraph) -> Iterator[Value]:
    """Yield what is added to or subtracted from arguments of exponentials and is constant along a
    dimension of these, the last ones first."""
    definitions = {v: op for op in graph.ops for v in op.results}
    for op in reversed(graph.ops):
        if op.function is not UnaryFn.EXP:
            continue
        size, left = op.result.type.size, [op.operands[0]]
        while left:
            value = left.pop()
            made = definitions.get(value)
            if made is not None and made.function in _SUMS:
                yield from (
                    v for v in made.operands if v.type.size < size and _is_computed(v, definitions)
                )
                left += made.operands
            elif made is not None and (
                made.function is BinaryFn.MUL or isinstance(made, View) or is_cast(made)
            ):
                left += made.operands


def _is_computed(value: Value, definitions: Mapping[Value, Op]) -> bool:
    op = definitions.get(value)
    return op is not None and op.number is None


class _Removal:
    """Removes one shift; raises :class:`_StaysError`."""

    def __init__(self, graph: KernelGraph, shift: Value) -> None:
        self.graph, self.shift = graph, shift
        align = tuple(d if n > 1 else None for d, n in enumerate(shift.shape))
        self.changes = {shift: _Change(False, 1, align, zero=True)}
        self.numbers = {op.result: op.number for op in graph.ops if op.number is not None}
        self.new: dict[Value, Value] = {}
        self.after: set[Value] = set()  # computed from values that change
        self.build = Builder()

    def run(self) -> KernelGraph:
        exponentials = False
        for op in self.graph.ops:
            change: _Change | None = None
            if any(v in self.changes or v in self.after for v in op.operands):
                self.after.update(op.results)
            if any(v in self.changes for v in op.operands):
                change = self._change(op)
            elif op.function is UnaryFn.EXP and op.result in self.after:
                raise _StaysError  # of a logarithm: only the shift bounds its argument
            elif not any(v in self.new for v in op.operands):
                self.build.ops.append(op)
                continue
            exponentials |= change is not None and change.factor
            self._write(op, change)
        if not exponentials:
            raise _StaysError
        return without_dead_ops(
            replace(self.graph, ops=tuple(self.build.ops), outputs=tuple(self._outputs()))
        )

    def _outputs(self) -> Iterator[Value]:
        for value in self.graph.outputs:
            if value in self.changes and value is not self.shift:
                raise _StaysError
            yield value if value is self.shift else self.new.get(value, value)

    # ---- the new ops

    def _write(self, op: Op, change: _Change | None) -> None:
        """Append ``op`` without the shift."""
        build = self.build
        if change is not None:
            self.changes[op.result] = change
            if change.zero:
                return
        kept = self._kept_summand(op)
        if kept is not None:
            result = op.result
            y = build.unary(UnaryFn.NEG, kept[1]) if kept[0] else kept[1]
            y = y if y.shape == result.shape else build.broadcast(y, result.shape)
            self.new[result] = y if y.dtype is result.dtype else build.cast(y, result.dtype)
            return
        new = with_operands(op, tuple(map(self._renamed, op.operands)))
        if change is not None:
            self.new[op.result] = Value(op.result.type, op.result.name)
            new = replace(new, results=(self.new[op.result],))
        build.ops.append(new)

    def _kept_summand(self, op: Op) -> tuple[bool, Value] | None:
        """Return the operand that remains of a sum or difference, and whether it is negated."""
        if op.function not in _SUMS:
            return None
        zeros = [v in self.changes and self.changes[v].zero for v in op.operands]
        if zeros == [False, True]:
            return False, self._renamed(op.operands[0])
        if zeros == [True, False]:
            return op.function is BinaryFn.SUB, self._renamed(op.operands[1])
        return None

    def _renamed(self, value: Value) -> Value:
        found = self.changes.get(value)
        if found is not None and found.zero and value not in self.new:
            zero = self.build.constant(0, value.dtype)
            self.new[value] = self.build.broadcast(zero, value.shape) if value.shape else zero
        return self.new.get(value, value)

    # ---- the rules

    def _change(self, op: Op) -> _Change | None:
        """Return the change of the result of an op, None if it does not change."""
        fn = op.function
        if isinstance(fn, UnaryFn):
            return self._unary(fn, self.changes[op.operands[0]])
        if isinstance(fn, BinaryFn):
            return self._binary(fn, op)
        if isinstance(op, Contraction) and len(op.operands) == 2:
            return self._product_of_matrices(op)
        found = self.changes.get(op.operands[0])
        if found is None or len(op.operands) != 1:
            raise _StaysError
        if isinstance(op, Contraction):
            if op.sums and not found.factor:
                raise _StaysError
            return self._constant_along(found, op.over[0])
        if is_cast(op):
            return found
        if isinstance(op, View):
            return self._view(op, found)
        raise _StaysError

    def _unary(self, fn: UnaryFn, found: _Change) -> _Change | None:
        if not found.factor:
            if fn is UnaryFn.NEG:
                return replace(found, degree=-found.degree)
            if fn is UnaryFn.EXP:
                return replace(found, factor=True, zero=False)
            raise _StaysError
        if fn is UnaryFn.LOG:
            return replace(found, factor=False)
        if fn not in POWERS:
            raise _StaysError
        return replace(found, degree=found.degree * POWERS[fn])

    def _binary(self, fn: BinaryFn, op: Op) -> _Change | None:
        shape = op.result.shape
        sides = [self._wide(v, shape) for v in op.operands]
        a, b = sides
        summands = not any(s is not None and s.factor for s in sides)
        if fn in _SUMS and summands:
            return _sum(a, b, 1 if fn is BinaryFn.ADD else -1)
        if fn in (BinaryFn.ADD, BinaryFn.SUB, BinaryFn.MAX, BinaryFn.MIN):
            if a is None or b is None or replace(a, zero=False) != replace(b, zero=False):
                raise _StaysError
            return replace(a, zero=a.zero and b.zero)
        if fn is BinaryFn.KEEP and a is None and b is not None and b.factor:
            return b
        if fn in (BinaryFn.MUL, BinaryFn.DIV):
            return self._product(fn, op, a, b)
        raise _StaysError

    def _product(
        self, fn: BinaryFn, op: Op, a: _Change | None, b: _Change | None
    ) -> _Change | None:
        if all(s is None or s.factor for s in (a, b)):
            return _sum(a, b, 1 if fn is BinaryFn.MUL else -1)
        for side, other in ((a, op.operands[1]), (b, op.operands[0])):
            number = self.numbers.get(other)
            divides = fn is BinaryFn.DIV
            if side is None or not number or (divides and side is b):
                continue
            return replace(side, degree=side.degree / number if divides else side.degree * number)
        raise _StaysError

    def _product_of_matrices(self, op: Contraction) -> _Change | None:
        a, b = op.operands
        shape, sides = op.result.shape, list[_Change | None]()
        for x, contracted in ((a, len(a.shape) - 1), (b, len(b.shape) - 2)):
            found = self.changes.get(x)
            if found is None:
                sides.append(None)
                continue
            if not found.factor:
                raise _StaysError
            align = self._constant_along(found, (contracted,)).align
            lead = _widened(align[:-2], x.shape[:-2], shape[:-2])
            ends = (align[-2], None) if x is a else (None, align[-1])
            sides.append(replace(found, align=(*lead, *ends)))
        if a is b:
            raise _StaysError
        return _sum(sides[0], sides[1], 1)

    def _view(self, op: View, found: _Change) -> _Change:
        shape = op.operands[0].shape
        if all(d is None for d in found.align):
            return replace(found, align=(None,) * len(op.result.shape))
        source = op.source_dims()
        if source is None:
            raise _StaysError
        kept = {d for d in source.values() if found.align[d] is not None}
        if kept != {d for d, a in enumerate(found.align) if a is not None}:
            raise _StaysError
        if any(op.result.shape[d] != shape[s] for d, s in source.items() if s in kept):
            raise _StaysError
        dims = range(len(op.result.shape))
        align = tuple(found.align[source[d]] if d in source else None for d in dims)
        return replace(found, align=align)

    @staticmethod
    def _constant_along(found: _Change, dims: tuple[int, ...]) -> _Change:
        if any(found.align[d] is not None for d in dims):
            raise _StaysError
        return found

    def _wide(self, value: Value, shape: tuple[int, ...]) -> _Change | None:
        found = self.changes.get(value)
        if found is None:
            return None
        return replace(found, align=_widened(found.align, value.shape, shape))


def _sum(a: _Change | None, b: _Change | None, sign: int) -> _Change | None:
    """Return the change of a sum (of a product, if both are factors), or of a difference."""
    if a is None or b is None:
        found = a or b
        assert found is not None
        degree = found.degree if a is not None else sign * found.degree
        return replace(found, degree=degree, zero=False)
    if a.align != b.align or a.factor != b.factor:
        raise _StaysError
    degree = a.degree + sign * b.degree
    zero = a.zero and b.zero
    return replace(a, degree=degree, zero=zero) if degree or zero else None


def _widened(align: Align, shape: tuple[int, ...], result: tuple[int, ...]) -> Align:
    lead = len(result) - len(shape)
    sides = zip(align, shape, strict=True)
    return (None,) * lead + tuple(
        a if n == result[lead + d] else None for d, (a, n) in enumerate(sides)
    )
