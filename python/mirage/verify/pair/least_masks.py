"""Masks that add the least number of a type to exponents, in the place of minus infinity.

``softmax(masked_fill(s, m, finfo.min))`` is the softmax with minus infinity wherever a row has an
element that is not masked: the exponential of a number below -2^99 is zero in every type. In a row
that is masked completely all masked elements are equal, so that the softmax is a number, while
with minus infinity there is none. So a candidate with such masks is read with minus infinity in
their place. If it is then equal to the reference, and defined wherever the reference is, the
reference has no number in those rows, and what the candidate gives there makes no difference.

This holds for scores below 2^98, and only if nothing but exponentials, or maxima that are
subtracted from their arguments, depends on the number.
"""

from __future__ import annotations

from collections.abc import Mapping

from mirage.semantics.builder import Builder
from mirage.semantics.decompose import decompose
from mirage.semantics.numbers import as_number
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.substitute import with_operands, without_dead_ops
from mirage.semantics.ugraph import Elementwise, KernelGraph, Op, Value, View

_LEAST = -(2.0**100)
"""The largest number that counts as minus infinity."""
READ = "numbers below -2^100 that masks add to exponents are read as minus infinity"

_CARRIED = (BinaryFn.ADD, BinaryFn.SUB, BinaryFn.MAX, ReduceFn.MAX)


def without_least_masks(graph: KernelGraph) -> KernelGraph | None:
    """Return the program with minus infinity in the place of numbers that masks add; None if it has
    no such masks, or if anything else depends on them."""
    written = decompose(graph, stable=True)  # values keep their identity except inside composites
    makers = {v: op for op in written.ops for v in op.results}
    masks = {op.results[0]: truth for op in graph.ops if (truth := _masked(op, makers)) is not None}
    if not masks or not _reach_only_exponents(written, masks):
        return None
    names: dict[Value, Value] = {}
    ops: list[Op] = []
    for op in graph.ops:
        truth = masks.get(op.results[0])
        if truth is None:
            ops.append(with_operands(op, tuple(names.get(v, v) for v in op.operands)))
            continue
        b = Builder()
        left = b.cast(b.unary(UnaryFn.NOT, truth), op.results[0].dtype)
        names[op.results[0]] = b.unary(UnaryFn.BIAS, left)
        ops += b.ops
    return without_dead_ops(KernelGraph(graph.name, graph.inputs, tuple(ops), graph.outputs))


def _masked(op: Op, makers: Mapping[Value, Op]) -> Value | None:
    """Return the truth value if an op multiplies it with a number that is small enough."""
    if op.function is not BinaryFn.MUL:
        return None
    for x, factor in (op.operands, op.operands[::-1]):
        made = makers.get(factor)
        number = None if made is None or made.number is None else as_number(made.number)
        if number is None or not number <= _LEAST:
            continue
        while isinstance(cast := makers.get(x), Elementwise) and cast.identity and not cast.cuts:
            x = cast.operands[0]
        if x.dtype is DType.I1 and x.shape == op.results[0].shape:
            return x
    return None


def _reach_only_exponents(graph: KernelGraph, masks: Mapping[Value, Value]) -> bool:
    """Return whether masks are only added to values, of which maxima are taken and subtracted, and
    whose exponentials are taken in the end."""
    reached, maxima = set(masks), set[Value]()
    for op in graph.ops:
        if not reached & set(op.operands) or op.function is UnaryFn.EXP:
            continue
        same = isinstance(op, View) or (isinstance(op, Elementwise) and op.identity and not op.cuts)
        if not same and op.function not in _CARRIED:
            return False
        if op.function is BinaryFn.SUB and op.operands[1] in reached - maxima:
            return False  # the numbers of two masks may cancel, which infinities do not
        if op.function is ReduceFn.MAX or (same and op.operands[0] in maxima):
            maxima.update(op.results)
        reached.update(op.results)
    return not reached & set(graph.outputs)
