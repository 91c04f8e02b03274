"""Ops on tensors with a size that keeps changing, apart from the rest of a graph.

A cache that grows with each token has another size in each call. PyTorch computes everything that
depends on it (it appends to the cache), except for attention to the cache, which is a separate
piece (:mod:`mirage.torch.growing_attention`). The graph is cut around these ops; the rest, whose
sizes are fixed, is compiled once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from mirage.torch.attention_ops import attention_group
from mirage.torch.graph_pieces import another, cut, example_of, examples_of, pieces_of
from mirage.torch.growing_attention import Answer, attention_apart, growing_attention

LEAST_OPS = 5
"""The fewest ops of a piece that is compiled: fewer are not worth a separate call."""
LEAST_SHARE = 2 / 3
"""The least share of a graph's ops that must have fixed sizes."""


def sizes_apart(module: GraphModule, answer: Answer) -> Callable[..., Any] | None:
    """Return a graph whose pieces with fixed sizes, and attention to growing caches, are replaced
    by the results of ``answer`` (if there are any); None if most sizes are not fixed."""
    apart, groups = attention_apart(module)
    ops = [n for n in apart.graph.nodes if n.op.startswith("call_")]
    kinds = [groups.get(n, computes_with_sizes(n)) for n in ops]
    if not ops or kinds.count(True) > (1 - LEAST_SHARE) * len(ops):
        return None
    places = _places(ops, kinds)
    whole = cut(apart, lambda node: places.get(node, 0))
    for call, piece in pieces_of(whole):
        found = _attention(piece, answer) or _fixed(call, piece, answer)
        if found is not None:
            piece.forward = found
    return whole.forward


def _attention(piece: GraphModule, answer: Answer) -> Callable[..., Any] | None:
    """Return the replacement of a piece that is an attention to a growing cache."""
    attends = any(map(attention_group, piece.graph.nodes))
    return growing_attention(piece, answer) if attends else None


def _fixed(call: Node, piece: GraphModule, answer: Answer) -> Callable[..., Any] | None:
    """Return the replacement of a piece with fixed sizes, called by ``call``."""
    examples = examples_of(piece.graph.find_nodes(op="placeholder"))
    inside = [n for n in piece.graph.nodes if n.op.startswith("call_")]
    if examples is None or len(inside) < LEAST_OPS or any(map(computes_with_sizes, inside)):
        return None
    eager = another(piece).forward
    found = answer(another(piece), examples, "for any size of the rest")
    if found is None:
        return None
    tensors = [i for i, x in enumerate(examples) if isinstance(x, torch.Tensor)]
    made = {i: examples[i].stride() for i in tensors if _is_made(call.args[i])}
    return _Piece(found, eager, made)


def computes_with_sizes(node: Node) -> bool:
    """Return whether a size of an operand or of a result may differ between calls."""
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


def _places(ops: Sequence[Node], kinds: Sequence[object]) -> dict[Node, int]:
    """Return, for each op, the number of its run of ops of one kind."""
    places: dict[Node, int] = {}
    place = 0
    for before, kind, node in zip((None, *kinds), kinds, ops):
        place += before is not None and before != kind
        places[node] = place
    return places


def _is_made(x: Any) -> bool:
    """Return whether an argument is a result of another piece."""
    return isinstance(x, Node) and x.op not in ("placeholder", "get_attr")


class _Piece:
    """A compiled piece. PyTorch may give a result of another piece other strides than when the
    graph was traced, as its kernels depend on sizes; then it runs this piece as well. Strides of
    dimensions of size 1 do not matter."""

    def __init__(
        self,
        found: Callable[..., Any],
        eager: Callable[..., Any],
        strides: dict[int, tuple[int, ...]],
    ) -> None:
        self._found, self._eager, self._strides = found, eager, strides

    def __call__(self, *inputs: Any) -> Any:
        as_traced = all(_are_strides(inputs[i], s) for i, s in self._strides.items())
        return (self._found if as_traced else self._eager)(*inputs)


def _are_strides(x: torch.Tensor, strides: tuple[int, ...]) -> bool:
    found = x.stride()
    return found == strides or all(
        a == b or n == 1 for a, b, n in zip(found, strides, x.shape, strict=True)
    )
