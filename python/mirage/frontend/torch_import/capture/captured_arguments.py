"""The arguments of a captured program: tensors of the caller, weights and constants."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from types import FunctionType
from typing import Any

import torch
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind
from torch.utils import _pytree as pytree

from mirage.frontend.errors import GraphTypeError, ImportFailedError
from mirage.frontend.location import user_location

_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True)
class Argument:
    """One argument of the captured function: a tensor that the caller passes, or (``data``) one
    that the module holds.
    """

    name: str
    data: torch.Tensor | None
    inline: bool = False  # a scalar written in the program, rather than a weight
    trained: bool = False  # an ``nn.Parameter``, rather than a buffer or a constant
    folded: bool = False  # computed at import from constants, read as the numbers that it holds
    unrounded: bool = False  # a number of f32, as the number from which it was rounded
    fixed: bool = False  # a constant, or a buffer that no state_dict has
    also: tuple[str, ...] = ()  # other names of the same parameter


def arguments_of(
    exported: torch.export.ExportedProgram,
    program: object,
    example_inputs: Sequence[object],
    written: Sequence[str],
) -> tuple[list[Argument], dict[torch.fx.Node, torch.Tensor], tuple[int, ...]]:
    """Return the tensors that the graph takes, those of them that hold the same values in every
    call, and the positions of those that are ``written``. Other inputs are taken out of it."""
    graph = exported.graph
    arguments: list[Argument] = []
    given: dict[torch.fx.Node, torch.Tensor] = {}
    updated: dict[str, int] = {}
    names = _names_of_parameters(program)
    # by their order: a copy of a graph renames `input`, which is a name of Python's
    placeholders = graph.find_nodes(op="placeholder")
    for node, spec in zip(placeholders, exported.graph_signature.input_specs, strict=True):
        if isinstance(spec.arg, ConstantArgument) or not isinstance(
            node.meta.get("val"), torch.Tensor
        ):
            if node.users:
                raise GraphTypeError(
                    f"expected tensors as inputs, got {spec.arg} that is not one", user_location()
                )
            # a number or None that the capture has made a part of the program
            graph.erase_node(node)
            continue
        argument = _argument(exported, program, spec)
        if argument.trained:
            also = (n for n in names.get(id(argument.data), ()) if n != argument.name)
            argument = replace(argument, also=tuple(also))
        arguments.append(argument)
        if spec.arg.name in written:
            updated[spec.arg.name] = len(arguments) - 1
        elif argument.data is not None and _is_fixed(spec):
            given[node] = argument.data.detach()
            arguments[-1] = replace(argument, fixed=True)
    updates = tuple(updated[name] for name in written)
    return _with_parameter_names(arguments, program, example_inputs), given, updates


def written_arguments(exported: torch.export.ExportedProgram, allowed: bool) -> tuple[str, ...]:
    """Return the arguments that the program writes to, in the order of the results that are their
    new values."""
    signature = exported.graph_signature
    buffers = {str(s.target): s.arg.name for s in signature.input_specs if s.target is not None}
    found: list[str] = []
    for spec in signature.output_specs:
        if allowed and spec.kind is OutputKind.USER_INPUT_MUTATION:
            found.append(str(spec.target))
        elif allowed and spec.kind is OutputKind.BUFFER_MUTATION:
            found.append(buffers[str(spec.target)])
        elif spec.kind is not OutputKind.USER_OUTPUT:
            raise ImportFailedError(
                f"expected a program without side effects, got an update of {spec.target!r}; "
                "return the new value instead",
                user_location(),
            )
    return tuple(found)


def _argument(exported: torch.export.ExportedProgram, program: object, spec: Any) -> Argument:
    if spec.kind is InputKind.USER_INPUT:
        return Argument(spec.arg.name, None)
    target = str(spec.target)
    data = exported.constants.get(target)
    if data is None:
        data = exported.state_dict.get(target)
    if isinstance(program, torch.nn.Module) and spec.kind is not InputKind.CONSTANT_TENSOR:
        owner, _, leaf = target.rpartition(".")
        # the module's own tensor: later updates are seen
        data = getattr(program.get_submodule(owner), leaf, data)
    if not isinstance(data, torch.Tensor):
        raise ImportFailedError(
            f"expected a tensor for {target!r}, got {type(data).__name__}", user_location()
        )
    constant = spec.kind is InputKind.CONSTANT_TENSOR
    return Argument(
        _constant_name(program, data) or target if constant else target,
        data,
        inline=constant and data.dim() == 0,
        trained=spec.kind is InputKind.PARAMETER,
    )


def _names_of_parameters(program: object) -> dict[int, list[str]]:
    """Return the names that a module has for each of its parameters, which may be tied."""
    found: dict[int, list[str]] = {}
    if isinstance(program, torch.nn.Module):
        for name, x in program.named_parameters(remove_duplicate=False):
            found.setdefault(id(x), []).append(name)
    return found


def _constant_name(program: object, data: torch.Tensor) -> str | None:
    """Return the name of a tensor that the program's code takes from an enclosing scope."""
    function = type(program).forward if isinstance(program, torch.nn.Module) else program
    if not isinstance(function, FunctionType):
        return None
    around = inspect.getclosurevars(function)
    for name, value in (*around.nonlocals.items(), *around.globals.items()):
        if value is data:
            return name
    return None


def _with_parameter_names(
    arguments: list[Argument], program: object, example_inputs: Sequence[object]
) -> list[Argument]:
    """Name the arguments by position after the function's parameters (the wrapper around it has no
    names of its own). Numbers and None are not arguments, and tensors inside of structures have the
    names that PyTorch gives them."""
    if not isinstance(program, FunctionType):
        return arguments
    by_place = [p for p in inspect.signature(program).parameters.values() if p.kind in _BY_PLACE]
    names: list[str | None] = []
    for x, p in zip_longest(example_inputs, by_place[: len(example_inputs)]):
        leaves: list[Any] = pytree.tree_leaves(x)
        tensors = sum(isinstance(leaf, torch.Tensor) for leaf in leaves)
        alone = len(leaves) == 1 and leaves[0] is x
        names += [p.name if p is not None and alone else None] * tensors
    rest = iter(names)
    renamed: list[Argument] = []
    for argument in arguments:
        name = next(rest, None) if argument.data is None else None
        renamed.append(argument if name is None else replace(argument, name=name))
    return renamed


def _is_fixed(spec: Any) -> bool:
    """Return whether a tensor holds the same values in every call: a constant, or a buffer that no
    state_dict has."""
    if spec.kind is InputKind.CONSTANT_TENSOR:
        return True
    return spec.kind is InputKind.BUFFER and spec.persistent is False
