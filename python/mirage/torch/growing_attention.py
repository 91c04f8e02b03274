"""Attention to a cache that grows with each token, as one kernel for many lengths.

In each call the cache has another length, and its heads start at other places in memory. The kernel
reads keys and values as tables of rows, by the numbers of their rows, up to the largest length for
which there is room (:mod:`mirage.torch.room_to_grow`). The length is an input: a mask of positions
leaves out the steps beyond it. The numbers of rows are computed once for each length, for all
layers.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf, prod
from typing import Any, Protocol

import torch
from torch.fx import Graph, GraphModule, Node

from mirage.torch.attention_ops import (
    PARAMETERS,
    arguments_of,
    attention_group,
    grows,
    is_dynamic,
    is_fixed,
    is_softmax,
    widens,
)
from mirage.torch.autocast import has_regions
from mirage.torch.compiled_graph import captures, describe
from mirage.torch.graph_pieces import another, example_of
from mirage.torch.room_to_grow import as_table, joined, room_for

log = logging.getLogger("mirage.torch")


class Ready(Protocol):
    """The replacement of a graph; it computes with kernels once it ``is_ready``."""

    @property
    def is_ready(self) -> bool: ...
    def __call__(self, *inputs: Any) -> Any: ...


Answer = Callable[[GraphModule, Sequence[Any], str], "Ready | None"]
"""A function of a graph, its inputs, and what is known about its sizes."""

LONGEST = 1 << 17
"""The longest cache that kernels are compiled for."""
MOST = 16
"""The most lengths, and layouts of inputs, that kernels are compiled for."""


def attention_apart(module: GraphModule) -> tuple[GraphModule, dict[Node, str]]:
    """Return a copy of a graph in which the ops of each such attention are adjacent and its caches
    have room to grow; and the name of the attention for each of its ops."""
    graph, copies = Graph(), dict[Node, Node]()
    results: Any = graph.graph_copy(module.graph, copies)
    graph.output(results)
    groups: dict[Node, str] = {}
    for last in [] if has_regions(module) else list(graph.nodes):
        group = attention_group(last)
        for node in group[:-1]:
            last.prepend(node)
        groups |= {node: str(last.name) for node in group}
        for cache in {x for n in group for x in n.all_input_nodes}.difference(group):
            plain = cache.target is torch.cat and not cache.kwargs.keys() - {"tensors", "dim"}
            if plain and grows(example_of(cache)):
                cache.target = joined
    return GraphModule(module, graph), groups


def growing_attention(piece: GraphModule, answer: Answer) -> GrowingAttention | None:
    """Return the replacement of a piece that is one attention, compiled by ``answer``; None if it
    depends on more than the length at the call."""
    inputs = piece.graph.find_nodes(op="placeholder")
    caches = [i for i, n in enumerate(inputs) if grows(example_of(n))]
    masks = [i for i, n in enumerate(inputs) if widens(example_of(n))]
    lengths = {str(example_of(inputs[i]).shape[-2]) for i in caches}
    for i, node in enumerate(inputs):
        x = example_of(node)
        number = is_dynamic(x) and (str(x) in lengths or not node.users)
        if not (is_fixed(x) or number or i in caches or i in masks):
            return None
    return GrowingAttention(another(piece), tuple(caches), tuple(masks), answer) if caches else None


@dataclass(eq=False)
class GrowingAttention:
    """A ``piece`` of a graph that consists of an attention; the numbers of its inputs that are
    ``caches`` and ``masks``. PyTorch computes it until there are kernels for a length."""

    piece: GraphModule
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
                    self._found[key] = self._compiled(room, inputs, tensors)
            found = self._found.get(key)
            if found is not None and found.is_ready:
                return found(*tensors)
        return self.piece.forward(*inputs)

    def _compiled(
        self, room: int, inputs: Sequence[Any], tensors: Sequence[torch.Tensor]
    ) -> Ready | None:
        """Return the callable for calls like this one; None if PyTorch computes them."""
        try:
            return self.answer(self._at(room, inputs), tensors, f"for up to {room} keys")
        except Exception as error:  # written by a later version of PyTorch
            log.info("attention to up to %d keys stays with PyTorch: %s", room, describe(error))
            return None

    def _inputs(self, inputs: Sequence[Any]) -> tuple[int, list[torch.Tensor]] | None:
        """Return the length for which there is room, and the inputs of the graph for it; None if a
        tensor has another memory layout."""
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
            _leave_out(graph, node, values[node], there)
        return GraphModule(self.piece, graph)


def _leave_out(graph: Graph, node: Node, copy: Node, there: Node) -> None:
    """Let an attention, or the softmax of one, leave out keys that are not ``there``; ``copy`` is
    the copy of a node."""
    given = arguments_of(copy)
    if given is None and not is_softmax(node):
        return
    with graph.inserting_before(copy):
        if given is None:
            # for any values of missing keys, even NaN
            scores = graph.call_function(torch.where, (there, copy.args[0], -inf))
            copy.args = (scores, *copy.args[1:])
            return
        mask, seen = given.pop("attn_mask", None), (arguments_of(node) or {}).get("attn_mask")
        dtype = example_of(node if seen is None else seen).dtype
        if dtype is torch.bool:
            mask = graph.call_function(torch.logical_and, (mask, there))
        else:  # there is always a key, so rows without keys need no care
            added = graph.call_method("unsqueeze", (_added(graph, there, dtype), 0))
            mask = added if mask is None else graph.call_function(torch.add, (mask, added))
    copy.args = tuple(given.pop(name) for name in PARAMETERS[:3])
    copy.kwargs = {**given, "attn_mask": mask}


def _added(graph: Graph, there: Node, dtype: torch.dtype) -> Node:
    """Write the number that is added to scores: minus infinity for keys that are not ``there``."""
    added = graph.call_function(torch.where, (there, 0.0, -inf))
    return graph.call_method("to", (added, dtype))


@lru_cache(maxsize=16)
def rows_and_length(
    rows: int, length: int, room: int, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the numbers of the rows of ``rows`` heads of a length up to ``room``, where the last
    row is used beyond the length; and the length."""
    with torch.inference_mode(False):
        at = torch.arange(room, dtype=torch.int32, device=device).clamp_(max=length - 1)
        heads = torch.arange(rows, dtype=torch.int32, device=device) * length
        return (heads[:, None] + at).flatten(), torch.full((1,), length, device=device)


def _padded(mask: torch.Tensor, room: int) -> torch.Tensor:
    """Return a mask for this number of keys; its elements for missing keys do not matter."""
    return torch.nn.functional.pad(mask, (0, room - mask.shape[-1]))
