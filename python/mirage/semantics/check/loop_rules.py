"""Rules of loops: the steps that they take, and what they accumulate."""

from __future__ import annotations

from math import prod

from mirage.semantics.builder import broadcast_shapes
from mirage.semantics.check.axis_rules import LaunchScope
from mirage.semantics.check.op_rules import InvalidGraph
from mirage.semantics.ops.taken_steps import MOST_READ
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Loop,
    StepNumber,
    Steps,
    TensorType,
    Value,
)


class LoopRules(LaunchScope):
    """The rules of a loop without its body."""

    def readings(self, op: Loop, params: frozenset[Value], at: str) -> None:
        readings = () if op.steps is None else op.steps.readings
        if len(readings) != len(op.operands):
            raise InvalidGraph(
                "C11", at, f"expected {len(readings)} tensors to read, got {len(op.operands)}"
            )
        for tensor, reading in zip(op.operands, readings, strict=True):
            if tensor not in params or tensor.dtype not in (DType.I32, DType.I64):
                raise InvalidGraph(
                    "C11", at, f"expected steps by params of i32 or i64, got {tensor.type}"
                )
            self.check_map(at, reading.map, reading.tile, tensor.shape, frozenset(self.grid))
            covered = tuple(
                prod(self.extents[a] for a in axes) * n
                for axes, n in zip(reading.map, reading.tile, strict=True)
            )
            if covered != tensor.shape or not 1 <= prod(reading.tile) <= MOST_READ:
                raise InvalidGraph(
                    "C11",
                    at,
                    f"expected parts of at most {MOST_READ} elements that cover {tensor.shape}, "
                    f"got parts {reading.tile} that cover {covered}",
                )
            if reading.least > reading.most:
                raise InvalidGraph(
                    "C11", at, f"expected bounds in order, got {reading.least}, {reading.most}"
                )

    def steps(self, steps: Steps, at: str) -> None:
        for number in (steps.first, steps.end):
            self._step_number(number, len(steps.readings), at)

    def _step_number(self, number: StepNumber, readings: int, at: str) -> None:
        if any(not 0 <= i < readings for i, _ in number.reads):
            raise InvalidGraph("C11", at, f"expected {readings} integers, got {number.reads}")
        named = [axis for axis, _ in number.terms]
        self.check_axes(at, tuple(named), frozenset(self.grid))
        if number.divisor < 1:
            raise InvalidGraph(
                "C11", at, f"expected steps with a divisor of at least 1, got {number.divisor}"
            )
        for quotient, _ in number.quotients:
            self._step_number(quotient, readings, at)

    def accumulator(self, a: Accumulator, result: Value, maxima: set[Value], at: str) -> None:
        if a.value not in self.depends:
            raise InvalidGraph("C9", at, "expected a tile in scope, got another value")
        if a.value not in self.defined:
            raise InvalidGraph("C9", at, "expected a tile in scope, got one of an inner loop")
        if a.value.dtype.is_integer and a.rescale is not None:
            raise InvalidGraph("C2", at, "expected a sum of floats to rescale, got one of integers")
        narrow = not (a.value.dtype in (DType.F32, DType.F64) or a.value.dtype.is_integer)
        if narrow and a.fn is not AccumulateFn.LAST:
            wanted = TensorType(a.value.shape, DType.F32)
            if result.type not in (wanted, a.value.type):
                raise InvalidGraph(
                    "C2", at, f"expected a result of type {wanted}, got {result.type}"
                )
        elif result.type != a.value.type:
            raise InvalidGraph(
                "C2", at, f"expected a result of type {a.value.type}, got {result.type}"
            )
        if a.rescale is None:
            return
        if a.fn is not AccumulateFn.SUM:
            raise InvalidGraph("C9", at, f"expected a sum to rescale, got '{a.fn.value}'")
        if a.rescale not in maxima:
            raise InvalidGraph(
                "C9",
                at,
                "expected a running maximum of the same loop as rescale, got another value",
            )
        if broadcast_shapes(a.rescale.shape, a.value.shape) != a.value.shape:
            raise InvalidGraph(
                "C9",
                at,
                f"expected a maximum that broadcasts to {a.value.shape}, got {a.rescale.shape}",
            )
