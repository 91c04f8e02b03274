"""Softmaxes that give zeros in rows that a mask empties, in one form. There, a softmax is 0/0.
PyTorch's fused attention gives zeros, and so do ``nan_to_num``, a choice by ``any``, one by whether
the largest score is minus infinity, and a divisor that is replaced by one where it is zero, before
or after the product with the values. All of these
are read as ``where(any(m), (e @ v) / sum(e), 0)``.

Let ``d`` be the sum over a row of the exponentials of numbers that are defined for all inputs, to
which minus infinity is added where a mask is false. ``d`` is zero where the mask empties the row,
and positive elsewhere, and the largest of the numbers is minus infinity exactly there. A value that
is itself zero in such rows (:mod:`mirage.verify.normal_form.empty_rows`), divided by ``d``, is
therefore not defined there, and a number elsewhere, and so are its products with numbers and sums
of these. So the results of comparing ``d`` with zero, the largest number with minus infinity, and
such a quotient with itself or with infinity, follow from the mask.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from mirage.semantics.builder import Builder
from mirage.semantics.decompose import decompose
from mirage.semantics.numbers import nearest
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.substitute import rewritten, without_dead_ops
from mirage.semantics.ugraph import Contraction, KernelGraph, Op, Value, View
from mirage.verify.normal_form.certainty import Certain
from mirage.verify.normal_form.empty_rows import EmptyRows, is_identity, same_rank
from mirage.verify.normal_form.infinite_values import may_be_infinite
from mirage.verify.normal_form.predicates import Truth, masks_of
from mirage.verify.pair.filled_rows import any_of_row
from mirage.verify.shared_inputs.guarded_maxima import finite_numbers

ZEROS = "rows that a mask empties are read as zeros, however these are written"

_Rule = Callable[[Builder, Op], Value]


def with_zero_rows(graph: KernelGraph) -> KernelGraph | None:
    """Return the program in this form; None if nothing changes."""
    given = written = decompose(graph)
    for find in (_Softmax.divided, _Softmax.asked, _Softmax.multiplied):
        rules: dict[Op, _Rule] = {}
        for softmax in _softmaxes(written):
            found = ((op, find(softmax, op)) for op in written.ops)
            rules.update((op, rule) for op, rule in found if rule is not None)
        written = rewritten(written, rules)
    return None if written is given else without_dead_ops(written)


def _softmaxes(graph: KernelGraph) -> Iterator[_Softmax]:
    makers = {v: op for op in graph.ops for v in op.results}
    numbers = {v: op.number for v, op in makers.items() if op.number is not None}
    certain = Certain(makers, numbers)
    infinite, finite = may_be_infinite(graph), finite_numbers(graph)
    for op in graph.ops:
        made = makers.get(op.operands[0]) if op.operands else None
        if op.function is not ReduceFn.SUM or made is None or made.function is not UnaryFn.EXP:
            continue
        scores, shape = made.operands[0], made.result.shape
        difference = makers.get(scores)
        if difference is not None and difference.function is BinaryFn.SUB:
            scores = difference.operands[0]
            if difference.operands[1] not in finite or scores.shape != shape:
                continue
        masks = masks_of(scores, makers)
        sums = isinstance(op, Contraction) and op.over == ((len(shape) - 1,),)
        added = makers.get(scores)
        if not sums or len(masks) != 1 or len(shape) < 2 or added is None:
            continue
        rest = [v for v in added.operands if v not in infinite and v.shape == shape]
        if len(rest) == 1 and certain.is_total(rest[0]) and masks[0][0].shape[-1:] == shape[-1:]:
            rows = EmptyRows(graph, shape[:-1], certain)
            yield _Softmax.of(rows, op.result, scores, masks[0], infinite, finite)


def _maxima(graph: KernelGraph, scores: Value) -> set[Value]:
    last = ((len(scores.shape) - 1,),)
    return {
        op.results[0]
        for op in graph.ops
        if op.function is ReduceFn.MAX and isinstance(op, Contraction)
        if op.operands == (scores,) and op.over == last
    }


@dataclass(frozen=True)
class _Softmax:
    """The sum ``total`` of the exponentials that the mask keeps, and the ``maxima`` of what the
    exponentials are of, which are minus infinity in empty rows. Values in ``zero`` are zero in
    empty rows, and those in ``undefined`` are NaN there, and numbers elsewhere."""

    rows: EmptyRows
    totals: frozenset[Value]
    maxima: frozenset[Value]
    mask: Truth
    zero: frozenset[Value]
    undefined: frozenset[Value]
    infinite: frozenset[Value]

    @classmethod
    def of(
        cls,
        rows: EmptyRows,
        total: Value,
        scores: Value,
        mask: Truth,
        infinite: set[Value],
        finite: set[Value],
    ) -> _Softmax:
        zero = rows.zeros(set(), {scores}, finite)
        totals, maxima = rows.carried({total}), rows.carried(_maxima(rows.graph, scores))
        undefined = set[Value]()
        for op in rows.graph.ops:
            if len(op.results) != 1 or not op.operands or not rows.is_beside(op.result):
                continue
            first, *others = op.operands
            numbers = not infinite.intersection(others)
            if op.function is BinaryFn.DIV:
                quotient = first in zero and others[0] in totals and first not in infinite
                known = quotient and all(same_rank(op, x) for x in op.operands)
            elif isinstance(op, Contraction):
                inner = op.sums and all(d >= len(rows.lead) for d in op.over[0])
                known = inner and first in undefined and numbers and same_rank(op, first)
            else:
                known = rows.carries(op) and first in undefined
            if known:
                undefined.add(op.result)
        sets = (frozenset(s) for s in (totals, maxima, zero, undefined, infinite))
        totals_, maxima_, *others_ = sets
        return cls(rows, totals_, maxima_, mask, *others_)

    def makes(self, x: Value) -> Op | None:
        """Return the op whose result ``x`` is, in another type."""
        while (op := self.rows.certain.makers.get(x)) is not None and is_identity(op):
            x = op.operands[0]
        return op

    def any(self, b: Builder, shape: tuple[int, ...], negated: bool = False) -> Value:
        """Write whether the mask keeps any element of a row."""
        x, opposite = self.mask
        x = b.unary(UnaryFn.NOT, x) if opposite else x
        count = b.reduce(ReduceFn.SUM, b.cast(x, DType.F32), (len(x.shape) - 1,))
        fn = BinaryFn.EQ if negated else BinaryFn.NE
        lead = self.rows.lead
        of_rows = b.broadcast(b.binary(fn, count, b.constant(0.0, DType.F32)), (*lead, 1))
        aligned = b.reshape(of_rows, (*lead, *(1 for _ in shape[len(lead) :])))
        return b.broadcast(aligned, shape)

    def _is_zero(self, x: Value) -> bool:
        return self.rows.certain.number(x) == 0

    def says(self, p: Value) -> bool | None:
        """Return whether a truth value says, from the total or a maximum, that a row is not empty
        (True), or that it is (False)."""
        op = self.makes(p)
        if op is None or not op.operands:
            return None
        if op.function is UnaryFn.NOT:
            inner = self.says(op.operands[0])
            return None if inner is None else not inner
        if len(op.operands) != 2 or op.result.shape not in {v.shape for v in self.totals}:
            return None
        x, y = op.operands
        if op.function in (BinaryFn.EQ, BinaryFn.NE):
            least = self._is_least(x, y) or self._is_least(y, x)
            return op.function is BinaryFn.NE if least else None
        if op.function is BinaryFn.LT and self._is_least(y, x):
            return True
        return None

    def _is_least(self, of_row: Value, x: Value) -> bool:
        """Return whether ``x`` is what the total, or a maximum, is in empty rows."""
        if of_row in self.totals:
            return self._is_zero(x)
        number = self.rows.certain.constants.get(x)
        return of_row in self.maxima and number is not None and nearest(number) == -math.inf

    def divided(self, op: Op) -> _Rule | None:
        """Write a value that is divided by the total, or by one where it is zero."""
        if op.function is not BinaryFn.DIV or op.operands[0] not in self.zero:
            return None
        above, below = op.operands
        made = self.makes(below)
        if made is None or made.function is not BinaryFn.ADD or not same_rank(op, above):
            return None
        for total, other in (made.operands, made.operands[::-1]):
            if self.says(other) is not False:
                continue
            kept = self.makes(total)
            if kept is not None and kept.function is BinaryFn.KEEP and self.says(kept.operands[0]):
                total = kept.operands[1]
            if total in self.totals and total.shape == below.shape and same_rank(op, total):
                return lambda b, new, total=total: b.binary(
                    BinaryFn.KEEP,
                    self.any(b, new.result.shape),
                    b.binary(BinaryFn.DIV, new.operands[0], b.cast(total, new.result.dtype)),
                )
        return None

    def asked(self, op: Op) -> _Rule | None:
        """Write comparisons of a total, or of a quotient, by the mask; and choices by whether a
        quotient is infinite, which it is not."""
        compares = op.function in (BinaryFn.EQ, BinaryFn.NE, BinaryFn.LT)
        if compares and (left := self.says(op.result)) is not None:
            return lambda b, new: self.any(b, new.result.shape, negated=not left)
        if compares:
            x, y = op.operands
            if op.function is not BinaryFn.LT and x is y and x in self.undefined:
                negated = op.function is BinaryFn.NE
                return lambda b, new: self.any(b, new.result.shape, negated=negated)
        if op.function in (BinaryFn.KEEP, BinaryFn.MUL):
            for truth, x in (op.operands, op.operands[::-1]):
                asked = self.makes(truth)
                kept = asked is not None and asked.function is UnaryFn.NOT
                if asked is not None and kept:
                    asked = self.makes(asked.operands[0])
                if asked is None or not self._asks_for_infinity(asked):
                    continue
                same = truth is op.operands[0] and x.shape == op.result.shape
                if op.function is BinaryFn.KEEP and same and kept:
                    return lambda b, new: new.operands[1]
                if op.function is BinaryFn.MUL and not kept and self.rows.certain.number(x):
                    return lambda b, new: b.broadcast(
                        b.constant(0.0, new.result.dtype), new.result.shape
                    )
        return None

    def _asks_for_infinity(self, op: Op) -> bool:
        if op.function is not BinaryFn.EQ:
            return False
        ends = (self.rows.certain.constants.get(v) for v in op.operands)
        infinite = any(n is not None and math.isinf(nearest(n)) for n in ends)
        return infinite and any(v in self.undefined for v in op.operands)

    def multiplied(self, op: Op) -> _Rule | None:
        """Write a product of a value that is kept in nonempty rows as the product, kept there."""
        if not isinstance(op, Contraction) or len(op.operands) != 2 or not op.sums:
            return None
        first, second = op.operands
        made, makers = self.makes(first), self.rows.certain.makers
        if made is None or made.function is not BinaryFn.KEEP or second in self.infinite:
            return None
        truth, kept = made.operands
        while isinstance(view := makers.get(truth), View) and view.whole:
            truth = view.operands[0]
        some = any_of_row(truth, makers)
        inner = all(d >= len(self.rows.lead) for d in op.over[0])
        if some is None or some[0] != self.mask or kept not in self.undefined or not inner:
            return None
        if not (
            same_rank(op, kept) and kept.shape == first.shape and self.rows.is_beside(op.result)
        ):
            return None

        def write(b: Builder, new: Op) -> Value:
            operands = (b.cast(kept, first.dtype), new.operands[1])
            product = replace(new, operands=operands, results=(Value(new.result.type),))
            b.ops.append(product)
            truth = self.any(b, new.result.shape)
            return b.binary(BinaryFn.KEEP, truth, product.result)

        return write
