"""Single faults, of the kinds that a search or a code generator makes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction

from faults import Fault, NotApplicable, Scope, with_accumulator
from mirage.semantics.builder import Builder, ShapeError, broadcast_shapes
from mirage.semantics.check import result_type
from mirage.semantics.scalar import BinaryFn, ReduceFn, UnaryFn
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Axis,
    Binary,
    BlockGraph,
    Constant,
    KernelGraph,
    Launch,
    Load,
    Loop,
    Mask,
    Matmul,
    Op,
    Output,
    Reduce,
    RunningMax,
    Slice,
    Softmax,
    TensorType,
    TileMap,
    Transpose,
    Unary,
    Value,
    all_ops,
)


def faults_of(graph: KernelGraph, rng: random.Random) -> Iterator[Fault]:
    for op in graph.ops:
        if isinstance(op, Launch):
            extents = {a.name for a in op.grid}
            users = _users((*op.body.ops,))
            yield from _store_faults(op)
            yield from _launch_operand_faults(op)
            for inner in all_ops(op.body.ops):
                yield from _op_faults(inner, rng, True)
                yield from _block_faults(inner, extents, rng)
                yield from _order_faults(inner, users)
        else:
            yield from _op_faults(op, rng, False)
            yield from _order_faults(op, _users(graph.ops))


def _users(ops: tuple[Op, ...]) -> dict[Value, list[Op]]:
    users: dict[Value, list[Op]] = {}
    for op in all_ops(ops):
        for v in op.operands:
            users.setdefault(v, []).append(op)
    return users


def _op_faults(op: Op, rng: random.Random, in_block: bool) -> Iterator[Fault]:
    if isinstance(op, Binary):
        yield Fault(
            "swapped operands",
            op.fn.value,
            op,
            lambda s: s.builder.binary(op.fn, s.operands[1], s.operands[0]),
        )
        for i in (0, 1):
            if op.operands[i].shape == op.result.shape:
                yield Fault(
                    "dropped operand", f"{op.fn.value} {1 - i}", op, lambda s, i=i: s.operands[i]
                )
        fn = rng.choice(
            [f for f in (BinaryFn.ADD, BinaryFn.SUB, BinaryFn.MUL, BinaryFn.MAX) if f is not op.fn]
        )
        yield Fault(
            "wrong function",
            f"{fn.value} for {op.fn.value}",
            op,
            lambda s: s.builder.binary(fn, s.operands[0], s.operands[1]),
        )
    if isinstance(op, Unary):
        yield Fault("dropped operand", op.fn.value, op, lambda s: s.operands[0])
        other = rng.choice(
            [f for f in (UnaryFn.EXP, UnaryFn.SQUARE, UnaryFn.RELU, UnaryFn.NEG) if f is not op.fn]
        )
        yield Fault(
            "wrong function",
            f"{other.value} for {op.fn.value}",
            op,
            lambda s: s.builder.unary(other, s.operands[0]),
        )
    if isinstance(op, Matmul):
        yield Fault(
            "swapped operands",
            "matmul",
            op,
            lambda s: s.builder.matmul(s.operands[1], s.operands[0]),
        )
        a, b = op.operands
        if len(a.shape) == 2 and a.shape[0] == a.shape[1]:
            yield Fault(
                "wrong axis",
                "matmul left",
                op,
                lambda s: s.builder.matmul(
                    s.builder.transpose(s.operands[0], (1, 0)), s.operands[1]
                ),
            )
        rank = len(b.shape)
        if b.shape[-1] == b.shape[-2]:
            order = (*range(rank - 2), rank - 1, rank - 2)
            yield Fault(
                "wrong axis",
                "matmul right",
                op,
                lambda s: s.builder.matmul(
                    s.operands[0], s.builder.transpose(s.operands[1], order)
                ),
            )
        if a.shape == op.result.shape:
            # The original's fault with QKNorm: a sum over all of one operand times a broadcast of
            # the other.
            yield Fault("wrong axis", "row sum for a contraction", op, _row_sum_times)
    if isinstance(op, Reduce):
        other_reduction = ReduceFn.MAX if op.fn is ReduceFn.SUM else ReduceFn.SUM
        yield Fault(
            "wrong reduction",
            f"{other_reduction.value} for {op.fn.value}",
            op,
            lambda s: s.builder.reduce(other_reduction, s.operands[0], op.dims),
        )
        for d in range(len(op.result.shape)):
            if (d,) != op.dims:
                yield Fault(
                    "wrong axis",
                    f"reduce {d}",
                    op,
                    lambda s, d=d: s.builder.reduce(op.fn, s.operands[0], (d,)),
                )
        yield Fault("dropped operand", "reduce", op, lambda s: s.operands[0])
    if isinstance(op, Softmax):
        for d in range(len(op.result.shape)):
            if d != op.dim:
                yield Fault(
                    "wrong axis",
                    f"softmax {d}",
                    op,
                    lambda s, d=d: s.builder.softmax(s.operands[0], d),
                )
        yield Fault("dropped operand", "softmax", op, lambda s: s.operands[0])
    if isinstance(op, Constant) and op.value != 0.0:
        for factor in (
            Fraction(2),
            Fraction(1, 2),
            Fraction(-1),
            Fraction(1001, 1000),
            Fraction(17, 16),
        ):
            yield Fault(
                "wrong scale",
                f"times {float(factor)}",
                op,
                lambda s, f=factor: replace(op, value=op.value * f),
            )
        size = round(1 / op.value) if abs(op.value) > 1e-5 else 0
        if size > 2:
            yield Fault(
                "wrong scale", "1/(n-1)", op, lambda s: replace(op, value=Fraction(1, size - 1))
            )
    if isinstance(op, Transpose):
        for i in range(len(op.permutation) - 1):
            p = list(op.permutation)
            p[i], p[i + 1] = p[i + 1], p[i]
            yield Fault(
                "wrong axis",
                "transpose",
                op,
                lambda s, p=tuple(p): s.builder.transpose(s.operands[0], p),
            )
    if isinstance(op, Slice):
        for d, offset in enumerate(op.offsets):
            for new in (offset - 1, offset + 1):
                offsets = (*op.offsets[:d], new, *op.offsets[d + 1 :])
                yield Fault(
                    "off-by-one map",
                    f"slice {d}",
                    op,
                    lambda s, o=offsets: s.builder.slice(s.operands[0], o, op.result.shape),
                )
    if isinstance(op, (Binary, Unary, Matmul, Reduce)):
        for i in range(len(op.operands)):
            yield Fault(
                "wrong operand", f"operand {i}", op, lambda s, i=i: _wrong_operand(s, i, rng)
            )
        yield Fault(
            "extra operand",
            type(op).__name__.lower(),
            op,
            lambda s: _extra_operand(s, rng, in_block),
        )


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


def _block_faults(op: Op, grid: set[str], rng: random.Random) -> Iterator[Fault]:
    if isinstance(op, Load):
        for new in _wrong_maps(op.map):
            kind = (
                "wrong axis"
                if sorted(a for g in new for a in g) == sorted(a for g in op.map for a in g)
                else "off-by-one map"
            )
            yield Fault(
                kind,
                f"load {op.map} as {new}",
                op,
                lambda s, m=new: replace(op, operands=s.operands, map=m),
            )
        for d, t in enumerate(op.result.shape):
            if op.map[d]:
                tile = (*op.result.shape[:d], t + 1, *op.result.shape[d + 1 :])
                value = Value(TensorType(tile, op.result.dtype))
                yield Fault(
                    "off-by-one map", f"tile {tile}", op, lambda s, v=value: _clipped_load(s, v)
                )
    if isinstance(op, Mask):
        for extent in (op.extent - 1, op.extent + 1):
            yield Fault(
                "mask off by one",
                f"{extent} for {op.extent}",
                op,
                lambda s, e=extent: replace(op, operands=s.operands, extent=e),
            )
        fill = 0.0 if op.fill != 0.0 else 1.0
        yield Fault(
            "mask off by one",
            f"fill {fill}",
            op,
            lambda s: replace(op, operands=s.operands, fill=fill),
        )
        yield Fault("dropped operand", "mask", op, lambda s: s.operands[0])
        if len(op.axes) > 1:
            yield Fault(
                "mask off by one",
                "axes reversed",
                op,
                lambda s: replace(op, operands=s.operands, axes=op.axes[::-1]),
            )
    if isinstance(op, RunningMax):
        yield Fault("missing accumulate", "running maximum", op, lambda s: s.operands[0])
    if isinstance(op, Loop):
        for i, a in enumerate(op.accumulators):
            for fn in AccumulateFn:
                if fn is not a.fn:
                    kind = "missing accumulate" if fn is AccumulateFn.LAST else "wrong reduction"
                    yield Fault(
                        kind,
                        f"{fn.value} for {a.fn.value}",
                        op,
                        lambda s, i=i, f=fn: with_accumulator(
                            op, i, Accumulator(f, op.accumulators[i].value)
                        ),
                    )
            if a.rescale is not None:
                yield Fault(
                    "missing accumulate",
                    "no rescaling",
                    op,
                    lambda s, i=i, a=a: with_accumulator(op, i, Accumulator(a.fn, a.value)),
                )
        for extent in (op.axis.extent - 1, op.axis.extent + 1):
            yield Fault(
                "off-by-one map",
                f"loop of {extent}",
                op,
                lambda s, e=extent: replace(op, axis=Axis(op.axis.name, e)),
            )


def _clipped_load(scope: Scope, value: Value) -> Value:
    """A tile that is one too large, cut to size again: every part but the first starts too late."""
    op = scope.op
    assert isinstance(op, Load)
    scope.builder.ops.append(replace(op, operands=scope.operands, results=(value,)))
    return scope.builder.slice(value, (0,) * len(value.shape), op.result.shape)


def _wrong_maps(tile_map: TileMap) -> Iterator[TileMap]:
    """Axes of one dimension reversed, moved to another dimension, or exchanged with those of
    another.
    """
    for d, axes in enumerate(tile_map):
        if len(axes) > 1:
            yield (*tile_map[:d], axes[::-1], *tile_map[d + 1 :])
        for e in range(d + 1, len(tile_map)):
            new = list(tile_map)
            new[d], new[e] = new[e], new[d]
            if tuple(new) != tile_map:
                yield tuple(new)
    names = [a for axes in tile_map for a in axes]
    for first in names:
        for second in names:
            if first < second:
                swap = {first: second, second: first}
                yield tuple(tuple(swap.get(a, a) for a in axes) for axes in tile_map)


def _store_faults(op: Launch) -> Iterator[Fault]:
    for i, output in enumerate(op.body.outputs):
        for new in _wrong_maps(output.map):
            outputs = (*op.body.outputs[:i], Output(output.value, new), *op.body.outputs[i + 1 :])
            yield Fault(
                "wrong axis",
                f"store {output.map} as {new}",
                op.body,
                lambda s, o=outputs: BlockGraph(op.body.params, op.body.ops, o),
            )
        for other in op.body.outputs:
            if other.value is not output.value and other.value.shape == output.value.shape:
                outputs = (
                    *op.body.outputs[:i],
                    Output(other.value, output.map),
                    *op.body.outputs[i + 1 :],
                )
                yield Fault(
                    "wrong operand",
                    f"store {i}",
                    op.body,
                    lambda s, o=outputs: BlockGraph(op.body.params, op.body.ops, o),
                )


def _launch_operand_faults(op: Launch) -> Iterator[Fault]:
    for i, v in enumerate(op.operands):
        for j, w in enumerate(op.operands):
            if i < j and v.type == w.type:
                order = list(range(len(op.operands)))
                order[i], order[j] = j, i
                yield Fault(
                    "swapped operands",
                    f"launch {i} and {j}",
                    op,
                    lambda s, o=tuple(order): replace(op, operands=tuple(s.operands[k] for k in o)),
                )


def _order_faults(op: Op, users: dict[Value, list[Op]]) -> Iterator[Fault]:
    """``f(g(x))`` as ``g(f(x))`` where ``f`` is a scalar function; ``op`` is the inner one."""
    if isinstance(op, Loop):
        for i, (_a, result) in enumerate(zip(op.accumulators, op.results, strict=True)):
            fns = [u.fn for u in users.get(result, ()) if isinstance(u, Unary)]
            for fn in fns:
                yield Fault(
                    "wrong order",
                    f"{fn.value} inside the loop",
                    op,
                    lambda s, i=i, f=fn: _inside(op, i, f),
                )
        return
    if not isinstance(op, (Binary, Reduce, Matmul)):
        return
    for user in users.get(op.result, ()):
        if isinstance(user, Unary):
            for i in range(len(op.operands)):
                yield Fault(
                    "wrong order",
                    f"{user.fn.value} before {type(op).__name__.lower()}",
                    op,
                    lambda s, i=i, f=user.fn: _before(s, i, f),
                )


def _inside(op: Loop, i: int, fn: UnaryFn) -> Loop:
    a = op.accumulators[i]
    y = Value(a.value.type)
    return replace(
        with_accumulator(op, i, Accumulator(a.fn, y, a.rescale)),
        body=(*op.body, Unary((a.value,), (y,), fn)),
    )


def _before(scope: Scope, i: int, fn: UnaryFn) -> Op:
    operands = list(scope.operands)
    operands[i] = scope.builder.unary(fn, operands[i])
    return replace(scope.op, operands=tuple(operands))


def with_fault(candidate: KernelGraph, number: int) -> KernelGraph:
    """Kernel ``number`` stores its result negated."""
    return _with_result(candidate, number, lambda b, x: b.unary(UnaryFn.NEG, x))


def with_lost_digits(candidate: KernelGraph, number: int) -> KernelGraph:
    """Kernel ``number`` adds a large number to its result and subtracts it again: the same over the
    real numbers."""

    def change(b: Builder, x: Value) -> Value:
        large = b.constant(2.0**20)
        return b.binary(BinaryFn.SUB, b.binary(BinaryFn.ADD, x, large), large)

    return _with_result(candidate, number, change)


def _with_result(
    candidate: KernelGraph, number: int, change: Callable[[Builder, Value], Value]
) -> KernelGraph:
    launches = [op for op in candidate.ops if isinstance(op, Launch)]
    old = launches[number]
    (output,) = old.body.outputs
    b = Builder(in_block=True)
    changed = change(b, output.value)
    body = replace(
        old.body,
        ops=(*old.body.ops, *b.ops),
        outputs=(replace(output, value=changed),),
    )
    new = replace(old, body=body)
    return replace(candidate, ops=tuple(new if op is old else op for op in candidate.ops))
