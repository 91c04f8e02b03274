"""Tensors of a captured program that are buffers of its module under another name.

A cache may be an attribute of an object that is not a module, and at the same time a buffer, as in
Transformers' modules for export. ``torch.export`` treats the tensors in the object as constants: it
sees no connection between a write to one of them and the buffer, and cannot decompose such a
program.
"""

from __future__ import annotations

from collections.abc import Hashable

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind


def with_shared_buffers(exported: ExportedProgram) -> ExportedProgram:
    """Let ``exported`` read and write the module's parameters and buffers in place of constants
    that are the same tensors; returns it."""
    inputs = dict(zip(exported.graph.find_nodes(op="placeholder"), _specs(exported), strict=True))
    own = {
        _place(exported.state_dict[spec.target]): node
        for node, spec in inputs.items()
        if spec.target in exported.state_dict
    }
    own |= {
        _place(x): node
        for node, spec in inputs.items()
        if spec.kind is InputKind.BUFFER
        and isinstance(x := exported.constants.get(str(spec.target)), torch.Tensor)
    }
    for node, spec in inputs.items():
        x = exported.constants.get(str(spec.target))
        if spec.kind is not InputKind.CONSTANT_TENSOR or not isinstance(x, torch.Tensor):
            continue
        same = own.get(_place(x))
        if same is not None:
            node.replace_all_uses_with(same)
            exported.graph.erase_node(node)
            exported.graph_signature.input_specs.remove(spec)
            del exported.constants[str(spec.target)]
    exported.graph_module.recompile()
    return exported


def _specs(exported: ExportedProgram) -> list[torch.export.graph_signature.InputSpec]:
    return exported.graph_signature.input_specs


def _place(x: torch.Tensor) -> Hashable:
    """Return a key that identical tensors have in common: their memory, or nothing if they have
    none, as on the meta device."""
    storage = x.untyped_storage()
    nowhere = storage.device.type == "meta" or not storage.nbytes()
    where = id(x) if nowhere else (x.device, storage.data_ptr())
    return where, x.storage_offset(), x.dtype, tuple(x.shape), x.stride()
