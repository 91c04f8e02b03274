"""The builder of the table's rows, which accepts numbers in place of values."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import TypeAlias

import numpy as np

from mirage.frontend.ops import POWERS
from mirage.frontend.torch_import.rows.numbers_at_import import (
    exact_number,
    kept_for_certain,
    unchanged,
)
from mirage.frontend.torch_import.rows.torch_call import Call, Unsupported
from mirage.semantics.bounds.integer_ranges import ranges_of
from mirage.semantics.builder import Builder, normalize_dims
from mirage.semantics.numbers import Number
from mirage.semantics.ops.kinds import is_cast
from mirage.semantics.positions import iota
from mirage.semantics.scalar import ROUNDING_TO, Array, BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import (
    Composite,
    Contraction,
    Elementwise,
    KernelGraph,
    Op,
    TensorType,
    Value,
    View,
)


@dataclass(frozen=True)
class Layout:
    """The layout of the rows of groups in ``count`` blocks of ``size`` rows: the expert of each
    block (``owner``), how many experts have rows from that block on (``later``, of three
    dimensions, 0 for blocks without a row), the row at each place of the blocks (``rows``), the
    place of each row (``place``), and whether a row belongs to a group (``inside``)."""

    count: int
    size: int
    owner: Value
    later: Value
    rows: Value
    place: Value
    inside: Value


Range: TypeAlias = "tuple[float, float]"
"""The least and the largest number that a value may hold."""


class Lowering(Builder):
    """A builder whose binary ops also accept numbers, and that has PyTorch's views. ``tf32``:
    PyTorch multiplies matrices of f32 as TF32. ``may_stay``: ops may remain in PyTorch. ``sized``:
    the program has a dynamic size."""

    def __init__(self, *, tf32: bool = False, may_stay: bool = False, sized: bool = False) -> None:
        super().__init__()
        self.tf32, self.may_stay, self.sized = tf32, may_stay, sized
        self.given: dict[Value, Range] = {}
        """The ranges of integers that are computed at import."""
        self.held: dict[Value, Array] = {}
        """Tensors that were computed at import and are not formulas of positions."""
        self.adds_infinity = False
        """Whether the program itself adds minus infinity, as masks do; a lookup also adds it where
        an index names no element."""
        self.found: dict[tuple[Value, int], Value] = {}
        """The results of :func:`indexing._stored_at`, by the indices and the number of places."""
        self.errors: dict[Value, tuple[Value, bool]] = {}
        """The argument of each error function, by its result, and whether it is the complement."""
        self.orders: dict[Value, tuple[Value, int, Value]] = {}
        """The tensor, the dimension and the sorted elements of a sort, by the result that holds the
        positions of the elements."""
        self.turned: dict[Value, tuple[Value, frozenset[int]]] = {}
        """The tensor that was flipped and the dimensions, by the result."""
        self.layouts: dict[tuple[Value, int, int], Layout] = {}
        """The layouts of the rows of groups in blocks, by the ends of groups, the rows and the
        experts."""
        self.blocked: dict[Value, tuple[Layout, Value]] = {}
        """Tensors that are computed in blocks, by the tensor of rows."""
        self._known: dict[Value, Fraction] = {}
        """The values whose elements are all one known number."""

    def _add(self, op: Op) -> Value:
        """Return the op's result; for known numbers, the number that it equals, if that is
        exact."""
        if isinstance(op.number, Fraction):
            self._known[op.result] = op.number
        elif (found := kept_for_certain(op, self._known)) is not None:
            return found if isinstance(found, Value) else self.filled(found, op.result.type)
        elif (same := unchanged(op, self._known)) is not None:
            return self.spread(same, op.result.shape)
        elif isinstance(op, View) and op.operands[0] in self._known:
            self._known[op.result] = self._known[op.operands[0]]
        elif (number := exact_number(op, self._known)) is not None:
            if op.result.dtype is not DType.I1:  # truth values are not constants
                return self.constant(number, op.result.dtype)
            self._known[op.result] = number
        return super()._add(op)

    def product(self, a: Value, b: Value) -> Value:
        """Multiply matrices in the precision that PyTorch is set to for f32."""
        return self.matmul(a, b, tf32=self.tf32 and {a.dtype, b.dtype} == {DType.F32})

    def reduce(self, fn: ReduceFn, x: Value, dims: tuple[int, ...]) -> Value:
        """Reduce over ``dims``, which keep size 1. A sum of truth values is true if any of them
        is."""
        if x.dtype is not DType.I1 or fn is not ReduceFn.SUM:
            return super().reduce(fn, x, dims)
        return self.combine(BinaryFn.NE, super().reduce(fn, self.cast(x, DType.F32), dims), 0)

    def constant(self, value: Number, dtype: DType = DType.F32) -> Value:
        """A rank-0 constant, which is a number. Numbers are computed with in f32, or in f64."""
        if math.isnan(value):
            raise Unsupported("a constant that is not a number (NaN)")
        if not dtype.is_integer:
            check_held(value, DType.F64 if dtype is DType.F64 else DType.F32)
        return super().constant(value, dtype)

    def range_of(self, x: Value) -> Range:
        """Return the known range of the elements of ``x``, at least that of its type."""
        return ranges_of(KernelGraph("", (x,), tuple(self.ops), ()), self.given)[x]

    def combine(self, fn: BinaryFn, a: Value | Number, b: Value | Number) -> Value:
        """Apply ``fn`` to two values, or to a value and a number."""
        if isinstance(a, Value) and isinstance(b, Value):
            return self.binary(fn, a, b)
        if isinstance(a, Value):
            assert not isinstance(b, Value)
            return self.binary(fn, a, self.constant(b, a.dtype.computed))
        assert isinstance(b, Value)
        return self.binary(fn, self.constant(a, b.dtype.computed), b)

    def number_of(self, x: Value) -> Number | None:
        """Return the number that all elements of ``x`` are known to equal, or None."""
        made = {v: op for op in self.ops for v in op.results}
        op = made.get(x)
        while isinstance(op, View) or (
            isinstance(op, Elementwise) and op.identity and op.operands[0].dtype.is_integer
        ):
            op = made.get(op.operands[0])
        return None if op is None else op.number

    def is_computed(self, x: Value) -> bool:
        """Return whether arithmetic computes ``x``, so that it is not a part of a stored tensor."""
        made = {v: op for op in self.ops for v in op.results}
        op = made.get(x)
        while isinstance(op, View) or (isinstance(op, Elementwise) and op.identity):
            op = made.get(op.operands[0])
        return isinstance(op, Composite | Contraction | Elementwise)

    def as_given(self, index: Value) -> Value:
        """Return the input whose elements an index has in the same order, in any shape and perhaps
        a narrower type; ``index`` if there is none."""
        made = {v: op for op in self.ops for v in op.results}
        root = index
        while (op := made.get(root)) is not None and (op.renames or is_cast(op)):
            root = op.operands[0]
        kept = root in made or not root.shape or root.dtype not in (DType.I32, DType.I64)
        return index if kept else root

    def repeated_line(self, x: Value, dim: int) -> Value | None:
        """Return the line along ``dim`` that ``x`` repeats, if it repeats one."""
        made = {v: op for op in self.ops for v in op.results}
        op, line = made.get(x), x.shape[dim]
        source = op.source_dims() if isinstance(op, View) else None
        if op is None or source is None or dim not in source:
            return None
        (row,) = op.operands
        alone = row.type.size == row.shape[source[dim]] == line
        return self.reshaped(row, (line,)) if alone else None

    def spread(self, x: Value, shape: tuple[int, ...]) -> Value:
        """Broadcast ``x`` to a shape, unless it already has that shape."""
        return x if x.shape == shape else self.broadcast(x, shape)

    def grid(self, rows: int, cols: int) -> tuple[Value, Value]:
        """Return the positions of rows, as a column, and of columns, as a row."""
        return (
            self.reshape(iota(self, (rows,), 0), (rows, 1)),
            self.reshape(iota(self, (cols,), 0), (1, cols)),
        )

    def power(self, x: Value, exponent: Number) -> Value:
        """Return ``x ** exponent``."""
        if exponent == 1.0:
            return x
        fn = POWERS.get(float(exponent))
        return self.combine(BinaryFn.POW, x, exponent) if fn is None else self.unary(fn, x)

    def reshaped(self, x: Value, shape: tuple[int, ...]) -> Value:
        """Reshape ``x``, unless it already has that shape."""
        return x if x.shape == shape else self.reshape(x, shape)

    def cast(self, x: Value, dtype: DType, *, whole: bool = False) -> Value:
        """Convert ``x`` to ``dtype``; conversion to 8 bits rounds, through f32 as in PyTorch."""
        if not dtype.is_eight_bits or x.dtype is dtype:
            return super().cast(x, dtype, whole=whole)
        if dtype is DType.F8E4M3 and not torch_saturates():
            raise Unsupported("a conversion to float8_e4m3fn, which gives NaN in this PyTorch")
        exact = x.dtype.in_tile.is_half or x.dtype is DType.F32
        return self.unary(ROUNDING_TO[dtype], x if exact else super().cast(x, DType.F32))

    def typed(self, x: Value, dtype: DType) -> Value:
        """Convert ``x``, unless it already has that type."""
        return x if x.dtype is dtype else self.cast(x, dtype)

    def permuted(self, x: Value, permutation: tuple[int, ...]) -> Value:
        """Reorder the dimensions of ``x``, unless the order is the identity."""
        rank = len(x.shape)
        order = tuple(d % rank if -rank <= d < rank else d for d in permutation)
        return x if order == tuple(range(rank)) else self.transpose(x, order)

    def swapped(self, x: Value, a: int, b: int) -> Value:
        """Exchange two dimensions of ``x``."""
        order = list(range(len(x.shape)))
        order[a], order[b] = order[b], order[a]
        return self.permuted(x, tuple(order))

    def reduced(self, fn: ReduceFn, x: Value, dims: tuple[int, ...], keep: bool) -> Value:
        """Reduce over ``dims`` (all if empty), which are dropped unless ``keep``."""
        rank = len(x.shape)
        if rank == 0:
            return x
        normal = normalize_dims(dims, rank) if dims else tuple(range(rank))
        y = self.reduce(fn, x, normal)
        return (
            y
            if keep
            else self.reshape(y, tuple(n for i, n in enumerate(x.shape) if i not in normal))
        )

    def mean(self, x: Value, dims: tuple[int, ...], keep: bool) -> Value:
        """Return the mean over ``dims`` (all if empty)."""
        total = self.reduced(ReduceFn.SUM, x, dims, keep)
        if not x.type.size:
            if total.type.size:
                raise Unsupported("a mean of no elements")
            return total
        return self.combine(BinaryFn.MUL, total, Fraction(total.type.size, x.type.size))

    def cut(self, x: Value, dim: int, start: int, length: int) -> Value:
        """Return ``length`` elements along ``dim`` from ``start``."""
        (dim,) = normalize_dims((dim,), len(x.shape))
        if (start, length) == (0, x.shape[dim]):
            return x
        sizes = tuple(length if i == dim else n for i, n in enumerate(x.shape))
        return self.slice(x, tuple(start if i == dim else 0 for i in range(len(sizes))), sizes)

    def slice(self, x: Value, offsets: tuple[int, ...], sizes: tuple[int, ...]) -> Value:
        """Take a block of ``x``, unless it is all of it, or has one number everywhere."""
        if sizes == x.shape:
            return x
        number = self.number_of(x)
        if number is None or not all(sizes):
            return super().slice(x, offsets, sizes)
        return self.filled(number, TensorType(sizes, x.dtype))

    def filled(self, value: Number, result: TensorType) -> Value:
        """Return a tensor with one value everywhere."""
        if result.dtype.is_eight_bits:
            wide = self.filled(value, TensorType(result.shape, DType.F32))
            return self.cast(wide, result.dtype)
        scalar = self.constant(value, result.dtype)
        check_held(value, result.dtype)
        return scalar if not result.shape else self.broadcast(scalar, result.shape)


def check_held(value: Number, dtype: DType) -> None:
    """Raises :class:`Unsupported` for a number that a type makes infinite, or that is beyond the
    integers of a type: PyTorch does not fill tensors with such numbers."""
    if dtype.is_number:
        half = 1 << (dtype.bits - 1)
        if not -half <= value < half and abs(value) != math.inf:
            raise Unsupported(
                f"the number {float(value):g}, which {dtype.value} does not have (its numbers go "
                f"from {-half} to {half - 1})"
            )
    elif not dtype.is_integer and abs(value) > dtype.largest and abs(value) != math.inf:
        number = float(value)
        if math.isinf(float(dtype.round(np.asarray(number)))):
            raise Unsupported(
                f"the number {number:g}, which is infinite in {dtype.value} (its numbers go up to "
                f"{dtype.largest:g})"
            )


Row = Callable[[Lowering, Call], Value | Sequence[Value]]
"""A function that emits a call. It returns one value for each result, or only the first ones if
nothing reads the others."""


@cache
def torch_saturates() -> bool:
    """Return whether PyTorch's conversion to float8_e4m3fn saturates at the largest number. Older
    versions give NaN."""
    import torch

    return torch.tensor(1e9).to(torch.float8_e4m3fn).float().item() == 448.0


def wide(b: Lowering, x: Value) -> Value:
    """Return ``x`` in f32 at least, as PyTorch computes functions of half precision."""
    return x if x.dtype is DType.F64 else b.typed(x, DType.F32)


def unary_row(fn: UnaryFn) -> Row:
    """Return a row for an op that applies ``fn`` to each element."""
    return lambda b, c: b.unary(fn, c.value(0))
