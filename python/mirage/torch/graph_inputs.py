"""The inputs of a graph of TorchDynamo: whether it can be compiled for them, and their sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from mirage.torch.compiled_graph import StaysEager


def is_dynamic(x: Any) -> bool:
    """Return whether an input is, or has, a size that is not known yet."""
    if isinstance(x, torch.Tensor):
        return any(isinstance(n, torch.SymInt) for n in (*x.shape, *x.stride()))
    return isinstance(x, torch.SymInt | int)


def is_sized(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> bool:
    """Return whether TorchDynamo has traced a graph for more than these inputs. Symbols that are
    only strides are not inputs of the graph; its placeholders have them."""
    traced = [n.meta.get("example_value") for n in module.graph.find_nodes(op="placeholder")]
    return any(map(is_dynamic, (*inputs, *traced)))


def told_sizes(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> str:
    """Describe the sizes of inputs that may vary."""
    told: list[str] = []
    for node, x in zip(module.graph.find_nodes(op="placeholder"), inputs, strict=True):
        if isinstance(x, torch.Tensor) and is_dynamic(node.meta.get("example_value")):
            told.append(str(tuple(x.shape)))
        elif isinstance(x, int):
            told.append(str(x))
    return ", ".join(dict.fromkeys(told))


def check_inputs(
    inputs: Sequence[Any], devices: Sequence[str] = ("cuda",), gradients: bool = False
) -> None:
    """Raise :class:`StaysEager` if a graph with these inputs cannot be compiled; it may be called
    with ``gradients`` within."""
    recorded = torch.is_grad_enabled() or (gradients and not torch.is_inference_mode_enabled())
    for i, x in enumerate(inputs):
        if isinstance(x, int):
            continue
        if not isinstance(x, torch.Tensor):
            raise StaysEager(f"input {i} is not a tensor but {x!r}")
        if x.device.type not in devices:
            raise StaysEager(f"input {i} is on {x.device}, expected {' or '.join(devices)}")
        if x.requires_grad and recorded:
            raise StaysEager(
                f"input {i} requires a gradient; use torch.no_grad() or inference_mode()"
            )
        if torch.is_autocast_enabled(x.device.type):
            raise StaysEager(f"autocast is on for {x.device.type}; convert the model instead")
