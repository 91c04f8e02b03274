"""Ops that run functions (``torch.cond``, loops), apart from the rest of a graph.

The result of such an op depends on which functions run and how often, which only PyTorch knows. So
the graph is cut around it: what comes before and after it is a graph of its own, and PyTorch calls
the op between them. The branches of a choice are graphs of their own, too.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch._ops import HigherOrderOperator
from torch.fx import GraphModule, Node
from torch.fx.passes.split_module import split_module

INSIDE = ("flex_attention", "tag_activation_checkpoint")
"""Ops that run functions and are imported as what these compute."""
BRANCHES = ("cond",)
"""Ops that run one of several functions, with the operands that come last."""
Answer = Callable[[GraphModule, Sequence[Any]], Callable[..., Any]]


def runs_functions(node: Node) -> bool:
    """Return whether only PyTorch can run an op."""
    return isinstance(node.target, HigherOrderOperator) and str(node.target) not in INSIDE


def functions_apart(module: GraphModule, answer: Answer) -> Callable[..., Any] | None:
    """Return a graph with such ops, of which the other pieces, and branches, are replaced by what
    ``answer`` makes of them; None if it has no such ops, or does not say what its tensors are
    like."""
    if not any(map(runs_functions, module.graph.nodes)):
        return None
    pieces = _cut(module)
    made = pieces.graph.find_nodes(op="call_module")
    each: list[Any] = [pieces.get_submodule(str(node.target)) for node in made]
    given = [_examples(piece.graph.find_nodes(op="placeholder")) for piece in each]
    for piece, examples in zip(each, given, strict=True):
        calls = [n for n in piece.graph.nodes if runs_functions(n)]
        if not calls:
            if examples is None:
                return None
            piece.forward = answer(_copy(piece), examples)
        for call in calls:
            for branch, operands in _branches(piece, call):
                examples = _examples(operands)
                if examples is not None:
                    branch.forward = answer(_copy(branch), examples)
    return pieces.forward


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
    return split_module(module, module, places.__getitem__, keep_original_order=True)


def _copy(module: GraphModule) -> GraphModule:
    """Return the module itself under another identity, whose ``forward`` stays."""
    return GraphModule(module, module.graph)


def _branches(piece: GraphModule, call: Node) -> Iterator[tuple[Any, Sequence[Node]]]:
    """Yield the functions of a choice and the operands of each."""
    if str(call.target) in BRANCHES:
        *functions, operands = call.args
        for function in functions:
            if isinstance(function, Node) and function.op == "get_attr":
                yield getattr(piece, str(function.target)), operands  # pyright: ignore


def _examples(nodes: Sequence[Node]) -> list[Any] | None:
    """Return what values of nodes are like; None if that is not known."""
    found = [n.meta.get("example_value", n.meta.get("val")) for n in nodes]
    known = all(isinstance(x, torch.Tensor | int | torch.SymInt) for x in found)
    return found if known else None
