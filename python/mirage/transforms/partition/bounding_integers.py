"""Integers that decide which products of a batch are kept, and so may bound their loop.

A product of blocks of rows, of which only some blocks have any row, is masked by an integer of each
block. Where the mask is false, a kernel need not multiply, but only if it reads the integer before
its loop (:mod:`mirage.transforms.steps.read_steps`). So such integers are not kept as floats, and
are passed between parts: the kernel of the product loads them from memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mirage.semantics.ops.op import Op, Value
from mirage.semantics.scalar import BinaryFn
from mirage.semantics.ugraph import Boundary, Contraction, KernelGraph, Structure, View

COMPARISONS = (BinaryFn.LT, BinaryFn.LE, BinaryFn.EQ, BinaryFn.NE)


def masks_of_products(graph: KernelGraph) -> Iterator[Op]:
    """Yield the comparisons of integers that decide which products of a batch are kept, each as a
    whole."""
    made = {v: op for op in graph.ops for v in op.results}
    for op in graph.ops:
        if op.function is not BinaryFn.KEEP or op.operands[0].shape[-2:] != (1, 1):
            continue
        mask, kept = (_without_views(v, made) for v in op.operands)
        product = isinstance(kept, Contraction) and len(kept.operands) == 2
        if not product or mask is None or mask.function not in COMPARISONS:
            continue
        if all(v.dtype.is_integer for v in mask.operands):
            yield mask


def bounding_integers(graph: KernelGraph) -> frozenset[Value]:
    """Return the integers that such masks compare and that kernels compute, other than numbers."""
    made = {v: op for op in graph.ops for v in op.results}
    found: set[Value] = set()
    for mask in masks_of_products(graph):
        for value in mask.operands:
            op = _without_views(value, made)
            if op is not None and op.operands and not isinstance(op, Boundary | Structure):
                found.add(op.result)
    return frozenset(found)


def _without_views(value: Value, made: Mapping[Value, Op]) -> Op | None:
    """Return the op that computes what a value is a view of; None for inputs."""
    op = made.get(value)
    while isinstance(op, View):
        op = made.get(op.operands[0])
    return op
