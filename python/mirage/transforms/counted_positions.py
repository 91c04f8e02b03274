"""Tensors of positions, and views of them, as formulas that kernels compute.

The element of such a tensor is a sum of multiples of its indices, like the address of an element in
a view, so views change both in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mirage.semantics.indexing.strides import Strides, reshaped
from mirage.semantics.integer_formula import CONSTANT, POSITION, Formula, Step
from mirage.semantics.integer_functions import CAST
from mirage.semantics.integers import Integers
from mirage.semantics.ops.kinds import Lookup, View
from mirage.semantics.ops.op import Op, TensorType, Value
from mirage.semantics.scalar import BinaryFn, DType
from mirage.semantics.ugraph import KernelGraph


@dataclass(frozen=True)
class Counted:
    """The sum of a number and, for each dimension, a multiple of the index along it."""

    strides: Strides
    start: int = 0

    def seen_by(self, view: Op) -> Counted | None:
        """Return a view of such a tensor as such a tensor; None if it is not one."""
        (x,) = view.operands
        if view.cut_at is not None:
            starts = (s * at for s, at in zip(self.strides, view.cut_at, strict=True))
            return Counted(self.strides, self.start + sum(starts))
        strides: Strides | None = None
        if view.renames:
            strides = reshaped(x.shape, self.strides, view.result.shape)
        elif isinstance(view, View) and (sources := view.source_dims()) is not None and view.whole:
            dims = range(len(view.result.shape))
            strides = tuple(self.strides[sources[d]] if d in sources else 0 for d in dims)
        return None if strides is None else Counted(strides, self.start)

    def formula(self, result: TensorType) -> Formula:
        """Return the formula of such a tensor."""
        wide = [d for d, n in enumerate(result.shape) if n > 1 and self.strides[d]]
        steps = [Step(POSITION, (d,), DType.I64) for d in wide]

        def add(name: str, *args: int, dtype: DType = DType.I64) -> int:
            steps.append(Step(name, args, dtype))
            return len(steps) - 1

        total = add(CONSTANT, self.start) if self.start or not wide else None
        for number, d in enumerate(wide):
            times = self.strides[d]
            term = number if times == 1 else add(BinaryFn.MUL.value, number, add(CONSTANT, times))
            total = term if total is None else add(BinaryFn.ADD.value, total, term)
        if total is not None and result.dtype is not DType.I64:
            add(CAST, total, dtype=result.dtype)
        return Formula(tuple(steps))


def counted_positions(graph: KernelGraph) -> dict[Value, Counted]:
    """Return the positions of a graph, and views of them."""
    found: dict[Value, Counted] = {}
    for op in graph.ops:
        if isinstance(op, Lookup) and op.counts_along is not None:
            (result,) = op.results
            strides = tuple(int(d == op.counts_along) for d in range(len(result.shape)))
            found[result] = Counted(strides)
        elif isinstance(op, View) and op.operands[0] in found:
            seen = found[op.operands[0]].seen_by(op)
            found.update({} if seen is None else {op.result: seen})
    return found


def with_positions(op: Integers, counted: Mapping[Value, Counted]) -> Integers:
    """Return a formula with a position in place of a load, if the loaded tensor is the index along
    one of its dimensions."""
    found: set[int] = set()
    for number, (v, dims) in enumerate(zip(op.operands, op.formula.loads, strict=True)):
        known = counted.get(v)
        if known is None or known.start or v.dtype is not DType.I64:
            continue
        wide = [step for d, step in zip(dims, known.strides, strict=True) if d >= 0]
        if wide == [1] and number not in op.formula.tables:
            found.add(number)
    if not found:
        return op
    operands = tuple(v for i, v in enumerate(op.operands) if i not in found)
    return Integers(operands, op.results, op.formula.with_positions(found))
