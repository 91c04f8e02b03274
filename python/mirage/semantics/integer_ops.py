"""A formula of integers as the ops of tensors that it stands for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mirage.semantics.builder import Builder, broadcast_shapes
from mirage.semantics.integer_formula import CONSTANT, LOAD, PICK, POSITION, TABLE, Step
from mirage.semantics.integer_functions import BITS, CAST
from mirage.semantics.integers import Integers
from mirage.semantics.ops.op import Op, TensorType, Value
from mirage.semantics.positions import gather, iota
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import External

BIT_BASES = {
    "aten.bitwise_and": "bit_and",
    "aten.bitwise_or": "bit_or",
    "aten.bitwise_xor": "bit_xor",
    "aten.bitwise_left_shift": "shift_left",
    "aten.bitwise_right_shift": "shift_right",
}
"""The functions of bits, by the calls that compute them, without the kind of their operands:
kernels have no ops for them."""
_BIT_CALLS = {name: f"{base}.Tensor" for base, name in BIT_BASES.items()}


def ops_of(op: Integers) -> tuple[Op, ...]:
    """Return the ops, the last of which has the result of ``op``."""
    b, rank = Builder(), len(op.result.shape)
    values: list[Value] = []
    for number, step in enumerate(op.formula.steps):
        if step.name == TABLE:
            values.append(op.operands[number])
        elif step.name == LOAD:
            values.append(_along(b, op.operands[number], step.args, rank))
        elif step.name == POSITION:
            (dim,) = step.args
            line = iota(b, (op.result.shape[dim],), 0)
            values.append(_along(b, line, (dim,), rank))
        elif step.name == PICK:
            table, *indices = (values[arg] for arg in step.args)
            values.append(_picked(b, table, indices))
        else:
            values.append(computed(b, step, [values[arg] for arg in step.reads]))
    if values[-1].shape != op.result.shape:
        b.broadcast(values[-1], op.result.shape)
    return (*b.ops[:-1], replace(b.ops[-1], results=op.results))


def _along(b: Builder, x: Value, dims: tuple[int, ...], rank: int) -> Value:
    """Return an operand with its dimensions along those of the result."""
    along = [d for d in dims if d >= 0]
    sizes = {d: n for d, n in zip(dims, x.shape, strict=True) if d >= 0}
    if len(along) < len(dims):
        x = b.reshape(x, tuple(n for d, n in zip(dims, x.shape, strict=True) if d >= 0))
    order = tuple(sorted(range(len(along)), key=lambda i: along[i]))
    if order != tuple(range(len(along))):
        x = b.transpose(x, order)
    shape = tuple(sizes.get(d, 1) for d in range(rank))
    return x if x.shape == shape or not x.shape else b.reshape(x, shape)


def _picked(b: Builder, table: Value, indices: Sequence[Value]) -> Value:
    """Return the elements of a table at indices, and 0 where one of them is outside: there the
    first element is read."""
    place, inside = b.constant(0, DType.I64), b.constant(1, DType.I1)
    for index, size in zip(indices, table.shape, strict=True):
        least, end = (b.constant(n, DType.I64) for n in (0, size))
        index = b.cast(index, DType.I64) if index.dtype is not DType.I64 else index
        own = b.binary(
            BinaryFn.AND, b.binary(BinaryFn.LE, least, index), b.binary(BinaryFn.LT, index, end)
        )
        inside = b.binary(BinaryFn.AND, inside, own)
        place = b.binary(BinaryFn.ADD, b.binary(BinaryFn.MUL, place, end), index)
    line = b.reshape(table, (table.type.size,))
    flat = b.reshape(b.binary(BinaryFn.KEEP, inside, place), (inside.type.size,))
    found = b.reshape(gather(b, line, flat), inside.shape)
    return b.binary(BinaryFn.KEEP, inside, found)


def computed(b: Builder, step: Step, xs: Sequence[Value]) -> Value:
    """Emit the op of a step that computes with earlier steps."""
    assert step.dtype is not None
    if step.name == CONSTANT:
        return b.constant(step.args[0], step.dtype)
    if step.name == CAST:
        return b.cast(xs[0], step.dtype)
    if step.name in BITS:
        shape = broadcast_shapes(xs[0].shape, xs[1].shape)
        result = Value(TensorType(shape, step.dtype))
        b.ops.append(External(tuple(xs), (result,), _BIT_CALLS[step.name]))
        return result
    if len(xs) == 1:
        return b.unary(UnaryFn(step.name), xs[0])
    return b.binary(BinaryFn(step.name), xs[0], xs[1])
