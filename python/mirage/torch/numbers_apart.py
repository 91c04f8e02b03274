"""Numbers among a graph's results that are computed only from numbers, such as a growing count of
tokens.

TorchDynamo passes such a number as an input, and takes its new value from the results. No tensor
depends on it, so it must not be one of the sizes that the graph is compiled for. So these numbers
are computed in each call, apart from the rest of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from mirage.torch.changing_numbers import arithmetic, numbers_alone


class NumbersApart:
    """The graph ``module`` without the numbers that it is ``given``, by their places among its
    inputs, and without the ``results`` that depend only on them."""

    def __init__(
        self, module: GraphModule, given: Mapping[Node, int], results: Mapping[int, Node]
    ) -> None:
        inside = arithmetic(module, given)
        self._given, self._results = tuple(given.values()), tuple(results)
        self._numbers = numbers_alone(module, inside, given, tuple(results.values()))
        self.module = _without(module, {**dict.fromkeys(given), **inside}, set(results))

    def inputs(self, inputs: Sequence[Any]) -> list[Any]:
        """The inputs of the rest of the graph."""
        return [x for i, x in enumerate(inputs) if i not in self._given]

    def beside(self, rest: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
        """Return a callable that takes the graph's inputs and returns all of its results, those of
        ``rest`` included."""

        def call(*inputs: Any) -> tuple[Any, ...]:
            numbers = self._numbers(*(inputs[i] for i in self._given))
            found = list(rest(*self.inputs(inputs)))
            for place, number in zip(self._results, numbers, strict=True):
                found.insert(place, number)
            return tuple(found)

        return call


def numbers_apart(module: GraphModule, inputs: Sequence[Any]) -> NumbersApart | None:
    """Return the results that depend only on numbers, and the numbers on which no tensor depends,
    separate from the rest; None if there are none."""
    places = enumerate(zip(module.graph.find_nodes(op="placeholder"), inputs, strict=True))
    given = {node: i for i, (node, x) in places if isinstance(x, int | torch.SymInt)}
    free = {node: i for node, i in given.items() if _is_free(node, arithmetic(module, given))}
    (output,) = module.graph.find_nodes(op="output")
    if not free or not isinstance(output.args[0], tuple | list):
        return None
    made = {*free, *arithmetic(module, free)}
    outputs = enumerate(output.args[0])
    results = {i: node for i, node in outputs if isinstance(node, Node) and node in made}
    return NumbersApart(module, free, results) if results else None


def _is_free(number: Node, inside: Mapping[Node, None]) -> bool:
    """Return whether only arithmetic on numbers, and results, depend on a number."""
    return all(
        user.op == "output" or (user in inside and _is_free(user, inside)) for user in number.users
    )


def _without(module: GraphModule, nodes: Mapping[Node, None], results: set[int]) -> GraphModule:
    """The graph without some of its nodes, and without the results that are these."""
    graph, copies = Graph(), dict[Node, Node]()
    for node in module.graph.nodes:
        if node.op == "output":
            left = [x for i, x in enumerate(node.args[0]) if i not in results]
            graph.output(tuple(copies[x] if isinstance(x, Node) else x for x in left))
        elif node not in nodes:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    return GraphModule(module, graph)
