"""GPU graphs imported on a machine without a GPU: the same graph for tensors on the host.

A graph's computation does not depend on its device, but the graph names its device where it creates
or moves tensors, and it holds tensors there.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from mirage.frontend.program import Program

HOST = torch.device("cpu")


class OnHost:
    """The graph ``module``, whose tensors are on ``device``, converted to tensors on the host."""

    def __init__(self, module: torch.fx.GraphModule, device: torch.device) -> None:
        self.device = device
        self.module = module
        self._originals: dict[int, torch.Tensor] = {}  # by the id of the copy
        self._copies: list[torch.Tensor] = []
        if device.type == HOST.type:
            return
        for node in module.graph.nodes:
            self._move(node)
        module.recompile()

    def on_device(self, program: Program, moved: bool = True) -> Program:
        """Return the imported program with the graph's own tensors in place of their copies,
        and those that were made at the import on the device, if they are to be ``moved``."""
        parameters = tuple(replace(p, data=self._there(p.data, moved)) for p in program.parameters)
        return replace(program, parameters=parameters)

    def _there(self, data: Any, moved: bool) -> Any:
        original = self._originals.get(id(data))
        if original is not None:
            return original
        return data.to(self.device) if moved else data

    def _move(self, node: torch.fx.Node) -> None:
        if node.op == "get_attr":
            self._hold(str(node.target))
        elif node.op == "call_method" and node.target == self.device.type:  # x.cuda()
            node.target, node.args, node.kwargs = "cpu", node.args[:1], {}
        elif node.op.startswith("call_"):
            node.args = torch.fx.node.map_aggregate(node.args, self._name)  # type: ignore[assignment]
            node.kwargs = torch.fx.node.map_aggregate(node.kwargs, self._name)  # type: ignore[assignment]

    def _name(self, argument: Any) -> Any:
        """Return an argument with the host in place of the device."""
        if isinstance(argument, torch.device):
            return HOST if argument.type == self.device.type else argument
        named = isinstance(argument, str) and re.fullmatch(rf"{self.device.type}(:\d+)?", argument)
        return HOST.type if named else argument

    def _hold(self, path: str) -> None:
        """Replace a tensor that the graph holds by a copy on the host."""
        owner_path, _, name = path.rpartition(".")
        owner = self.module.get_submodule(owner_path)
        x = getattr(owner, name)
        if not isinstance(x, torch.Tensor) or x.device.type == HOST.type:
            return
        copy: torch.Tensor = x.detach().to(HOST)
        if isinstance(x, torch.nn.Parameter):
            copy = torch.nn.Parameter(copy, requires_grad=False)
        setattr(owner, name, copy)
        self._originals[id(copy)] = x
        self._copies.append(copy)  # an id belongs to one object as long as the object exists


def move(x: torch.Tensor, device: torch.device) -> None:
    """Move a tensor to a device; it remains the same object."""
    if x.device != device:
        with torch.inference_mode(False):  # the tensor was made outside of it
            x.data = x.data.to(device)


def with_outputs(module: torch.fx.GraphModule, wanted: Sequence[int]) -> torch.fx.GraphModule:
    """Return the graph with only some of its results."""
    graph = torch.fx.Graph()
    values: dict[torch.fx.Node, Any] = {}
    found: Any = graph.graph_copy(module.graph, values)
    flat = list(found) if isinstance(found, tuple | list) else [found]
    graph.output(tuple(flat[i] for i in wanted))
    return torch.fx.GraphModule(module, graph)
