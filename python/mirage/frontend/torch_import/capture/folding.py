"""Values that depend on no input and no parameter are computed when a program is imported.

Models create ranges, masks, rotary tables and literals in each call, from nothing or from buffers
that no ``state_dict`` has. PyTorch evaluates them here once, before the table of rows is used; ops
that only they need are removed, so these need no rows.

A tensor that is much larger than its sources (such as a mask that compares two ranges) stays in its
written form: kernels compute it from positions instead of reading it.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.node import map_arg

from mirage.frontend.torch_import.capture.exact_numbers import exact_numbers
from mirage.frontend.torch_import.known_tensors.formulas import line_along
from mirage.frontend.torch_import.known_tensors.interval_masks import intervals_of

MOST_BYTES = 1 << 26
"""The most bytes of one tensor; larger ones are computed in each call."""
MOST_TOTAL = 1 << 28
SMALL_BYTES = 1 << 16
"""The bytes up to which a tensor is read, whatever it was computed from."""

_SYMBOLIC = frozenset(
    f"aten.{name}"
    for name in (
        *(f"{fn}.Tensor" for fn in ("lt", "le", "gt", "ge", "eq", "ne")),
        *(f"{fn}.Scalar" for fn in ("lt", "le", "gt", "ge", "eq", "ne")),
        *(f"bitwise_{fn}.Tensor" for fn in ("and", "or", "xor")),
        "bitwise_not.default",
        *(f"logical_{fn}.default" for fn in ("and", "or", "xor", "not")),
        "add.Tensor", "sub.Tensor", "mul.Tensor", "expand.default", "unsqueeze.default",
        "view.default", "_unsafe_view.default", "reshape.default", "clone.default",
        "_to_copy.default", "where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar",
        "masked_fill.Scalar", "floor_divide.default", "remainder.Scalar", "remainder.Tensor",
        "alias.default", "lift_fresh_copy.default",
    )
)  # fmt: skip
"""The ops of masks, which kernels compute: elementwise ops and views."""


def fold(graph: torch.fx.Graph, given: Mapping[torch.fx.Node, torch.Tensor]) -> list[Any]:
    """Replace the values that depend only on ``given`` placeholders by new placeholders, after the
    existing ones; return (node, tensor) for each of them."""
    known = _evaluated(graph, given)
    exact = exact_numbers(graph, known)
    wanted = dict.fromkeys(
        node
        for user in graph.nodes
        if user not in known
        for node in user.all_input_nodes
        if node in known and node.op != "placeholder"
    )
    constants: dict[torch.fx.Node, None] = {}
    pending = list(wanted)
    seen: set[torch.fx.Node] = set()
    while pending:
        node = pending.pop(0)
        if node in seen or node.op == "placeholder":
            continue
        seen.add(node)
        if _stays(node, known) and not _sees_intervals(node, known):
            pending.extend(n for n in node.all_input_nodes if n in known)
        elif isinstance(known[node], torch.Tensor):
            constants[node] = None
        else:  # an op with several results: the results that are read
            pending.extend(user for user in node.users if user in known)
    return [_replace(graph, n, exact[n] if n in exact else known[n]) for n in constants]


def _evaluated(
    graph: torch.fx.Graph, given: Mapping[torch.fx.Node, torch.Tensor]
) -> dict[torch.fx.Node, Any]:
    known: dict[torch.fx.Node, Any] = dict(given)
    total = 0
    for node in graph.nodes:
        if node.op == "get_attr":  # a literal that PyTorch's decompositions have made
            held: Any = getattr(graph.owning_module, str(node.target), None)
            known.update({node: held} if isinstance(held, torch.Tensor) else {})
        if node.op != "call_function" or not pure(node.target):
            continue
        if not all(n in known for n in node.all_input_nodes):
            continue
        if node.target is not operator.getitem and not is_small(node):
            continue
        args, kwargs = (map_arg(x, known.__getitem__) for x in (node.args, node.kwargs))
        try:
            with torch.no_grad():
                result = node.target(*args, **kwargs)
        except Exception:  # values that PyTorch cannot compute here are not folded
            continue
        made = list(result) if isinstance(result, list | tuple) else [result]
        if not all(isinstance(x, torch.Tensor) for x in made):
            continue
        total += sum(_bytes(x) for x in made)
        if total > MOST_TOTAL:
            break
        known[node] = result
    return known


def is_small(node: torch.fx.Node) -> bool:
    """Return whether all results of an op are tensors that may be computed at import."""
    value: Any = node.meta.get("val")
    parts: Any = value if isinstance(value, list | tuple) else [value]
    return all(isinstance(v, torch.Tensor) and _bytes(v) <= MOST_BYTES for v in parts)


def is_large(x: torch.Tensor) -> bool:
    """Return whether kernels should compute a tensor, if they can, instead of reading it."""
    return _bytes(x) > SMALL_BYTES


def _bytes(x: torch.Tensor) -> int:
    return x.numel() * x.element_size()


def pure(target: Any) -> bool:
    """Return whether the same arguments always give the same result, without side effects."""
    if target is operator.getitem:
        return True
    if not isinstance(target, OpOverload):
        return False
    schema: Any = target._schema  # pyright: ignore[reportPrivateUsage]
    return (
        not schema.is_mutable
        and torch.Tag.nondeterministic_seeded not in target.tags
        and "empty" not in schema.name
    )


def _stays(node: torch.fx.Node, known: Mapping[torch.fx.Node, Any]) -> bool:
    """Return whether an op stays in its written form: its result is large, and its operands are
    not."""
    value = known[node]
    if not isinstance(value, torch.Tensor) or not is_large(value):
        return False
    if value.is_complex() or str(node.target) not in _SYMBOLIC:
        return False
    read = sum(_bytes(known[n]) for n in node.all_input_nodes if n in known)
    large = any(is_large(known[n]) for n in node.all_input_nodes)
    return 2 * read <= _bytes(value) or (large and _made(node, known))


def _sees_intervals(node: torch.fx.Node, known: Mapping[torch.fx.Node, Any]) -> bool:
    """Return whether a mask that compares integers other than positions (the documents of tokens)
    is better described by the interval that each row sees."""
    sources, pending = set[torch.fx.Node](), [node]
    while pending:
        at = pending.pop()
        operands = at.all_input_nodes if is_large(known[at]) else []
        pending.extend(operands)
        sources.update(() if operands else (at,))
    lines = (line_along(known[n]) for n in sources if known[n].numel() > 1)
    return not all(lines) and intervals_of(known[node]) is not None


def _made(node: torch.fx.Node, known: Mapping[torch.fx.Node, Any]) -> bool:
    """Return whether all large operands of an op stay in their written form too."""
    return all(
        n.op != "placeholder" and _stays(n, known)
        for n in node.all_input_nodes
        if is_large(known[n])
    )


def _replace(
    graph: torch.fx.Graph, node: torch.fx.Node, value: torch.Tensor
) -> tuple[torch.fx.Node, torch.Tensor]:
    last = (
        next(n for n in reversed(graph.nodes) if n.op == "placeholder")
        if any(n.op == "placeholder" for n in graph.nodes)
        else None
    )
    with (
        graph.inserting_after(last)
        if last is not None
        else graph.inserting_before(next(iter(graph.nodes)))
    ):
        placeholder = graph.placeholder(f"folded_{node.name}")
    placeholder.meta = dict(node.meta)
    if not isinstance(node.meta.get("val"), FakeTensor):  # a literal
        placeholder.meta["val"] = FakeTensorMode().from_tensor(value)
    node.replace_all_uses_with(placeholder)
    return placeholder, value
