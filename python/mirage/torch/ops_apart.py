"""Ops that only PyTorch can run, apart from the rest of a graph.

The result of an op that runs functions (``torch.cond``, loops) depends on which functions run and
how often; kernels run on one device; and an element that is read as a number says where a view
lies. So the graph is cut around such ops: what comes before and after them is a graph of its own,
and PyTorch calls them between. The branches of a choice are graphs of their own, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from torch.fx import GraphModule, Node

from mirage.torch.graph_pieces import another, cut, examples_of, pieces_of
from mirage.torch.homes_of_ops import PYTORCH, homes_of, is_part, runs_functions

BRANCHES = ("cond",)
"""Ops that run one of several functions, with the operands that come last."""
Answer = Callable[[GraphModule, Sequence[Any]], Callable[..., Any]]


def ops_apart(module: GraphModule, answer: Answer) -> Callable[..., Any] | None:
    """Return a graph with such ops, of which the other pieces, and branches, are replaced by what
    ``answer`` makes of them, if the graph says what their inputs are like; None if there are no
    such ops and all run on one device."""
    homes = homes_of(module.graph)
    if len(set(homes.values())) < 2 and PYTORCH not in homes.values():
        return None
    places = _places(homes)
    whole = cut(module, lambda node: places.get(node, 0))
    left = {f"submod_{places[node]}" for node, home in homes.items() if home == PYTORCH}
    for call, piece in pieces_of(whole):
        if str(call.target) in left:
            functions = filter(runs_functions, piece.graph.nodes)
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
            places[node] = places[node.args[0]]  # what has several results is no input of a graph
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
