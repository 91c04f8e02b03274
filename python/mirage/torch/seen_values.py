"""Examples of the values in a graph, for inputs of fixed sizes."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import GraphModule, Interpreter, Node

from mirage.frontend.torch_import.capture.kept_state import kept_state
from mirage.torch.graph_pieces import example_of

log = logging.getLogger("mirage.torch")


def seen_values(module: GraphModule, inputs: Sequence[Any]) -> Mapping[Node, Any]:
    """Return an example of each node's value for inputs like these: tensors have no elements, and
    are as they were when the node had run. Nodes after one that fails have TorchDynamo's examples,
    if they have any."""
    found: dict[Node, Any] = {}
    try:
        _run(module, inputs, found)
    except Exception as error:  # any op may fail in any way
        log.debug("the values of a graph are known up to an op only", exc_info=error)
    for node in module.graph.nodes:
        if node not in found and (example := example_of(node)) is not None:
            found[node] = example
    return found


@kept_state
def _run(module: GraphModule, inputs: Sequence[Any], found: dict[Node, Any]) -> None:
    """Run a graph on tensors without elements, and collect its values as ``found``."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with torch.inference_mode(False), torch.no_grad(), mode:
        _Recorder(module, found).run(*(_alike(x) for x in inputs))


class _Recorder(Interpreter):
    """Runs a graph and records its values."""

    def __init__(self, module: GraphModule, found: dict[Node, Any]) -> None:
        super().__init__(module)
        self.found = found

    def run_node(self, n: Node) -> Any:
        """Run a node, and record a value like its own, which later ops may change."""
        value = super().run_node(n)
        with suppress(Exception):  # tensors of transforms, which are not used outside of these
            self.found[n] = _alike(value)
        return value


def _alike(x: Any) -> Any:
    if isinstance(x, tuple | list):
        return tuple(map(_alike, x))  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if not isinstance(x, torch.Tensor) or x.layout is not torch.strided or x.is_quantized:
        return x
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)
