"""Ops that run functions (``torch.cond``, loops), apart from the rest of a graph.

The result of such an op depends on which functions run and how often, which only PyTorch knows. So
the graph is cut around it: the parts before and after it are separate graphs, and PyTorch calls the
op between them. The branches of a choice are separate graphs, too.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch._ops import HigherOrderOperator
from torch.fx import GraphModule, Node

from mirage.torch.graph_pieces import another, cut, examples_of, pieces_of

INSIDE = ("flex_attention", "tag_activation_checkpoint")
"""Ops that run functions and are imported as the computation of these functions."""
BRANCHES = ("cond",)
"""Ops that run one of several functions, with the operands that come last."""
Answer = Callable[[GraphModule, Sequence[Any]], Callable[..., Any]]


def runs_functions(node: Node) -> bool:
    """Return whether only PyTorch can run an op."""
    return isinstance(node.target, HigherOrderOperator) and str(node.target) not in INSIDE


def functions_apart(module: GraphModule, answer: Answer) -> Callable[..., Any] | None:
    """Return a graph with such ops, in which the other pieces, and branches, are replaced by the
    results of ``answer``; None if it has no such ops, or does not state the types of its
    tensors."""
    if not any(map(runs_functions, module.graph.nodes)):
        return None
    whole = _cut(module)
    pieces = [piece for _, piece in pieces_of(whole)]
    given = [examples_of(piece.graph.find_nodes(op="placeholder")) for piece in pieces]
    for piece, examples in zip(pieces, given, strict=True):
        calls = [n for n in piece.graph.nodes if runs_functions(n)]
        if not calls:
            if examples is None:
                return None
            piece.forward = answer(another(piece), examples)
        for call in calls:
            for branch, operands in _branches(piece, call):
                examples = examples_of(operands)
                if examples is not None:
                    branch.forward = answer(another(branch), examples)
    return whole.forward


def _cut(module: GraphModule) -> GraphModule:
    """Return the graph with a module for each op that runs functions, and one for each run of ops
    between two of these."""
    places: dict[Node, int] = {}
    place = 0
    for node in module.graph.nodes:
        if node.target is operator.getitem and runs_functions(node.args[0]):
            places[node] = places[node.args[0]]
            continue
        alone = runs_functions(node)
        place += alone
        places[node] = place
        place += alone
    return cut(module, places.__getitem__)


def _branches(piece: GraphModule, call: Node) -> Iterator[tuple[Any, Sequence[Node]]]:
    """Yield the functions of a choice and the operands of each."""
    if str(call.target) in BRANCHES:
        *functions, operands = call.args
        for function in functions:
            if isinstance(function, Node) and function.op == "get_attr":
                yield getattr(piece, str(function.target)), operands  # pyright: ignore
