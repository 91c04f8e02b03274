"""Masks that are subtracted, as masks that are added.

``x - t n`` is ``x + t (-n)``, and ``x + (t - 1) n`` is ``x + (1 - t) (-n)``: so masks with large
numbers have one form. A tensor with such numbers may be subtracted too; it is read as its negative,
which is added.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mirage.semantics.builder import Builder
from mirage.semantics.numbers import Number, as_number
from mirage.semantics.scalar import Array, BinaryFn
from mirage.semantics.ugraph import Binary, KernelGraph, Op, Value, View
from mirage.verify.evidence.roundings.input_roles import least

_Makers = Mapping[Value, Op]


def added_masks(
    graph: KernelGraph, contents: Mapping[int, Array] = {}
) -> tuple[KernelGraph, Mapping[int, Array]]:
    """Return a program that adds large negative numbers instead of subtracting large positive ones,
    and the ``contents`` of the tensors that it holds: those that are only subtracted, negated."""
    makers = {v: op for op in graph.ops for v in op.results}
    negated: dict[int, Array] = {}
    for i, x in contents.items():
        subtracted = (x >= -least(graph.inputs[i].dtype)).any()
        other = _with_negative(graph, graph.inputs[i]) if subtracted else None
        if other is not None:
            graph, negated[i] = other, -x
    ops: list[Op] = []
    for op in graph.ops:
        b = Builder()
        added = _with_sums(b, op, makers)
        ops += [*b.ops, added]
    return replace(graph, ops=tuple(ops)), {**contents, **negated}


def _with_negative(graph: KernelGraph, held: Value) -> KernelGraph | None:
    """Return the program with a tensor replaced by its negative; None if the tensor is not only
    subtracted."""
    reached, ops = {held}, list[Op]()
    for op in graph.ops:
        places = [v in reached for v in op.operands]
        if isinstance(op, View) and any(places):
            reached.update(op.results)
        elif any(places):
            if op.function is not BinaryFn.SUB or places != [False, True]:
                return None
            op = Binary(op.operands, op.results, BinaryFn.ADD)
        ops.append(op)
    return None if reached & set(graph.outputs) else replace(graph, ops=tuple(ops))


def _with_sums(b: Builder, op: Op, makers: _Makers) -> Op:
    """Return an op that adds negative numbers instead of subtracting positive ones, or the op
    itself if it does not subtract such numbers."""
    if op.function not in (BinaryFn.ADD, BinaryFn.SUB):
        return op
    added = op.function is BinaryFn.ADD
    for i in (0, 1) if added else (1,):
        negative = _negative(b, op.operands[i], makers, less_one=added)
        if negative is not None:
            return Binary((op.operands[1 - i], negative), op.results, BinaryFn.ADD)
    return op


def _negative(b: Builder, x: Value, makers: _Makers, *, less_one: bool) -> Value | None:
    """Write ``-n t`` for the value ``n t``, or ``-n (1 - t)`` for ``n (t - 1)`` if it is
    ``less_one``, with a large positive number ``n``; None for other values."""
    op = makers.get(x)
    if op is None or op.function is not BinaryFn.MUL:
        return None
    for t, factor in (op.operands, op.operands[::-1]):
        number = number_of(factor, makers)
        if number is None or not -number <= least(x.dtype) or t.shape != x.shape:
            continue
        if not less_one:
            return b.binary(BinaryFn.MUL, t, b.constant(-number, x.dtype))
        made = makers.get(t)
        if made is None or made.function is not BinaryFn.SUB:
            continue
        t, one = made.operands
        if number_of(one, makers) == 1 and t.shape == x.shape:
            rest = b.binary(BinaryFn.SUB, one, t)
            return b.binary(BinaryFn.MUL, rest, b.constant(-number, x.dtype))
    return None


def number_of(x: Value, makers: _Makers) -> Number | None:
    """Return the number that all elements of a value equal, if it is a constant."""
    op = makers.get(x)
    return None if op is None or op.number is None else as_number(op.number)
