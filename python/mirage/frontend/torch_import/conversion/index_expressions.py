"""Integers that a program computes from its inputs, as steps that a caller can repeat before the
program runs (:mod:`mirage.runtime.serialization.index_steps`)."""

from __future__ import annotations

from collections.abc import Mapping

from mirage.runtime.serialization.index_steps import FUNCTIONS
from mirage.semantics.integer_functions import CAST
from mirage.semantics.positions import Gather, Iota
from mirage.semantics.scalar import BinaryFn, DType
from mirage.semantics.ugraph import Elementwise, Op, Value, View

MOST_STEPS = 64
_TYPES = frozenset({DType.I1, DType.I8, DType.I16, DType.I32, DType.I64})


def steps_of(
    value: Value, numbers: Mapping[Value, int], makers: Mapping[Value, Op]
) -> tuple[str, ...] | None:
    """Return the steps that compute ``value`` from inputs, by their ``numbers``; None if other
    functions compute it, or if it depends on no input. The result may have another shape."""
    while isinstance(op := makers.get(value), View) and op.whole:
        value = op.operands[0]
    writer = _Writer(numbers, makers)
    try:
        writer.written(value)
    except _NoStepsError:
        return None
    return tuple(writer.steps) if writer.reads_inputs else None


class _NoStepsError(Exception):
    """No steps compute a value."""


class _Writer:
    def __init__(self, numbers: Mapping[Value, int], makers: Mapping[Value, Op]) -> None:
        self.numbers, self.makers = numbers, makers
        self.steps: list[str] = []
        self.reads_inputs = False
        self._places: dict[Value, int] = {}

    def written(self, value: Value) -> int:
        """Return the number of the step that computes a value."""
        if value not in self._places:
            self._places[value] = self._add(self._step(value))
        return self._places[value]

    def _add(self, *steps: str) -> int:
        self.steps += steps
        if len(self.steps) > MOST_STEPS:
            raise _NoStepsError
        return len(self.steps) - 1

    def _step(self, value: Value) -> str:
        if value in self.numbers and value.dtype in _TYPES:
            self.reads_inputs = True
            return f"input {self.numbers[value]}"
        op = self.makers.get(value)
        if op is None or value.dtype not in _TYPES:
            raise _NoStepsError
        name = value.dtype.value
        if op.number is not None and op.number == int(op.number):
            return f"constant {int(op.number)} : {name}"
        if isinstance(op, Iota):
            line = self._add(f"position {value.shape[op.dim]} : {name}")
            rest = len(value.shape) - op.dim - 1
            shaped = self._add(" ".join(map(str, ("reshape", line, -1, *(1 for _ in range(rest))))))
            return " ".join(map(str, ("repeat", shaped, *value.shape)))
        if isinstance(op, Elementwise):
            return f"{self._function(op)} : {name}"
        return self._moved(op, value)

    def _function(self, op: Elementwise) -> str:
        name = CAST if op.converts else None if op.function is None else op.function.value
        if FUNCTIONS.get(name or "") != len(op.operands):
            raise _NoStepsError
        if op.function in (BinaryFn.FLOOR_DIV, BinaryFn.REMAINDER):
            made = self.makers.get(op.operands[1])
            divisor = None if made is None else made.number
            if divisor is None or divisor < 1:
                raise _NoStepsError  # PyTorch raises an error for a division by zero
        return " ".join(map(str, (name, *map(self.written, op.operands))))

    def _moved(self, op: Op, value: Value) -> str:
        if op.joined_along is not None:
            return " ".join(map(str, ("join", op.joined_along, *map(self.written, op.operands))))
        if isinstance(op, Gather) and not op.from_end:
            return " ".join(map(str, ("row", *map(self.written, op.operands))))
        if not isinstance(op, View):
            raise _NoStepsError
        x = self.written(op.operands[0])
        if op.cut_at is not None:
            cuts = zip(op.cut_at, value.shape, op.operands[0].shape, strict=True)
            texts = [(d, o, n) for d, (o, n, whole) in enumerate(cuts) if n != whole]
            for d, o, n in texts[:-1]:
                x = self._add(f"slice {x} {d} {o} {n}")
            return f"slice {x} {' '.join(map(str, texts[-1] if texts else (0, 0, value.shape[0])))}"
        if op.renames:
            return " ".join(map(str, ("reshape", x, *value.shape)))
        dims = op.source_dims() or {}
        order = [dims.get(d, -1) for d in range(len(value.shape))]
        if [op.operands[0].shape[d] for d in order if d >= 0] == list(value.shape):
            return " ".join(map(str, ("transpose", x, *order)))
        return " ".join(map(str, ("repeat", x, *value.shape)))
