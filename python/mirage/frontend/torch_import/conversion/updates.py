"""The ops of a captured program that change some elements of a tensor that it updates."""

from __future__ import annotations

from typing import Any

from torch_mlir import ir as untyped_ir

from mirage.frontend.torch_import.rows.torch_call import Call
from mirage.runtime.dispatch.in_place_stores import is_store
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import Value

ir: Any = untyped_ir
_RESHAPES = frozenset({"aten.view", "aten.reshape", "aten.unsqueeze", "aten.squeeze.dim"})
"""The ops whose results have the elements of the operand in the same order."""


def stores_to(updated: Any, new: Any) -> set[Any]:
    """Return the results of the stores by which the argument ``updated`` (a value of torch-mlir's
    IR) becomes ``new``, and of stores to views of it that such a store writes back; nothing if it
    changes in another way.
    """
    found: set[Any] = set()
    if not _collect(new, updated, found):
        return set()
    return found


def _collect(value: Any, start: Any, found: set[Any]) -> bool:
    """Return whether ``value`` is ``start`` after stores, possibly in another shape (or any value
    after stores, without ``start``); add their results to ``found``."""
    while is_store(name := maker_of(value)) or name in _RESHAPES:
        operands = value.owner.operands
        if name not in _RESHAPES:
            found.add(value)
        if name.endswith("_scatter") and start is not None:
            _collect(operands[1], None, found)
        value = operands[0]
    return start is None or value == start


def maker_of(value: Any) -> str:
    """Return the name of the op that computes a value ("aten.index_copy"); "" if none does."""
    operation = getattr(value.owner, "operation", value.owner)
    return op_name(operation) if hasattr(operation, "attributes") else ""


def op_name(operation: Any) -> str:
    """Return the name of PyTorch's op ("aten.index_copy")."""
    name = operation.name.removeprefix("torch.")
    if name == "operator":  # an op that the dialect does not know
        name = ir.StringAttr(operation.attributes["name"]).value.removeprefix("torch.")
    return name


def may_stay(call: Call) -> bool:
    """Return whether PyTorch makes a store as fast as possible. It does not if the store is through
    a mask, since it then first asks the GPU for the number of true elements."""
    lists = (x for x in call.args if isinstance(x, list))
    tensors = [v for v in (*call.args, *(v for x in lists for v in x)) if isinstance(v, Value)]
    return not any(v.dtype is DType.I1 for v in tensors[1:])
