"""Tensors to which a captured program writes, and which its module does not hold as buffers: a
cache in an object that is not a module. ``torch.export`` treats them as constants, and cannot
decompose a program that writes to constants.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec

from mirage.frontend.errors import GraphTypeError
from mirage.frontend.location import user_location


def with_written_tensors(exported: ExportedProgram) -> ExportedProgram:
    """Make the constants to which ``exported`` writes buffers that no state_dict has; returns it.
    Raises :class:`GraphTypeError` if one of them shares memory with another tensor of the module,
    since the program would then read changed values from that one.
    """
    signature = exported.graph_signature
    nodes = exported.graph.find_nodes(op="placeholder")
    written = _written(exported.graph)
    memories = Counter(_memory(x) for x in _held(exported))
    specs: list[InputSpec] = signature.input_specs
    for place, (node, spec) in enumerate(zip(nodes, specs, strict=True)):
        x = exported.constants.get(str(spec.target))
        if spec.kind is not InputKind.CONSTANT_TENSOR or not isinstance(x, torch.Tensor):
            continue
        if node not in written:
            continue
        if memories[_memory(x)] > 1:
            raise GraphTypeError(
                f"expected a tensor that is written to to have separate memory, got "
                f"{spec.target!r}, which shares it with another tensor of the module; make one of "
                "them a copy",
                user_location(),
            )
        specs[place] = InputSpec(InputKind.BUFFER, spec.arg, spec.target, persistent=False)
    return exported


def _held(exported: ExportedProgram) -> Iterator[torch.Tensor]:
    """Yield the tensors that the module holds."""
    for x in (*exported.state_dict.values(), *exported.constants.values()):
        if isinstance(x, torch.Tensor):
            yield x


def _memory(x: torch.Tensor) -> int:
    """Return a key that tensors with shared memory have in common."""
    return x.untyped_storage()._cdata  # pyright: ignore[reportPrivateUsage]


def _written(graph: torch.fx.Graph) -> set[torch.fx.Node]:
    """Return the tensors to which ops write, and those of which these are views."""
    written: set[torch.fx.Node] = set()
    for node in reversed(graph.nodes):
        if node.target is operator.getitem and node in written:
            written.update(node.all_input_nodes)
        if not isinstance(node.target, OpOverload):
            continue
        for argument, x in operands_of(node):
            alias = argument.alias_info
            if alias is not None and (alias.is_write or node in written):
                written.add(x)
    return written


def operands_of(node: torch.fx.Node) -> Iterator[tuple[Any, torch.fx.Node]]:
    """Yield the tensors that an op takes, each with its entry in the schema."""
    target: Any = node.target
    for number, argument in enumerate(target._schema.arguments):  # pyright: ignore
        given = node.args[number] if number < len(node.args) else node.kwargs.get(argument.name)
        for x in given if isinstance(given, list | tuple) else (given,):
            if isinstance(x, torch.fx.Node):
                yield argument, x
