"""Errors for constructs that a program of fixed ops on tensors of fixed shapes cannot express. Each
error names the op and its line."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch._ops import HigherOrderOperator

from mirage.frontend.errors import DynamicShapeError, UnsupportedOpError
from mirage.frontend.location import user_location
from mirage.frontend.torch_import.capture.places import place_of

_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)


def check_static(graph: torch.fx.Graph) -> None:
    """Raise :class:`DynamicShapeError` if a shape or number depends on the contents of tensors, or
    if a shape is not fixed."""
    for node in graph.nodes:
        value: Any = node.meta.get("val")
        for part in value if isinstance(value, list | tuple) else (value,):
            if isinstance(part, _NUMBERS) and node.op != "placeholder":
                raise DynamicShapeError(
                    f"{_name(node)} gives a number that depends on the data, expected a fixed "
                    "one; keep it in a tensor of rank 0",
                    place_of(node),
                )
            sizes: list[object] = list(getattr(part, "shape", ()))
            if not all(isinstance(n, int) for n in sizes):
                raise _no_fixed_shape(node, ", ".join(map(str, sizes)))


def _no_fixed_shape(node: torch.fx.Node, shape: str) -> DynamicShapeError:
    if node.op == "placeholder":
        return DynamicShapeError(
            f"expected fixed shapes, got ({shape}) for {node.name!r}; export without "
            "dynamic_shapes",
            user_location(),
        )
    return DynamicShapeError(
        f"{_name(node)} gives a tensor of shape ({shape}), which depends on the data, expected "
        "fixed shapes; keep all elements and choose among them (torch.where)",
        place_of(node),
    )


def check_control_flow(graph: torch.fx.Graph) -> None:
    """Raise :class:`UnsupportedOpError` for an op that runs functions."""
    for node in graph.nodes:
        if isinstance(node.target, HigherOrderOperator):
            name = str(node.target)
            error = UnsupportedOpError(
                f"{name} runs functions, expected ops on tensors; compute what it chooses from "
                "and choose by torch.where",
                place_of(node),
            )
            error.op = name
            raise error


def _name(node: torch.fx.Node) -> str:
    """Return the op that computes a node."""
    while node.target is operator.getitem and isinstance(node.args[0], torch.fx.Node):
        node = node.args[0]
    return str(node.target)
