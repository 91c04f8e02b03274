"""Exponentials that are taken relative to a maximum as they stand: they need no rewrite."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from mirage.semantics.scalar import BinaryFn, ReduceFn
from mirage.semantics.ugraph import (
    Binary,
    KernelGraph,
    Launch,
    Load,
    Mask,
    Op,
    Reduce,
    RunningMax,
    Unary,
    Value,
    axis_extents,
    walk,
)
from mirage.transforms.padding import LOW


def subtracts_maximum(exp: Unary, graph: KernelGraph) -> bool:
    """Whether the argument is ``x - m`` with ``m`` a maximum over elements of ``x`` that include
    this one.
    """
    definitions: dict[Value, Op] = {}
    extents: dict[str, int] = {}
    for op in graph.ops:
        mine = list(walk(op.body.ops)) if isinstance(op, Launch) else [op]
        definitions.update((r, inner) for inner in mine for r in inner.results)
        if isinstance(op, Launch) and exp in mine:
            extents = axis_extents(op)

    def loaded(value: Value) -> Load | None:
        """The load that a tile is, or is but for masked elements that cannot win a maximum."""
        op = definitions.get(value)
        while isinstance(op, Mask) and op.fill <= LOW:
            op = definitions.get(op.operands[0])
        return op if isinstance(op, Load) else None

    def contains(m: Value, x: Value) -> bool:
        if m is x:
            return True
        whole, part = loaded(m), loaded(x)
        if whole is not None and part is not None and _covers(whole, part, extents):
            return True
        op = definitions.get(m)
        if isinstance(op, RunningMax) or (isinstance(op, Reduce) and op.fn is ReduceFn.MAX):
            return contains(op.operands[0], x)
        if isinstance(op, Binary) and op.fn is BinaryFn.MAX:
            return any(contains(v, x) for v in op.operands)
        return False

    argument = definitions.get(exp.operands[0])
    if not (isinstance(argument, Binary) and argument.fn is BinaryFn.SUB):
        return False
    x, m = argument.operands
    return m is not x and contains(m, x)


def _covers(whole: Load, part: Load, extents: Mapping[str, int]) -> bool:
    """Whether a tile has all elements that a load from the same tensor has, in all steps of the
    loops that cut the tensor further.
    """
    if whole.operands != part.operands:
        return False
    sizes = whole.operands[0].shape
    dims = zip(sizes, whole.map, whole.result.shape, part.map, part.result.shape, strict=True)
    return all(
        (not cut and n >= size)
        or (axes[: len(cut)] == cut and n == tile * prod(extents[a] for a in axes[len(cut) :]))
        for size, cut, n, axes, tile in dims
    )
