"""Which ops of a captured program change some elements of a tensor that it updates."""

from __future__ import annotations

from typing import Any

from torch_mlir import ir as untyped_ir

from mirage.frontend.torch_import.lowering import Call
from mirage.runtime.in_place_stores import is_store
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import Value

ir: Any = untyped_ir


def stores_to(updated: Any, new: Any) -> set[Any]:
    """The results of the stores by which the argument ``updated`` (a value of torch-mlir's IR)
    becomes ``new``, and of those to views of it that such a store writes back; nothing where it
    becomes something else.
    """
    found: set[Any] = set()
    if not _collect(new, updated, found):
        return set()
    return found


def _collect(value: Any, start: Any, found: set[Any]) -> bool:
    """Whether ``value`` is ``start`` after stores (of anything, where there is no ``start``); what
    they give goes to ``found``."""
    while (name := store_name(value)) is not None:
        operands = value.owner.operands
        found.add(value)
        if name.endswith("_scatter") and start is not None:
            _collect(operands[1], None, found)
        value = operands[0]
    return start is None or value == start


def store_name(value: Any) -> str | None:
    """The name of the store that gives a value ("aten.index_copy"); None where it is no store."""
    operation = getattr(value.owner, "operation", value.owner)
    name = op_name(operation) if hasattr(operation, "attributes") else ""
    return name if is_store(name) else None


def op_name(operation: Any) -> str:
    """The name of PyTorch's op ("aten.index_copy")."""
    name = operation.name.removeprefix("torch.")
    if name == "operator":  # one that the dialect does not know
        name = ir.StringAttr(operation.attributes["name"]).value.removeprefix("torch.")
    return name


def may_stay(call: Call) -> bool:
    """Whether a store is one that PyTorch makes as fast as it can be: not through a mask, of which
    it first asks the GPU how many elements are true."""
    lists = (x for x in call.args if isinstance(x, list))
    tensors = [v for v in (*call.args, *(v for x in lists for v in x)) if isinstance(v, Value)]
    return not any(v.dtype is DType.I1 for v in tensors[1:])
