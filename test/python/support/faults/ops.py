"""Single faults of one op, of kernel or block graphs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from mirage.semantics.builder import ShapeError, broadcast_shapes
from mirage.semantics.check import result_type
from mirage.semantics.scalar import BinaryFn, ReduceFn, UnaryFn
from mirage.semantics.ugraph import (
    Binary,
    Constant,
    Matmul,
    Op,
    Reduce,
    Slice,
    Softmax,
    Transpose,
    Unary,
    Value,
)

from faults.fault import Fault, NotApplicable, Scope

FACTORS = (Fraction(2), Fraction(1, 2), Fraction(-1), Fraction(1001, 1000), Fraction(17, 16))
"""Factors that change constants."""


def op_faults(op: Op, rng: random.Random, in_block: bool) -> Iterator[Fault]:
    """Yield the faults of an op's kind, and those with other operands or an additional one."""
    match op:
        case Binary():
            yield from _binary_faults(op, rng)
        case Unary():
            yield from _unary_faults(op, rng)
        case Matmul():
            yield from _matmul_faults(op)
        case Reduce():
            yield from _reduce_faults(op)
        case Softmax():
            yield from _softmax_faults(op)
        case Constant():
            yield from _constant_faults(op)
        case Transpose():
            yield from _transpose_faults(op)
        case Slice():
            yield from _slice_faults(op)
        case _:
            pass
    if isinstance(op, (Binary, Unary, Matmul, Reduce)):
        for i in range(len(op.operands)):
            yield Fault(
                "wrong operand", f"operand {i}", op, lambda s, i=i: _wrong_operand(s, i, rng)
            )
        name = type(op).__name__.lower()
        yield Fault("extra operand", name, op, lambda s: _extra_operand(s, rng, in_block))


def _binary_faults(op: Binary, rng: random.Random) -> Iterator[Fault]:
    name = op.fn.value
    yield Fault(
        "swapped operands", name, op,
        lambda s: s.builder.binary(op.fn, s.operands[1], s.operands[0]),
    )  # fmt: skip
    for i in (0, 1):
        if op.operands[i].shape == op.result.shape:
            yield Fault("dropped operand", f"{name} {1 - i}", op, lambda s, i=i: s.operands[i])
    fns = (BinaryFn.ADD, BinaryFn.SUB, BinaryFn.MUL, BinaryFn.MAX)
    fn = rng.choice([f for f in fns if f is not op.fn])
    yield Fault(
        "wrong function", f"{fn.value} for {name}", op,
        lambda s: s.builder.binary(fn, s.operands[0], s.operands[1]),
    )  # fmt: skip


def _unary_faults(op: Unary, rng: random.Random) -> Iterator[Fault]:
    name = op.fn.value
    yield Fault("dropped operand", name, op, lambda s: s.operands[0])
    fns = (UnaryFn.EXP, UnaryFn.SQUARE, UnaryFn.RELU, UnaryFn.NEG)
    fn = rng.choice([f for f in fns if f is not op.fn])
    yield Fault(
        "wrong function", f"{fn.value} for {name}", op,
        lambda s: s.builder.unary(fn, s.operands[0]),
    )  # fmt: skip


def _matmul_faults(op: Matmul) -> Iterator[Fault]:
    a, b = op.operands
    yield Fault(
        "swapped operands", "matmul", op,
        lambda s: s.builder.matmul(s.operands[1], s.operands[0]),
    )  # fmt: skip
    if len(a.shape) == 2 and a.shape[0] == a.shape[1]:
        yield Fault(
            "wrong axis", "matmul left", op,
            lambda s: s.builder.matmul(s.builder.transpose(s.operands[0], (1, 0)), s.operands[1]),
        )  # fmt: skip
    rank = len(b.shape)
    if b.shape[-1] == b.shape[-2]:
        order = (*range(rank - 2), rank - 1, rank - 2)
        yield Fault(
            "wrong axis", "matmul right", op,
            lambda s: s.builder.matmul(s.operands[0], s.builder.transpose(s.operands[1], order)),
        )  # fmt: skip
    if a.shape == op.result.shape:
        # The fault of the original with QKNorm: a sum over all of one operand times a broadcast of
        # the other.
        yield Fault("wrong axis", "row sum for a contraction", op, _row_sum_times)


def _reduce_faults(op: Reduce) -> Iterator[Fault]:
    other = ReduceFn.MAX if op.fn is ReduceFn.SUM else ReduceFn.SUM
    yield Fault(
        "wrong reduction", f"{other.value} for {op.fn.value}", op,
        lambda s: s.builder.reduce(other, s.operands[0], op.dims),
    )  # fmt: skip
    for d in range(len(op.result.shape)):
        if (d,) != op.dims:
            yield Fault(
                "wrong axis", f"reduce {d}", op,
                lambda s, d=d: s.builder.reduce(op.fn, s.operands[0], (d,)),
            )  # fmt: skip
    yield Fault("dropped operand", "reduce", op, lambda s: s.operands[0])


def _softmax_faults(op: Softmax) -> Iterator[Fault]:
    for d in range(len(op.result.shape)):
        if d != op.dim:
            yield Fault(
                "wrong axis", f"softmax {d}", op,
                lambda s, d=d: s.builder.softmax(s.operands[0], d),
            )  # fmt: skip
    yield Fault("dropped operand", "softmax", op, lambda s: s.operands[0])


def _constant_faults(op: Constant) -> Iterator[Fault]:
    if op.value == 0.0:
        return
    for factor in FACTORS:
        yield Fault(
            "wrong scale", f"times {float(factor)}", op,
            lambda s, f=factor: replace(op, value=op.value * f),
        )  # fmt: skip
    size = round(1 / op.value) if abs(op.value) > 1e-5 else 0
    if size > 2:
        smaller = Fraction(1, size - 1)
        yield Fault("wrong scale", "1/(n-1)", op, lambda s: replace(op, value=smaller))


def _transpose_faults(op: Transpose) -> Iterator[Fault]:
    for i in range(len(op.permutation) - 1):
        p = list(op.permutation)
        p[i], p[i + 1] = p[i + 1], p[i]
        yield Fault(
            "wrong axis", "transpose", op,
            lambda s, p=tuple(p): s.builder.transpose(s.operands[0], p),
        )  # fmt: skip


def _slice_faults(op: Slice) -> Iterator[Fault]:
    for d, offset in enumerate(op.offsets):
        for new in (offset - 1, offset + 1):
            offsets = (*op.offsets[:d], new, *op.offsets[d + 1 :])
            yield Fault(
                "off-by-one map", f"slice {d}", op,
                lambda s, o=offsets: s.builder.slice(s.operands[0], o, op.result.shape),
            )  # fmt: skip


def _row_sum_times(scope: Scope) -> Value:
    a, b = scope.operands
    row = scope.builder.reduce(ReduceFn.SUM, a, (len(a.shape) - 1,))
    first = scope.builder.slice(b, (0,) * len(b.shape), (*b.shape[:-2], 1, b.shape[-1]))
    return scope.builder.binary(BinaryFn.MUL, row, first)


def _wrong_operand(scope: Scope, i: int, rng: random.Random) -> Op:
    options = [
        v
        for v in scope.visible
        if v.shape == scope.operands[i].shape and v is not scope.operands[i]
    ]
    if not options:
        raise NotApplicable
    operands = list(scope.operands)
    operands[i] = rng.choice(options)
    return replace(scope.op, operands=tuple(operands))


def _extra_operand(scope: Scope, rng: random.Random, in_block: bool) -> Value:
    op = replace(scope.op, operands=scope.operands)
    try:
        result = Value(result_type(op, "mutant", in_block=in_block))
    except ValueError as error:
        raise NotApplicable from error
    scope.builder.ops.append(replace(op, results=(result,)))
    options = [
        v for v in (*scope.visible, result) if _fits(v.shape, result.shape) and v.shape != ()
    ]
    if not options:
        raise NotApplicable
    fn = rng.choice([BinaryFn.ADD, BinaryFn.MUL])
    y = scope.builder.binary(fn, result, rng.choice(options))
    return y if y.dtype is result.dtype else scope.builder.cast(y, result.dtype)


def _fits(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    try:
        return broadcast_shapes(shape, target) == target
    except ShapeError:
        return False
