"""Numbers that ops accept only as numbers, such as the eps of a norm.

With ``dynamic=True`` TorchDynamo passes each float that a module holds as a tensor without
dimensions, whose number could change from call to call. If an op accepts no tensor in its place,
the graph is compiled for the number of the call, and for a few others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_arg

from mirage.torch.changing_numbers import arithmetic, given_numbers, numbers_alone, type_of
from mirage.torch.compiled_graph import StaysEager

MOST = 4
"""The most sets of numbers that a graph is compiled for; PyTorch runs calls with others."""


class SettledNumbers:
    """The graph ``module`` by the numbers that it is ``given``, by their places among its inputs.
    Computations with them alone are ``inside``, and the others use their results ``met``."""

    def __init__(
        self,
        module: GraphModule,
        given: Mapping[Node, int],
        inside: Mapping[Node, None],
        met: Sequence[Node],
    ) -> None:
        self._module, self._given = module, given
        self._inside, self._met = inside, met
        self._numbers = numbers_alone(module, inside, given, met)

    def inputs(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the inputs of the graphs of :meth:`at`."""
        return [x for i, x in enumerate(inputs) if i not in self._given.values()]

    def at(self, numbers: Sequence[float]) -> GraphModule:
        """Return the graph for these numbers."""
        graph, copies = Graph(), dict[Node, Any](zip(self._met, numbers, strict=True))
        for node in self._module.graph.nodes:
            if node in self._given or node in self._inside:
                continue
            # node_copy would take nodes only
            copy = graph.create_node(
                node.op, node.target, _copied(node.args, copies), _copied(node.kwargs, copies),
                node.name, node.type,
            )  # fmt: skip
            copy.meta = dict(node.meta)
            copies[node] = copy
        return GraphModule(self._module, graph)

    def answer(
        self, compiled: Callable[[GraphModule, Sequence[Any]], Callable[..., Any]]
    ) -> Callable[..., Any]:
        """Return the callable that replaces the graph; ``compiled`` gives those for its numbers and
        the remaining inputs."""
        found: dict[tuple[str, ...], Callable[..., Any]] = {}

        def answer(*inputs: Any) -> Any:
            numbers = self._numbers(*(inputs[i] for i in self._given.values()))
            key, left = tuple(float(x).hex() for x in numbers), self.inputs(inputs)
            if key not in found:
                if len(found) == MOST:
                    return self._module.forward(*inputs)
                found[key] = compiled(self.at(numbers), left)
            return found[key](*left)

        return answer


def settled_numbers(module: GraphModule, inputs: Sequence[Any]) -> SettledNumbers | None:
    """Return the numbers among a graph's inputs that some op takes as numbers only, or that are
    results or meet sizes; None if there are none."""
    numbers = given_numbers(module, inputs)
    given = {
        node: place
        for node, place in numbers.items()
        if not _may_change(arithmetic(module, {node: place}))
    }
    inside = arithmetic(module, given)
    return SettledNumbers(module, given, inside, _met(inside)) if given else None


def _may_change(inside: Mapping[Node, None]) -> bool:
    """Return whether one graph may serve all values of a number, with the computations ``inside``
    that depend on it alone."""
    met = _met(inside)
    try:
        for number in met:
            type_of(number, inside)
    except StaysEager:
        return False
    return all(map(_takes_tensors, met))


def _met(inside: Mapping[Node, None]) -> list[Node]:
    """Return the numbers that anything else uses."""
    return [n for n in inside if any(user not in inside for user in n.users)]


def _takes_tensors(number: Node) -> bool:
    """Return whether the user of a number accepts a tensor without dimensions in its place; also
    true if that cannot be determined."""
    tensor = torch.empty((), device="meta")
    return all(
        user.op == "output" or _runs(user, number, tensor) or not _runs(user, number, 0.5)
        for user in number.users
    )


def _runs(node: Node, number: Node, value: Any) -> bool:
    """Return whether an op accepts this ``value`` for a number, with tensors like its own."""
    examples = {n: _without_elements(n) for n in node.all_input_nodes} | {number: value}
    args, kwargs = _copied(node.args, examples), _copied(node.kwargs, examples)
    target: Any = node.target
    try:
        if node.op == "call_method":
            getattr(args[0], target)(*args[1:], **kwargs)
        elif node.op == "call_function":
            target(*args, **kwargs)
    except Exception:  # an op may raise any error for operands that it does not accept
        return False
    return True


def _without_elements(node: Node) -> Any:
    """Return an example of a node's value; of a tensor, one without elements."""
    x = node.meta.get("example_value", node.meta.get("val"))
    if isinstance(x, torch.Tensor):
        return torch.empty([_hint(n) for n in x.shape], dtype=x.dtype, device="meta")
    return _hint(x) if isinstance(x, torch.SymInt) else x


def _hint(size: int | torch.SymInt) -> int:
    """Return the size with which a graph was traced."""
    return size if isinstance(size, int) else int(size.node.hint)


def _copied(tree: Any, copies: Mapping[Node, Any]) -> Any:
    """Return arguments with other values in place of nodes."""
    return map_arg(tree, copies.__getitem__)
