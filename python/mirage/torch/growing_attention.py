"""Attention to a cache that grows with each token, as one kernel for many lengths.

In each call the cache has another length, and its heads start elsewhere in memory. The kernel reads
keys and values as tables of rows, by the numbers of their rows, up to the largest length that there
is room for (:mod:`mirage.torch.room_to_grow`). The length is an input: a mask of positions leaves
out the steps beyond it. The numbers of rows are computed once for each length, for all layers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf, prod
from typing import Any, Protocol

import torch
from torch.fx import Graph, GraphModule, Node
from torch.nn.functional import scaled_dot_product_attention

from mirage.torch.compiled_graph import captures
from mirage.torch.graph_pieces import another, example_of
from mirage.torch.room_to_grow import as_table, joined, room_for


class Ready(Protocol):
    """What a graph is replaced by; it computes with kernels once it ``is_ready``."""

    @property
    def is_ready(self) -> bool: ...
    def __call__(self, *inputs: Any) -> Any: ...


Answer = Callable[[GraphModule, Sequence[Any], str], "Ready | None"]
"""A function of a graph, its inputs, and what is said of its sizes."""

LONGEST = 1 << 17
"""The longest cache that kernels are compiled for."""
MOST = 16
"""The most lengths, and layouts of inputs, that kernels are compiled for."""
_PARAMETERS = (
    "query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa",
)  # fmt: skip
_REPEATS = frozenset({"getitem", "expand", "reshape", "view", "unsqueeze", "contiguous", "flatten"})
"""The ops that repeat heads between a cache and its attention."""


def attends(node: Node) -> bool:
    """Return whether an op is an attention to growing keys and values, whose result has a fixed
    size."""
    given = _arguments(node)
    if given is None or given.get("is_causal") or given.get("dropout_p"):
        return False
    query, *caches = (_example(given.get(name)) for name in _PARAMETERS[:3])
    return _is_fixed(query) and _is_fixed(example_of(node)) and all(map(_grows, caches))


def repeated(attention: Node) -> list[Node]:
    """Return the ops that repeat heads for this attention alone, in order."""
    found = {attention}
    for node in reversed(attention.graph.nodes):
        name = getattr(node.target, "__name__", node.target)
        if name in _REPEATS and node.users and found.issuperset(node.users) and _keeps(node):
            found.add(node)
    return [n for n in attention.graph.nodes if n in found and n is not attention]


def _keeps(node: Node) -> bool:
    """Return whether an op keeps the growing dimension of a cache or a mask, in its place: it moves
    no key, whatever the length is."""
    tensors = [x for x in map(example_of, node.all_input_nodes) if isinstance(x, torch.Tensor)]
    y = example_of(node)
    if len(tensors) != 1 or not isinstance(y, torch.Tensor):
        return False
    (x,) = tensors
    if _grows(x) and _grows(y):
        return str(x.shape[-2]) == str(y.shape[-2]) and x.shape[-1] == y.shape[-1]
    return _is_mask(x) and _is_mask(y) and str(x.shape[-1]) == str(y.shape[-1])


def attention_apart(module: GraphModule) -> tuple[GraphModule, dict[Node, str]]:
    """Return a copy of a graph in which nothing stands between such an attention and the ops that
    repeat heads for it, and in which its caches are given room to grow; and the name of the
    attention for each of its ops."""
    graph, copies = Graph(), dict[Node, Node]()
    results: Any = graph.graph_copy(module.graph, copies)
    graph.output(results)
    groups: dict[Node, str] = {}
    for attention in [n for n in graph.nodes if attends(n)]:
        group: list[Node] = [*repeated(attention), attention]
        for node in group[:-1]:
            attention.prepend(node)
        groups |= {node: str(attention.name) for node in group}
        for cache in {x for n in group for x in n.all_input_nodes}.difference(group):
            if cache.target is torch.cat and _grows(example_of(cache)):
                cache.target = joined
    return GraphModule(module, graph), groups


def _arguments(node: Node) -> dict[str, Any] | None:
    if node.target is not scaled_dot_product_attention:
        return None
    return {**dict(zip(_PARAMETERS, node.args)), **node.kwargs}


def _example(x: Any) -> Any:
    return example_of(x) if isinstance(x, Node) else None


def _is_fixed(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and not any(map(_is_dynamic, x.shape))


def _is_dynamic(size: Any) -> bool:
    return isinstance(size, torch.SymInt)


def _grows(x: Any) -> bool:
    """Return whether the last dimension but one of a tensor, and no other, has no fixed size."""
    if not isinstance(x, torch.Tensor) or x.dim() < 2:
        return False
    *outer, length, width = x.shape
    return _is_dynamic(length) and not any(map(_is_dynamic, (*outer, width)))


def _is_mask(x: Any) -> bool:
    """Return whether the last dimension of a tensor, and no other, has no fixed size."""
    if not isinstance(x, torch.Tensor) or not x.dim():
        return False
    *outer, length = x.shape
    return _is_dynamic(length) and not any(map(_is_dynamic, outer))


def growing_attention(piece: GraphModule, answer: Answer) -> GrowingAttention | None:
    """Return what replaces a piece of one attention, and of ops that repeat heads for it, compiled
    by ``answer``; None if that needs more than the length at the call."""
    nodes = list(piece.graph.nodes)
    (attention,) = (n for n in nodes if n.target is scaled_dot_product_attention)
    given = _arguments(attention)
    assert given is not None
    inputs = piece.graph.find_nodes(op="placeholder")
    caches = [i for i, n in enumerate(inputs) if _grows(example_of(n))]
    masks = [i for i, n in enumerate(inputs) if _is_mask(example_of(n))]
    lengths = {str(example_of(inputs[i]).shape[-2]) for i in caches}
    for i, node in enumerate(inputs):
        x = example_of(node)
        number = _is_dynamic(x) and (str(x) in lengths or not node.users)
        if not (_is_fixed(x) or number or i in caches or i in masks):
            return None
    if not caches or any(inputs[i] in attention.args[:1] for i in caches):
        return None
    return GrowingAttention(another(piece), attention, tuple(caches), tuple(masks), answer)


@dataclass(eq=False)
class GrowingAttention:
    """A ``piece`` of a graph that consists of an ``attention``; the numbers of its inputs that are
    ``caches`` and ``masks``. PyTorch computes it until there are kernels for a length."""

    piece: GraphModule
    attention: Node
    caches: tuple[int, ...]
    masks: tuple[int, ...]
    answer: Answer
    _found: dict[object, Ready | None] = field(
        default_factory=dict[object, "Ready | None"], init=False
    )
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __call__(self, *inputs: Any) -> Any:
        taken = None if captures() else self._inputs(inputs)
        if taken is not None:
            room, tensors = taken
            key = room, tuple([x.stride() for x in tensors])
            with self._lock:
                if key not in self._found and len(self._found) < MOST:
                    module = self._at(room, inputs)
                    self._found[key] = self.answer(module, tensors, f"for up to {room} keys")
            found = self._found.get(key)
            if found is not None and found.is_ready:
                return found(*tensors)
        return self.piece.forward(*inputs)

    def _inputs(self, inputs: Sequence[Any]) -> tuple[int, list[torch.Tensor]] | None:
        """Return the length that there is room for, and the inputs of the graph for it; None if
        a tensor lies in memory in another way."""
        caches = [inputs[i] for i in self.caches]
        length, *others = (x.shape[-2] for x in caches)
        rows, *same = (prod(x.shape[:-2]) for x in caches)
        tables = [as_table(x) for x in caches]
        masks = [inputs[i] for i in self.masks]
        if any(n != length for n in (*others, *(m.shape[-1] for m in masks))):
            return None
        if any(n != rows for n in same) or any(t is None for t in tables) or not length:
            return None
        room = room_for(length)
        if room > LONGEST:
            return None
        numbers, count = rows_and_length(rows, length, room, caches[0].device)
        found: list[Any] = [x for _, x in self._others(inputs)]
        found += [*tables, *(_padded(m, room) for m in masks), numbers, count]
        return room, found

    def _mask(self, inputs: Sequence[Any]) -> tuple[torch.dtype, ...]:
        """Return the types of queries, and of the mask."""
        return tuple(inputs[i].dtype for i in (self.caches[0], *self.masks))

    def _others(self, inputs: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        """Yield the tensors of fixed sizes, with their places."""
        for i, x in enumerate(inputs):
            if i not in self.caches and i not in self.masks and isinstance(x, torch.Tensor):
                yield i, x

    def _at(self, room: int, inputs: Sequence[Any]) -> GraphModule:
        """Return the graph for lengths up to ``room``."""
        graph, values = Graph(), dict[Node, Any]()
        given = self.piece.graph.find_nodes(op="placeholder")
        for i, _ in self._others(inputs):
            values[given[i]] = graph.placeholder(given[i].name)
        tables = [graph.placeholder(given[i].name) for i in self.caches]
        for i in self.masks:
            values[given[i]] = graph.placeholder(given[i].name)
        numbers, count = graph.placeholder("rows"), graph.placeholder("length")
        for node in given:
            if isinstance(example_of(node), torch.SymInt):
                values[node] = room
        for i, table in zip(self.caches, tables, strict=True):
            *outer, _, width = inputs[i].shape
            rows = graph.call_method("index_select", (table, 0, numbers))
            values[given[i]] = graph.call_method("view", (rows, *outer, room, width))
        device = inputs[self.caches[0]].device
        positions = graph.call_function(torch.arange, (room,), {"device": device})
        there = graph.call_function(torch.lt, (positions, count))
        for node in self.piece.graph.nodes:
            if node.op == "placeholder":
                continue
            values[node] = graph.node_copy(node, values.__getitem__)
            if node is self.attention:
                _leave_out(graph, values[node], there, self._mask(inputs))
        return GraphModule(self.piece, graph)


def _leave_out(graph: Graph, attention: Node, there: Node, dtypes: tuple[torch.dtype, ...]) -> None:
    """Let an attention leave out keys that are not ``there``. ``dtypes``: of its queries, and of
    its mask if it has one."""
    given = _arguments(attention) or {}
    mask = given.pop("attn_mask", None)
    with graph.inserting_before(attention):
        if dtypes[-1] is torch.bool:
            mask = graph.call_function(torch.logical_and, (mask, there))
        else:  # nothing has to be known of lines without any key: there is always one
            added = graph.call_function(torch.where, (there, 0.0, -inf))
            added = graph.call_method("to", (added, dtypes[-1]))
            added = graph.call_method("unsqueeze", (added, 0))
            mask = added if mask is None else graph.call_function(torch.add, (mask, added))
    attention.args = tuple(given.pop(name) for name in _PARAMETERS[:3])
    attention.kwargs = {**given, "attn_mask": mask}


@lru_cache(maxsize=16)
def rows_and_length(
    rows: int, length: int, room: int, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the numbers of the rows of ``rows`` heads of a length up to ``room``, where the last
    row stands for those beyond the length, and the length."""
    with torch.inference_mode(False):
        at = torch.arange(room, dtype=torch.int32, device=device).clamp_(max=length - 1)
        heads = torch.arange(rows, dtype=torch.int32, device=device) * length
        return (heads[:, None] + at).flatten(), torch.full((1,), length, device=device)


def _padded(mask: torch.Tensor, room: int) -> torch.Tensor:
    """Return a mask of as many keys; what it says of those that are not there does not matter."""
    return torch.nn.functional.pad(mask, (0, room - mask.shape[-1]))
