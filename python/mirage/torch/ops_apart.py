"""Ops that only PyTorch can run, separated from the rest of a graph.

The result of an op that runs functions (``torch.cond``, loops) depends on which functions run and
how often; kernels run on one device; and an element that is read as a number determines the place
of a view. So the graph is cut around such ops: the parts before and after them are separate graphs,
and PyTorch calls the ops in between. The branches of a choice are separate graphs, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from torch.fx import GraphModule, Node

from mirage.torch.graph_pieces import another, cut, examples_of, pieces_of
from mirage.torch.homes_of_ops import PYTORCH, homes_of, is_part, runs_functions
from mirage.torch.regions import regions_of

BRANCHES = ("cond",)
"""Ops that run one of several functions, whose operands come last."""
Answer = Callable[[GraphModule, Sequence[Any]], Callable[..., Any]]


def ops_apart(module: GraphModule, answer: Answer) -> Callable[..., Any] | None:
    """Return a graph with such ops, in which ``answer`` replaces the other pieces, and branches, if
    the graph describes their inputs; None if there are no such ops and all run on one device."""
    homes = homes_of(module.graph)
    if len(set(homes.values())) < 2 and PYTORCH not in homes.values():
        return None
    places = _places(homes)
    whole = cut(module, lambda node: places.get(node, 0))
    left = {f"submod_{places[node]}" for node, home in homes.items() if home == PYTORCH}
    for call, piece in pieces_of(whole):
        if str(call.target) in left:
            inside = {node for region in regions_of(piece.graph) for node in region}
            functions = (n for n in piece.graph.nodes if runs_functions(n) and n not in inside)
            found = [pair for function in functions for pair in _branches(piece, function)]
        else:
            found = [(piece, piece.graph.find_nodes(op="placeholder"))]
        for graph, inputs in found:
            examples = examples_of(inputs)
            if examples is not None:
                graph.forward = answer(another(graph), examples)
    return whole.forward


def _places(homes: Mapping[Node, str]) -> dict[Node, int]:
    """Return numbers of runs of ops with one home."""
    places: dict[Node, int] = {}
    place, before = 0, None
    for node, home in homes.items():
        if is_part(node) and node.args[0] in places:
            # a value with several results cannot be an input of a graph
            places[node] = places[node.args[0]]
            continue
        place += before is not None and home != before
        places[node], before = place, home
    return places


def _branches(piece: GraphModule, call: Node) -> Iterator[tuple[Any, Sequence[Node]]]:
    """Yield the functions of a choice and the operands of each."""
    if str(call.target) in BRANCHES:
        *functions, operands = call.args
        for function in functions:
            if isinstance(function, Node) and function.op == "get_attr":
                yield getattr(piece, str(function.target)), operands  # pyright: ignore
