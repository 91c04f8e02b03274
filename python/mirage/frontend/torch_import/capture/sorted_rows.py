"""Rows that are sorted by their experts and put back into their places are left in their places.

Mixtures of experts sort their rows, so that those of an expert are neighbours, multiply them by
groups, and undo the sort. If each row is multiplied separately anyway, as for a token that is
decoded, the order has no effect:

    (f(x[p], s))[q] = f(x, k),   s, p = sort(k),   p[q[i]] = i

for every ``f`` that computes each row from the same row of its operands. A product of groups is
such an ``f``, because the expert of a row is its key (:func:`_own_expert`); its groups are counted
from the keys, whatever their order is.

Conditions: ``q`` is the inverse of the permutation ``p`` of the sort; the keys are known to be
experts, since they are positions of largest elements among as many; and all ops between compute
row by row.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any

import torch
from torch.fx import Graph, Node
from torch.fx.node import map_arg

aten: Any = torch.ops.aten
Args = tuple[Any, ...]

_LIBRARY = torch.library.Library("mirage_import", "DEF")
_LIBRARY.define("rows_of_experts(Tensor x, Tensor weights, Tensor experts) -> Tensor")
ROWS_OF_EXPERTS: Any = torch.ops.mirage_import.rows_of_experts.default
"""The product of each row of ``x[S, K]`` with its own expert's matrix of ``weights[E, K, N]``; all
``experts[S]`` are known to be at least 0 and less than E."""

SORTS = (aten.sort.default, aten.sort.stable)
ALONG_ROWS = (aten.split.Tensor, aten.split_with_sizes.default, aten.slice.Tensor, aten.select.int)
"""Ops that cut the dimension that is their third argument (the second of slices), 0 by default."""


def rows_in_place(graph: Graph, groups: Container[str], most_rows: Callable[[int], int]) -> None:
    """Replace computations on sorted rows that are then put back. ``groups`` are the names of ops
    that multiply groups of rows, and ``most_rows`` says for a number of experts how many rows are
    multiplied one by one."""
    for node in list(graph.find_nodes(op="call_function", target=aten.index.Tensor)):
        args: Any = node.args
        source, indices = args
        sort = _undone_by(indices[0]) if len(indices) == 1 and indices[0] is not None else None
        if sort is not None and isinstance(source, Node):
            with graph.inserting_before(node):
                found = _Unsorted(graph, sort, groups, most_rows).of(source)
            if found is not None:
                node.replace_all_uses_with(found)
    graph.eliminate_dead_code()


def _undone_by(index: Any) -> Node | None:
    """Return the sort whose permutation an index is the inverse of: the positions, stored at the
    places that the permutation names."""
    if index.target is not aten.index_put.default or index.kwargs.get("accumulate"):
        return None
    if len(index.args) > 3 and index.args[3]:
        return None
    places, positions = index.args[1:3]
    order = places[0] if isinstance(places, list | tuple) and len(places) == 1 else None
    if not isinstance(order, Node) or not isinstance(positions, Node):
        return None
    size = _shape(index)
    plain = positions.target is aten.arange.start_step and positions.args in (
        (0, *size), (0, *size, 1),
    )  # fmt: skip
    return _sort_of(order, 1) if plain and len(size) == 1 and size == _shape(order) else None


def _sort_of(node: Any, result: int) -> Node | None:
    """Return the sort of a line that gives a node as its first or second result."""
    if node.target is not operator.getitem or node.args[1] != result:
        return None
    (sort, _) = node.args
    line = isinstance(sort, Node) and sort.target in SORTS and len(_shape(node)) == 1
    return sort if line else None


def _is_ascending(sort: Node) -> bool:
    descending = sort.kwargs.get("descending", False)
    return not descending and (sort.target is aten.sort.stable or True not in sort.args[2:])


class _Unsorted:
    """The results of the ops between a sort and its inverse, in the order before the sort."""

    def __init__(
        self, graph: Graph, sort: Node, groups: Container[str], most_rows: Callable[[int], int]
    ) -> None:
        self.graph, self.sort, self.groups, self.most_rows = graph, sort, groups, most_rows
        self.keys: Any = sort.kwargs.get("self", sort.args[0] if sort.args else None)
        self.rows = _shape(self.keys)[0]
        self._found: dict[Node, Node | None] = {}
        self._sorted: dict[Node, bool] = {}

    def of(self, node: Node) -> Node | None:
        """Return the node whose rows are those of ``node`` before the sort; None if there is
        none."""
        if node not in self._found:
            self._found[node] = self._of(node)
        return self._found[node]

    def _depends(self, node: Node) -> bool:
        """Return whether a node is computed from results of the sort."""
        if node not in self._sorted:
            self._sorted[node] = node is self.sort or any(map(self._depends, node.all_input_nodes))
        return self._sorted[node]

    def _of(self, node: Any) -> Node | None:
        if node.op != "call_function" or not self._depends(node):
            return None
        if _sort_of(node, 0) is self.sort:
            return self.keys
        if _sort_of(node, 1) is self.sort:
            like = {"dtype": torch.int64, "device": _value(node).device}
            return self._made(aten.arange.start_step, (0, self.rows), like, node)
        if node.target is operator.getitem:
            return self._applied(node, node.args[:1])
        if str(node.target).removesuffix(".default") in self.groups:
            return self._product(node)
        if node.target is aten.index.Tensor:
            return self._looked_up(node)
        if node.target in ALONG_ROWS:
            at = 2 if node.target in ALONG_ROWS[:2] else 1
            dim = node.kwargs.get("dim", node.args[at] if len(node.args) > at else 0)
            return self._applied(node, node.args[:1]) if self._is_other(node, dim) else None
        if node.target is aten.unsqueeze.default:
            dim, rank = node.args[1], len(_shape(node))
            return self._applied(node, node.args[:1]) if dim % rank else None
        if torch.Tag.pointwise in getattr(node.target, "tags", ()) or node.target in _UNTAGGED:
            return self._applied(node, node.args) if self._is_aligned(node) else None
        return None

    def _is_other(self, node: Any, dim: int) -> bool:
        """Return whether a dimension of the operand is not that of its rows."""
        return dim % len(_shape(node.args[0])) != 0

    def _is_aligned(self, node: Any) -> bool:
        """Return whether each row of an elementwise op's result is computed from the same row of
        operands, or from operands without rows."""
        rank = len(_shape(node))
        for x in node.all_input_nodes:
            shape = _shape(x)
            if self._depends(x):
                if len(shape) != rank or shape[0] != self.rows:
                    return False
            elif len(shape) == rank and shape[0] != 1:
                return False
        return True

    def _looked_up(self, node: Any) -> Node | None:
        """Return rows of a table that does not depend on the sort."""
        table, indices = node.args
        (index,) = indices if len(indices) == 1 else (None,)
        if not isinstance(index, Node) or self._depends(table) or len(_shape(index)) != 1:
            return None
        if _sort_of(index, 1) is self.sort and _shape(table)[0] == self.rows:
            return table
        own = self.of(index)
        return None if own is None else self._made(node.target, (table, [own]), {}, node)

    def _product(self, node: Any) -> Node | None:
        """Return the product of each row with the matrix of its own expert."""
        x, weights, ends, *others = (*node.args, *node.kwargs.values())
        rows = self.of(x)
        if rows is None or self._depends(weights) or any(v is not None for v in others):
            return None
        experts = _shape(weights)[0]
        if self.rows > self.most_rows(experts) or not self._is_counted(ends, experts):
            return None
        return self._made(ROWS_OF_EXPERTS, (rows, weights, self.keys), {}, node)

    def _is_counted(self, ends: Any, experts: int) -> bool:
        """Return whether the groups end where the sorted keys do, and each key is an expert."""
        if ends.target is not aten.cumsum.default or not _is_ascending(self.sort):
            return False
        counts = ends.args[0]
        if len(_shape(counts)) != 1 or counts.target is not _HISTOGRAM:
            return False
        values, *bounds = counts.args
        if bounds != [experts, 0, experts - 1] or counts.kwargs:
            return False
        while values.target in _CASTS:
            (values,) = values.args
        return _sort_of(values, 0) is self.sort and _own_expert(self.keys, experts)

    def _applied(self, node: Any, args: Args) -> Node | None:
        """Return the op applied to operands before the sort."""
        operands = {x: self.of(x) for x in node.all_input_nodes if self._depends(x)}
        if any(x is None for x in operands.values()):
            return None
        before = map_arg((args, dict(node.kwargs)), lambda x: operands.get(x) or x)
        (args, named), rest = before, node.args[len(args) :]
        return self._made(node.target, (*args, *rest), named, node)

    def _made(self, target: Any, args: Args, named: Mapping[str, Any], like: Node) -> Node:
        made = self.graph.call_function(target, args, dict(named))
        made.meta = dict(like.meta)
        return made


_CASTS = (aten._to_copy.default, aten.clone.default)
_UNTAGGED = (*_CASTS, aten.floor_divide.default)
"""Elementwise ops that PyTorch does not tag as such."""
_HISTOGRAM = aten.histc.default


def _own_expert(keys: Any, experts: int) -> bool:
    """Return whether all keys are at least 0 and less than ``experts``: they are positions of the
    largest elements of rows of at most as many."""
    for node in _through_views(keys):
        if node.target is operator.getitem and node.args[1] == 1:
            ranked: Any = node.args[0]
            if ranked.target is aten.topk.default:
                dim: Any = ranked.args[2] if len(ranked.args) > 2 else ranked.kwargs.get("dim", -1)
                return _shape(ranked.args[0])[dim] <= experts
    return False


def _through_views(node: Any) -> Iterator[Any]:
    """Yield a node, and the nodes that it is a view or a copy of."""
    views = (aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.clone.default,
             aten.unsqueeze.default, aten.alias.default)  # fmt: skip
    yield node
    while node.target in views and isinstance(node.args[0], Node):
        node = node.args[0]
        yield node


def _value(node: Node) -> Any:
    return node.meta["val"]


def _shape(node: Any) -> tuple[int, ...]:
    return tuple(getattr(node.meta.get("val"), "shape", ())) if isinstance(node, Node) else ()
