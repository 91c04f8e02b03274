"""Functions of one whole number inside of two programs, as further inputs.

Bytes are taken apart and joined by shifts, masks, remainders and choices, and there are many ways
to write the same numbers. Values that are computed element by element from one tensor of integers
(an input, or what a view or another op makes) are functions of its elements, and these are known
everywhere (:mod:`mirage.verify.arithmetic.quasi_linear`). Where both programs have the same
function of the same tensor, up to a factor and a summand, it becomes an input of both: what holds
for any elements of an input holds for those of the function. A function that is a multiple and a
summand is written as that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from math import isfinite, lcm

from mirage.semantics.bounds.integer_ranges import Range, known_range, ranges_of
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.substitute import rename_graph, without_dead_ops
from mirage.semantics.ugraph import (
    Elementwise,
    KernelGraph,
    Op,
    Structure,
    TensorType,
    Value,
    View,
)
from mirage.verify.arithmetic.quasi_linear import (
    MOST_REMAINDERS,
    Function,
    Functions,
    MoreRemainders,
    NoFunction,
)
from mirage.verify.normal_form.bit_calls import bits_of

Pair = tuple[KernelGraph, KernelGraph]
_MOST_IN_FULL = 256
"""The most values of a number whose functions are known by their values alone."""


def with_whole_functions(first: KernelGraph, second: KernelGraph) -> Pair | None:
    """Return both programs, in primitive ops and with the same inputs, with such functions as
    further inputs, or written in another way; None if there are none."""
    pair = first, second
    if not any(_may_have(op) for graph in pair for op in graph.ops):
        return None
    period = 1
    while period <= MOST_REMAINDERS:
        numbers: dict[object, int] = {}
        try:
            found = [_Found(graph, numbers, period) for graph in pair]
        except MoreRemainders as more:
            period = lcm(period, more.period)
            continue
        shared = found[0].keys() & found[1].keys()
        inputs = {k: Value(TensorType(found[0].shapes[k], DType.I64), "any") for k in shared}
        if not inputs and not any(f.has_affine for f in found):
            return None
        one, other = (f.written(inputs) for f in found)
        return one, other
    return None


def _may_have(op: Op) -> bool:
    whole = op.function in (BinaryFn.REMAINDER, BinaryFn.FLOOR_DIV) or bits_of(op) is not None
    return whole and op.results[0].dtype.is_integer


def _keeps(op: Op) -> bool:
    """Return whether the result of an op has no other numbers than its operand."""
    return isinstance(op, View) or (isinstance(op, Elementwise) and op.identity)


class _Found:
    """The functions of whole numbers in a program, and numbers for its values: values that are
    computed alike, in two programs with the same ``numbers``, have the same one."""

    def __init__(self, graph: KernelGraph, numbers: dict[object, int], period: int) -> None:
        self.graph, self.numbers, self.period = graph, numbers, period
        self.ranges = ranges_of(graph)
        self.arithmetic: dict[Range, Functions] = {}
        self.number: dict[Value, int] = {}
        self.sources: dict[Value, Value] = {}  # of which values are functions
        self.functions: dict[Value, Function] = {}
        self.constants: dict[Value, int] = {}
        self.shapes: dict[object, tuple[int, ...]] = {}
        for i, v in enumerate(graph.inputs):
            self.number[v] = self._numbered(("input", i))
            self._begin(v)
        for op in graph.ops:
            self._add(op)
        self.edges = self._edges()
        self.has_affine = any(key is None for key, *_ in self.edges.values())

    def keys(self) -> set[object]:
        return {key for key, *_ in self.edges.values() if key is not None}

    def _numbered(self, key: object) -> int:
        return self.numbers.setdefault(key, len(self.numbers))

    def _of(self, v: Value) -> Functions:
        """Return the arithmetic of functions of ``v``."""
        low, high = known_range(v, self.ranges)
        known = isfinite(low) and isfinite(high) and high - low < _MOST_IN_FULL
        key = (low, high) if known else (0.0, -1.0)
        if key not in self.arithmetic:
            ends = (int(low), int(high)) if known else (None, None)
            self.arithmetic[key] = Functions(self.period, *ends)
        return self.arithmetic[key]

    def _begin(self, v: Value) -> None:
        """Read a value as a whole number that functions have as their argument."""
        if v.dtype.is_integer and v.shape:
            self.sources[v], self.functions[v] = v, self._of(v).argument

    def _add(self, op: Op) -> None:
        if op.number is not None and not op.result.shape and op.number == int(op.number):
            self.constants[op.result] = int(op.number)
        elif _keeps(op) and op.operands[0] in self.constants:
            self.constants[op.result] = self.constants[op.operands[0]]
        found = self._function(op)
        for i, v in enumerate(op.results):
            self.number[v] = self._numbered(self._key(op, i))
        if found is None:
            for v in op.results:
                self._begin(v)
            return
        source, function = found
        self.sources[op.result], self.functions[op.result] = source, function
        self.number[op.result] = self._numbered(
            ("function", self.number[source], function.key, op.result.type)
        )

    def _key(self, op: Op, i: int) -> object:
        if isinstance(op, Structure):
            return object()
        own = [repr(getattr(op, f.name)) for f in fields(op) if f.name not in _NOT_OWN]
        operands = tuple(self.number[v] for v in op.operands)
        return type(op), *own, operands, i, str(op.results[i].type)

    def _function(self, op: Op) -> tuple[Value, Function] | None:
        """Return the result of an op as a function of a value; None if it is none."""
        sources = {self.sources[v] for v in op.operands if v in self.sources}
        if len(sources) != 1 or len(op.results) != 1:
            return None
        (source,) = sources
        if source.shape != op.result.shape or not (isinstance(op, Elementwise) or bits_of(op)):
            return None
        arithmetic = self._of(source)
        if any(v not in self.functions and v not in self.constants for v in op.operands):
            return None
        try:
            xs = [
                self.functions[v] if v in self.functions else arithmetic.number(self.constants[v])
                for v in op.operands
            ]
            return source, _applied(arithmetic, op, xs)
        except NoFunction:
            return None

    def _edges(self) -> Mapping[Value, tuple[object, int, int]]:
        """Return the values to write in another way, as a factor and a summand of an input with a
        key (None: the source): functions that other ops read, or that are results."""
        found: dict[Value, tuple[object, int, int]] = {}
        read = set(self.graph.outputs)
        for op in self.graph.ops:
            inner = len(op.results) == 1 and op.result in self.functions
            own = self.sources.get(op.result) if inner else None
            read.update(v for v in op.operands if own is None or self.sources.get(v) is not own)
        for v, function in self.functions.items():
            source = self.sources[v]
            if v not in read or v is source or v.dtype is DType.I1:
                continue
            arithmetic = self._of(source)
            if arithmetic.constant(function) is not None:
                continue
            rest, by, plus = arithmetic.normal(function)
            argument, slope, least = arithmetic.normal(arithmetic.argument)
            if rest.key == argument.key and slope == 1:
                found[v] = (None, by, plus - by * least)
                continue
            key = self._numbered(("part", self.number[source], rest.key))
            found[v] = (key, by, plus)
            self.shapes[key] = v.shape
        return found

    def written(self, inputs: Mapping[object, Value]) -> KernelGraph:
        """Return the program with ``inputs`` for parts of functions."""
        b, names = Builder(), dict[Value, Value]()
        for op in self.graph.ops:
            for v in op.results:
                key, by, plus = self.edges.get(v, ("none", 0, 0))
                x = self.sources.get(v) if key is None else inputs.get(key)
                if x is not None and v in self.edges:
                    x = names.get(x, x) if key is None else x
                    names[v] = _scaled(b, x, by, plus, v.dtype)
            if not any(v in names for v in op.results):
                (renamed,) = rename_graph(replace(self.graph, ops=(op,)), names).ops
                b.ops.append(renamed)
        given = (*self.graph.inputs, *inputs.values())
        outputs = tuple(names.get(v, v) for v in self.graph.outputs)
        return without_dead_ops(KernelGraph(self.graph.name, given, tuple(b.ops), outputs))


_NOT_OWN = ("operands", "results")


def _scaled(b: Builder, x: Value, by: int, plus: int, dtype: DType) -> Value:
    x = x if x.dtype is dtype else b.cast(x, dtype, whole=dtype.is_integer)
    x = x if by == 1 else b.binary(BinaryFn.MUL, x, b.constant(by, dtype))
    return x if not plus else b.binary(BinaryFn.ADD, x, b.constant(plus, dtype))


def _applied(arithmetic: Functions, op: Op, xs: list[Function]) -> Function:
    """Apply an op to functions. Raise :class:`NoFunction` if it is not known what that is."""
    if (found := bits_of(op)) is not None:
        name, call = found
        numbers = {k: n for k, n in call.arguments if isinstance(n, int)}
        if len(xs) == 1 and len(numbers) == 1:
            ((place, n),) = numbers.items()
            given = [arithmetic.number(n), *xs]
            xs = given if place == "self" else given[::-1]
        if len(xs) != 2:
            raise NoFunction(name)
        return arithmetic.of_bits(name, xs[0], xs[1], op.result.dtype)
    if isinstance(op.function, UnaryFn):
        return arithmetic.unary(op.function, *xs)
    if isinstance(op.function, BinaryFn):
        return arithmetic.binary(op.function, *xs)
    if isinstance(op, Elementwise) and op.identity and len(xs) == 1:
        return xs[0]
    if isinstance(op, Elementwise) and op.cuts and op.operands[0].dtype.is_integer:
        if op.result.dtype is DType.I1:
            raise NoFunction("a truth value")
        return arithmetic.cut(xs[0], op.result.dtype.bits)
    raise NoFunction("another op")
