"""Ops that change some elements of a tensor, and their in-place equivalents in PyTorch.

A program that updates a tensor is written without side effects: ``new = index_copy(old, 2, at,
x)``. If nothing reads the old tensor afterwards, writing to it has the same result and takes time
for the stored rows only, not for the whole tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

STORES = frozenset(
    {
        "diagonal_scatter", "index_add", "index_copy", "index_fill", "index_put", "scatter",
        "scatter_add", "scatter_reduce", "select_scatter", "slice_scatter",
    }
)  # fmt: skip
"""The ops, in the namespace ``aten`` and in all overloads. Their first argument is the tensor that
they change."""

_VIEWS = {
    "diagonal_scatter": "diagonal.default",
    "select_scatter": "select.int",
    "slice_scatter": "slice.Tensor",
}
"""The op that takes the view to which each op stores; the other arguments have the same names."""


def is_store(op: str) -> bool:
    """Return whether an op ("aten.index_copy.default") is one of these."""
    namespace, _, rest = op.partition(".")
    return namespace == "aten" and rest.partition(".")[0] in STORES


def in_place(op: str) -> Callable[..., Any]:
    """Return a function that takes the arguments of ``op``, by name, and writes to the first
    one."""
    import torch

    _, name, *overload = op.split(".")
    if name in _VIEWS:
        view, kind = _VIEWS[name].split(".")
        return _through(getattr(getattr(torch.ops.aten, view), kind))
    packet: Any = getattr(torch.ops.aten, name + "_")
    return getattr(packet, overload[0] if overload else "default")


def destination(op: str, target: Any, arguments: Mapping[str, Any]) -> Any:
    """Return the view of ``target`` that a store overwrites entirely; None if stores of this kind
    do not write to a view, or if the view depends on tensors."""
    import torch

    _, name, *_ = op.split(".")
    if not is_store(op) or name not in _VIEWS:
        return None
    view, kind = _VIEWS[name].split(".")
    function: Any = getattr(getattr(torch.ops.aten, view), kind)
    first = function._schema.arguments[0].name
    return function(**{first: target, **arguments})


def _through(view: Any) -> Callable[..., Any]:
    first = view._schema.arguments[0].name

    def write(*, src: Any, **named: Any) -> Any:
        target = named[first]
        place = view(**named)
        if not same_memory(place, src):
            place.copy_(src)
        return target

    return write


def same_memory(x: Any, y: Any) -> bool:
    """Return whether two tensors are the same elements in memory."""
    return (
        x.dtype is y.dtype
        and x.device == y.device
        and x.shape == y.shape
        and x.stride() == y.stride()
        and x.data_ptr() == y.data_ptr()
    )
