"""Products of products, in the order with the fewest multiplications.

``a (x w)`` equals ``(a w) x`` if ``w`` has the index that ``a`` sums over, whatever views lie in
between: heads that are split off, transposed and cut. An attention step whose keys and values are
products of shorter rows (``x``, the cache) and a weight need not compute keys and values for all of
the cache: the weight can multiply the query, and the sum of rows. Which order multiplies less
depends on the sizes.

Either all readers of a product are rewritten or none, since it must still be computed if one reader
remains; for this purpose, joins that they sum over become sums of products. A new order is taken if
there are fewer multiplications and the products' results are no larger.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TypeVar

from mirage.search.program.joins import Joined, Rewriter, StuckError
from mirage.search.program.labelled import (
    Labelled,
    Labels,
    Seen,
    Shape,
    Step,
    UnlabelledError,
    in_order,
    labelled,
    labels_for,
    product,
    shaped,
)
from mirage.search.program.shared_views import each_view_once
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import DType
from mirage.semantics.substitute import with_operands, without_dead_ops
from mirage.semantics.ugraph import (
    Contraction,
    Elementwise,
    KernelGraph,
    Op,
    Rearrangement,
    Value,
    View,
)

T = TypeVar("T")


def with_least_products(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` with its products in other orders; the same object if none is better."""
    tried: set[Value] = set()
    while True:
        left = [op for op in _products(graph) if op.result not in tried]
        if not left:
            return graph
        tried.add(left[0].result)
        new = reordered(graph, left[0])
        if new is not None and _is_less(_cost(new), _cost(graph)):
            graph = new


def _as_product(op: Op) -> Contraction | None:
    return op if isinstance(op, Contraction) and op.sums and len(op.operands) == 2 else None


def _products(graph: KernelGraph) -> list[Contraction]:
    return [product for op in graph.ops if (product := _as_product(op)) is not None]


def _cost(graph: KernelGraph) -> tuple[int, int]:
    """Return the multiplications of all products, and the bytes of their results."""
    products = _products(graph)
    return (
        sum(op.result.type.size * op.operands[0].shape[-1] for op in products),
        sum(op.result.type.bytes for op in products),
    )


def _is_less(new: tuple[int, int], old: tuple[int, int]) -> bool:
    return new[0] < old[0] and new[1] <= old[1]


def reordered(graph: KernelGraph, inner: Contraction) -> KernelGraph | None:
    """Return ``graph`` with the readers of a product rewritten so that none needs it any more; None
    if that is not possible."""
    try:
        return _once(_Reorder(_without_joins_of(graph, inner.result), inner).run())
    except UnlabelledError:
        return None


def _once(graph: KernelGraph) -> KernelGraph:
    return each_view_once(without_dead_ops(graph))


# ---- joins ---------------------------------------------------------------------------------------


def _without_joins_of(graph: KernelGraph, value: Value) -> KernelGraph:
    """Return ``graph`` with the joins of views of ``value`` as sums of products. Raises
    :class:`UnlabelledError` if they are not summed over."""
    views, moved = {value}, set[Op]()
    for op in graph.ops:
        if isinstance(op, View) and op.operands[0] in views:
            views.add(op.result)
        elif op.joined_along is not None and not views.isdisjoint(op.operands):
            moved.add(op)
    if not moved:
        return graph
    try:
        return _Apart(graph, moved).run()
    except StuckError as stuck:
        raise UnlabelledError from stuck


class _Apart(Rewriter):
    """Cuts values that are multiplied with a join and summed over."""

    def summed_beside(self, whole: Value, dim: int, joined: Joined) -> Sequence[Value] | None:
        parts: list[Value] = []
        at = 0
        for size in joined.sizes:
            offsets = tuple(at if d == dim else 0 for d in range(len(whole.shape)))
            shape = tuple(size if d == dim else n for d, n in enumerate(whole.shape))
            parts.append(self.build.slice(whole, offsets, shape))
            at += size
        return parts


# ---- the order -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Way:
    """Three values multiplied: two of them first, whose product has the labels ``between``."""

    first: Labelled
    second: Labelled
    last: Labelled
    result: Labels

    @cached_property
    def between(self) -> Labels:
        return tuple(dict.fromkeys((*self.result, *self.last.labels)))

    @property
    def cost(self) -> int:
        """The number of multiplications."""
        first = {*self.first.labels, *self.second.labels}
        second = first.intersection(self.between).union(self.last.labels)
        return sum(prod(label.size for label in labels) for labels in (first, second))

    def written(self, b: Builder, inner: DType, dtype: DType, *, tf32: bool) -> Value:
        """Return the product, of a type, which multiplies a product of the type ``inner``."""
        first = product(b, self.first, self.second, self.between, inner, tf32=tf32)
        last = product(b, first, self.last, self.result, dtype, tf32=tf32)
        return in_order(b, last, self.result)


class _Reorder:
    """Multiplies operands of the readers of a product's views with the factors of the product."""

    def __init__(self, graph: KernelGraph, inner: Contraction) -> None:
        self.graph, self.inner = graph, inner
        self.build = Builder()
        self.definitions = {v: op for op in graph.ops for v in op.results}
        *batch, rows, columns = labels_for(inner.result.shape)
        self.seen = {inner.result: Seen((*batch, rows, columns))}
        x, w = (v.shape for v in inner.operands)
        (summed,) = labels_for(x[-1:])
        self.factors = (
            (*_repeated(batch, x[:-2]), rows, summed),
            (*_repeated(batch, w[:-2]), summed, columns),
        )

    def run(self) -> KernelGraph:
        """Return the graph without readers of the product. Raises :class:`UnlabelledError`."""
        names: dict[Value, Value] = {}
        for op in self.graph.ops:
            operands = tuple(names.get(v, v) for v in op.operands)
            new = with_operands(op, operands)
            known = [v for v in new.operands if v in self.seen]
            if not known:
                self.build.ops.append(new)
            elif (product := _as_product(new)) is not None and len(known) == 1:
                names[op.result] = self._multiplied(product, new.operands.index(known[0]))
            else:
                self.seen[op.result] = _view(new, self.seen[known[0]])
        if not self.seen.keys().isdisjoint(self.graph.outputs):
            raise UnlabelledError
        outputs = tuple(names.get(v, v) for v in self.graph.outputs)
        return KernelGraph(self.graph.name, self.graph.inputs, tuple(self.build.ops), outputs)

    def _multiplied(self, op: Contraction, side: int) -> Value:
        """Return a product whose operand ``side`` is a view of the inner product, in the order that
        multiplies least."""
        shape, other = op.result.shape, op.operands[1 - side]
        eight_bits = any(v.dtype.is_eight_bits for v in (*self.inner.operands, other))
        if eight_bits or op.rounds_factors is not self.inner.rounds_factors:
            raise UnlabelledError  # each sum is rounded differently
        seen = self.seen[op.operands[side]]
        rank = len(shape)
        known = _of_rank(seen.dims, (), rank)
        own = [
            labels or labels_for((n,))[0] if n != 1 else ()
            for labels, n in zip(known, _of_rank(other.shape, 1, rank), strict=True)
        ]
        batch = [a or b for a, b in zip(own[:-2], known[:-2], strict=True)]
        summed, free = known[-2:] if side else known[:-3:-1]
        (new,) = labels_for((other.shape[-2 if side else -1],))
        ends, last = ((new, summed), (new, free)) if side else ((summed, new), (free, new))
        x = self._labelled(other, (*own[:-2], *ends))
        y, z = (
            self._labelled(v, dims, seen.steps)
            for v, dims in zip(self.inner.operands, self.factors, strict=True)
        )
        order = tuple(label for dim in (*batch, *last) for label in dim)
        for label in {*x.labels, *y.labels, *z.labels, *order}:
            if (label in order) + sum(label in v.labels for v in (x, y, z)) < 2:
                raise UnlabelledError
        best = min((_Way(x, y, z, order), _Way(x, z, y, order)), key=lambda way: way.cost)
        # What the program rounds between products is rounded in the other order, too.
        dtype = op.result.dtype
        inner = min(self.inner.result.dtype, dtype, key=lambda kind: kind.bytes)
        made = best.written(self.build, inner, dtype, tf32=op.rounds_factors)
        return shaped(self.build, made, shape)

    def _labelled(
        self, value: Value, dims: Sequence[Labels], steps: Sequence[Step] = ()
    ) -> Labelled:
        """Label a value through the value that it is a transpose of, so that its slices are parts
        of that."""
        dims = _of_rank(dims, (), len(value.shape))[-len(value.shape) :]
        while isinstance(op := self.definitions.get(value), Rearrangement) and not op.renames:
            sources = op.source_dims() or {}
            dims = [dims[d] for d in sorted(sources, key=sources.__getitem__)]
            value = op.operands[0]
        return labelled(self.build, value, dims, steps)


def _repeated(dims: Sequence[Labels], shape: Shape) -> Iterable[Labels]:
    """Return the labels of an operand of ``shape`` that is repeated to dimensions with the labels
    ``dims``."""
    pairs = zip(dims[len(dims) - len(shape) :], shape, strict=True)
    return (labels if n != 1 else () for labels, n in pairs)


def _of_rank(dims: Sequence[T], fill: T, rank: int) -> Sequence[T]:
    return (*(fill,) * (rank - len(dims)), *dims)


def _view(op: Op, seen: Seen) -> Seen:
    """Return the result of an op on a view. Raises :class:`UnlabelledError` if that is not a
    view."""
    shape = op.result.shape
    if isinstance(op, Elementwise) and op.identity:
        return seen
    if op.renames:
        return seen.reshaped(shape)
    if op.cut_at is not None:
        return seen.cut(op.cut_at, shape)
    sources = op.source_dims() if isinstance(op, View) else None
    if sources is None:
        raise UnlabelledError
    return seen.moved(sources, shape)
