"""Where each op of a graph runs: on the device of its tensors, or only in PyTorch. Only PyTorch
runs ops on several devices, including moves between devices, and ops that read an element of a
tensor as a number, since the places of their results in memory depend on it.
"""

from __future__ import annotations

import logging
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch.fx import Graph, Node
from torch.fx.node import map_arg
from torch.utils._pytree import tree_map

from mirage.torch.graph_pieces import example_of
from mirage.torch.regions import regions_of, transforms_tensors

log = logging.getLogger("mirage.torch")

INSIDE = ("flex_attention", "tag_activation_checkpoint")
"""Ops that run functions and are imported as the computation of these functions."""
PYTORCH = "PyTorch"
"""Marks, in place of a device, that only PyTorch can run the op."""


def runs_functions(node: Node) -> bool:
    """Return whether the result of an op depends on the functions that it runs."""
    return isinstance(node.target, HigherOrderOperator) and str(node.target) not in INSIDE


def homes_of(graph: Graph) -> Mapping[Node, str]:
    """Return for each op the device that it runs on, or :data:`PYTORCH`. Ops that compute numbers,
    or tensors that depend on no input and are not returned, may run on any device; they run where
    the next op runs."""
    varies: set[Node] = set(graph.find_nodes(op="placeholder"))
    (output,) = graph.find_nodes(op="output")
    shown = {*varies, *output.all_input_nodes}
    found: dict[Node, str] = {}
    ops = [n for n in graph.nodes if n.op.startswith("call_")]
    regions = list(regions_of(graph))
    transformed = {n for region in regions if transforms_tensors(region) for n in region}
    for node in ops:
        if not varies.isdisjoint(node.all_input_nodes):
            varies.add(node)
            shown.add(node)
        found[node] = _home(node, shown, may_read=node not in transformed)
    for region in regions:
        inside = [n for n in region if n in found]
        homes = {found[n] for n in inside} - {""}
        if len(homes) > 1 or PYTORCH in homes:
            found.update(dict.fromkeys(inside, PYTORCH))
        else:
            found.update(dict.fromkeys(inside, next(iter(homes), "")))
    home = next(filter(None, reversed(found.values())), "")
    for node in reversed(ops):
        home = found[node] = found[node] or home
    return found


def is_part(node: Node) -> bool:
    """Return whether a node selects one result of an op that has several."""
    return node.target is operator.getitem and isinstance(_example(node.args[0]), tuple | list)


def _home(node: Node, shown: set[Node], *, may_read: bool) -> str:
    if runs_functions(node) or (may_read and _reads_an_element(node)):
        return PYTORCH
    if node.target == "item":  # of a number that TorchDynamo passes in a tensor
        return ""
    seen = (n for n in (node, *node.all_input_nodes) if n in shown)
    devices = {str(x.device) for n in seen for x in _tensors(example_of(n))}
    return PYTORCH if len(devices) > 1 else next(iter(devices), "")


def _reads_an_element(node: Node) -> bool:
    """Return whether an op reads an integer in a tensor as a number, as views (``x[i]``) and sizes
    need it. Tensors without elements show it."""
    if not any(map(_is_an_integer, node.all_input_nodes)):
        return False
    try:
        with torch.inference_mode(False), torch.no_grad(), FakeTensorMode():
            args: Any = map_arg(node.args, _without_elements)
            kwargs: Any = map_arg(node.kwargs, _without_elements)
            if callable(node.target):
                node.target(*args, **kwargs)
            else:
                getattr(args[0], node.target)(*args[1:], **kwargs)
    except DataDependentOutputException:
        return True
    except Exception as error:  # the import will report it
        log.debug("why:", exc_info=error)
    return False


def _without_elements(node: Node) -> Any:
    def fake(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)

    return tree_map(fake, example_of(node))


def _is_an_integer(node: Node) -> bool:
    x = example_of(node)
    if not isinstance(x, torch.Tensor) or x.dim():
        return False
    return not (x.is_floating_point() or x.is_complex() or x.dtype is torch.bool)


def _example(x: Any) -> Any:
    return example_of(x) if isinstance(x, Node) else x


def _tensors(x: Any) -> Iterator[torch.Tensor]:
    if isinstance(x, torch.Tensor):
        yield x
    elif isinstance(x, Sequence) and not isinstance(x, str):
        for y in x:  # pyright: ignore[reportUnknownVariableType]
            yield from _tensors(y)
