"""Regions of autocast in a graph, written as the casts that they make.

PyTorch decides which operands autocast casts, and it differs between kinds of devices. So the graph
is traced once, on fake tensors that are on the same devices: the traced graph has the casts as ops,
and no regions. The devices need not exist in this process. Attention as a single op would be traced
as one of PyTorch's kernels, so it is decomposed instead.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.amp import autocast_mode
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention import SDPBackend, sdpa_kernel

from mirage.frontend.torch_import.capture.kept_state import kept_state

_REGION = getattr(autocast_mode, "_enter_autocast", None)


@kept_state
def with_explicit_casts(
    module: GraphModule,
    inputs: Sequence[Any],
    homes: Mapping[str, torch.device] | None = None,
) -> GraphModule:
    """Return the graph for inputs like these without regions of autocast; the graph itself if it
    has none. If its device does not exist here, ``homes`` gives the devices of the tensors that the
    graph holds elsewhere."""
    if not has_regions(module):
        return module
    moved = {} if homes is None else _moved(module, homes)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode, torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        fakes = [_fake(x, x.device) if isinstance(x, torch.Tensor) else x for x in inputs]
        fakes += [_fake(x, home) for x, home in moved.values()]
        traced = make_fx(_given(module, list(moved)))(*fakes)
    for i, (x, _) in enumerate(moved.values()):
        _hold(traced, len(inputs), f"moved_{i}", x)
    traced.recompile()
    return traced


def has_regions(module: GraphModule) -> bool:
    """Return whether a graph has regions of autocast."""
    nodes = module.graph.nodes
    return any(node.op == "call_function" and node.target is _REGION for node in nodes)


def enter(kind: str, dtype: torch.dtype | None, enabled: bool, cached: bool | None) -> Any:
    """Enter a region of autocast for a kind of devices. PyTorch disables it without a GPU; here it
    still has its effect on fake tensors of a GPU."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "CUDA is not available", UserWarning)
        region = torch.autocast(kind, dtype, enabled, cached)
    region.__enter__()
    if kind == "cuda":
        torch.set_autocast_enabled(kind, enabled)
    return region


def _fake(x: torch.Tensor, device: torch.device) -> torch.Tensor:
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=device)


def _moved(
    module: GraphModule, homes: Mapping[str, torch.device]
) -> dict[Node, tuple[torch.Tensor, torch.device]]:
    """Return the tensors with known elements that belong to a device that does not exist here
    (tensors that the graph holds, and literals), and those devices."""
    found: dict[Node, tuple[torch.Tensor, torch.device]] = {}
    for node in module.graph.nodes:
        if node.op == "get_attr" and node.target in homes:
            owner, _, name = str(node.target).rpartition(".")
            found[node] = getattr(module.get_submodule(owner), name), homes[str(node.target)]
        elif node.target is torch.tensor and not node.all_input_nodes:
            named = dict(node.kwargs)
            home: Any = torch.device(named.pop("device", None) or "cpu")
            if home.type != "cpu":
                found[node] = torch.tensor(*node.args, **named), home
    return found


def _given(module: GraphModule, nodes: Sequence[Node]) -> GraphModule:
    """Return the graph with these nodes as its last inputs."""
    graph, copies = Graph(), dict[Node, Node]()
    for node in module.graph.find_nodes(op="placeholder"):
        copies[node] = graph.node_copy(node)
    copies.update((node, graph.placeholder(f"moved_{i}")) for i, node in enumerate(nodes))
    for node in module.graph.nodes:
        if node not in copies:
            copies[node] = graph.node_copy(node, copies.__getitem__)
            if node.target is _REGION:
                copies[node].target = enter
    return GraphModule(module, graph)


def _hold(traced: GraphModule, place: int, name: str, x: torch.Tensor) -> None:
    """Make the input at a place a tensor that the graph holds."""
    graph = traced.graph
    node = graph.find_nodes(op="placeholder")[place]
    setattr(traced, name, x)
    with graph.inserting_after(node):
        node.replace_all_uses_with(graph.create_node("get_attr", name))
    graph.erase_node(node)
