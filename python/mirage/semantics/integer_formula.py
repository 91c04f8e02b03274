"""Exact arithmetic on integers, as kernels compute it element by element.

Tiles hold whole numbers as f32, exactly up to 2^24. A formula computes with all integers: its steps
are functions of 64-bit integers whose results wrap around at the ends of their types, as in
PyTorch. Truth values are 1 and 0. :mod:`mirage.semantics.integer_functions` says what the functions
mean.

The text of a step is ``add 0 1 : i32``: a function, the numbers of earlier steps, and the type of
the result. ``load 0 2`` is an operand whose dimensions lie along the dimensions 0 and 2 of the
result (-1: along none, for a dimension of size 1); loads come first, one for each operand.
``table 2`` is an operand of two dimensions that is not loaded element by element: ``pick 0 4 5 :
i64`` is its element at the indices that are the steps 4 and 5, or 0 if one of them is outside. The
last step may pick floats, which are NaN there.
``position 1 : i64`` is the index along a dimension of the result; positions follow the operands.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mirage.semantics.integer_functions import (
    ARITIES,
    BITS,
    CAST,
    applied,
    picked,
    wrapped,
)
from mirage.semantics.scalar import BINARY, Array, BinaryFn, DType

LOAD, TABLE, PICK, POSITION, CONSTANT = "load", "table", "pick", "position", "constant"
MAX_STEPS = 64
"""The most steps of a formula: kernels compute all of them for each element that they load."""


class FormulaError(ValueError):
    """A formula is malformed, or does not fit its operands."""


@dataclass(frozen=True)
class Step:
    """One step; ``args`` are the numbers of earlier steps, the dimensions of a load, or the value
    of a constant. Loads have no type: they have that of their operand."""

    name: str
    args: tuple[int, ...]
    dtype: DType | None = None

    def __str__(self) -> str:
        text = " ".join((self.name, *map(str, self.args)))
        return text if self.dtype is None else f"{text} : {self.dtype.value}"

    @property
    def reads(self) -> tuple[int, ...]:
        """The numbers of the steps that this one reads."""
        return () if self.name in (LOAD, TABLE, POSITION, CONSTANT) else self.args

    @property
    def is_operand(self) -> bool:
        return self.name in (LOAD, TABLE)


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
        """For each operand, the dimensions of the result along which its dimensions lie; those of a
        table lie along none."""
        return tuple(
            step.args if step.name == LOAD else (-1,) * step.args[0]
            for step in self.steps if step.is_operand
        )  # fmt: skip

    @property
    def tables(self) -> frozenset[int]:
        """The numbers of the operands of which elements are picked."""
        return frozenset(i for i, step in enumerate(self.steps) if step.name == TABLE)

    @property
    def indices(self) -> tuple[tuple[int, int, int, bool], ...]:
        """The operands that are indices of tables: their numbers, those of the tables, the
        dimensions, and whether negative indices count from the end."""
        found: list[tuple[int, int, int, bool]] = []
        for step in self.steps:
            if step.name == PICK:
                for dim, arg in enumerate(step.args[1:]):
                    from_end = self._counts_from_end(arg)
                    index = self.steps[arg].args[0] if from_end else arg
                    if self.steps[index].name == LOAD:
                        found.append((index, step.args[0], dim, from_end))
        return tuple(found)

    def _counts_from_end(self, number: int) -> bool:
        """Return whether a step is an earlier one plus a number where that is negative."""
        chain = (BinaryFn.ADD.value, BinaryFn.MUL.value, CAST, BinaryFn.LT.value)
        at, first = number, -1
        for depth, name in enumerate(chain):
            step = self.steps[at]
            if step.name != name:
                return False
            first = step.args[0] if depth == 0 else first
            at = step.args[1] if depth == 0 else step.args[0]
        return at == first

    @property
    def of_tiles(self) -> bool:
        """Whether tiles of the operands suffice to compute a tile of the result."""
        return all(step.name not in (TABLE, POSITION) for step in self.steps)

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
        if [step.is_operand for step in self.steps] != [
            number < len(operands) for number in range(len(self.steps))
        ]:
            raise FormulaError(f"expected {len(operands)} loads first, got {len(self.loads)}")
        for number, ((sizes, _), dims) in enumerate(zip(operands, self.loads, strict=True)):
            if number in self.tables and len(dims) == len(sizes) > 0:
                continue
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
        counts = {POSITION: 1, CONSTANT: 1, **ARITIES}
        if step.name == PICK:
            self._check_pick(number, types)
            return
        if step.dtype is None or counts.get(step.name) != len(step.args):
            raise FormulaError(f"step {number}: expected a function of integers, got '{step}'")
        if not self.tables.isdisjoint(step.reads):
            raise FormulaError(f"step {number}: expected no table, got '{step}'")
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

    def _check_pick(self, number: int, types: list[DType]) -> None:
        step = self.steps[number]
        table, *indices = step.args
        if table not in self.tables or self.steps[table].args != (len(indices),):
            raise FormulaError(
                f"step {number}: expected a table and an index for each of its dimensions, got "
                f"'{step}'"
            )
        known = all(0 <= i < number and i not in self.tables for i in indices)
        if not known or not all(types[i].is_integer for i in indices):
            raise FormulaError(f"step {number}: expected indices that are integers, got '{step}'")
        if step.dtype is not types[table]:
            raise FormulaError(f"step {number}: expected elements of {types[table].value}")
        types.append(types[table])

    def evaluate(self, operands: Sequence[Array], shape: tuple[int, ...] = ()) -> Array:
        """Return the result of ``shape`` for operands that broadcast to it, except for tables:
        64-bit integers, also in place of the floats to which the last step converts them.
        Operands are whole numbers in any type, or floats."""
        values: list[Array] = []
        with np.errstate(all="ignore"):
            for number, step in enumerate(self.steps):
                if step.is_operand:
                    values.append(np.asarray(operands[number]))
                    continue
                assert step.dtype is not None
                if step.name == POSITION:
                    (dim,) = step.args
                    if dim >= len(shape):
                        raise FormulaError(f"expected a result with dimension {dim}, got {shape}")
                    rest = len(shape) - dim - 1
                    values.append(np.arange(shape[dim]).reshape((-1, *(1 for _ in range(rest)))))
                    continue
                if step.name == PICK:
                    values.append(picked(step.dtype, *(values[arg] for arg in step.args)))
                    continue
                if step.name == CONSTANT:
                    half = 1 << 63
                    around = (step.args[0] + half) % (2 * half) - half
                    values.append(wrapped(np.asarray(around, np.int64), step.dtype))
                    continue
                args = [values[arg] for arg in step.args]
                values.append(applied(step.name, args, step.dtype))
        return values[-1]

    def with_positions(self, counted: Container[int]) -> Formula:
        """Return the formula with positions in place of the loads ``counted``, which lie along one
        dimension of the result."""
        count = len(self.loads)
        order = [i for i in range(count) if i not in counted]
        order += [i for i in range(count) if i in counted]
        number = {old: new for new, old in enumerate(order)}
        loads = [
            Step(POSITION, (max(self.steps[i].args),), DType.I64) if i in counted else self.steps[i]
            for i in order
        ]
        steps = [
            replace(s, args=tuple(number.get(a, a) for a in s.args)) if s.reads else s
            for s in self.steps[count:]
        ]
        return Formula((*loads, *steps))

    def with_loads(self) -> tuple[Formula, tuple[int, ...]]:
        """Return the formula with loads of rank 1 in place of positions, and the dimensions along
        which these lie."""
        along = tuple(step.args[0] for step in self.steps if step.name == POSITION)
        steps = (Step(LOAD, s.args) if s.name == POSITION else s for s in self.steps)
        return Formula(tuple(steps)), along

    def moved(self, dims: Sequence[int]) -> Formula:
        """Return a formula whose result has its dimension ``d`` along ``dims[d]`` of another
        tensor, and is repeated along the others."""

        def along(step: Step) -> Step:
            if step.name not in (LOAD, POSITION):
                return step
            return replace(step, args=tuple(-1 if d < 0 else dims[d] for d in step.args))

        return Formula(tuple(map(along, self.steps)))

    def written(self, xs: Sequence[str]) -> str:
        """Write the formula for people; ``xs`` are the operands as text."""
        texts: list[str] = []
        for number, step in enumerate(self.steps):
            if step.is_operand:
                texts.append(xs[number])
            elif step.name == PICK:
                table, *indices = (texts[arg] for arg in step.args)
                texts.append(f"{table}[{', '.join(indices)}]")
            elif step.name == POSITION:
                texts.append(f"position{step.args[0]}")
            elif step.name == CONSTANT:
                texts.append(str(step.args[0]))
            else:
                texts.append(_written(step.name, [texts[arg] for arg in step.args], step.dtype))
        return texts[-1]


def _written(name: str, xs: list[str], dtype: DType | None) -> str:
    if name == CAST:
        assert dtype is not None
        return f"{dtype.value}({xs[0]})"
    infix = BINARY[BinaryFn(name)].infix if len(xs) == 2 and name not in BITS else None
    return f"({xs[0]} {infix} {xs[1]})" if infix else f"{name}({', '.join(xs)})"
