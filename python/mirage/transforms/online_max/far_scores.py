"""Whether scores may be finite numbers that are as far from 0 as those that programs write in place
of minus infinity.

A row that such a mask (-1e9, the lowest number of a type) masks completely has a maximum like that
one, and its exponentials are ``exp(x - m)`` of two huge numbers: they are 1 where the numbers are
equal. Scores of a product are assumed to be small.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import product
from math import isfinite

import numpy as np

from mirage.semantics.scalar import BINARY, UNARY, BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import Contraction, Launch, Op, Source, Structure, Value

FAR = 2.0**20
"""From this magnitude on, the rounding error of a product of a number and a constant affects its
exponential."""
_HUGE = float(np.finfo(np.float32).max)
_SCALES = (BinaryFn.MUL, BinaryFn.DIV)


class FarScores:
    """The values of a launch that may be far numbers.

    In scores that come from a product, a tensor that is multiplied by another one (slopes by
    distances, a gain) is assumed not to be a mask: there, support for far numbers costs an
    instruction per element.
    """

    def __init__(self, launch: Launch) -> None:
        self._numbers: set[Value] = set()  # values that depend only on constants
        self._far: set[Value] = set()
        self._masks: set[Value] = set()  # far, but not because of a tensor that is multiplied
        self._products: set[Value] = set()  # computed from products
        self._run(launch.body.ops)

    def __contains__(self, value: Value) -> bool:
        return value in (self._masks if value in self._products else self._far)

    def _run(self, ops: Sequence[Op]) -> None:
        for op in ops:
            if isinstance(op, Structure):
                self._run(op.inside)
            read = op.ends if isinstance(op, Structure) else op.operands
            sums = isinstance(op, Contraction) and op.sums
            if op.number is not None or (read and self._numbers.issuperset(read)):
                self._numbers.update(op.results)
            if not self._products.isdisjoint(read) or (sums and len(op.operands) == 2):
                self._products.update(op.results)
            if sums:
                continue
            for far, among_masks in ((self._far, False), (self._masks, True)):
                if self._may_be_far(op, read, far, among_masks):
                    far.update(op.results)

    def _may_be_far(self, op: Op, read: Sequence[Value], far: set[Value], masks: bool) -> bool:
        if op.number is not None:
            return isfinite(op.number) and abs(op.number) >= FAR
        if isinstance(op, Source) and op.operands:  # the elements of a tensor
            return holds_far_numbers(op.operands[0].dtype)
        fn = op.function
        if not isinstance(fn, UnaryFn | BinaryFn):
            return not far.isdisjoint(read)
        if masks and fn in _SCALES and self._numbers.isdisjoint(read):
            return False
        return any(v in far and _passes_on(fn, i) for i, v in enumerate(read))


def holds_far_numbers(dtype: DType) -> bool:
    """Return whether a type has finite numbers that are far."""
    if dtype.is_integer:
        return 2.0 ** (dtype.bits - 1) >= FAR
    return bool(dtype.round(np.array(FAR)) == FAR)


@cache
def _passes_on(fn: UnaryFn | BinaryFn, operand: int) -> bool:
    """Return whether a function may be far where this operand is far and others are not."""
    if isinstance(fn, UnaryFn):
        others, evaluate = 0, UNARY[fn].evaluate
    else:
        others, evaluate = 1, BINARY[fn].evaluate
    with np.errstate(all="ignore"):
        values = [
            np.abs(evaluate(*map(np.array, (*small[:operand], far, *small[operand:]))))
            for far in (-_HUGE, _HUGE)
            for small in product((-1.0, 0.0, 1.0), repeat=others)
        ]
    return any(np.isfinite(x) and x >= FAR for x in values)
