"""Captures programs with ``torch.export``."""

from __future__ import annotations

import inspect
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

import torch
from torch.fx._lazy_graph_module import (
    _use_lazy_graph_module as without_code,  # pyright: ignore[reportPrivateUsage]
)
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from mirage.errors import SourceLocation
from mirage.frontend.errors import DynamicShapeError, GraphTypeError, ImportFailedError
from mirage.frontend.location import user_location
from mirage.frontend.torch_import.capture.foreign_classes import foreign_class
from mirage.frontend.torch_import.capture.kept_state import kept_state
from mirage.frontend.torch_import.capture.places import is_user_file
from mirage.frontend.torch_import.capture.shared_buffers import with_shared_buffers
from mirage.frontend.torch_import.capture.stack_traces import calls_of_models
from mirage.frontend.torch_import.capture.written_tensors import with_written_tensors


class _FunctionModule(torch.nn.Module):
    """A function as a module, for ``torch.export``."""

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self.function = _as_forward(function)

    def forward(self, *args: object, **named: object) -> object:
        return self.function(*args, **named)


def _as_forward(function: Callable[..., object]) -> Callable[..., object]:
    """Return the same function under the name ``forward``: PyTorch records places only in functions
    of that name.
    """
    if not isinstance(function, FunctionType):
        return function
    code = function.__code__.replace(co_name="forward")
    copy = FunctionType(
        code, function.__globals__, "forward", function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


@kept_state
def export_program(
    program: object,
    example_inputs: Sequence[object],
    named: Mapping[str, object] | None = None,
    dynamic: Sequence[object] | None = None,
) -> torch.export.ExportedProgram:
    """Return the program that ``torch.export`` captures; one that is already exported is returned
    unchanged. ``dynamic`` has the dynamic dimensions of each input, in the form that
    ``torch.export`` takes.

    Raises :class:`GraphTypeError`, :class:`ImportFailedError` or :class:`DynamicShapeError`.
    """
    if isinstance(program, torch.export.ExportedProgram):
        return program
    if isinstance(program, type):
        raise GraphTypeError(
            f"expected a module, got the class {program.__name__}; pass an object of it",
            user_location(),
        )
    if isinstance(program, torch.nn.Module):
        module = program
    elif callable(program):
        module = _FunctionModule(program)
    else:
        raise GraphTypeError(
            "expected a torch.nn.Module, a function or an ExportedProgram, got "
            f"{type(program).__name__}",
            user_location(),
        )
    # nothing runs the intermediate graphs
    with warnings.catch_warnings(), torch.no_grad(), without_code(True), calls_of_models():
        warnings.simplefilter("ignore")
        try:
            arguments: tuple[Any, ...] = _distinct([tuple(example_inputs), dict(named or {})])
            given, keyed = arguments
            shapes: tuple[Any, ...] | None = tuple(dynamic) if dynamic else None
            shapes_of = None if shapes is None else _by_parameters(module, shapes, tuple(keyed))
            found = torch.export.export(
                module, given, keyed, dynamic_shapes=shapes_of, strict=False
            )
            found = with_shared_buffers(found)
        except GuardOnDataDependentSymNode as error:
            raise DynamicShapeError(
                "expected a program whose course and shapes do not depend on the data, got "
                f"{first_line(error)}; use torch.where where it chooses",
                _origin(error),
            ) from error
        except Exception as error:
            together = _given_together(module, example_inputs)
            if together:
                raise GraphTypeError(together, _origin(error)) from error
            foreign = foreign_class(error)
            if foreign is not None:
                raise GraphTypeError(foreign, _origin(error)) from error
            raise ImportFailedError(
                f"torch.export could not capture {type(program).__name__}: {first_line(error)}",
                _origin(error),
            ) from error
    return with_written_tensors(found)


def _given_together(module: torch.nn.Module, inputs: Sequence[object]) -> str:
    """Say that several inputs were given as one tuple or list, if the module can be called with
    its elements; otherwise return an empty string."""
    if len(inputs) != 1 or not isinstance(inputs[0], tuple | list):
        return ""
    values: Sequence[object] = inputs[0]
    called = module.function if isinstance(module, _FunctionModule) else module.forward
    try:
        inspect.signature(called).bind(*values)
    except TypeError:
        return ""
    if not values or not all(isinstance(x, torch.Tensor) for x in values):
        return ""
    kind, count = type(inputs[0]).__name__, len(values)
    tensors = "1 tensor" if count == 1 else f"{count} tensors"
    return f"expected inputs one by one (model, x, y), got one {kind} of {tensors}; pass *inputs"


def _by_parameters(module: torch.nn.Module, shapes: Sequence[Any], keys: Sequence[str]) -> Any:
    """Return the dynamic dimensions of inputs in the form that ``torch.export`` takes: by
    parameters, some of which take any number of inputs. The last inputs have the names ``keys``."""
    rest = list(zip(keys, shapes[len(shapes) - len(keys) :], strict=True))
    positional = list(shapes[: len(shapes) - len(keys)])
    found: dict[str, Any] = {}
    keyed = dict(rest)
    for name, p in inspect.signature(module.forward).parameters.items():
        if p.kind is p.VAR_POSITIONAL:
            found[name], positional = tuple(positional), []
        elif p.kind is p.VAR_KEYWORD:
            found.update({name: keyed} if keyed else {})
        elif positional and p.kind is not p.KEYWORD_ONLY:
            found[name] = positional.pop(0)
        elif name in keyed:
            found[name] = keyed.pop(name)
    return {name: shape for name, shape in found.items() if shape != ()}


def _distinct(inputs: Sequence[object]) -> tuple[object, ...]:
    """Return the inputs, copying a tensor that occurs twice, which would be captured as one
    input."""
    seen: set[int] = set()

    def own(x: object) -> object:
        if isinstance(x, torch.Tensor):
            if id(x) in seen:
                return x.detach().clone()
            seen.add(id(x))
        elif isinstance(x, list | tuple):
            items = [own(item) for item in x]  # pyright: ignore[reportUnknownVariableType]
            return items if isinstance(x, list) else tuple(items)
        elif type(x) is dict:
            return {key: own(item) for key, item in x.items()}
        return x

    return tuple(own(x) for x in inputs)


def _origin(error: BaseException) -> SourceLocation | None:
    """Return the innermost line of the user's code in a traceback, or the caller's line."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if is_user_file(frame.filename) and frame.lineno is not None:
            return SourceLocation(frame.filename, frame.lineno)
    return user_location()


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, with its kind."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
