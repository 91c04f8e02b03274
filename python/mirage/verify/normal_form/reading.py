"""A program that is rewritten op by op, with known properties of its values.

Values that are computed in the same way become one value. The known properties are the elements of
values that depend only on held tensors (such as positions), bounds of integers, and certain
properties of real numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from fractions import Fraction

import numpy as np

from mirage.semantics.bounds.integer_ranges import Range, range_of
from mirage.semantics.builder import Builder
from mirage.semantics.domain import Float64
from mirage.semantics.numbers import Number, as_number
from mirage.semantics.ops.kinds import is_cast
from mirage.semantics.positions import Iota
from mirage.semantics.scalar import Array, DType
from mirage.semantics.substitute import with_operands
from mirage.semantics.ugraph import (
    Elementwise,
    KernelGraph,
    Op,
    Structure,
    TensorType,
    Value,
    View,
)
from mirage.verify.normal_form.certainty import Certain

_MOST_KNOWN = 1 << 22
"""The most elements of a value that are computed."""


class Reading:
    """The ops that have been written; rules may write the last one differently."""

    def __init__(
        self, inputs: tuple[Value, ...], contents: Mapping[int, Array], given: Mapping[int, Range]
    ) -> None:
        """``contents`` are the elements of some inputs, and ``given`` the ranges of others."""
        self.inputs = inputs
        self.ops: list[Op] = []
        self.makers: dict[Value, Op] = {}
        self.constants: dict[Value, Number] = {}
        self.ranges: dict[Value, Range] = {inputs[i]: r for i, r in given.items()}
        self.known: dict[Value, Array | None] = {}
        for i, x in contents.items():
            self.known[inputs[i]] = x
            if inputs[i].dtype.is_integer and x.size:
                self.ranges[inputs[i]] = (float(x.min()), float(x.max()))
        self._alike: dict[object, Op] = {}
        infinite = {inputs[i] for i, x in contents.items() if not np.isfinite(x).all()}
        self.certain = _Certain(self.makers, self.constants, infinite)

    def add(self, op: Op) -> tuple[Value, ...]:
        """Return the results of ``op``, or earlier values that have the same elements in the same
        places."""
        if op.renames:  # of a reshape
            while (made := self.makers.get(op.operands[0])) is not None and made.renames:
                op = replace(op, operands=made.operands)
        moves = op.renames or (isinstance(op, View) and repeats(op))
        if moves and op.operands[0].type == op.results[0].type:
            return op.operands
        if not isinstance(op, Structure):
            own = [repr(getattr(op, f.name)) for f in fields(op) if f.name not in _OF_VALUES]
            types = tuple(str(v.type) for v in op.results)
            key = (type(op), *own, op.operands, types)
            if key in self._alike:
                return self._alike[key].results
            self._alike[key] = op
        self.ops.append(op)
        ranges = [self.range(v) for v in op.operands]
        for v in op.results:
            self.makers[v] = op
            self.ranges[v] = range_of(op, v, ranges)
            if op.number is not None:
                self.constants[v] = op.number
        return op.results

    def range(self, x: Value) -> Range:
        """Return the bounds of the elements."""
        return self.ranges.get(x, (0.0, 1.0) if x.dtype is DType.I1 else (-np.inf, np.inf))

    def write(self, rule: Callable[[Builder], Value]) -> Value:
        """Return the value that a rule writes."""
        b = Builder()
        found = rule(b)
        names: dict[Value, Value] = {}
        for op in b.ops:
            op = with_operands(op, tuple(names.get(v, v) for v in op.operands))
            names.update(zip(op.results, self.add(op), strict=True))
        return names.get(found, found)

    def apply(self, op: Op, operands: tuple[Value, ...]) -> Value:
        """Apply an elementwise op or view to other operands."""
        if isinstance(op, View):
            shape = op.results[0].shape
        else:
            shape = tuple(np.broadcast_shapes(*(v.shape for v in operands)))
        result = Value(TensorType(shape, op.results[0].dtype))
        return self.add(replace(op, operands=operands, results=(result,)))[0]

    def elements(self, x: Value) -> Array | None:
        """Return the elements of a value that depends only on held tensors, or None."""
        if x not in self.known:
            self.known[x] = self._computed(x)
        return self.known[x]

    def _computed(self, x: Value) -> Array | None:
        op = self.makers.get(x)
        plain = isinstance(op, Elementwise | View) or (op is not None and op.number is not None)
        if op is None or not plain or x.type.size > _MOST_KNOWN:
            return None
        xs = [self.elements(v) for v in op.operands]
        if any(v is None for v in xs):
            return None
        (found,) = op.compute(Float64(), [(v,) for v in xs if v is not None], 0, x.shape)
        return np.broadcast_to(found, x.shape)

    def places(self, count: int) -> Value:
        """Return the first whole numbers, from 0 on."""
        line = np.arange(count)
        for v in self.inputs:
            x = self.known.get(v)
            if v.dtype.is_integer and x is not None and np.array_equal(x, line):
                return v
        (made,) = self.add(Iota((), (Value(TensorType((count,), DType.I64)),), 0))
        self.known[made] = line
        return made

    def is_true(self, x: Value) -> bool | None:
        """Return True or False if a truth value is the same everywhere; otherwise None."""
        low, high = self.range(self.source(x))
        if low == high:
            return low != 0
        return self.certain.is_certain(self.source(x))

    def is_whole(self, x: Value) -> bool:
        """Return whether all elements are certainly whole numbers."""
        while not x.dtype.is_integer and (
            isinstance(op := self.makers.get(x), View) or is_cast(op)
        ):
            x = op.operands[0]
        number = as_number(self.constants[x]) if x in self.constants else None
        whole = isinstance(number, Fraction) and number.denominator == 1
        return x.dtype.is_integer or whole

    def source(self, x: Value) -> Value:
        """Return the value that ``x`` is a cast of."""
        while is_cast(op := self.makers.get(x)):
            x = op.operands[0]
        return x


_OF_VALUES = ("operands", "results")


class _Certain(Certain):
    """Properties of values; held tensors may be infinite."""

    def __init__(
        self, makers: Mapping[Value, Op], constants: Mapping[Value, Number], infinite: set[Value]
    ) -> None:
        super().__init__(makers, constants)
        self._infinite = infinite

    def is_finite(self, x: Value, total: bool = False) -> bool:
        return not (self._infinite and self._reaches(x)) and super().is_finite(x, total)

    def _reaches(self, x: Value) -> bool:
        left, seen = [x], set[Value]()
        while left:
            v = left.pop()
            if v in self._infinite:
                return True
            if v not in seen and v in self.makers:
                left += self.makers[v].operands
            seen.add(v)
        return False


def repeats(view: View) -> bool:
    """Return whether a view has the elements of its operand, repeated along dimensions that have
    size 1 or are missing."""
    x, dims = view.operands[0], view.source_dims()
    lead = len(view.results[0].shape) - len(x.shape)
    if not view.whole or dims is None or lead < 0:
        return False
    return all(dims.get(lead + d) == d for d, n in enumerate(x.shape) if n != 1)


Rule = Callable[[Reading, Op], Value | None]


def read_again(
    graph: KernelGraph,
    contents: Mapping[int, Array],
    given: Mapping[int, Range],
    rules: tuple[Rule, ...],
) -> KernelGraph:
    """Rewrite ``graph``: each op is replaced by the result of the first of the ``rules`` that
    applies."""
    reading = Reading(graph.inputs, contents, given)
    names: dict[Value, Value] = {}
    for old in graph.ops:
        op = with_operands(old, tuple(names.get(v, v) for v in old.operands))
        found = next((v for rule in rules if (v := rule(reading, op)) is not None), None)
        if found is None:
            names.update(zip(old.results, reading.add(op), strict=True))
            continue
        result = old.results[0]
        if found.shape != result.shape:
            found = reading.write(lambda b, x=found, v=result: b.broadcast(x, v.shape))
        if found.dtype is not result.dtype:
            found = reading.write(lambda b, x=found, v=result: b.cast(x, v.dtype))
        names[result] = found
    outputs = tuple(names.get(v, v) for v in graph.outputs)
    return KernelGraph(graph.name, graph.inputs, tuple(reading.ops), outputs)
