"""Numbers that PyTorch computes in f32 when a program is imported, as the numbers from which they
are rounded.

``torch.full((), 12.0).sqrt()`` is the root of 12, rounded to f32. Kernels round constants as well,
so the number before the rounding is the same constant to them, and it has the algebra of a root. It
is computed in float64, step by step, and used if the f32 is the nearest to it, or next to the
nearest if the step is a function (``rsqrt``), whose last digit depends on the device. It is not
used if the steps round the essential digits away (``1e8 + 1 - 1e8``). A literal of f32
(``torch.tensor(0.3)``) is the simple number whose nearest f32 it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.fx.node import map_arg

from mirage.semantics.numbers import read_single

_WIDE = {torch.float32: torch.float64}
_FUNCTIONS = frozenset(
    f"aten.{name}"
    for name in ("acos", "asin", "atan", "cos", "cosh", "erf", "erfc", "exp", "exp2", "expm1",
                 "log", "log10", "log1p", "log2", "pow", "rsqrt", "sigmoid", "sin", "sinh", "tan",
                 "tanh")
)  # fmt: skip
"""The ops that PyTorch computes with an error that differs between devices."""


def exact_numbers(
    graph: torch.fx.Graph, known: Mapping[torch.fx.Node, Any]
) -> dict[torch.fx.Node, torch.Tensor]:
    """Return those numbers of f32 (tensors without dimensions) among ``known`` that PyTorch rounds
    from other numbers, with these numbers in float64."""
    wide: dict[torch.fx.Node, torch.Tensor] = {}  # before any rounding
    plain: dict[torch.fx.Node, torch.Tensor] = {}  # rounded by PyTorch
    found: dict[torch.fx.Node, torch.Tensor] = {}
    for node in graph.nodes:
        rounded = known.get(node)
        if not isinstance(rounded, torch.Tensor) or rounded.shape or rounded.is_complex():
            continue
        plain[node] = wide[node] = rounded.to(_WIDE.get(rounded.dtype, rounded.dtype))
        if rounded.dtype is not torch.float32:
            continue
        if node.op != "call_function":
            wide[node] = torch.full((), read_single(rounded.item()), dtype=torch.float64)
            continue
        for given in (wide, plain):
            computed = _computed(node, given)
            if computed is not None and _is_rounded(node, computed, rounded):
                found |= {} if torch.equal(computed, plain[node]) else {node: computed}
                wide[node] = computed
                break
    return found


def _is_rounded(node: torch.fx.Node, computed: torch.Tensor, rounded: torch.Tensor) -> bool:
    """Return whether the f32 numbers that PyTorch computes are the expected ones."""
    nearest = computed.to(rounded.dtype)
    if torch.equal(nearest, rounded):
        return True
    name = str(node.target).rpartition(".")[0]
    return name in _FUNCTIONS and torch.equal(torch.nextafter(nearest, rounded), rounded)


def _computed(
    node: torch.fx.Node, wide: Mapping[torch.fx.Node, torch.Tensor]
) -> torch.Tensor | None:
    """Return the result of an op on numbers in float64, if it has a result of that type."""
    if not all(n in wide for n in node.all_input_nodes):
        return None
    given: Any = map_arg(node.kwargs, wide.__getitem__)
    args: Any = map_arg(node.args, wide.__getitem__)
    kwargs = {k: _WIDE.get(x, x) if isinstance(x, torch.dtype) else x for k, x in given.items()}
    if not node.all_input_nodes:  # a number that the program writes
        kwargs["dtype"] = torch.float64
    target: Any = node.target
    try:
        with torch.no_grad():
            result = target(*args, **kwargs)
    except Exception:  # ops that PyTorch cannot compute in this type are not changed
        return None
    is_number = isinstance(result, torch.Tensor) and not result.shape
    return result if is_number and result.dtype is torch.float64 else None
