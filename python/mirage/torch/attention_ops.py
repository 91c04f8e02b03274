"""The ops of a graph that are attention to a growing cache.

A cache grows along its last dimension but one, and masks and scores along their last one. An
attention is one op, or a product of scores with a cache after a softmax of the scores. It is
preceded by ops that treat each key separately, such as those that repeat heads: their results for a
longer cache begin with their results for a shorter one. The only ops that combine keys are a
softmax, which leaves out a key whose score is minus infinity, and the last product.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx import Node
from torch.nn.functional import scaled_dot_product_attention

from mirage.torch.graph_pieces import example_of

PARAMETERS = (
    "query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa",
)  # fmt: skip
_PRODUCTS = frozenset({"matmul", "bmm"})
_VIEWS = frozenset({
    "getitem", "expand", "reshape", "view", "unsqueeze", "contiguous", "flatten", "repeat",
    "repeat_interleave",
})  # fmt: skip
_OF_ELEMENTS = frozenset({
    "mul", "truediv", "div", "add", "sub", "neg", "tanh", "to", "float", "half", "bfloat16",
    "type_as", "masked_fill", "where",
})  # fmt: skip
_OF_WEIGHTS = frozenset({"to", "float", "half", "bfloat16", "type_as", "dropout", *_VIEWS})
"""Ops that do not change a weight of 0."""


def name_of(node: Node) -> str:
    """Return the name of an op, as a function or a method."""
    return str(getattr(node.target, "__name__", node.target)) if is_call(node) else ""


def is_call(node: Node) -> bool:
    """Return whether a node calls a function or a method."""
    return node.op in ("call_function", "call_method")


def arguments_of(node: Node) -> dict[str, Any] | None:
    """Return the arguments of an attention that is one op; None for other nodes."""
    if node.target is not scaled_dot_product_attention:
        return None
    return {**dict(zip(PARAMETERS, node.args)), **node.kwargs}


def is_dynamic(size: Any) -> bool:
    """Return whether a size may differ between calls."""
    return isinstance(size, torch.SymInt)


def is_fixed(x: Any) -> bool:
    """Return whether a value is a tensor of a fixed size."""
    return isinstance(x, torch.Tensor) and not any(map(is_dynamic, x.shape))


def grows(x: Any) -> bool:
    """Return whether only the last dimension but one of a tensor has no fixed size."""
    if not isinstance(x, torch.Tensor) or x.dim() < 2:
        return False
    *outer, length, width = x.shape
    return is_dynamic(length) and not any(map(is_dynamic, (*outer, width)))


def widens(x: Any) -> bool:
    """Return whether only the last dimension of a tensor has no fixed size."""
    if not isinstance(x, torch.Tensor) or not x.dim():
        return False
    *outer, length = x.shape
    return is_dynamic(length) and not any(map(is_dynamic, outer))


def is_softmax(node: Node) -> bool:
    """Return whether an op is a softmax along the last dimension."""
    if name_of(node) != "softmax" or not node.args or not widens(example_of(node)):
        return False
    dim = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else None)
    return dim in (-1, example_of(node).dim() - 1)


def attention_group(last: Node) -> list[Node]:
    """Return the ops of the attention that ends with ``last``, in order; none if it is not one."""
    if not is_call(last) or not is_fixed(example_of(last)):
        return []
    given = arguments_of(last)
    if given is not None:
        return _before(last) if _is_plain(given) else []
    if name_of(last) not in _PRODUCTS or len(last.args) != 2 or last.kwargs:
        return []
    weights, cache = last.args
    if not (isinstance(weights, Node) and isinstance(cache, Node)):
        return []
    if not (widens(example_of(weights)) and grows(example_of(cache))):
        return []
    group = _before(last)
    return group if _are_weights(weights, group) else []


def _is_plain(given: Mapping[str, Any]) -> bool:
    """Return whether an attention treats all keys alike, and keys and values grow together."""
    if given.get("is_causal") or given.get("dropout_p"):
        return False
    operands = (given.get(name) for name in PARAMETERS[:3])
    query, *caches = (example_of(x) if isinstance(x, Node) else None for x in operands)
    return is_fixed(query) and all(map(grows, caches))


def _are_weights(node: Node, group: list[Node]) -> bool:
    """Return whether a value is computed from a softmax of the group, so that it is 0 for a key
    that is left out."""
    while node in group:
        if is_softmax(node):
            return True
        if name_of(node) not in _OF_WEIGHTS or not isinstance(node.args[0], Node):
            return False
        node = node.args[0]
    return False


def _before(last: Node) -> list[Node]:
    """Return the last op of an attention, preceded by the ops that compute only for it, in order;
    none of them comes before an op that writes."""
    found = [last]
    node = last.prev
    while node.op != "root" and not _writes(node):
        if node.users and set(found).issuperset(node.users) and _by_keys(node):
            found.append(node)
        node = node.prev
    return found[::-1]


def _writes(node: Node) -> bool:
    name = name_of(node)
    in_place = name.endswith("_") and not name.endswith("__")
    return in_place or node.target is operator.setitem or "out" in node.kwargs


def _by_keys(node: Node) -> bool:
    """Return whether an op treats each key separately, or is a softmax of scores."""
    rule = _RULES.get(name_of(node))
    tensors = [example_of(x) for x in node.all_input_nodes]
    tensors = [x for x in tensors if isinstance(x, torch.Tensor)]
    y = example_of(node)
    return rule is not None and isinstance(y, torch.Tensor) and rule(node, tensors, y)


_Rule = Callable[[Node, "list[torch.Tensor]", torch.Tensor], bool]


def _view(node: Node, xs: list[torch.Tensor], y: torch.Tensor) -> bool:
    """A view or copy that keeps the growing dimension in its place, and with it all keys."""
    del node
    if len(xs) != 1:
        return False
    (x,) = xs
    if grows(x) and grows(y):
        return str(x.shape[-2]) == str(y.shape[-2]) and x.shape[-1] == y.shape[-1]
    return widens(x) and widens(y) and str(x.shape[-1]) == str(y.shape[-1])


def _turned(node: Node, xs: list[torch.Tensor], y: torch.Tensor) -> bool:
    """An exchange of the last two dimensions of a cache."""
    if len(xs) != 1 or not grows(xs[0]) or len(node.args) != 3:
        return False
    rank = y.dim()
    return {int(d) % rank for d in node.args[1:]} == {rank - 2, rank - 1}  # pyright: ignore


def _product(node: Node, xs: list[torch.Tensor], y: torch.Tensor) -> bool:
    """Scores: a product of queries with the keys of a cache."""
    return len(node.args) == 2 and len(xs) == 2 and is_fixed(xs[0]) and widens(xs[1]) and widens(y)


def _sum(node: Node, xs: list[torch.Tensor], y: torch.Tensor) -> bool:
    """Scores that are added to others: ``baddbmm(scores, queries, keys)``."""
    del node
    return len(xs) == 3 and widens(xs[0]) and is_fixed(xs[1]) and widens(xs[2]) and widens(y)


def _elements(node: Node, xs: list[torch.Tensor], y: torch.Tensor) -> bool:
    """A function of the elements of scores or masks at one place, and of numbers."""
    del node
    if not widens(y):
        return False
    length = str(y.shape[-1])
    return all(
        str(x.shape[-1]) == length
        if widens(x)
        else is_fixed(x) and (not x.dim() or x.shape[-1] == 1)
        for x in xs
    )


def _softmax(node: Node, xs: list[torch.Tensor], y: torch.Tensor) -> bool:
    return is_softmax(node) and _elements(node, xs, y)


def _dropout(node: Node, xs: list[torch.Tensor], y: torch.Tensor) -> bool:
    """A dropout with probability 0."""
    names = "input", "p", "training"
    given = {**dict(zip(names, node.args)), **node.kwargs}
    off = given.get("training") is False or given.get("p") == 0.0
    return bool(off) and _elements(node, xs, y)


_RULES: dict[str, _Rule] = {
    **dict.fromkeys(_VIEWS, _view),
    **dict.fromkeys(_OF_ELEMENTS, _elements),
    **dict.fromkeys(_PRODUCTS, _product),
    "baddbmm": _sum,
    "transpose": _turned,
    "softmax": _softmax,
    "dropout": _dropout,
}
