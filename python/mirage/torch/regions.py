"""Regions of a graph in which PyTorch has another state: autocast, gradients, inference mode, and
the transforms of ``torch.func``. A graph is never cut inside of one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

_GRADIENTS: Any = torch._C._set_grad_enabled  # pyright: ignore[reportPrivateUsage]


def regions_of(graph: Graph) -> Iterator[list[Node]]:
    """Yield the nodes of each outermost region, with the ops that begin and end it."""
    depth = 0
    outside: bool | None = None
    """Whether there are gradients outside of regions, once that is known."""
    inside = False
    region: list[Node] = []
    for node in graph.nodes:
        if node.op == "output":
            break
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


def transforms_tensors(region: list[Node]) -> bool:
    """Return whether tensors in a region are those of a transform of ``torch.func``."""
    return any(_name(node).endswith("_increment_nesting") for node in region)


def enables_gradients(graph: Graph) -> bool:
    """Return whether a graph has a region with gradients, wherever it is called."""
    return any(n.args[0] for n in graph.find_nodes(op="call_function", target=_GRADIENTS))


def without_gradient_regions(module: GraphModule) -> GraphModule:
    """Return the graph without the ops that begin and end regions of gradients, which change
    nothing where no input requires any; the graph itself if it has none."""
    if not module.graph.find_nodes(op="call_function", target=_GRADIENTS):
        return module
    graph, copies = Graph(), dict[Node, Node]()
    for node in module.graph.nodes:
        if node.target is not _GRADIENTS:
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
