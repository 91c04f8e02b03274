"""Regions of autocast in a graph, written as the casts that they make.

PyTorch decides which operands autocast casts, and it differs between kinds of devices. So the graph
is traced once, on fake tensors that are on the same devices: the traced graph has the casts as ops,
and no regions. Attention as a single op would be traced as a kernel of PyTorch's, so it is
decomposed instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.amp import autocast_mode
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention import SDPBackend, sdpa_kernel

_REGION = getattr(autocast_mode, "_enter_autocast", None)


def with_explicit_casts(module: GraphModule, inputs: Sequence[Any]) -> GraphModule:
    """Return the graph for inputs like these without regions of autocast; the graph itself if it
    has none."""
    if not has_regions(module):
        return module
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode, torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        fakes = [
            torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)
            if isinstance(x, torch.Tensor)
            else x
            for x in inputs
        ]
        return make_fx(module)(*fakes)


def has_regions(module: GraphModule) -> bool:
    """Return whether a graph has regions of autocast."""
    nodes = module.graph.nodes
    return any(node.op == "call_function" and node.target is _REGION for node in nodes)
