"""Single faults of the kinds that a search or a code generator makes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace

from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, UnaryFn
from mirage.semantics.ugraph import (
    Accumulator,
    Binary,
    BlockGraph,
    KernelGraph,
    Launch,
    Loop,
    Matmul,
    Op,
    Output,
    Reduce,
    Unary,
    Value,
    all_ops,
)

from faults.blocks import block_faults, wrong_maps
from faults.fault import Fault, Scope, with_accumulator
from faults.ops import op_faults


def faults_of(graph: KernelGraph, rng: random.Random) -> Iterator[Fault]:
    for op in graph.ops:
        if isinstance(op, Launch):
            users = _users((*op.body.ops,))
            yield from _store_faults(op)
            yield from _launch_operand_faults(op)
            for inner in all_ops(op.body.ops):
                yield from op_faults(inner, rng, True)
                yield from block_faults(inner)
                yield from _order_faults(inner, users)
        else:
            yield from op_faults(op, rng, False)
            yield from _order_faults(op, _users(graph.ops))


def _users(ops: tuple[Op, ...]) -> dict[Value, list[Op]]:
    users: dict[Value, list[Op]] = {}
    for op in all_ops(ops):
        for v in op.operands:
            users.setdefault(v, []).append(op)
    return users


def _store_faults(op: Launch) -> Iterator[Fault]:
    for i, output in enumerate(op.body.outputs):
        for new in wrong_maps(output.map):
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
    """Write ``f(g(x))`` as ``g(f(x))`` if ``f`` is a scalar function; ``op`` is the inner one."""
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
    """Return the graph with the result of kernel ``number`` negated when it is stored."""
    return _with_result(candidate, number, lambda b, x: b.unary(UnaryFn.NEG, x))


def with_lost_digits(candidate: KernelGraph, number: int) -> KernelGraph:
    """Return the graph with a large number added to the result of kernel ``number`` and subtracted
    again: the same over the real numbers."""

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
