"""Values that are zero in rows that a mask empties. The leading dimensions of a value select its
rows. Related values have the same leading dimensions, and any others; facts about them hold for all
of their elements in such a row. Nothing is known across rows: an op that moves elements to other
rows ends the derivation.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from mirage.semantics.scalar import BinaryFn, UnaryFn
from mirage.semantics.ugraph import Contraction, Elementwise, KernelGraph, Op, Value, View
from mirage.verify.normal_form.certainty import Certain


@dataclass(frozen=True)
class EmptyRows:
    """Rows of a program (in primitive ops), by their leading dimensions."""

    graph: KernelGraph
    lead: tuple[int, ...]
    certain: Certain

    def is_beside(self, x: Value) -> bool:
        return x.shape[: len(self.lead)] == self.lead

    def carries(self, op: Op) -> bool:
        """Return whether an op gives each row elements of the same row."""
        if not all(map(self.is_beside, (*op.operands, *op.results))):
            return False
        if not isinstance(op, View):
            return is_identity(op) and same_rank(op, op.operands[0])
        dims = op.source_dims()
        return dims is not None and all(n == 1 or dims.get(d) == d for d, n in enumerate(self.lead))

    def carried(self, some: Set[Value]) -> set[Value]:
        """Return these values and others that have their elements, row by row."""
        found = set(some)
        for op in self.graph.ops:
            if len(op.operands) == 1 and op.operands[0] in found and self.carries(op):
                found.update(op.results)
        return found

    def zeros(
        self, zero: Set[Value], least: Set[Value] = frozenset(), finite: Set[Value] = frozenset()
    ) -> set[Value]:
        """Return the values that are zero (or not defined) in such rows, if some are ``zero``
        there, others minus infinity, and others are ``finite`` everywhere."""
        least, found = self.carried(least), set(zero)
        makers = self.certain.makers

        def shifted(op: Op) -> bool:
            """Return whether an op takes the exponential of minus infinity, or of minus infinity
            minus a number."""
            if op.operands[0] in least:
                return True
            made = makers.get(op.operands[0])
            if made is None or made.function is not BinaryFn.SUB:
                return False
            x, shift = made.operands
            return x in least and same_rank(made, x) and shift in finite

        for op in self.graph.ops:
            if len(op.results) != 1 or not self.is_beside(op.result):
                continue
            is_exponential = op.function is UnaryFn.EXP
            if shifted(op) if is_exponential else self._vanishes(op, found):
                found.add(op.result)
        return found

    def is_zero(self, x: Value, op: Op, zero: Set[Value]) -> bool:
        """Return whether an operand of an op is zero in such rows of the result."""
        return (x in zero and same_rank(op, x)) or self.certain.number(x) == 0

    def _vanishes(self, op: Op, zero: Set[Value]) -> bool:
        fn = op.function
        if isinstance(op, Contraction):
            inner = op.sums and all(d >= len(self.lead) for d in op.over[0])
            return inner and self.is_zero(op.operands[0], op, zero)
        if fn in (BinaryFn.MUL, BinaryFn.KEEP):
            return any(self.is_zero(x, op, zero) for x in op.operands)
        if fn in (BinaryFn.ADD, BinaryFn.SUB):
            return all(self.is_zero(x, op, zero) for x in op.operands)
        if fn is BinaryFn.DIV or fn is UnaryFn.NEG:
            return self.is_zero(op.operands[0], op, zero)
        return self.carries(op) and op.operands[0] in zero


def is_identity(op: Op) -> bool:
    return isinstance(op, Elementwise) and op.identity


def same_rank(op: Op, x: Value) -> bool:
    return len(x.shape) == len(op.result.shape)
