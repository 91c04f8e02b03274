"""Regions of a graph in which PyTorch has another state: autocast, gradients, inference mode, and
the transforms of ``torch.func``. A graph is never cut inside of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

_RETURNED = ("_unwrap", "_remove", "_unpack")
"""How the names of ops begin that take tensors out of a transform of ``torch.func``."""
_GRADIENTS: Any = torch._C._set_grad_enabled  # pyright: ignore[reportPrivateUsage]


def regions_of(graph: Graph) -> Iterator[list[Node]]:
    """Yield the nodes of each outermost region, with the ops that begin and end it. A region whose
    tensors record what is computed, so that gradients follow, lasts until they are not read any
    more."""
    nodes = [node for node in graph.nodes if node.op != "output"]
    places = {node: place for place, node in enumerate(nodes)}
    begin, end = 0, -1
    for region in _simple_regions(nodes):
        first, last = places[region[0]], _last(region, places)
        if first > end:
            yield from [nodes[begin : end + 1]] * (end >= 0)
            begin = first
        end = max(end, last)
    yield from [nodes[begin : end + 1]] * (end >= 0)


def _last(region: Sequence[Node], places: Mapping[Node, int]) -> int:
    """Return the place of the last node of a region."""
    last = places[region[-1]]
    if transforms_tensors(region):
        inside = (n for n in region if not _name(n).startswith(_RETURNED))
        users = (places[user] for n in inside for user in n.users if user in places)
        last = max((last, *users))
    return last


def _simple_regions(nodes: Sequence[Node]) -> Iterator[list[Node]]:
    """Yield the nodes from each op that begins an outermost region to the one that ends it."""
    depth = 0
    outside: bool | None = None
    """Whether there are gradients outside of regions, once that is known."""
    inside = False
    region: list[Node] = []
    for node in nodes:
        depth += _step(node)
        if node.target is _GRADIENTS:
            outside = not node.args[0] if outside is None else outside
            inside = node.args[0] is not outside
        if depth or inside:
            region.append(node)
        elif region:
            yield [*region, node]
            region = []
    if region:
        yield region


def transforms_tensors(region: Sequence[Node]) -> bool:
    """Return whether tensors in a region are those of a transform of ``torch.func``."""
    return any(_name(node).endswith("_increment_nesting") for node in region)


def enables_gradients(graph: Graph) -> bool:
    """Return whether a graph has a region with gradients, wherever it is called."""
    return any(n.args[0] for n in graph.find_nodes(op="call_function", target=_GRADIENTS))


def without_gradient_regions(module: GraphModule) -> GraphModule:
    """Return the graph without the ops that begin and end regions of gradients, which change
    nothing where no input requires any, except within the transforms of ``torch.func``; the graph
    itself if it has none."""
    if not module.graph.find_nodes(op="call_function", target=_GRADIENTS):
        return module
    kept = {n for region in regions_of(module.graph) if transforms_tensors(region) for n in region}
    graph, copies = Graph(), dict[Node, Node]()
    for node in module.graph.nodes:
        if node.target is not _GRADIENTS or node in kept:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    return GraphModule(module, graph)


def _step(node: Node) -> int:
    """Return 1 for an op that begins a region, -1 for one that ends it."""
    name = _name(node)
    if name.startswith("_enter_") or name.endswith("_increment_nesting"):
        return 1
    return -(name.startswith("_exit_") or name.endswith("_decrement_nesting"))


def _name(node: Node) -> str:
    return getattr(node.target, "__name__", "") if node.op == "call_function" else ""
