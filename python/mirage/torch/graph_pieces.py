"""Pieces of a graph of TorchDynamo, each a separate graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import free_symbols
from torch.fx.passes.split_module import split_module


def example_of(node: Node) -> Any:
    """Return an example of a node's value; None if there is none."""
    return node.meta.get("example_value", node.meta.get("val"))


def examples_of(nodes: Sequence[Node]) -> list[Any] | None:
    """Return examples of the values of nodes; None if one is missing."""
    found = list(map(example_of, nodes))
    known = all(isinstance(x, torch.Tensor | int | torch.SymInt) for x in found)
    return found if known else None


def cut(module: GraphModule, place: Callable[[Node], int]) -> GraphModule:
    """Return the graph with a module for the ops of each place; places do not decrease."""
    _hide_unbound(module)
    return split_module(module, module, place, keep_original_order=True)


def pieces_of(whole: GraphModule) -> Iterator[tuple[Node, GraphModule]]:
    """Yield the calls of the pieces of a graph that is cut, with the pieces."""
    for node in whole.graph.find_nodes(op="call_module"):
        piece: Any = whole.get_submodule(str(node.target))
        yield node, piece


def another(module: GraphModule) -> GraphModule:
    """Return a new module object with the same ``forward``."""
    return GraphModule(module, module.graph)


def _hide_unbound(module: GraphModule) -> None:
    """Hide expressions in symbols that no node of the graph defines from PyTorch, which would
    search for those nodes: TorchDynamo has such a symbol for a number that it reads from a
    tensor."""
    given = {n: n.meta["example_value"] for n in module.graph.nodes if "example_value" in n.meta}
    sizes = (x.node.expr for x in given.values() if isinstance(x, torch.SymInt))
    bound = {size for size in sizes if size.is_symbol}
    for node, x in given.items():
        if isinstance(x, torch.Tensor | torch.SymInt) and not free_symbols(x) <= bound:
            node.meta["val"] = node.meta.pop("example_value")
