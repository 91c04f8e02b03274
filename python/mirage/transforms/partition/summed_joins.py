"""Joins that need not be written, because products sum over the joined dimension.

``[x y] [w; v]`` is ``x w + y v``. If a query of two parts is joined before a call and multiplied
after it, the parts are handed over and the join goes to the part of the product, in which it
disappears; otherwise the joined query would be copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mirage.semantics.ugraph import Contraction, Elementwise, KernelGraph, Op, Rearrangement, Value


def summed_joins(graph: KernelGraph) -> set[Op]:
    """Return the joins that only products read, each of which sums over the joined dimension and
    has a join of equally long parts as its other factor. Transposes and conversions may be in
    between."""
    makers = {v: op for op in graph.ops for v in op.results}
    readers: dict[Value, list[Op]] = {}
    for op in graph.ops:
        for v in op.operands:
            readers.setdefault(v, []).append(op)
    outputs = set(graph.outputs)

    def lengths(value: Value, dim: int) -> tuple[int, ...]:
        """Return the lengths of the parts of a joined dimension; none if it is not joined."""
        op = makers.get(value)
        while (dims := _same_dims(op)) is not None:
            assert op is not None
            value, dim = op.operands[0], dims[dim]
            op = makers.get(value)
        joined = op is not None and op.joined_along == dim
        return tuple(v.shape[dim] for v in op.operands) if op is not None and joined else ()

    def ends(value: Value, dim: int) -> Iterator[tuple[Op, Value, int]]:
        """Yield the other readers of a value, and which dimension of which operand they read."""
        if value in outputs:
            yield from ((op, value, -1) for op in graph.ops if value in op.results)
        for op in readers.get(value, ()):
            to = [d for d, source in (_same_dims(op) or {}).items() if source == dim]
            if to:
                yield from ends(op.result, to[0])
            else:
                yield op, value, dim

    def is_summed(op: Op, value: Value, dim: int) -> bool:
        if not isinstance(op, Contraction) or not op.sums or len(op.operands) != 2:
            return False
        own = lengths(value, dim)
        for x, y in (op.operands, op.operands[::-1]):
            if x is value:
                over = dict(zip(op.operands, op.over, strict=True))
                return x is not y and over[x] == (dim,) and own == lengths(y, over[y][0])
        return False

    found: set[Op] = set()
    for op in graph.ops:
        dim = op.joined_along
        if dim is not None:
            read = list(ends(op.result, dim))
            if read and all(is_summed(*end) for end in read):
                found.add(op)
    return found


def _same_dims(op: Op | None) -> Mapping[int, int] | None:
    """Return the operand's dimension for each of the result's, of a transpose or a conversion; None
    for other ops."""
    if isinstance(op, Rearrangement) and not op.renames:
        return op.source_dims()
    if isinstance(op, Elementwise) and op.identity:
        return {dim: dim for dim in range(len(op.result.shape))}
    return None
