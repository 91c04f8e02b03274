"""Regions of ``torch.utils.checkpoint`` in a graph. They say what is computed again for gradients,
which a compiled graph does not have."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

_REGION = getattr(torch.ops.higher_order, "tag_activation_checkpoint", None)


def without_checkpoints(module: GraphModule) -> GraphModule:
    """Return the graph with the ops of such regions in their place; the graph itself if it has
    none, or if a region holds tensors or regions itself."""
    regions = {node: _body(module, node) for node in module.graph.nodes if node.target is _REGION}
    if not regions or any(body.find_nodes(op="get_attr") for body in regions.values()):
        return module
    graph, copies = Graph(), dict[Node, Any]()
    for node in module.graph.nodes:
        body = regions.get(node)
        if body is not None:
            arguments = (copies.get(x, x) for x in node.args[1:])
            inputs = zip(body.find_nodes(op="placeholder"), arguments, strict=True)
            copies[node] = graph.graph_copy(body, dict(inputs))
        elif node.target is operator.getitem and node.args[0] in regions:
            copies[node] = copies[node.args[0]][node.args[1]]
        elif not (node.op == "get_attr" and all(user in regions for user in node.users)):
            copies[node] = graph.node_copy(node, copies.__getitem__)
    return GraphModule(module, graph)


def _body(module: GraphModule, region: Node) -> Graph:
    name: Any = region.args[0]
    body: Any = module.get_submodule(name.target)
    return body.graph
