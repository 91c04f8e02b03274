"""Errors for numbers that an op writes into a tensor whose type does not have them.

PyTorch stops with an error when it runs ``x.index_fill(0, i, 1e5)`` on a tensor of f16. Its
decompositions choose between tensors and numbers, where such a number would be infinity, so the
numbers are checked before ops are decomposed.
"""

from __future__ import annotations

import torch

from mirage.frontend.errors import UnsupportedOpError
from mirage.frontend.torch_import.capture.places import place_of
from mirage.frontend.torch_import.rows.lowering import check_held
from mirage.frontend.torch_import.rows.torch_call import Unsupported
from mirage.runtime.serialization.manifest import TORCH_NAMES
from mirage.semantics.scalar import DType

_CONVERTED = {
    "aten.hardshrink.default": 1,
    "aten.index_fill.int_Scalar": 3,
    "aten.index_fill.int_Tensor": 3,
    "aten.index_fill_.int_Scalar": 3,
    "aten.index_fill_.int_Tensor": 3,
    "aten.masked_fill.Tensor": 2,
    "aten.masked_fill_.Tensor": 2,
    "aten.pow.Tensor_Scalar": 1,
    "aten.pow_.Scalar": 1,
    "aten.scatter.value": 3,
    "aten.scatter_.value": 3,
    "aten.threshold.default": 2,
    "aten.threshold_.default": 2,
}
"""The arguments that PyTorch converts to the type of the result, without overflow."""

_SAME = ("alias", "clone", "detach", "detach_", "lift_fresh", "lift_fresh_copy")
_DTYPES = {getattr(torch, name): DType(short) for short, name in TORCH_NAMES.items()}


def check_filled_numbers(exported: torch.export.ExportedProgram) -> None:
    """Raise :class:`UnsupportedOpError` for the first op with a number that the type of its result
    does not have."""
    for node in exported.graph.nodes:
        at = _CONVERTED.get(str(node.target))
        if at is None or at >= len(node.args):
            continue
        number = _number(exported, node.args[at])
        dtype = _DTYPES.get(node.meta["val"].dtype)
        if number is None or dtype is None:
            continue
        try:
            check_held(number, dtype)
        except Unsupported as reason:
            op = str(node.target)
            error = UnsupportedOpError(f"{op} is not supported: {reason}", place_of(node))
            error.op = op
            raise error from None


def _number(exported: torch.export.ExportedProgram, argument: object) -> int | float | None:
    """Return the number that an argument certainly is, possibly as a constant tensor."""
    while isinstance(argument, torch.fx.Node) and argument.op == "call_function":
        packet = getattr(argument.target, "_opname", "")
        argument = argument.args[0] if packet in _SAME and argument.args else None
    if isinstance(argument, torch.fx.Node):
        constants = exported.graph_signature.inputs_to_lifted_tensor_constants
        held = exported.constants.get(constants.get(argument.name, ""))
        if isinstance(held, torch.Tensor) and held.numel() == 1:
            argument = held.item()
    return argument if isinstance(argument, int | float) else None
