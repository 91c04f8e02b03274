"""Ops that write to an input of a captured program, such as a cache, as ops that return its new
value.

PyTorch's own conversion traces the whole program again, which takes longer than capturing it. Here
only these ops change; this is possible if no view of the input is read after a write.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind, OutputSpec, TensorArgument
from torch.fx import Graph, Node
from torch.fx.node import map_arg

from mirage.frontend.torch_import.capture.written_tensors import operands_of

_MUTATIONS = {
    InputKind.BUFFER: OutputKind.BUFFER_MUTATION,
    InputKind.USER_INPUT: OutputKind.USER_INPUT_MUTATION,
}


@dataclass
class Writes:
    """The ops of a graph that write to its inputs, each with the op that returns the new value."""

    graph: Graph
    inputs: dict[Node, Node] = field(default_factory=dict[Node, Node])
    """The input that each such op writes to."""
    ops: dict[Node, OpOverload] = field(default_factory=dict[Node, OpOverload])

    def apply(self, exported: ExportedProgram) -> None:
        """Let ``exported``, which has the graph, return new values in the place of its writes."""
        latest: dict[Node, Node] = {}
        for node, op in self.ops.items():
            source = self.inputs[node]
            node.target = op
            node.args = (latest.get(source, source), *node.args[1:])
            self._use_after(node, source, latest.get(source, source))
            latest[source] = node
        self._return(exported, latest)

    def _use_after(self, node: Node, source: Node, before: Node) -> None:
        """Let ops after a write use the new value."""
        place = {n: i for i, n in enumerate(self.graph.nodes)}
        for old in {source, before}:
            for user in list(old.users):
                if place[user] > place[node]:
                    user.replace_input_with(old, node)

    def _return(self, exported: ExportedProgram, latest: dict[Node, Node]) -> None:
        signature = exported.graph_signature
        output = self.graph.output_node()
        nodes = self.graph.find_nodes(op="placeholder")
        changed: list[tuple[Node, OutputSpec]] = []
        for node, spec in zip(nodes, signature.input_specs, strict=True):
            if node in latest:
                target = node.name if spec.kind is InputKind.USER_INPUT else spec.target
                argument = TensorArgument(latest[node].name)
                changed.append((latest[node], OutputSpec(_MUTATIONS[spec.kind], argument, target)))
        results: Any = output.args[0]
        output.args = ((*(node for node, _ in changed), *results),)
        signature.output_specs[:0] = [spec for _, spec in changed]


def functional_writes(exported: ExportedProgram) -> Writes | None:
    """Return the writes of a program, or None if some have effects other than a new value."""
    graph, outputs = exported.graph, exported.graph_signature.output_specs
    if any(spec.kind is not OutputKind.USER_OUTPUT for spec in outputs):
        return None
    specs = zip(
        graph.find_nodes(op="placeholder"), exported.graph_signature.input_specs, strict=True
    )
    writable = {node for node, spec in specs if spec.kind in _MUTATIONS}
    found = Writes(graph)
    place = {node: i for i, node in enumerate(graph.nodes)}
    for node in graph.nodes:
        target = node.target
        if not isinstance(target, OpOverload) or not target._schema.is_mutable:  # pyright: ignore
            continue
        written, op = (node.args[0] if node.args else None), _returning(node)
        if not isinstance(written, Node) or op is None:
            return None
        source = found.inputs.get(written, written)
        if source not in writable or _is_seen(node, source, found, place):
            return None
        found.inputs[node], found.ops[node] = source, op
    return found


def _returning(node: Node) -> OpOverload | None:
    """Return the op that returns the new value of the first operand of ``node``, and nothing
    else."""
    target: Any = node.target
    schema = target._schema
    writes = [a.alias_info is not None and a.alias_info.is_write for a in schema.arguments]
    if not writes[0] or any(writes[1:]) or not schema.name.endswith("_"):
        return None
    packet = getattr(torch.ops.aten, schema.name.removeprefix("aten::")[:-1], None)
    op = getattr(packet, target._overloadname, None)
    val = node.meta.get("val")
    if op is None or val is None:
        return None
    args, kwargs = map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
    with val.fake_mode:
        new = op(*args, **kwargs)
    same = new.dtype == val.dtype and new.shape == val.shape and new.stride() == val.stride()
    return op if same else None


def _is_seen(node: Node, source: Node, found: Writes, place: dict[Node, int]) -> bool:
    """Return whether a view that was taken before a write is used after it."""
    same = {source, *(n for n, s in found.inputs.items() if s is source)}
    taken = [(n, user) for n in same for user in n.users if place[user] < place[node]]
    seen: set[Node] = set()
    while taken:
        x, view = taken.pop()
        if view in seen or view in same or not _may_be_view(view, x):
            continue
        seen.add(view)
        if any(place[user] > place[node] for user in view.users):
            return True
        taken += [(view, user) for user in view.users]
    return False


def _may_be_view(node: Node, x: Node) -> bool:
    """Return whether a result may share memory with the operand ``x``."""
    if not isinstance(node.target, OpOverload):
        return True
    return any(y is x and argument.alias_info is not None for argument, y in operands_of(node))
