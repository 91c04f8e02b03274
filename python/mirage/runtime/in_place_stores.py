"""Ops that change some elements of a tensor, and how PyTorch does the same in place.

A program that updates a tensor is stated without side effects: ``new = index_copy(old, 2, at, x)``.
Where nothing reads the old one afterwards, writing to it is the same and takes as long as the rows
that are stored, not as long as the whole tensor.
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
"""Of the namespace ``aten``, in all overloads. Their first argument is what they change."""

_VIEWS = {
    "diagonal_scatter": "diagonal.default",
    "select_scatter": "select.int",
    "slice_scatter": "slice.Tensor",
}
"""What a store through a view looks at; the other arguments have the same names."""


def is_store(op: str) -> bool:
    """Whether an op ("aten.index_copy.default") is one of them."""
    namespace, _, rest = op.partition(".")
    return namespace == "aten" and rest.partition(".")[0] in STORES


def in_place(op: str) -> Callable[..., Any]:
    """The function that takes what ``op`` takes, by name, and writes to its first argument."""
    import torch

    _, name, *overload = op.split(".")
    if name in _VIEWS:
        view, kind = _VIEWS[name].split(".")
        return _through(getattr(getattr(torch.ops.aten, view), kind))
    packet: Any = getattr(torch.ops.aten, name + "_")
    return getattr(packet, overload[0] if overload else "default")


def destination(op: str, target: Any, arguments: Mapping[str, Any]) -> Any:
    """The view of ``target`` that a store overwrites, all of it; None where stores of this kind do
    not write to a view, or the view depends on tensors."""
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
    """Whether two tensors are the same elements."""
    return (
        x.dtype is y.dtype
        and x.device == y.device
        and x.shape == y.shape
        and x.stride() == y.stride()
        and x.data_ptr() == y.data_ptr()
    )
