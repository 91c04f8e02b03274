"""Integers that are computed from floats and truth values, kept as floats.

Ranks, counts and search results among positions are whole numbers in f32 before a program converts
them to integers. Kernels hold small integers as f32 anyway, and the verifier knows no types of
tiles: a program and its kernels are compared more easily if both compute with f32. So a value that
is known to be whole and small stays f32 from op to op, and one conversion makes an integer where
one is needed.

Known ranges simplify ops: elements that equal one number, choices with a known outcome, rows with a
known number, positions at an index. A row of a table with few rows is a sum over its rows, masked
to the one that is selected, so that no index is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mirage.semantics.bounds.integer_ranges import Range, ranges_of
from mirage.semantics.builder import Builder
from mirage.semantics.ops.op import Op, Value
from mirage.semantics.positions import MAX_POSITIONS, Lookup, iota
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.substitute import rename_ops
from mirage.semantics.ugraph import (
    Contraction,
    Elementwise,
    KernelGraph,
    Reshape,
    TensorType,
    View,
)
from mirage.transforms.partition.bounding_integers import masks_of_products

FEW = 16
"""The most rows of a table, and of a lookup in it, that are compared with each other."""
FEW_ELEMENTS = 1 << 16
"""The most elements that are added up for all rows of a lookup together: from a larger table (the
weights of experts), only the looked-up rows are read."""
INTEGERS = (DType.I32, DType.I64)
"""The types in which small numbers do not wrap around."""
SAME = {
    BinaryFn.ADD, BinaryFn.SUB, BinaryFn.MUL, BinaryFn.MAX, BinaryFn.MIN, BinaryFn.KEEP,
    BinaryFn.LT, BinaryFn.LE, BinaryFn.EQ, BinaryFn.NE, UnaryFn.NEG, UnaryFn.ABS, ReduceFn.SUM,
    ReduceFn.MAX,
}  # fmt: skip
"""The functions that have the same result on whole floats."""
_STEPS = (Elementwise, View)


def _moves(op: Op) -> bool:
    """Return whether an op only moves elements."""
    return isinstance(op, View) or op.joined_along is not None


def integers_as_floats(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` with integers that are computed from floats kept as floats; the same object
    if there are none."""
    if not any(_converts(op) for op in graph.ops):
        return graph
    ranges = ranges_of(graph)
    if not any(_converts(op) and _small(op.result, ranges) for op in graph.ops):
        return graph
    return _Floats(graph, ranges).run()


def _converts(op: Op) -> bool:
    """Return whether an op converts floats or truth values to integers."""
    if not (isinstance(op, Elementwise) and (op.cuts or op.identity)):
        return False
    given = op.operands[0].dtype
    return op.result.dtype in INTEGERS and (given is DType.I1 or not given.is_integer)


def _small(value: Value, ranges: Mapping[Value, Range]) -> bool:
    return max(map(abs, ranges[value])) < MAX_POSITIONS


class _Floats:
    def __init__(self, graph: KernelGraph, ranges: Mapping[Value, Range]) -> None:
        self.graph, self.ranges = graph, ranges
        self.definitions = {v: op for op in graph.ops for v in op.results}
        self.bounding = set(masks_of_products(graph))
        self.build = Builder()
        self.floats: dict[Value, Value] = {}  # in f32, by the integer
        self.names: dict[Value, Value] = {}  # values computed from them: truth values, floats
        self.integers: dict[Value, Value] = {}  # the same in their own type
        self.written: set[Value] = set()  # integers that are converted

    def run(self) -> KernelGraph:
        for op in self.graph.ops:
            if not (self._is_float(op) and (self._shortened(op) or self._moved(op))):
                wanted = self._as_integer if self._is_exact(op) else self._as_it_is
                operands = tuple(map(wanted, op.operands))
                same = operands == op.operands
                self.build.ops.append(op if same else replace(op, operands=operands))
        for value in dict.fromkeys(self.graph.outputs):
            self._as_it_is(value)
        ops = self._with_results()
        return KernelGraph(self.graph.name, self.graph.inputs, ops, self.graph.outputs)

    def _with_results(self) -> tuple[Op, ...]:
        """Return the ops such that the program has its original result values: a replacement gets
        the name of the result, unless it is itself a value of the program."""
        given = set(self.graph.inputs).union(self.definitions)
        renamed: dict[Value, Value] = {}
        for value in dict.fromkeys(self.graph.outputs):
            new = self.names.get(value, value)
            if new is value:
                continue
            if new in given or new in renamed:
                same = Reshape((renamed.get(new, new),), (value,))
                self.build.ops.append(same)
            else:
                renamed[new] = value
        return rename_ops(tuple(self.build.ops), renamed)

    def _is_float(self, op: Op) -> bool:
        """Return whether an op reads a value that is computed as floats, or starts such a
        computation."""
        if len(op.results) != 1 or op in self.bounding:
            return False
        return _converts(op) or any(v in self.floats or v in self.names for v in op.operands)

    # ---- values

    def _as_it_is(self, value: Value) -> Value:
        """Return the value in its own type."""
        if value in self.floats and value not in self.written:
            self.written.add(value)
            self.build.cast(self.floats[value], value.dtype)
            self.build.define(value)
        return self.names.get(value, value)

    def _is_exact(self, op: Op) -> bool:
        """Return whether an op computes integers that f32 does not hold."""
        if not isinstance(op, Elementwise) or op.function is None:
            return False
        numbers = op.result.dtype in INTEGERS and all(v.dtype.is_integer for v in op.operands)
        return numbers and not _small(op.result, self.ranges)

    def _as_integer(self, value: Value) -> Value:
        """Return the value as computed from integers, for a formula that computes with them."""
        op = self.definitions.get(value)
        if value in self.integers:
            return self.integers[value]
        if value not in self.floats or value in self.written or not isinstance(op, _STEPS):
            return self._as_it_is(value)
        if op.number is not None or not all(v.dtype.is_integer for v in op.operands):
            return self._as_it_is(value)
        operands = tuple(map(self._as_integer, op.operands))
        self.integers[value] = Value(value.type)
        self.build.ops.append(replace(op, operands=operands, results=(self.integers[value],)))
        return self.integers[value]

    def _float(self, value: Value) -> Value:
        """Return the value in f32; truth values become zero and one."""
        if value in self.floats:
            return self.floats[value]
        made = self.definitions.get(value)
        if made is not None and made.number is not None and not value.shape:
            return self.build.constant(made.number, DType.F32)
        value = self.names.get(value, value)
        return value if value.dtype is DType.F32 else self.build.cast(value, DType.F32)

    def _give(self, old: Value, new: Value) -> bool:
        """Record the replacement of ``old``; return True for the caller to pass on."""
        if new.shape != old.shape:
            new = self.build.broadcast(new, old.shape)
        if old.dtype in INTEGERS:
            self.floats[old] = new
        else:
            self.names[old] = new if new.dtype is old.dtype else self.build.cast(new, old.dtype)
        return True

    # ---- ops

    def _moved(self, op: Op) -> bool:
        """Replace an op by one on floats; return False if that is not the same."""
        result, dtype = op.result, op.result.dtype
        integers = [v for v in (*op.operands, result) if v.dtype in INTEGERS]
        if not integers or not all(_small(v, self.ranges) for v in integers):
            return False
        if isinstance(op, Elementwise) and (op.identity or op.cuts):
            (x,) = op.operands
            if dtype in INTEGERS and self.ranges[result] != self.ranges[x]:
                return False
            return dtype is not DType.I1 and self._give(result, self._float(x))
        if not _moves(op) and op.function not in SAME:
            return False
        if any(v.dtype not in (*INTEGERS, DType.I1) for v in op.operands):
            return False
        operands = tuple(v if v.dtype is DType.I1 else self._float(v) for v in op.operands)
        operands = tuple(self.names.get(v, v) for v in operands)
        kind = DType.F32 if dtype in INTEGERS else dtype
        new = Value(TensorType(result.shape, kind))
        self.build.ops.append(replace(op, operands=operands, results=(new,)))
        return self._give(result, new)

    def _shortened(self, op: Op) -> bool:
        """Replace an op by the result that follows from its operands' ranges; return False if none
        follows."""
        result = op.result
        if op.names_rows is not None:
            return self._row(op, *op.operands)
        low, high = self.ranges[result]
        computed = isinstance(op, Elementwise | Contraction)
        if computed and low == high and result.dtype in INTEGERS:
            return self._give(result, self.build.constant(int(low), DType.F32))
        if len(op.operands) != 2 or not result.dtype.is_integer or result.dtype is DType.I1:
            return False
        a, b = op.operands
        kept = self._one_of(op, self.ranges[a], self.ranges[b])
        if kept is None or not _small((a, b)[kept], self.ranges):
            return False
        return self._give(result, self._float((a, b)[kept]))

    @staticmethod
    def _one_of(op: Op, a: Range, b: Range) -> int | None:
        """Return the operand that the result always equals."""
        match op.function:
            case BinaryFn.ADD if a == (0, 0):
                return 1
            case BinaryFn.ADD | BinaryFn.SUB if b == (0, 0):
                return 0
            case BinaryFn.MAX if a[0] >= b[1] or b[0] >= a[1]:
                return int(b[0] >= a[1])
            case BinaryFn.MIN if a[1] <= b[0] or b[1] <= a[0]:
                return int(b[1] <= a[0])
            case BinaryFn.KEEP if a == (1, 1):
                return 1
            case _:
                return None

    def _row(self, op: Op, table: Value, index: Value) -> bool:
        """Replace a lookup by rows whose numbers are known to be valid."""
        low, high = self.ranges[index]
        if index not in self.floats or low < 0 or high >= table.shape[0]:
            return False
        b, source, result = self.build, self.definitions.get(table), op.result
        if isinstance(source, Lookup) and source.counts_along == 0 and len(table.shape) == 1:
            return self._give(result, self.floats[index])
        if table.dtype.is_integer and table not in self.floats:
            return False
        rows, *row = table.shape
        table = self.floats.get(table, self.names.get(table, table))
        if low == high:
            offsets = (int(low), *(0 for _ in row))
            one = b.slice(table, offsets, (1, *row))
            return self._give(result, b.reshape(one, (*(1 for _ in index.shape), *row)))
        count = index.type.size
        if max(rows, count) > FEW or count * table.type.size > FEW_ELEMENTS:
            return False
        wanted = b.reshape(self.floats[index], (count, 1))
        number = b.cast(iota(b, (rows,), 0), DType.F32)
        meant = b.reshape(b.binary(BinaryFn.EQ, wanted, number), (count, rows, *(1 for _ in row)))
        found = b.reduce(ReduceFn.SUM, b.binary(BinaryFn.KEEP, meant, table), (1,))
        return self._give(result, b.reshape(found, result.shape))
