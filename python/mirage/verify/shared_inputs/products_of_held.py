"""Tables that are the product of two tables that the other program holds, up to roundings.

A program that holds weights in a few bits and their scales computes ``(q - z) * s`` when it is
imported, if both are constants, and holds the rounded products; the other program multiplies the
result of ``x @ (q - z)`` by ``s``. So the table is written as that product. The effect of its
roundings is measured with each program's own tables.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mirage.semantics.builder import Builder
from mirage.semantics.scalar import Array, BinaryFn, DType
from mirage.semantics.substitute import rename_graph
from mirage.semantics.ugraph import KernelGraph, Value
from mirage.verify.shared_inputs.bound_tensors import Aligned
from mirage.verify.shared_inputs.tables_alike import MOST_ELEMENTS, ROUNDED


@dataclass(frozen=True)
class _Product:
    """The table ``(factor - zero) * scale``, by the numbers of inputs."""

    factor: int
    zero: int
    scale: int


def with_products(given: Aligned) -> Aligned | None:
    """Return the programs with such products in place of tables that only one of them holds; None
    if there are none."""
    read = [_read(g, given) for g in (given.reference, given.candidate)]
    found = [_products(given, read[i] - read[1 - i], read[1 - i]) for i in (0, 1)]
    if not any(found):
        return None
    first, second = (
        _written(g, some) for g, some in zip((given.reference, given.candidate), found, strict=True)
    )
    shared = {i for some in found for p in some.values() for i in (p.factor, p.scale)}
    return replace(given, reference=first, candidate=second, foreign=given.foreign - shared)


def _read(graph: KernelGraph, given: Aligned) -> set[int]:
    read = {*graph.outputs, *(v for op in graph.ops for v in op.operands)}
    return {i for i in given.contents if graph.inputs[i] in read}


def _products(given: Aligned, own: set[int], others: set[int]) -> dict[int, _Product]:
    found: dict[int, _Product] = {}
    for i in sorted(own):
        table = given.contents[i]
        if given.reference.inputs[i].dtype is not DType.F32 or not 1 < table.size <= MOST_ELEMENTS:
            continue
        pairs = (
            (j, k)
            for j in sorted(others)
            for k in sorted(others - {j})
            if given.contents[j].shape == table.shape and _spreads(given.contents[k], table)
        )
        for j, k in pairs:
            zero = _zero(table, given.contents[j], given.contents[k])
            if zero is not None:
                found[i] = _Product(j, zero, k)
                break
    return found


def _spreads(x: Array, table: Array) -> bool:
    if x.ndim > table.ndim or x.size >= table.size:
        return False
    return all(n in (1, m) for n, m in zip(x.shape[::-1], table.shape[::-1], strict=False))


def _zero(table: Array, factor: Array, scale: Array) -> int | None:
    """Return the whole number ``z`` for which a table is ``(factor - z) * scale`` up to the
    rounding of each element; None if there is none."""
    x, q, s = (np.asarray(v, np.float64) for v in (table, factor, scale))
    if not all(np.isfinite(v).all() for v in (x, q, s)) or (s == 0).any():
        return None
    zero = round(float((q - x / s).mean()))
    product = (q - zero) * s
    return zero if (np.abs(product - x) <= ROUNDED * np.abs(product)).all() else None


def _written(graph: KernelGraph, products: dict[int, _Product]) -> KernelGraph:
    if not products:
        return graph
    b = Builder()
    names = {graph.inputs[i]: _product(b, graph, p) for i, p in products.items()}
    body = rename_graph(KernelGraph(graph.name, (), graph.ops, graph.outputs), names)
    return replace(body, inputs=graph.inputs, ops=(*b.ops, *body.ops))


def _product(b: Builder, graph: KernelGraph, p: _Product) -> Value:
    factor, scale = (b.cast(graph.inputs[i], DType.F32) for i in (p.factor, p.scale))
    if p.zero:
        factor = b.binary(BinaryFn.SUB, factor, b.constant(p.zero, DType.F32))
    return b.binary(BinaryFn.MUL, factor, scale)
