"""Ops on tensors with a size that keeps changing, apart from the rest of a graph.

A cache that grows with each token has another size in each call. If kernels cannot take that size
at run time, PyTorch computes what depends on it (it appends to the cache, and attends to it). The
graph is cut around these ops; the rest, whose sizes are fixed, is compiled once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from mirage.torch.graph_pieces import another, cut, example_of, examples_of, pieces_of

LEAST_OPS = 5
"""The fewest ops of a piece that is compiled: fewer are not worth a call of their own."""
LEAST_SHARE = 2 / 3
"""The least share of a graph's ops that must have fixed sizes."""

Answer = Callable[[GraphModule, Sequence[Any]], "Callable[..., Any] | None"]


def sizes_apart(module: GraphModule, answer: Answer) -> Callable[..., Any] | None:
    """Return a graph whose pieces with fixed sizes are replaced by what ``answer`` makes of them
    (if anything); None if these are not most of the graph."""
    ops = [n for n in module.graph.nodes if n.op.startswith("call_")]
    sized = {n for n in ops if computes_with_sizes(n)}
    if not ops or len(ops) - len(sized) < LEAST_SHARE * len(ops):
        return None
    places = _places(ops, sized)
    whole = cut(module, lambda node: places.get(node, 0))
    for call, piece in pieces_of(whole):
        inputs = piece.graph.find_nodes(op="placeholder")
        examples = examples_of(inputs)
        inside = [n for n in piece.graph.nodes if n.op.startswith("call_")]
        if examples is None or len(inside) < LEAST_OPS or any(map(computes_with_sizes, inside)):
            continue
        eager = another(piece).forward
        found = answer(another(piece), examples)
        if found is not None:
            tensors = [i for i, x in enumerate(examples) if isinstance(x, torch.Tensor)]
            made = {i: examples[i].stride() for i in tensors if _is_made(call.args[i])}
            piece.forward = _Piece(found, eager, made)
    return whole.forward


def computes_with_sizes(node: Node) -> bool:
    """Return whether a size of an operand or of a result may be another one in another call."""
    if not node.op.startswith("call_"):
        return False
    values = (example_of(n) for n in (node, *node.all_input_nodes))
    return any(map(_varies, _flat(values)))


def _varies(x: Any) -> bool:
    if isinstance(x, torch.Tensor):
        return any(map(_varies, (*x.shape, *x.stride(), x.storage_offset())))
    return isinstance(x, torch.SymInt | torch.SymFloat | torch.SymBool)


def _flat(values: Any) -> Iterator[Any]:
    for x in values:
        if isinstance(x, tuple | list) and not isinstance(x, torch.Size):
            yield from _flat(x)
        else:
            yield x


def _places(ops: Sequence[Node], sized: set[Node]) -> dict[Node, int]:
    """Return numbers of runs of ops, all of which are sized or none."""
    places: dict[Node, int] = {}
    place = 0
    for before, node in zip((None, *ops), ops):
        place += before is not None and (before in sized) != (node in sized)
        places[node] = place
    return places


def _is_made(x: Any) -> bool:
    """Return whether an argument is a result of another piece."""
    return isinstance(x, Node) and x.op not in ("placeholder", "get_attr")


class _Piece:
    """A compiled piece. PyTorch may give a result of another piece other strides than when the
    graph was traced, as its kernels depend on sizes; then it runs this piece as well."""

    def __init__(
        self,
        found: Callable[..., Any],
        eager: Callable[..., Any],
        strides: dict[int, tuple[int, ...]],
    ) -> None:
        self._found, self._eager, self._strides = found, eager, strides

    def __call__(self, *inputs: Any) -> Any:
        as_traced = all(inputs[i].stride() == s for i, s in self._strides.items())
        return (self._found if as_traced else self._eager)(*inputs)
