"""Numbers of a program that change from call to call: a temperature, a scale.

TorchDynamo passes such a Python float as a tensor without dimensions on the host, from which the
graph takes the number (``item``). Computations that involve only such numbers are Python
arithmetic, which is done in each call exactly as in the graph. Each number that is combined with a
tensor becomes an input instead, a tensor without dimensions on the device, so that one compiled
graph serves all numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from mirage.torch.compiled_graph import StaysEager
from mirage.torch.graph_pieces import example_of


class ChangingNumbers:
    """The graph ``module`` without the arithmetic of the numbers that it is ``given``, by their
    places among its inputs; it takes inputs in place of numbers. Raises :class:`StaysEager` if
    a tensor would not have the same effect as the number."""

    def __init__(
        self, module: GraphModule, given: Mapping[Node, int], device: torch.device
    ) -> None:
        self._given, self._device = tuple(given.values()), device
        inside = arithmetic(module, given)
        met = [n for n in inside if any(user not in inside for user in n.users)]
        self._types = [type_of(number, inside) for number in met]
        self._numbers = numbers_alone(module, inside, given, met)
        self.module = _with_inputs(module, inside, given, dict(zip(met, self._types, strict=True)))

    def examples(self, inputs: Sequence[Any]) -> list[Any]:
        """Return inputs of the new graph that correspond to these, for any numbers."""
        return self._beside(inputs, [0.0] * len(self._types))

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the inputs of the new graph for inputs of the old one."""
        return self._beside(inputs, self._numbers(*(inputs[i] for i in self._given)))

    def _beside(self, inputs: Sequence[Any], numbers: Sequence[float]) -> list[Any]:
        others = [x for i, x in enumerate(inputs) if i not in self._given]
        entries = zip(numbers, self._types, strict=True)
        # filled on the device: no copy and no wait
        return others + [
            torch.full((), _in_type(x, t), dtype=t, device=self._device) for x, t in entries
        ]


def _in_type(number: float, dtype: torch.dtype) -> float:
    """Return a number as PyTorch combines it with tensors: infinite if it is too large for the
    type."""
    largest = torch.finfo(dtype).max
    return number if abs(number) <= largest else number * math.inf


def changing_numbers(module: GraphModule, inputs: Sequence[Any]) -> ChangingNumbers | None:
    """Return the changing numbers of a graph, or None. Raises :class:`StaysEager`."""
    given = given_numbers(module, inputs)
    if not given:
        return None
    tensors = (x for x in inputs if isinstance(x, torch.Tensor) and x.dim())
    device = next((x.device for x in tensors), torch.device("cpu"))
    return ChangingNumbers(module, given, device)


def given_numbers(module: GraphModule, inputs: Sequence[Any]) -> dict[Node, int]:
    """Return the numbers among a graph's inputs, with their places."""
    places = enumerate(zip(module.graph.find_nodes(op="placeholder"), inputs, strict=True))
    return {node: i for i, (node, x) in places if _is_number(node, x)}


def _is_number(node: Node, x: Any) -> bool:
    if not isinstance(x, torch.Tensor) or x.dim() or x.dtype is not torch.float64:
        return False
    taken = [user.op == "call_method" and user.target == "item" for user in node.users]
    return x.device.type == "cpu" and bool(taken) and all(taken)


def arithmetic(module: GraphModule, given: Mapping[Node, int]) -> dict[Node, None]:
    """Return the ops that compute only with the numbers, in order."""
    found: dict[Node, None] = {}
    for node in module.graph.nodes:
        operands = node.all_input_nodes
        if not operands or node.op == "output" or isinstance(example_of(node), torch.Tensor):
            continue
        if all(n in given or n in found for n in operands):
            found[node] = None
    return found


def type_of(number: Node, inside: Mapping[Node, None]) -> torch.dtype:
    """Return the type in which a number is combined with tensors: f32, or f64 if that is the type
    of the result. Raises :class:`StaysEager` if a tensor would not have the same effect."""
    users = [user for user in number.users if user not in inside]
    results = [example_of(user) for user in users]
    if not all(isinstance(x, torch.Tensor) for x in results):
        raise StaysEager("a number that changes from call to call is a result, or meets a size")
    wide = any(x.dtype is torch.float64 for x in results)
    dtype = torch.float64 if wide else torch.float32
    operands = [example_of(n) for user in users for n in user.all_input_nodes]
    for x in operands:
        if not isinstance(x, torch.Tensor):
            continue
        like = torch.empty((1,) * x.dim(), dtype=x.dtype)
        if torch.result_type(like, 1.0) != torch.result_type(like, torch.empty((), dtype=dtype)):
            raise StaysEager(
                f"a number that changes from call to call meets a tensor of {x.dtype} with "
                f"{x.dim()} dimensions"
            )
    return dtype


def numbers_alone(
    module: GraphModule,
    inside: Mapping[Node, None],
    given: Mapping[Node, int],
    wanted: Sequence[Node],
) -> Callable[..., Sequence[float]]:
    """Return a graph of the arithmetic alone: it takes the given tensors and returns the numbers
    that are needed."""
    graph, copies = Graph(), dict[Node, Node]()
    for node in given:
        copies[node] = graph.placeholder(node.name)
    for node in inside:
        copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output(tuple(copies[node] for node in wanted))
    return GraphModule(module, graph)


def _with_inputs(
    module: GraphModule,
    inside: Mapping[Node, None],
    given: Mapping[Node, int],
    types: Mapping[Node, torch.dtype],
) -> GraphModule:
    """Return the graph without the arithmetic, with additional inputs for its results."""
    graph, copies = Graph(), dict[Node, Node]()
    nodes = list(module.graph.nodes)
    for node in nodes:
        if node.op == "placeholder" and node not in given:
            copies[node] = graph.node_copy(node)
    for node, dtype in types.items():
        copies[node] = graph.placeholder(node.name)
        copies[node].meta["example_value"] = torch.empty((), dtype=dtype, device="meta")
    for node in nodes:
        if node.op != "placeholder" and node not in inside:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    return GraphModule(module, graph)
