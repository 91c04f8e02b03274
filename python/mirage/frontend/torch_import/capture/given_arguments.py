"""Example inputs in the forms that a caller may use: by position, by keyword, or as one dictionary
by the names of parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from mirage.frontend.errors import GraphTypeError
from mirage.frontend.location import user_location


def parameters_of(program: Any) -> dict[str, inspect.Parameter]:
    """Return the parameters of a module or function by their names; none if they are not known."""
    function = program.forward if isinstance(program, torch.nn.Module) else program
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # a function that is not written in Python
        return {}


def names_by_position(program: object, count: int) -> tuple[str, ...]:
    """Return the names of the parameters of a program that can be passed by position, in order;
    the names of positional-only parameters are empty. For an ``ExportedProgram`` they are known for
    the ``count`` arguments that were passed by position when it was exported."""
    if isinstance(program, torch.export.ExportedProgram):
        signature = program.module_call_graph[0].signature
        return tuple((signature and signature.forward_arg_names) or ())[:count]
    alone, both = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    found = [p for p in parameters_of(program).values() if p.kind in (alone, both)]
    return tuple(p.name if p.kind is both else "" for p in found)


def are_names(program: object, example: object) -> bool:
    """Return whether an example is a dictionary by the names of parameters."""
    if type(example) is not dict or not example:
        return False
    return set(example) <= set(parameters_of(program))  # pyright: ignore[reportUnknownArgumentType]


def given_arguments(
    program: object, inputs: Sequence[object], named: Mapping[str, object]
) -> tuple[tuple[object, ...], dict[str, object]]:
    """Return the arguments of a call by position and by keyword, in the order of the parameters, as
    many as possible by position. A single dictionary by the names of parameters stands for
    keywords. Raises :class:`GraphTypeError` if the program cannot be called in this way.
    """
    if len(inputs) == 1 and not named and are_names(program, inputs[0]):
        inputs, named = (), inputs[0]  # type: ignore[assignment]
    if not named:
        return tuple(inputs), {}
    if isinstance(program, torch.export.ExportedProgram):
        raise GraphTypeError(
            f"expected no example inputs for an ExportedProgram, which has its own, got "
            f"{', '.join(named)}",
            user_location(),
        )
    parameters = parameters_of(program)
    known = [name for name, p in parameters.items() if p.kind in _BY_NAME]
    others = [name for name in named if name not in known]
    if others and not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        raise GraphTypeError(
            f"expected example inputs by the names of parameters ({', '.join(known) or 'none'}), "
            f"got {', '.join(others)}",
            user_location(),
        )
    try:
        bound = inspect.Signature(list(parameters.values())).bind(*inputs, **named)
    except TypeError as error:
        raise GraphTypeError(
            f"expected example inputs that the program can be called with: {error}",
            user_location(),
        ) from None
    return bound.args, bound.kwargs


_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class ByPosition(torch.nn.Module):
    """A program as a function of ``count`` arguments and of arguments with the given names, all by
    position."""

    def __init__(self, program: Callable[..., Any], count: int, names: Sequence[str]) -> None:
        super().__init__()
        self.program, self.count, self.names = program, count, tuple(names)

    def forward(self, *inputs: Any) -> Any:
        named = dict(zip(self.names, inputs[self.count :], strict=True))
        return self.program(*inputs[: self.count], **named)
