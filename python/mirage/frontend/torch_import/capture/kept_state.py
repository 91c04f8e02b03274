"""PyTorch's state while a graph is run or captured.

A graph may begin a region of autocast, of gradients (forward ones, too), or of a transform of
``torch.func``, and fail before the op that ends it. What comes after it would run in that region.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch
from torch.autograd import forward_ad

_functorch: Any = torch._C._functorch  # pyright: ignore
_KINDS = ("cpu", "cuda")
_forward: Any = forward_ad
_enter: Any = torch._C._enter_dual_level  # pyright: ignore
_exit: Any = torch._C._exit_dual_level  # pyright: ignore
P = ParamSpec("P")
R = TypeVar("R")


def kept_state(function: Callable[P, R]) -> Callable[P, R]:
    """Leave PyTorch's state as it was, if an error occurs in a function."""

    @wraps(function)
    def kept(*args: P.args, **kwargs: P.kwargs) -> R:
        transforms = _functorch.get_dynamic_layer_stack_depth()
        gradients = torch.is_grad_enabled()
        forward, level = _is_forward(), _forward._current_level
        casts = [(k, torch.is_autocast_enabled(k), torch.get_autocast_dtype(k)) for k in _KINDS]
        try:
            return function(*args, **kwargs)
        except BaseException:
            _functorch.pop_dynamic_layer_stack_and_undo_to_depth(transforms)
            torch.set_grad_enabled(gradients)
            if _is_forward() and not forward:
                _exit(level=0)
            _forward._current_level = level
            for kind, enabled, dtype in casts:
                torch.set_autocast_enabled(kind, enabled)
                torch.set_autocast_dtype(kind, dtype)
            raise

    return kept


def _is_forward() -> bool:
    """Return whether this is a region of forward gradients, of which PyTorch has one at most."""
    try:
        _exit(level=_enter())
    except RuntimeError:  # it is nested in another one
        return True
    return False
