"""A program as calls of PyTorch, for ops without kernels."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import TypeAlias

from mirage.semantics.argsort import Argsort
from mirage.semantics.builder import promote
from mirage.semantics.integer_ops import ops_of
from mirage.semantics.integers import Integers
from mirage.semantics.numbers import Number, nearest
from mirage.semantics.ops.cumulation import NOTHING
from mirage.semantics.picked_elements import along_one_dimension, indexed_dims, reversed_dims
from mirage.semantics.positions import Gather, Iota
from mirage.semantics.scalar import BINARY, UNARY, BinaryFn, CumulateFn, DType, ReduceFn, conversion
from mirage.semantics.ugraph import (
    Binary,
    Boundary,
    Broadcast,
    Cast,
    Concat,
    Constant,
    Cumulate,
    External,
    KernelGraph,
    LayerNorm,
    Matmul,
    Op,
    Reduce,
    Reshape,
    RmsNorm,
    Slice,
    Softmax,
    Structure,
    TensorType,
    Transpose,
    Unary,
    Value,
    no_rule,
    unknown,
)

Arguments: TypeAlias = "tuple[tuple[str, object], ...]"

REDUCE = {ReduceFn.SUM: "sum.dim_IntList", ReduceFn.MAX: "amax.default"}

DTYPE = "dtype"
"""The argument ``(DTYPE, "f16")`` stands for PyTorch's element type."""


def as_calls(graph: KernelGraph, which: Container[Op] | None = None) -> KernelGraph:
    """Return ``graph`` with a call in place of each op, or of ``which`` ops; existing launches and
    calls stay. Constants become rank-0 tensors on the CPU, which PyTorch's ops accept together with
    tensors on any device.
    """
    writer = _Writer()
    for op in graph.ops:
        if which is None or op in which:
            writer.visit(op)
        else:
            writer.ops.append(op)
    return KernelGraph(graph.name, graph.inputs, tuple(writer.ops), graph.outputs)


def calls_of(op: Op) -> tuple[External, ...]:
    """Return the calls that replace one op (or the op itself if it is a call); the last one defines
    its result. Raises :class:`UnknownOp` for an op without a PyTorch equivalent."""
    writer = _Writer()
    writer.visit(op)
    calls = tuple(call for call in writer.ops if isinstance(call, External))
    if len(calls) != len(writer.ops):
        raise unknown(op, "calls of PyTorch")
    return calls


def filled(result: Value, number: Number, like: Value | None) -> External:
    """Return the call that makes a tensor of one number, on the device of ``like`` (or on the
    CPU)."""
    options: Arguments = (
        ("dtype", (DTYPE, result.dtype.value)),
        *((name, None) for name in ("layout", "device", "pin_memory")),
    )
    what: Arguments = (("size", result.shape), ("fill_value", nearest(number)))
    if like is None:
        return External((), (result,), "aten.full.default", (*what, *options))
    return External((like,), (result,), "aten.new_full.default", (*what, *options))


class _Writer:
    def __init__(self) -> None:
        self.ops: list[Op] = []

    def call(
        self,
        name: str,
        operands: Sequence[Value],
        result: Value | TensorType,
        arguments: Arguments = (),
    ) -> Value:
        value = Value(result) if isinstance(result, TensorType) else result
        self.ops.append(External(tuple(operands), (value,), f"aten.{name}", arguments))
        return value

    def visit(self, op: Op) -> None:
        op = op.as_floats
        rule = _RULES.get(type(op))
        if rule is not None:
            rule(self, op)
            return
        if not isinstance(op, Boundary | Structure):
            no_rule(op, "calls of PyTorch")
        self.ops.append(op)

    def typed(self, op: Op, name: str, arguments: Arguments = ()) -> None:
        """Write a call whose result has the type to which PyTorch promotes the operands, and its
        conversion to the op's own type."""
        operands = self.computable(op)
        wide = [v.dtype for v in operands if v.shape] or [v.dtype for v in operands]
        dtype = promote(*wide)
        if dtype is op.result.dtype:
            self.call(name, operands, op.result, arguments)
            return
        value = self.call(name, operands, TensorType(op.result.shape, dtype), arguments)
        self.cast(value, op.result)

    def cast(self, value: Value, result: Value | TensorType) -> Value:
        dtype: DType = result.dtype
        return self.call("_to_copy.default", (value,), result, conversion(dtype))

    def computable(self, op: Op) -> tuple[Value, ...]:
        """Return the operands in types that PyTorch computes with: it only moves floats of 8
        bits."""
        return tuple(
            self.cast(v, TensorType(v.shape, v.dtype.computed)) if v.dtype.is_eight_bits else v
            for v in op.operands
        )


def _constant(w: _Writer, op: Constant) -> None:
    options: Arguments = tuple((name, None) for name in ("layout", "device", "pin_memory"))
    dtype: Arguments = (("dtype", (DTYPE, op.result.dtype.value)),)
    number = int(op.value) if op.result.dtype.is_integer else nearest(op.value)
    w.call("scalar_tensor.default", (), op.result, (("s", number), *dtype, *options))


def _unary(w: _Writer, op: Unary) -> None:
    name, arguments = UNARY[op.fn].call
    if op.result.dtype is UNARY[op.fn].rounds_to:
        w.call(name, op.operands, op.result, arguments)
    elif UNARY[op.fn].truth and op.result.dtype is not DType.I1:
        truth = TensorType(op.result.shape, DType.I1)
        w.cast(w.call(name, op.operands, truth, arguments), op.result)
    else:
        w.typed(op, name, arguments)


def _binary(w: _Writer, op: Binary) -> None:
    name, arguments = BINARY[op.fn].call
    if BINARY[op.fn].truth:  # operands may have any type
        w.call(name, w.computable(op), op.result, arguments)
    elif op.fn is BinaryFn.KEEP:  # truth values become the type of the kept value
        mask, x = op.operands
        if mask.dtype is not DType.I1:
            truth = TensorType(mask.shape, DType.I1)
            mask = w.call("ne.Scalar", (mask,), truth, (("other", 0),))
        if x.dtype is DType.I1:  # with a number, PyTorch would make the others integers
            name, arguments = BINARY[BinaryFn.AND].call
        w.call(name, (mask, x), op.result, arguments)
    else:
        w.typed(op, name, arguments)


def _gather(w: _Writer, op: Gather) -> None:
    if op.from_end:
        w.call("index.Tensor", op.operands, op.result, (("indices", ("tensors", 1)),))
        return
    plain: Arguments = (
        ("padding_idx", -1), ("scale_grad_by_freq", False), ("sparse", False),
    )  # fmt: skip
    if len(op.operands[0].shape) == 2:
        w.call("embedding.default", op.operands, op.result, plain)
        return
    table, indices = op.operands
    flat = w.call(
        "reshape.default", (indices,), TensorType((indices.type.size,), indices.dtype),
        (("shape", (indices.type.size,)),),
    )  # fmt: skip
    rows = TensorType((indices.type.size, *table.shape[1:]), table.dtype)
    found = w.call("index_select.default", (table, flat), rows, (("dim", 0),))
    w.call("reshape.default", (found,), op.result, (("shape", op.result.shape),))


def _integers(w: _Writer, op: Integers) -> None:
    """Write the calls of the ops in the formula, or a single one if it is a lookup."""
    if (which := indexed_dims(op)) is not None:
        w.call("index.Tensor", op.operands, op.result, (("indices", ("tensors", which)),))
        return
    if (dims := reversed_dims(op)) is not None:
        w.call("flip.default", op.operands, op.result, (("dims", dims),))
        return
    if (dim := along_one_dimension(op)) is not None:
        w.call("gather.default", op.operands, op.result, (("dim", dim), ("sparse_grad", False)))
        return
    for inner in ops_of(op):
        w.visit(inner)


def _iota(w: _Writer, op: Iota) -> None:
    """Write positions as calls on the CPU; the caller moves them to the device that reads them."""
    shape, dtype = op.result.shape, op.result.dtype
    size = shape[op.dim]
    options: Arguments = tuple((name, None) for name in ("layout", "device", "pin_memory"))
    line = TensorType((size,), dtype)
    value = w.call(
        "arange.default", (), op.result if shape == (size,) else line,
        (("end", size), ("dtype", (DTYPE, dtype.value)), *options),
    )  # fmt: skip
    if shape != (size,):
        column = tuple(size if d == op.dim else 1 for d in range(len(shape)))
        value = w.call("reshape.default", (value,), TensorType(column, dtype), (("shape", column),))
        w.call("expand.default", (value,), op.result, (("size", shape), ("implicit", False)))


def _reduce(w: _Writer, op: Reduce) -> None:
    dims: Arguments = (("dim", op.dims), ("keepdim", True))
    own = _own_type(op.result.dtype)
    w.typed(op, REDUCE[op.fn], (*dims, *own) if op.fn is ReduceFn.SUM else dims)


def _own_type(dtype: DType) -> Arguments:
    """Return the argument that keeps the type of a sum: sums of integers of all types are i64
    otherwise."""
    return (("dtype", (DTYPE, dtype.value) if dtype.is_integer else None),)


def _cumulate(w: _Writer, op: Cumulate) -> None:
    """Write a running sum, product or maximum. Exclusive results are those of the row that starts
    with the neutral element and ends one element earlier."""
    (x,) = w.computable(op)
    turn: Arguments = (("dims", (op.dim,)),)
    if op.reversed:
        x = w.call("flip.default", (x,), x.type, turn)
    if op.exclusive:
        edges = (0, 0) * (len(x.shape) - 1 - op.dim)
        pad: Arguments = (("pad", (*edges, 1, -1)), ("value", NOTHING[op.fn]))
        x = w.call("constant_pad_nd.default", (x,), x.type, pad)
    alike = x.dtype is op.result.dtype and not op.reversed
    result = op.result if alike else Value(x.type)
    if op.fn is CumulateFn.SUM:
        w.call("cumsum.default", (x,), result, (("dim", op.dim), *_own_type(x.dtype)))
    elif op.fn is CumulateFn.PROD:
        w.call("cumprod.default", (x,), result, (("dim", op.dim), *_own_type(x.dtype)))
    else:
        places = Value(TensorType(x.shape, DType.I64))
        w.ops.append(External((x,), (result, places), "aten.cummax.default", (("dim", op.dim),)))
    if op.reversed:
        result = w.call("flip.default", (result,), result.type, turn)
    if result is not op.result:
        w.cast(result, op.result)


def _argsort(w: _Writer, op: Argsort) -> None:
    how: Arguments = (("stable", True), ("dim", op.dim), ("descending", op.descending))
    places = Value(TensorType(op.operands[0].shape, DType.I64))
    whole = places.type == op.result.type
    w.call("argsort.stable", w.computable(op), op.result if whole else places, how)
    if not whole:
        part: Arguments = (("dim", op.dim), ("start", 0), ("length", op.result.shape[op.dim]))
        w.call("narrow.default", (places,), op.result, part)


def _slice(w: _Writer, op: Slice) -> None:
    value = op.operands[0]
    cut = [
        (dim, offset, size)
        for dim, (offset, size) in enumerate(zip(op.offsets, op.result.shape, strict=True))
        if size != value.shape[dim]
    ]
    for dim, offset, size in cut or [(0, 0, value.shape[0])]:
        shape = (*value.shape[:dim], size, *value.shape[dim + 1 :])
        last = (dim, offset, size) == cut[-1] if cut else True
        result = op.result if last else TensorType(shape, value.dtype)
        where: Arguments = (("dim", dim), ("start", offset), ("length", size))
        value = w.call("narrow.default", (value,), result, where)


def _concat(w: _Writer, op: Concat) -> None:
    arguments: Arguments = (("tensors", ("tensors", len(op.operands))), ("dim", op.dim))
    if {v.dtype for v in op.operands} == {op.result.dtype}:
        w.call("cat.default", op.operands, op.result, arguments)
    else:
        w.typed(op, "cat.default", arguments)


def _softmax(w: _Writer, op: Softmax) -> None:
    w.typed(op, "softmax.int", (("dim", op.dim), ("dtype", None)))


def _layer_norm(w: _Writer, op: LayerNorm) -> None:
    _norm(w, op, "layer_norm.default", ("weight", "bias"), (("cudnn_enable", False),))


def _rms_norm(w: _Writer, op: RmsNorm) -> None:
    _norm(w, op, "rms_norm.default", ("weight",), ())


def _norm(
    w: _Writer, op: RmsNorm | LayerNorm, name: str, parameters: tuple[str, ...], others: Arguments
) -> None:
    """Write a call that takes ``parameters``; the op may have only the first ones of them."""
    x, *affine = op.operands
    shape = x.shape[len(x.shape) - op.dims :]
    arguments: Arguments = (("normalized_shape", shape), ("eps", op.eps))
    missing: Arguments = tuple((name, None) for name in parameters[len(affine) :])
    w.typed(op, name, (*arguments, *missing, *others))


def _reshape(w: _Writer, op: Reshape) -> None:
    w.call("reshape.default", op.operands, op.result, (("shape", op.result.shape),))


def _transpose(w: _Writer, op: Transpose) -> None:
    w.call("permute.default", op.operands, op.result, (("dims", op.permutation),))


def _broadcast(w: _Writer, op: Broadcast) -> None:
    w.call(
        "expand.default", op.operands, op.result, (("size", op.result.shape), ("implicit", False))
    )


_RULES: dict[type[Op], Callable[..., None]] = {
    Constant: _constant,
    Gather: _gather,
    Integers: _integers,
    Iota: _iota,
    Unary: _unary,
    Binary: _binary,
    Cast: lambda w, op: w.cast(op.operands[0], op.result),
    Matmul: lambda w, op: w.typed(op, "matmul.default"),
    Reduce: _reduce,
    Cumulate: _cumulate,
    Argsort: _argsort,
    Transpose: _transpose,
    Reshape: _reshape,
    Broadcast: _broadcast,
    Concat: _concat,
    Slice: _slice,
    Softmax: _softmax,
    RmsNorm: _rms_norm,
    LayerNorm: _layer_norm,
}
