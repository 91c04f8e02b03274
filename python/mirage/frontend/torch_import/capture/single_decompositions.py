"""Decompositions of single ops of a captured program.

PyTorch's own conversion traces the whole program again, several times. Here the definition of one
op is traced, and takes the op's place in the graph. Ops with equal arguments are traced once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._ops import OpOverload
from torch.export import ExportedProgram, exported_program
from torch.fx import Graph, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_arg

_OVERRIDE: Any = getattr(exported_program, "_override_composite_implicit_decomp", None)
Definitions = Mapping[Any, Callable[..., Any]]


def decompose_nodes(
    exported: ExportedProgram,
    composite: Definitions,
    others: Definitions,
    stays: Callable[[Node], bool],
) -> bool:
    """Replace each op of ``exported`` that does not stay by its definition. Return whether that was
    possible; if not, some ops remain.

    It is possible for ops on tensors whose definitions contain only ops that stay, in a program
    without writes and complex numbers. ``composite`` are definitions of composite ops other than
    PyTorch's own (to stay whole, above all), and ``others`` those of other ops."""
    graph = exported.graph
    found = [node for node in graph.nodes if not stays(node)]
    if any(_writes(node) or _is_complex(node) for node in graph.nodes):
        return False
    if _OVERRIDE is None or not all(map(_is_plain, found)):
        return False
    known: dict[Hashable, Graph | None] = {}
    with _OVERRIDE(dict(composite)), enable_python_dispatcher():
        for node in found:
            call = _call(node)
            if call not in known:
                known[call] = _definition(node, others, stays)
            made = known[call]
            if made is None:
                return False
            _put_in_place(exported, node, made)
    return True


def _writes(node: Node) -> bool:
    target: Any = node.target
    return isinstance(target, OpOverload) and target._schema.is_mutable  # pyright: ignore[reportPrivateUsage]


def _is_complex(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.is_complex()


def _is_plain(node: Node) -> bool:
    """Return whether a node is an op from tensors to tensors."""
    results = node.meta.get("val")
    values = [n.meta.get("val") for n in node.all_input_nodes]
    values += results if isinstance(results, list | tuple) else [results]
    tensors = all(isinstance(x, torch.Tensor) for x in values)
    return isinstance(node.target, OpOverload) and bool(node.all_input_nodes) and tensors


def _call(node: Node) -> Hashable:
    """Return a key that is equal for ops that are called with the same numbers and with tensors of
    the same types."""
    names = {n: f"%{i}" for i, n in enumerate(node.all_input_nodes)}
    kinds = tuple(
        (x.shape, x.dtype, x.stride(), x.storage_offset(), x.device)
        for x in (n.meta["val"] for n in node.all_input_nodes)
    )
    return node.target, repr(map_arg((node.args, node.kwargs), names.__getitem__)), kinds


def _definition(node: Node, others: Definitions, stays: Callable[[Node], bool]) -> Graph | None:
    """Return the definition of an op, whose inputs are those of the node; None if it has none."""
    inputs = node.all_input_nodes
    target: Any = node.target
    mode = inputs[0].meta["val"].fake_mode

    def called(*given: torch.Tensor) -> Any:
        own = dict(zip(inputs, given, strict=True))
        args, kwargs = map_arg((node.args, node.kwargs), own.__getitem__)
        return target(*args, **kwargs)

    with mode:
        # a separate copy for each: otherwise the results of equal calls would be one tensor
        values = [n.meta["val"].detach() for n in inputs]
        try:
            graph = make_fx(called, decomposition_table=dict(others))(*values).graph
        except Exception:  # PyTorch reports any error again for the whole program
            return None
    allowed = all(stays(n) and not _writes(n) for n in graph.nodes)
    return graph if allowed else None


def _put_in_place(exported: ExportedProgram, node: Node, made: Graph) -> None:
    """Replace an op by its definition."""
    graph = exported.graph
    own = dict(zip(made.find_nodes(op="placeholder"), node.all_input_nodes, strict=True))
    about = {key: x for key, x in node.meta.items() if key not in ("val", "tensor_meta")}
    with graph.inserting_before(node):
        for inner in made.nodes:
            if inner.op == "call_function":
                own[inner] = graph.node_copy(inner, own.__getitem__)
                own[inner].meta = {**inner.meta, **about}
    results: Any = map_arg(made.output_node().args[0], own.__getitem__)
    if isinstance(results, Node):
        _replace(exported, node, results)
    else:
        for user in list(node.users):  # each node takes one of several results
            _replace(exported, user, results[user.args[1]])
            graph.erase_node(user)
    graph.erase_node(node)


def _replace(exported: ExportedProgram, node: Node, other: Node) -> None:
    node.replace_all_uses_with(other)
    exported.graph_signature.replace_all_uses(node.name, other.name)
