"""The ops of a graph that cannot be imported, each found by importing it alone.

A graph may fail to be imported for any reason: PyTorch cannot export or decompose an op, an op has
a result that is no tensor, torch-mlir or a row of the table refuses it. What imports alone is
imported together (:mod:`mirage.torch.refused_apart`). A region, in which PyTorch has another state,
is imported like a single op.
"""

from __future__ import annotations

import logging
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from mirage.torch.compiled_graph import describe
from mirage.torch.graph_text import NoTextError, graph_text
from mirage.torch.regions import regions_of
from mirage.torch.seen_values import seen_values

log = logging.getLogger("mirage.torch")

Importer = Callable[[GraphModule, Sequence[Any]], object]
"""A function that imports a graph, or raises an error."""


@dataclass(frozen=True)
class Refusal:
    """A graph that cannot be imported as a whole, with the reason. ``ops`` are those of its nodes
    that cannot be imported alone, by their numbers, each with its reason."""

    reason: str
    ops: tuple[tuple[int, str], ...] = ()


def refusal_of(
    module: GraphModule, inputs: Sequence[Any], error: Exception, imported: Importer
) -> Refusal:
    """Return what of a graph cannot be imported, after its import has failed with an ``error``."""
    log.debug("why:", exc_info=error)
    values = seen_values(module, inputs)
    numbers = {node: number for number, node in enumerate(module.graph.nodes)}
    tried: dict[str, str] = {}
    refused: list[tuple[int, str]] = []
    for unit in units_of(module.graph, values):
        reason = _reason(module, unit, values, imported, tried)
        if reason:
            refused += [(numbers[node], reason) for node in unit]
    return Refusal(describe(error), tuple(refused))


def units_of(graph: Graph, values: Mapping[Node, Any]) -> list[list[Node]]:
    """Return the ops of a graph by what is not separated: regions, and ops with the selections of
    their results."""
    first = {node: region[0] for region in regions_of(graph) for node in region}
    units: list[list[Node]] = []
    unit_of: dict[Any, list[Node]] = {}
    for node in graph.nodes:
        if not node.op.startswith("call_"):
            continue
        whole: Any = node.args[0] if is_part(node, values) else node
        key = first[node] if node in first else first.get(whole, whole)
        if key not in unit_of:
            unit_of[key] = []
            units.append(unit_of[key])
        unit_of[node] = unit_of[key]
        unit_of[node].append(node)
    return units


def is_part(node: Node, values: Mapping[Node, Any]) -> bool:
    """Return whether a node selects one result of an op that has several."""
    whole = node.args[0] if node.target is operator.getitem else None
    return isinstance(whole, Node) and isinstance(values.get(whole), tuple | list)


def _reason(
    module: GraphModule,
    unit: Sequence[Node],
    values: Mapping[Node, Any],
    imported: Importer,
    tried: dict[str, str],
) -> str:
    """Return why ops cannot be imported; empty if they can. Equal ones are ``tried`` once."""
    met = dict.fromkeys(x for node in unit for x in (node, *node.all_input_nodes))
    if any(_varies(values.get(node)) for node in met):
        return "a size depends on the data"
    piece, inputs = alone(module, unit, values)
    try:
        text = graph_text(piece, inputs)
    except NoTextError:
        text = ""
    if text in tried and text:
        return tried[text]
    try:
        imported(piece, inputs)
        reason = ""
    except Exception as error:
        log.debug("an op cannot be imported alone", exc_info=error)
        reason = describe(error)
    tried[text] = reason
    return reason


def _varies(x: Any) -> bool:
    """Return whether a value is a number, or has a size, that is not known."""
    if isinstance(x, tuple | list):
        return any(map(_varies, x))  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if isinstance(x, torch.Tensor):
        return any(map(_varies, (*x.shape, *x.stride())))
    return isinstance(x, torch.SymInt | torch.SymFloat | torch.SymBool)


def alone(
    module: GraphModule, nodes: Sequence[Node], values: Mapping[Node, Any]
) -> tuple[GraphModule, list[Any]]:
    """Return some nodes of a graph as a separate graph, and examples of its inputs. Its results are
    the tensors and numbers that other nodes read."""
    graph, copies, inputs = Graph(), dict[Node, Any](), list[Any]()

    def given(x: Any) -> Any:
        if isinstance(x, torch.Tensor | int | float):
            inputs.append(x)
            return graph.placeholder(f"given_{len(inputs)}")
        if isinstance(x, tuple | list):
            return tuple(map(given, x))  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        return x

    inside = set(nodes)
    outside = dict.fromkeys(x for n in nodes for x in n.all_input_nodes if x not in inside)
    for node in outside:
        if node.op != "get_attr":
            copies[node] = given(values.get(node))
    for node in outside:  # inputs come first
        if node.op == "get_attr":
            copies[node] = graph.node_copy(node)
    for node in nodes:
        copies[node] = _copy(graph, node, copies)
    read = [n for n in nodes if any(user not in inside for user in n.users)]
    graph.output(tuple(x for n in read for x in _results(graph, copies[n], values.get(n))))
    return GraphModule(module, graph), inputs


def _copy(graph: Graph, node: Node, copies: Mapping[Node, Any]) -> Node:
    """Copy a node; values that are no nodes may stand for its operands."""
    args: Any = map_arg(node.args, copies.__getitem__)
    kwargs: Any = map_arg(node.kwargs, copies.__getitem__)
    copy = graph.create_node(node.op, node.target, args, kwargs)
    copy.meta = dict(node.meta)
    return copy


def _results(graph: Graph, node: Node, value: Any) -> Iterator[Node]:
    if isinstance(value, torch.Tensor | int | float):
        yield node
    elif isinstance(value, tuple | list):
        for i, x in enumerate(value):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            if isinstance(x, torch.Tensor | int | float | tuple | list):
                yield from _results(graph, graph.call_function(operator.getitem, (node, i)), x)
