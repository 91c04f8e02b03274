"""Formulas of exact arithmetic, written from the ops that compute an integer.

A formula gives the element of the result at an index. So each op determines which elements it
needs, and at which index: a function of elements needs those of its operands at the same index, a
transpose at the reordered one, a slice at one that is shifted, and a join one of its operands,
depending on the index. An operand whose index is that of the result, dimension by dimension, is
loaded; from other operands an element is picked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias

from mirage.semantics.integer_formula import (
    CONSTANT,
    LOAD,
    MAX_STEPS,
    PICK,
    POSITION,
    TABLE,
    Formula,
    Step,
)
from mirage.semantics.integer_functions import CAST
from mirage.semantics.integers import Integers
from mirage.semantics.ops.kinds import Lookup
from mirage.semantics.ops.op import Op, Value
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import View
from mirage.transforms.computed_integers import places


class NoFormula(Exception):
    """A value is not a formula, or one with too many steps."""


@dataclass(frozen=True)
class Ref:
    """A step, by its number among those of its kind."""

    kind: str
    number: int


Index: TypeAlias = "tuple[int | Ref, ...]"
"""The place of an element, for each dimension: at the index of the result along one of its
dimensions, at 0 (-1, for a dimension of size 1), or at the number that a step computes."""
Named: TypeAlias = "Callable[[Op], tuple[str, tuple[Value | int, ...]]]"
"""Returns the function that an op applies, and its operands."""


@dataclass
class FormulaWriter:
    """Writes one formula, from the functions that are ``computed``, the ops that ``moves`` elements
    between them, and the formulas that are ``composed``."""

    root: Value
    made: Mapping[Value, Op]
    computed: Set[Op]
    moves: Set[Op]
    named: Named = field(default=lambda op: (named_function(op), op.operands))
    composed: Mapping[Value, Integers] = field(default_factory=dict[Value, Integers])
    operands: dict[tuple[Value, tuple[int, ...] | None], Step] = field(
        default_factory=dict[tuple[Value, "tuple[int, ...] | None"], Step]
    )
    positions: list[int] = field(default_factory=list[int])
    steps: list[tuple[str, tuple[Ref | int, ...], DType]] = field(
        default_factory=list[tuple[str, "tuple[Ref | int, ...]", DType]]
    )
    known: dict[tuple[Value, Index], Ref] = field(default_factory=dict[tuple[Value, Index], Ref])

    def formula(self) -> Integers | None:
        """Return the formula of the root; None if there is none."""
        try:
            self._value(self.root, tuple(range(len(self.root.shape))))
        except NoFormula:
            return None
        if not self.steps:
            return None
        starts = {
            LOAD: 0, POSITION: len(self.operands),
            "step": len(self.operands) + len(self.positions),
        }  # fmt: skip

        def number(arg: Ref | int) -> int:
            return arg if isinstance(arg, int) else starts[arg.kind] + arg.number

        steps = (
            *self.operands.values(),
            *(Step(POSITION, (dim,), DType.I64) for dim in self.positions),
            *(Step(name, tuple(map(number, args)), dtype) for name, args, dtype in self.steps),
        )
        values = tuple(value for value, _ in self.operands)
        return Integers(values, (self.root,), Formula(steps))

    def _value(self, value: Value, index: Index) -> Ref:
        """Return the step that is the element of a value at an index."""
        index = tuple(-1 if n == 1 else i for i, n in zip(index, value.shape, strict=True))
        key = (value, index)
        if key not in self.known:
            self.known[key] = self._new(value, index)
        return self.known[key]

    def _new(self, value: Value, index: Index) -> Ref:
        if value in self.composed:
            return self._formula(self.composed[value], index)
        op = self.made.get(value)
        if op is not None and op.number is not None and value.dtype.is_integer:
            return self._step(CONSTANT, (int(op.number),), value.dtype)
        if op is not None and op in self.moves:
            part = op.cut_at is not None and not self._is_computed(op.operands[0])
            # the slice may be loaded as a part of its operand
            if part and self._is_loaded(value, index):
                return self._operand(value, index)
            return self._moved(op, index)
        ends = value.dtype.is_integer or value is self.root  # floats are only converted
        if op is None or op not in self.computed or not ends:
            return self._operand(value, index)
        name, given = self.named(op)
        args = tuple(
            self._step(CONSTANT, (int(v),), value.dtype)
            if isinstance(v, int)
            else self._value(v, index[len(index) - len(v.shape) :])
            for v in given
        )
        return self._step(name, args, value.dtype)

    def _formula(self, op: Integers, index: Index) -> Ref:
        """Return the element of another formula at an index."""
        found: list[Ref] = []
        for number, step in enumerate(op.formula.steps):
            if step.name == LOAD:
                own = tuple(-1 if d < 0 else index[d] for d in step.args)
                found.append(self._value(op.operands[number], own))
            elif step.name == TABLE:
                found.append(self._given((op.operands[number], None), step))
            elif step.name == POSITION:
                found.append(self._number(index[step.args[0]]))
            else:
                assert step.dtype is not None
                args = tuple(found[arg] for arg in step.args) if step.reads else step.args
                found.append(self._step(step.name, args, step.dtype))
        return found[-1]

    def _operand(self, value: Value, index: Index) -> Ref:
        if self._is_loaded(value, index):
            whole = tuple(i for i in index if isinstance(i, int))
            return self._given((value, whole), Step(LOAD, whole))
        if not value.dtype.is_integer:
            raise NoFormula
        op = self.made.get(value)
        if isinstance(op, Lookup) and op.counts_along is not None and value.dtype is DType.I64:
            return self._number(index[op.counts_along])
        table = self._given((value, None), Step(TABLE, (len(index),)))
        return self._step(PICK, (table, *map(self._number, index)), value.dtype)

    def _is_loaded(self, value: Value, index: Index) -> bool:
        """Return whether the index is that of the result, dimension by dimension."""
        shape = self.root.shape
        return all(
            isinstance(i, int) and n == (1 if i < 0 else shape[i])
            for i, n in zip(index, value.shape, strict=True)
        )

    def _is_computed(self, value: Value) -> bool:
        op = self.made.get(value)
        if op is None or op not in self.moves:
            return op in self.computed
        return op.joined_along is not None or self._is_computed(op.operands[0])

    def _given(self, key: tuple[Value, tuple[int, ...] | None], step: Step) -> Ref:
        self.operands.setdefault(key, step)
        return Ref(LOAD, list(self.operands).index(key))

    # ---- indices

    def _number(self, i: int | Ref) -> Ref:
        """Return the step that is an index."""
        if isinstance(i, Ref):
            return i
        if i < 0:
            return self._constant(0)
        if i not in self.positions:
            self.positions.append(i)
        return Ref(POSITION, self.positions.index(i))

    def _constant(self, number: int) -> Ref:
        return self._step(CONSTANT, (number,), DType.I64)

    def _with(self, fn: BinaryFn, i: int | Ref, number: int) -> Ref:
        """Return an index combined with a number."""
        return self._step(fn.value, (self._number(i), self._constant(number)), DType.I64)

    def _step(self, name: str, args: tuple[Ref | int, ...], dtype: DType) -> Ref:
        step = (name, args, dtype)
        if step in self.steps:
            return Ref("step", self.steps.index(step))
        if len(self.steps) + len(self.operands) + len(self.positions) >= MAX_STEPS:
            raise NoFormula
        self.steps.append(step)
        return Ref("step", len(self.steps) - 1)

    # ---- moved elements

    def _moved(self, op: Op, index: Index) -> Ref:
        (first, *_) = op.operands
        if op.joined_along is not None:
            return self._joined(op, op.joined_along, index)
        if op.cut_at is not None:
            cut = zip(index, op.cut_at, first.shape, strict=True)
            moved = ((-1 if i == -1 else i) if not at else self._with(BinaryFn.ADD, i, at)
                     for i, at, _ in cut)  # fmt: skip
            return self._value(first, tuple(moved))
        where = places(op) if isinstance(op, View) else None
        if where is not None:
            return self._value(first, tuple(-1 if d < 0 else index[d] for d in where))
        return self._value(first, self._renamed(first.shape, op.results[0].shape, index))

    def _joined(self, op: Op, dim: int, index: Index) -> Ref:
        """Return an element of one of the operands: of the first one whose end is above the
        index."""
        dtype, end = op.results[0].dtype, op.results[0].shape[dim]
        either = BinaryFn.OR if dtype is DType.I1 else BinaryFn.ADD
        found: Ref | None = None
        for operand in reversed(op.operands):
            start = end - operand.shape[dim]
            if start == end:
                continue
            own = self._with(BinaryFn.SUB, index[dim], start) if start else index[dim]
            element = self._value(operand, (*index[:dim], own, *index[dim + 1 :]))
            if found is None:
                found = element
            else:
                here = self._with_truth(index[dim], end)
                kept = self._step(BinaryFn.KEEP.value, (here, element), dtype)
                other = self._step(UnaryFn.NOT.value, (here,), DType.I1)
                other = self._step(BinaryFn.KEEP.value, (other, found), dtype)
                found = self._step(either.value, (kept, other), dtype)
            end = start
        if found is None:
            raise NoFormula
        return found

    def _with_truth(self, i: int | Ref, end: int) -> Ref:
        """Return whether an index is below a number."""
        return self._step(BinaryFn.LT.value, (self._number(i), self._constant(end)), DType.I1)

    def _renamed(self, before: tuple[int, ...], after: tuple[int, ...], index: Index) -> Index:
        """Return the index in a tensor of the shape ``before`` whose elements have the shape
        ``after``, group by group of dimensions that have as many elements."""
        if not prod(before):
            raise NoFormula
        found: list[int | Ref] = [-1] * len(before)
        a = b = 0
        while a < len(before) or b < len(after):
            first, last = a, b
            a, b = a + (a < len(before)), b + (b < len(after))
            while prod(before[first:a]) != prod(after[last:b]):
                if prod(before[first:a]) < prod(after[last:b]):
                    a += 1
                else:
                    b += 1
            own = [d for d in range(first, a) if before[d] > 1]
            new = [d for d in range(last, b) if after[d] > 1]
            if len(own) == len(new) == 1:
                found[own[0]] = index[new[0]]
            elif own:
                self._regrouped(before, after, index, own, new, found)
        return tuple(found)

    def _regrouped(
        self,
        before: tuple[int, ...],
        after: tuple[int, ...],
        index: Index,
        own: list[int],
        new: list[int],
        found: list[int | Ref],
    ) -> None:
        place = self._number(index[new[0]])
        for d in new[1:]:
            scaled = self._with(BinaryFn.MUL, place, after[d])
            place = self._step(BinaryFn.ADD.value, (scaled, self._number(index[d])), DType.I64)
        stride = prod(before[d] for d in own)
        for number, d in enumerate(own):
            stride //= before[d]
            at = self._with(BinaryFn.FLOOR_DIV, place, stride) if stride > 1 else place
            found[d] = self._with(BinaryFn.REMAINDER, at, before[d]) if number else at


def named_function(op: Op) -> str:
    """Return the name of a function in formulas."""
    return CAST if op.function is None else str(op.function.value)
