"""Tensors that were computed at import, replaced by ops that compute them if that is cheaper than
reading them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from mirage.frontend.torch_import.capture.captured_arguments import Argument
from mirage.frontend.torch_import.capture.folding import is_large
from mirage.frontend.torch_import.conversion.updates import op_name
from mirage.frontend.torch_import.known_tensors.formulas import as_formula
from mirage.frontend.torch_import.known_tensors.interval_masks import as_comparison, intervals_of
from mirage.frontend.torch_import.rows.lowering import Lowering
from mirage.semantics.ops.op import TensorType, Value
from mirage.semantics.scalar import Array

_VIEWS = frozenset(
    f"aten.{name}"
    for name in ("alias", "clone", "expand", "reshape", "squeeze.dim", "transpose.int", "unsqueeze",
                 "view", "_unsafe_view")
)  # fmt: skip
_COMPARISONS = frozenset(
    f"aten.{fn}.{kind}"
    for fn in ("lt", "le", "gt", "ge", "eq", "ne")
    for kind in ("Tensor", "Scalar")
)


def as_ops(
    b: Lowering,
    argument: Argument,
    result: TensorType,
    value: Any,
    hold: Callable[[torch.Tensor], Value],
) -> Value | None:
    """Return the ops that give the tensor of an argument; None if it is read. ``value`` is the
    argument of torch-mlir's function, and ``hold`` makes a tensor of integers an input."""
    data = argument.data
    if data is None or not (argument.folded or argument.fixed):
        return None
    if argument.folded:
        found = as_formula(b, data, result, compared=_is_compared(value))
        if found is not None:
            return found
    intervals = intervals_of(data) if is_large(data) else None
    if intervals is None:
        return None

    def held(numbers: Array) -> Value:
        return hold(torch.from_numpy(numbers).to(data.device))

    return as_comparison(b, intervals, result, held)


def _is_compared(value: Any) -> bool:
    """Return whether all readers of a value compare it with something, or views of it."""
    for use in value.uses:
        name = op_name(use.owner.operation)
        if name in _COMPARISONS:
            continue
        if name not in _VIEWS or not all(_is_compared(v) for v in use.owner.operation.results):
            return False
    return True
