"""Exact arithmetic on integers, as kernels compute it element by element.

Tiles hold whole numbers as f32, exactly up to 2^24. A formula computes with all integers: its steps
are functions of 64-bit integers whose results wrap around at the ends of their types, as in
PyTorch. Truth values are 1 and 0. The functions are those of the scalar table that give whole
numbers for whole numbers, those of bits, and conversions; this module says what they mean for
integers.

The text of a step is ``add 0 1 : i32``: a function, the numbers of earlier steps, and the type of
the result. ``load 0 2`` is an operand whose dimensions lie along the dimensions 0 and 2 of the
result (-1: along none, for a dimension of size 1); loads come first, one for each operand.
In a kernel ``position 1 : i64`` stands for a load of positions along a dimension.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mirage.semantics.scalar import BINARY, Array, BinaryFn, DType, UnaryFn

LOAD, POSITION, CONSTANT, CAST = "load", "position", "constant", "cast"
MAX_STEPS = 64
"""The most steps of a formula: kernels compute all of them for each element that they load."""


class FormulaError(ValueError):
    """A formula that is not one, or does not fit its operands."""


def _wrapped(x: Array, dtype: DType) -> Array:
    return x if dtype is DType.I1 else x.astype(dtype.numpy).astype(np.int64)


def _floor_div(a: Array, b: Array) -> Array:
    """Return quotients rounded down; 0 where the divisor is."""
    divisor = np.where((b == 0) | (b == -1), 1, b)
    return np.where(b == 0, 0, np.where(b == -1, np.negative(a), np.floor_divide(a, divisor)))


def _remainder(a: Array, b: Array) -> Array:
    """Return remainders with the sign of the divisor; 0 where that is 0."""
    divisor = np.where((b == 0) | (b == -1), 1, b)
    return np.where((b == 0) | (b == -1), 0, np.mod(a, divisor))


def _truth(function: Callable[..., Array]) -> Callable[..., Array]:
    return lambda *xs: function(*xs).astype(np.int64)


_UNARY: dict[UnaryFn, Callable[[Array], Array]] = {
    UnaryFn.NEG: np.negative,
    UnaryFn.ABS: np.abs,
    UnaryFn.SQUARE: lambda x: x * x,
    UnaryFn.RELU: lambda x: np.maximum(x, 0),
    UnaryFn.NOT: _truth(lambda x: x == 0),
}
_BINARY: dict[BinaryFn, Callable[[Array, Array], Array]] = {
    BinaryFn.ADD: np.add,
    BinaryFn.SUB: np.subtract,
    BinaryFn.MUL: np.multiply,
    BinaryFn.MAX: np.maximum,
    BinaryFn.MIN: np.minimum,
    BinaryFn.LT: _truth(np.less),
    BinaryFn.LE: _truth(np.less_equal),
    BinaryFn.EQ: _truth(np.equal),
    BinaryFn.NE: _truth(np.not_equal),
    BinaryFn.AND: _truth(np.logical_and),
    BinaryFn.OR: _truth(np.logical_or),
    BinaryFn.XOR: _truth(np.logical_xor),
    BinaryFn.FLOOR_DIV: _floor_div,
    BinaryFn.REMAINDER: _remainder,
    BinaryFn.KEEP: lambda p, x: np.where(p != 0, x, 0),
}


def _shift_left(a: Array, b: Array, dtype: DType) -> Array:
    """Shift to the left. By a negative number of bits, or as many as there are, nothing is left."""
    beyond = (b < 0) | (b >= dtype.bits)
    return np.where(beyond, 0, np.left_shift(a, np.where(beyond, 0, b)))


def _shift_right(a: Array, b: Array, dtype: DType) -> Array:
    """Shift to the right. By a negative number of bits, or as many as there are, copies of the sign
    are left."""
    beyond = (b < 0) | (b >= dtype.bits)
    return np.right_shift(a, np.where(beyond, dtype.bits - 1, b))


BITS: dict[str, Callable[[Array, Array, DType], Array]] = {
    "bit_and": lambda a, b, _: np.bitwise_and(a, b),
    "bit_or": lambda a, b, _: np.bitwise_or(a, b),
    "bit_xor": lambda a, b, _: np.bitwise_xor(a, b),
    "shift_left": _shift_left,
    "shift_right": _shift_right,
}
"""The functions of bits, by their names in formulas."""


def is_exact(fn: object) -> bool:
    """Return whether a scalar function has a meaning for integers of any size."""
    return fn in _UNARY or fn in _BINARY


@dataclass(frozen=True)
class Step:
    """One step; ``args`` are the numbers of earlier steps, the dimensions of a load, or the number
    that a constant is. Loads have no type: they have that of their operand."""

    name: str
    args: tuple[int, ...]
    dtype: DType | None = None

    def __str__(self) -> str:
        text = " ".join((self.name, *map(str, self.args)))
        return text if self.dtype is None else f"{text} : {self.dtype.value}"

    @property
    def reads(self) -> tuple[int, ...]:
        """The numbers of the steps that this one reads."""
        return () if self.name in (LOAD, POSITION, CONSTANT) else self.args


def read_step(text: str) -> Step:
    """Return the step that a text describes. Raises :class:`FormulaError`."""
    left, _, dtype = text.partition(" : ")
    name, *args = left.split(" ")
    try:
        return Step(name, tuple(map(int, args)), DType(dtype) if dtype else None)
    except ValueError:
        raise FormulaError(f"expected a step such as 'add 0 1 : i32', got '{text}'") from None


@dataclass(frozen=True)
class Formula:
    """Steps in order, of which the last one is the result."""

    steps: tuple[Step, ...]

    def __str__(self) -> str:
        return f"[{', '.join(map(str, self.steps))}]"

    @property
    def loads(self) -> tuple[tuple[int, ...], ...]:
        """The dimensions of the result along which those of each operand lie."""
        return tuple(step.args for step in self.steps if step.name == LOAD)

    @property
    def dtype(self) -> DType:
        """The type of the result."""
        found = self.steps[-1].dtype
        if found is None:
            raise FormulaError("expected a formula that computes something, got loads alone")
        return found

    @property
    def work(self) -> int:
        """The number of functions that are computed for each element."""
        return sum(bool(step.reads) for step in self.steps)

    def check(
        self, operands: Sequence[tuple[tuple[int, ...], DType]], shape: tuple[int, ...]
    ) -> None:
        """Raise :class:`FormulaError` unless the formula fits operands of these shapes and types
        and a result of ``shape``."""
        if [step.name == LOAD for step in self.steps] != [
            number < len(operands) for number in range(len(self.steps))
        ]:
            raise FormulaError(f"expected {len(operands)} loads first, got {len(self.loads)}")
        for number, ((sizes, _), dims) in enumerate(zip(operands, self.loads, strict=True)):
            wanted = tuple(1 if d < 0 else shape[d] for d in dims if d < len(shape))
            along = [d for d in dims if d >= 0]
            if wanted != sizes or len(set(along)) != len(along):
                raise FormulaError(
                    f"step {number}: expected each dimension of {sizes} along one of {shape} that "
                    f"has its size, or -1 where it is 1, got {dims}"
                )
        self.check_steps([dtype for _, dtype in operands])

    def check_steps(self, operands: Sequence[DType]) -> None:
        """Raise :class:`FormulaError` unless the steps fit operands of these types."""
        types = list(operands)
        for number in range(len(operands), len(self.steps)):
            self._check_step(number, types, len(operands))

    def _check_step(self, number: int, types: list[DType], loads: int) -> None:
        step = self.steps[number]
        counts = {POSITION: 1, CONSTANT: 1, CAST: 1, **dict.fromkeys(BITS, 2)}
        counts.update({fn.value: 1 for fn in _UNARY} | {fn.value: 2 for fn in _BINARY})
        if step.dtype is None or counts.get(step.name) != len(step.args):
            raise FormulaError(f"step {number}: expected a function of integers, got '{step}'")
        if not all(0 <= arg < number for arg in step.reads):
            raise FormulaError(f"step {number}: expected numbers of earlier steps, got '{step}'")
        cut = step.name == CAST and step.dtype.is_integer
        for arg in step.reads:
            if not types[arg].is_integer and not (cut and arg < loads):
                raise FormulaError(
                    f"step {number}: expected integers, got {types[arg].value}, of which only "
                    "operands are converted"
                )
        if not step.dtype.is_integer and step.name != CAST:
            raise FormulaError(f"step {number}: expected integers as a result, got '{step}'")
        types.append(step.dtype)

    def evaluate(self, operands: Sequence[Array]) -> Array:
        """Return the result for operands that broadcast to its shape: 64-bit integers, also in the
        place of the floats to which the last step converts them. Operands are whole numbers in any
        type, or the floats that they are."""
        values: list[Array] = []
        with np.errstate(all="ignore"):
            for number, step in enumerate(self.steps):
                if step.name == LOAD:
                    values.append(np.asarray(operands[number]))
                    continue
                assert step.dtype is not None
                if step.name == POSITION:
                    raise FormulaError("expected a formula of tensors, got positions of a tile")
                if step.name == CONSTANT:
                    half = 1 << 63
                    around = (step.args[0] + half) % (2 * half) - half
                    values.append(_wrapped(np.asarray(around, np.int64), step.dtype))
                    continue
                args = [values[arg] for arg in step.args]
                values.append(_applied(step.name, args, step.dtype))
        return values[-1]

    def with_positions(self, counted: Container[int]) -> Formula:
        """Return the formula with positions in place of the loads ``counted``, which are of one
        dimension."""
        count = len(self.loads)
        order = [i for i in range(count) if i not in counted]
        order += [i for i in range(count) if i in counted]
        number = {old: new for new, old in enumerate(order)}
        loads = [
            Step(POSITION, self.steps[i].args, DType.I64) if i in counted else self.steps[i]
            for i in order
        ]
        steps = [
            replace(s, args=tuple(number.get(a, a) for a in s.args)) if s.reads else s
            for s in self.steps[count:]
        ]
        return Formula((*loads, *steps))

    def with_loads(self) -> tuple[Formula, tuple[int, ...]]:
        """Return the formula with loads in place of positions, which are of one dimension each, and
        the dimensions along which those lie."""
        along = tuple(step.args[0] for step in self.steps if step.name == POSITION)
        steps = (Step(LOAD, s.args) if s.name == POSITION else s for s in self.steps)
        return Formula(tuple(steps)), along

    def written(self, xs: Sequence[str]) -> str:
        """Write the formula for people, of operands that are written ``xs``."""
        texts: list[str] = []
        for number, step in enumerate(self.steps):
            if step.name == LOAD:
                texts.append(xs[number])
            elif step.name == POSITION:
                texts.append(f"position{step.args[0]}")
            elif step.name == CONSTANT:
                texts.append(str(step.args[0]))
            else:
                texts.append(_written(step.name, [texts[arg] for arg in step.args], step.dtype))
        return texts[-1]


def _applied(name: str, args: list[Array], dtype: DType) -> Array:
    if name == CAST:
        found = _truncated(args[0])
        return _wrapped(found, dtype) if dtype.is_integer else found
    args = [np.asarray(x, np.int64) for x in args]
    if name in BITS:
        return _wrapped(BITS[name](args[0], args[1], dtype), dtype)
    function = _UNARY[UnaryFn(name)] if len(args) == 1 else _BINARY[BinaryFn(name)]
    return _wrapped(np.asarray(function(*args), np.int64), dtype)


def _truncated(x: Array) -> Array:
    """Return the integers that floats are truncated to, which are between the ends of i64; 0 for
    what is not a number. Integers stay as they are."""
    if x.dtype.kind != "f":
        return np.asarray(x, np.int64)
    ends = np.iinfo(np.int64)
    wide = np.trunc(np.nan_to_num(np.asarray(x, np.float64), nan=0.0))
    inside = (wide >= -(2.0**63)) & (wide < 2.0**63)
    found = np.where(inside, wide, 0.0).astype(np.int64)
    return np.where(inside, found, np.where(wide > 0, ends.max, ends.min))


def _written(name: str, xs: list[str], dtype: DType | None) -> str:
    if name == CAST:
        assert dtype is not None
        return f"{dtype.value}({xs[0]})"
    infix = BINARY[BinaryFn(name)].infix if len(xs) == 2 and name not in BITS else None
    return f"({xs[0]} {infix} {xs[1]})" if infix else f"{name}({', '.join(xs)})"
