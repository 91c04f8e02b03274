"""The memory of a program's results, as far as PyTorch reports which tensors share it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import torch
from torch.export.graph_signature import OutputKind
from torch.multiprocessing.reductions import StorageWeakRef


def memories_of(exported: torch.export.ExportedProgram) -> tuple[Hashable, ...]:
    """Return a name for the memory of each result of the user: equal names for results that share
    it, and None for the memory of an argument, and for results other than tensors."""
    graph = exported.graph
    given = {_memory(node) for node in graph.find_nodes(op="placeholder")}
    (output,) = graph.find_nodes(op="output")
    kinds = [spec.kind for spec in exported.graph_signature.output_specs]
    results: Any = output.args[0]
    memories = [
        _memory(node)
        for node, kind in zip(results, kinds, strict=True)
        if kind is OutputKind.USER_OUTPUT
    ]
    return tuple(None if memory in given else memory for memory in memories)


def _memory(node: object) -> Hashable:
    """Return the storage that a value had when PyTorch traced the program."""
    value = node.meta.get("val") if isinstance(node, torch.fx.Node) else None
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return None
    return StorageWeakRef(value.untyped_storage())
