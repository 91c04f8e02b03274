"""Logarithms of sums of exponentials, whatever is subtracted from the arguments and added again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial, reduce

from mirage.semantics.builder import Builder
from mirage.semantics.ops.kinds import is_cast
from mirage.semantics.scalar import BinaryFn, ReduceFn, UnaryFn
from mirage.semantics.ugraph import Contraction, Op, Value, View
from mirage.verify.normal_form.exponents import exponential
from mirage.verify.normal_form.predicates import moved


@dataclass(frozen=True)
class _Written:
    """The preceding ops, and the operands of reshapes."""

    makers: Mapping[Value, Op]
    reshaped: Mapping[Value, Value]

    def source(self, x: Value) -> Value:
        """Return the value with the same elements as ``x`` in the same order that ``x`` is made
        from by reshapes and casts."""
        while True:
            given, op = self.reshaped.get(x), self.makers.get(x)
            if given is None and is_cast(op):
                given = op.operands[0]
            if given is None:
                return x
            x = given

    def op(self, x: Value) -> Op | None:
        return self.makers.get(self.source(x))

    def operands(self, x: Value, fn: UnaryFn | BinaryFn) -> tuple[Value, ...] | None:
        """Return the operands of the function that computes ``x``, if it is this function."""
        op = self.op(x)
        return op.operands if op is not None and op.function is fn else None

    def before_moves(self, x: Value, y: Value) -> tuple[tuple[Value, Value], list[View]]:
        """Return two values without the views that both have in common, and these in their
        order."""
        moves: list[View] = []
        while isinstance(first := self.makers.get(x), View):
            second = self.makers.get(y)
            if second is None or not _is_same_view(first, second):
                break
            moves.insert(0, first)
            (x,), (y,) = first.operands, second.operands
        return (x, y), moves

    def sum_of_two(
        self, total: Op | None, shift: Value, extremum: BinaryFn
    ) -> tuple[Value, Value] | None:
        """Return ``x`` and ``y`` if ``total`` is ``1 + e^-|x - y|`` and ``shift`` is the larger (or
        smaller) one; ``y`` may be zero."""
        ends = self.operands(shift, extremum)
        if ends is None or total is None or total.function is not BinaryFn.ADD:
            return None
        for one, small in (total.operands, total.operands[::-1]):
            made = self.op(one)
            if made is None or made.number != 1:
                continue
            x, unequal = self._argument(small)
            size = shift.type.size
            if x is None or any(not self._alike(pair, ends, size) for pair in unequal):
                continue
            apart = self.operands(x, BinaryFn.SUB)
            if apart is not None and self._alike(apart, ends, size):
                return ends[0], ends[1]
            for end, zero in (ends, ends[::-1]):
                is_zero = (made := self.op(zero)) is not None and made.number == 0
                if is_zero and self._alike((end,), (x,), size):
                    return ends[0], ends[1]
        return None

    def _alike(self, pair: tuple[Value, ...], other: tuple[Value, ...], size: int) -> bool:
        """Return whether two pairs of values (or two values) of results with ``size`` elements have
        the same elements at each place, in either order of the two. Values with fewer elements are
        repeated along dimensions that must be the same."""
        if {*map(self.source, pair)} != {*map(self.source, other)}:
            return False
        if all(v.type.size == size for v in (*pair, *other)):
            return True
        return {(self.source(v), v.shape) for v in pair} == {
            (self.source(v), v.shape) for v in other
        }

    def _argument(self, x: Value) -> tuple[Value | None, list[tuple[Value, ...]]]:
        """Return ``y`` of ``e^-|y|``, and the pairs of values whose inequality masks it, or values
        computed from it; None for other values."""
        unequal: list[tuple[Value, ...]] = []
        for fn in (UnaryFn.EXP, UnaryFn.NEG, UnaryFn.ABS):
            made = self.operands(x, fn)
            if made is None:
                return None, unequal
            x = made[0]
            kept = self.operands(x, BinaryFn.KEEP)
            pair = None if kept is None else self._unequal(kept[0])
            if kept is not None and pair is not None:
                unequal.append(pair)
                x = kept[1]
        return x, unequal

    def _unequal(self, mask: Value) -> tuple[Value, ...] | None:
        """Return the two values whose inequality a mask tests."""
        negated = self.operands(mask, UnaryFn.NOT)
        equal = None if negated is None else self.operands(negated[0], BinaryFn.EQ)
        return equal or self.operands(mask, BinaryFn.NE)


def _is_same_view(first: View, second: Op) -> bool:
    """Return whether two ops move elements of operands of one shape in the same way."""
    if type(second) is not type(first) or first.operands[0].shape != second.operands[0].shape:
        return False
    own = (f.name for f in fields(first) if f.name not in ("operands", "results"))
    same = all(getattr(first, name) == getattr(second, name) for name in own)
    return same and first.result.shape == second.results[0].shape


def shift_rule(
    op: Op, makers: Mapping[Value, Op], reshaped: Mapping[Value, Value]
) -> Callable[[Builder], Value] | None:
    """Return how to write ``m + log(sum(e^(x - m)))``: as the logarithm of the sum of ``e^x``,
    whatever is subtracted and added again, also if both terms are moved; and ``max(x, y) + log(1 +
    e^-|x - y|)``, which is the same for a sum of two, or ``min(x, y) - log(1 + e^-|x - y|)``, which
    is its negative for their negatives, or the negative of that. Return None for other ops."""
    known = _Written(makers, reshaped)
    if op.function is BinaryFn.SUB:
        return _least_less_logarithm(op, known)
    if op.function is not BinaryFn.ADD:
        return None
    if any(v.shape != op.result.shape for v in op.operands):
        return None
    terms, moves = known.before_moves(*op.operands)
    for side, shift in (terms, terms[::-1]):
        log = known.op(side)
        if log is None or log.function is not UnaryFn.LOG:
            continue
        total = known.op(log.operands[0])
        rule = _sum_of_pair(known.sum_of_two(total, shift, BinaryFn.MAX))
        if rule is None and total is not None:
            rule = _unshifted(total, known.source(shift), known)
        if rule is not None:
            return lambda b, rule=rule, shape=side.shape: reduce(
                partial(moved, b), moves, _logarithm(b, rule(b), shape)
            )
    return None


def _sum_of_pair(pair: tuple[Value, Value] | None) -> Callable[[Builder], Value] | None:
    """Return how to write the sum of a pair's exponentials, if there is a pair."""
    return None if pair is None else lambda b: _sum_of_exponentials(b, *pair)


def _least_less_logarithm(op: Op, known: _Written) -> Callable[[Builder], Value] | None:
    """Return how to write a difference of ``min(x, y)`` and ``log(1 + e^-|x - y|)``, in either
    order."""
    for shift, side in (op.operands, op.operands[::-1]):
        log = known.op(side)
        if log is None or log.function is not UnaryFn.LOG or shift.shape != op.results[0].shape:
            continue
        pair = known.sum_of_two(known.op(log.operands[0]), shift, BinaryFn.MIN)
        if pair is None:
            continue

        def written(
            b: Builder,
            pair: tuple[Value, Value] = pair,
            negated: bool = shift is op.operands[0],
        ) -> Value:
            total = _sum_of_exponentials(b, *(b.unary(UnaryFn.NEG, x) for x in pair))
            found = b.unary(UnaryFn.LOG, total)
            return b.unary(UnaryFn.NEG, found) if negated else found

        return written
    return None


def _unshifted(total: Op, shift: Value, known: _Written) -> Callable[[Builder], Value] | None:
    """Return the sum of exponentials without the shift of all their arguments."""
    if total.function not in (ReduceFn.SUM, BinaryFn.ADD):
        return None
    arguments: list[Value] = []
    for v in total.operands:
        exp = known.makers.get(v)
        if exp is None or exp.function is not UnaryFn.EXP:
            return None
        less = known.makers.get(exp.operands[0])
        if less is None or less.function is not BinaryFn.SUB:
            return None
        x, off = less.operands
        # all arguments of a sum have the same shift: it has the shape of the sums
        if known.source(off) is not shift or off.shape != total.results[0].shape:
            return None
        if x.shape != less.results[0].shape:
            return None
        arguments.append(x)
    if isinstance(total, Contraction):
        (dims,) = total.over
        return lambda b: b.reduce(ReduceFn.SUM, exponential(b, arguments[0], known.makers), dims)
    return lambda b: b.binary(BinaryFn.ADD, *(exponential(b, x, known.makers) for x in arguments))


def _sum_of_exponentials(b: Builder, x: Value, y: Value) -> Value:
    return b.binary(BinaryFn.ADD, b.unary(UnaryFn.EXP, x), b.unary(UnaryFn.EXP, y))


def _logarithm(b: Builder, x: Value, shape: tuple[int, ...]) -> Value:
    log = b.unary(UnaryFn.LOG, x)
    return log if log.shape == shape else b.reshape(log, shape)
