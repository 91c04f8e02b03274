"""A graph that cannot be imported as a whole, in pieces that may be.

The graph is cut around the ops that cannot be imported alone, which PyTorch runs. If there are
none, so that only their combination is refused, it is cut in halves. Each piece is a separate
graph, which may be cut again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from torch.fx import Graph, GraphModule, Node

from mirage.torch.graph_pieces import another, cut, examples_of, pieces_of
from mirage.torch.refused_ops import Refusal, units_of
from mirage.torch.seen_values import seen_values


class Found(Protocol):
    """The replacement of a graph; kernels compute its next call once it ``is_ready``."""

    @property
    def is_ready(self) -> bool: ...

    def __call__(self, *inputs: Any) -> Any: ...


class InPieces:
    """A graph that is ``called`` piece by piece, some of which are ``found``; PyTorch runs the
    others."""

    def __init__(self, called: Callable[..., Any], found: Sequence[Found]) -> None:
        self._called, self._found = called, tuple(found)

    @property
    def is_ready(self) -> bool:
        """Whether kernels compute the next call."""
        return all(piece.is_ready for piece in self._found)

    def __call__(self, *inputs: Any) -> Any:
        return self._called(*inputs)


def refused_apart(
    module: GraphModule,
    refusal: Refusal,
    inputs: Sequence[Any],
    answer: Callable[[GraphModule, Sequence[Any]], Found | None],
    stays: Callable[[GraphModule, str], None],
) -> InPieces | None:
    """Return the graph with its pieces replaced by the results of ``answer``, if they are not None;
    None if there are no pieces to import. ``stays`` is called with what PyTorch runs, and why."""
    graph, values, refused = _copied(module, inputs, dict(refusal.ops))
    places = _places(units_of(graph.graph, values), refused)
    if not places:
        return None
    reasons = {f"submod_{places[node]}": reason for node, reason in refused.items()}
    whole = cut(graph, lambda node: places.get(node, 0))
    found: list[Found] = []
    for call, piece in pieces_of(whole):
        examples = examples_of(piece.graph.find_nodes(op="placeholder"))
        if str(call.target) in reasons:
            stays(piece, reasons[str(call.target)])
        elif examples is not None and (instead := answer(another(piece), examples)) is not None:
            piece.forward = instead
            found.append(instead)
    return InPieces(whole.forward, found)


def _copied(
    module: GraphModule, inputs: Sequence[Any], ops: Mapping[int, str]
) -> tuple[GraphModule, dict[Node, Any], dict[Node, str]]:
    """Return a copy of a graph that states the values of its nodes for these inputs, the values,
    and the reasons why its ``ops``, given by their numbers, are refused."""
    values = seen_values(module, inputs)
    graph, copies = Graph(), dict[Node, Node]()
    refused: dict[Node, str] = {}
    for number, node in enumerate(module.graph.nodes):
        copies[node] = graph.node_copy(node, copies.__getitem__)
        copies[node].meta.pop("val", None)
        copies[node].meta["example_value"] = values.get(node)
        if number in ops:
            refused[copies[node]] = ops[number]
    return GraphModule(module, graph), {copies[n]: x for n, x in values.items()}, refused


def _places(units: Sequence[Sequence[Node]], refused: Mapping[Node, str]) -> dict[Node, int]:
    """Return numbers of runs of ops of which all are refused, or none; those of both halves if none
    is refused at all. Without several runs there are none."""
    places: dict[Node, int] = {}
    place, before = 0, None
    for number, unit in enumerate(units):
        kind = unit[0] in refused if refused else 2 * number >= len(units)
        place += before is not None and kind is not before
        before = kind
        places.update(dict.fromkeys(unit, place))
    return places if place else {}
