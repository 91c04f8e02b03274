"""The number of bytes that calls of PyTorch write, by op."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode


class WrittenBytes(TorchDispatchMode):
    """Counts while it is active: ``by_op`` has the bytes that each op has written, ``wrote`` those
    of all. Ops in place count the bytes that they store, and views count nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.by_op: Counter[str] = Counter()

    @property
    def wrote(self) -> int:
        return sum(self.by_op.values())

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        schema = func._schema
        first = schema.arguments[0].alias_info if schema.arguments else None
        if first is not None and first.is_write:
            sources = [x for x in (*args[1:], *(kwargs or {}).values()) if floating(x)]
            wrote = min((size(x) for x in (*sources, args[0])), default=0)
        elif any(r.alias_info is not None for r in schema.returns):
            wrote = 0
        else:
            results = result if isinstance(result, tuple | list) else [result]
            wrote = sum(size(x) for x in results if isinstance(x, torch.Tensor))
        self.by_op[str(func)] += wrote
        return result


def floating(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.is_floating_point()


def size(x: torch.Tensor) -> int:
    return x.numel() * x.element_size()


def uncounted(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function, whose calls are not counted."""

    def call(*args: Any) -> Any:
        with torch.utils._python_dispatch._disable_current_modes():
            return function(*args)

    return call
