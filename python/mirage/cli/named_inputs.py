"""Example inputs of a file that are a dictionary by the program's parameter names."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any


def _parameters_of(item: Any) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(getattr(item, "forward", item)).parameters)


def names_of(item: Any, example: Any) -> list[str] | None:
    """Return the names of example inputs that are a dictionary by parameters, in the order of the
    parameters; None for any others."""
    if not isinstance(example, dict):
        return None
    parameters = _parameters_of(item)
    names = [name for name in parameters if name in example]
    return names if names and len(names) == len(example) else None


def are_first(item: Any, names: Sequence[str]) -> bool:
    """Return whether all may be passed by position."""
    first = list(_parameters_of(item).items())[: len(names)]
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return all(name in names and p.kind in places for name, p in first)


def by_name(item: Any, names: Sequence[str]) -> Callable[..., Any]:
    """Return the program as a function of its inputs by position."""

    def call(*inputs: Any) -> Any:
        return item(**dict(zip(names, inputs, strict=True)))

    return call
