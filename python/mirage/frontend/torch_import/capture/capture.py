"""Conversion of a module to torch-mlir's `torch` dialect, by ``torch.export``."""

from __future__ import annotations

import inspect
import traceback
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from types import FunctionType
from typing import Any

import torch
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind
from torch.fx._lazy_graph_module import (
    _use_lazy_graph_module as without_code,  # pyright: ignore[reportPrivateUsage]
)
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils import _pytree as pytree
from torch_mlir import ir as untyped_ir
from torch_mlir.dialects import torch as torch_dialect
from torch_mlir.extras.fx_as_strided import rewrite_as_strided
from torch_mlir.extras.fx_importer import FxImporter

from mirage.errors import SourceLocation
from mirage.frontend.errors import DynamicShapeError, GraphTypeError, ImportFailedError
from mirage.frontend.location import user_location
from mirage.frontend.torch_import.capture.attention_formulas import with_attention_formulas
from mirage.frontend.torch_import.capture.complex_pairs import complex_as_pairs
from mirage.frontend.torch_import.capture.data_dependent import check_control_flow, check_static
from mirage.frontend.torch_import.capture.decompositions import decomposed
from mirage.frontend.torch_import.capture.folding import fold
from mirage.frontend.torch_import.capture.foreign_classes import foreign_class
from mirage.frontend.torch_import.capture.memories import memories_of
from mirage.frontend.torch_import.capture.places import is_user_file
from mirage.frontend.torch_import.capture.sorted_rows import rows_in_place
from mirage.frontend.torch_import.rows.products.experts import GROUPED, most_separate

ir: Any = untyped_ir
_DIALECTS = ("func",)
"""What is imported, beside the torch dialect. A context that loads everything takes 8 ms more."""
_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
SUBMODULE = "<submodule>"  # the prefix of positions that are not in a file


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
    fixed: bool = False  # a constant, or a buffer that no state_dict has


@dataclass(frozen=True)
class Captured:
    """The captured program: a `func.func` of the torch dialect, and a description of its
    arguments."""

    module: Any  # keeps the context alive
    function: Any
    arguments: tuple[Argument, ...]
    keys: tuple[str, ...]  # of the results, in order: ``['loss']``, ``[0]``
    updates: tuple[int, ...] = ()  # the arguments whose new values the first results are
    memories: tuple[Hashable, ...] = ()  # of the other results; None for that of an argument


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


def capture(
    program: object,
    example_inputs: Sequence[object],
    allow_updates: bool = False,
    named: Mapping[str, object] | None = None,
) -> Captured:
    """Return the program in torch-mlir's dialect, with all shapes fixed to those of the example
    inputs (those that are ``named`` come last). With ``allow_updates`` it may write to inputs and
    buffers: their new contents precede its results.

    Raises :class:`GraphTypeError`, :class:`ImportFailedError` or :class:`DynamicShapeError`.
    """
    given_exported = isinstance(program, torch.export.ExportedProgram)
    exported = export_program(program, example_inputs, named)
    check_static(exported.graph)
    with_attention_formulas(exported)
    memories = memories_of(exported)
    exported = _decomposed(exported, in_place=not given_exported)
    written = _written(exported, allow_updates)
    graph = exported.graph
    check_control_flow(graph)
    rows_in_place(graph, GROUPED, most_separate)
    complex_as_pairs(graph)
    _strides_as_indices(graph)
    arguments: list[Argument] = []
    given: dict[torch.fx.Node, torch.Tensor] = {}
    updated: dict[str, int] = {}
    placeholders = {node.name: node for node in graph.nodes if node.op == "placeholder"}
    for spec in exported.graph_signature.input_specs:
        node = placeholders[spec.arg.name]
        if isinstance(spec.arg, ConstantArgument) or not isinstance(
            node.meta.get("val"), torch.Tensor
        ):
            if node.users:
                raise GraphTypeError(
                    f"expected tensors as inputs, got {spec.arg} that is not one", user_location()
                )
            graph.erase_node(node)  # a number or None that the capture has made part of the program
            continue
        argument = _argument(exported, program, spec)
        arguments.append(argument)
        if spec.arg.name in written:
            updated[spec.arg.name] = len(arguments) - 1
        elif argument.data is not None and _is_fixed(spec):
            given[node] = argument.data.detach()
            arguments[-1] = replace(argument, fixed=True)
    arguments = _with_parameter_names(arguments, program, example_inputs)
    arguments += [
        Argument(node.name, data, inline=data.dim() == 0, folded=True)
        for node, data in fold(graph, given)
    ]
    graph.eliminate_dead_code()
    _note_submodules(graph)
    importer, function = _in_torch_dialect(graph)
    keys = () if written else _result_keys(exported)
    updates = tuple(updated[name] for name in written)
    return Captured(importer.module, function, tuple(arguments), keys, updates, memories)


def _in_torch_dialect(graph: torch.fx.Graph) -> tuple[FxImporter, Any]:
    """Return the importer, which owns the IR, and the imported function."""
    context = ir.Context(load_on_create_dialects=_DIALECTS)
    torch_dialect.register_dialect(context)
    importer = FxImporter(context=context)
    try:
        function = importer.import_stateless_graph(graph)
    except Exception as error:
        raise ImportFailedError(
            f"torch-mlir could not import the program: {_first_line(error)}", user_location()
        ) from error
    return importer, function


def _decomposed(
    exported: torch.export.ExportedProgram, *, in_place: bool
) -> torch.export.ExportedProgram:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return decomposed(exported, in_place=in_place)
        except Exception as error:
            raise ImportFailedError(
                f"PyTorch could not decompose the program: {_first_line(error)}", user_location()
            ) from error


def _strides_as_indices(graph: torch.fx.Graph) -> None:
    """Replace views by strides with lookups by indices, which are folded."""
    try:
        rewrite_as_strided(graph)
    except Exception as error:
        raise ImportFailedError(
            f"torch-mlir could not import as_strided: {_first_line(error)}", user_location()
        ) from error


def _is_fixed(spec: Any) -> bool:
    """Return whether a tensor holds the same values in every call: a constant, or a buffer that no
    state_dict has."""
    if spec.kind is InputKind.CONSTANT_TENSOR:
        return True
    return spec.kind is InputKind.BUFFER and spec.persistent is False


def _result_keys(exported: torch.export.ExportedProgram) -> tuple[str, ...]:
    """Return where each result stands in the returned structure."""
    spec = exported.call_spec.out_spec
    if spec is None:
        return ()
    structure = pytree.tree_unflatten(list(range(spec.num_leaves)), spec)
    paths, _ = pytree.tree_flatten_with_path(structure)
    return tuple(pytree.keystr(path) for path, _ in paths)


def export_program(
    program: object,
    example_inputs: Sequence[object],
    named: Mapping[str, object] | None = None,
    dynamic: Sequence[object] | None = None,
) -> torch.export.ExportedProgram:
    """Return the program that ``torch.export`` captures; one that is already exported is returned
    as it is. ``dynamic`` has the dynamic dimensions of each input, in the form that
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
    # nobody runs the graphs that are made on the way
    with warnings.catch_warnings(), torch.no_grad(), without_code(True):
        warnings.simplefilter("ignore")
        try:
            arguments: tuple[Any, ...] = _distinct([tuple(example_inputs), dict(named or {})])
            given, keyed = arguments
            shapes: tuple[Any, ...] | None = tuple(dynamic) if dynamic else None
            said = None if shapes is None else _said(module, shapes, tuple(keyed))
            return torch.export.export(module, given, keyed, dynamic_shapes=said, strict=False)
        except GuardOnDataDependentSymNode as error:
            raise DynamicShapeError(
                "expected a program whose course and shapes do not depend on the data, got "
                f"{_first_line(error)}; use torch.where where it chooses",
                _origin(error),
            ) from error
        except Exception as error:
            foreign = foreign_class(error)
            if foreign is not None:
                raise GraphTypeError(foreign, _origin(error)) from error
            raise ImportFailedError(
                f"torch.export could not capture {type(program).__name__}: {_first_line(error)}",
                _origin(error),
            ) from error


def _said(module: torch.nn.Module, shapes: Sequence[Any], keys: Sequence[str]) -> Any:
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


def _written(exported: torch.export.ExportedProgram, allowed: bool) -> tuple[str, ...]:
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
        data = getattr(
            program.get_submodule(owner), leaf
        )  # the module's own tensor: later updates are seen
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
    names of its own). Numbers and None are not arguments, and tensors inside of something have the
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


def _note_submodules(graph: torch.fx.Graph) -> None:
    """Add the submodule of each node to the places that torch-mlir copies."""
    for node in graph.nodes:
        stack: Any = list((node.meta.get("nn_module_stack") or {}).values())
        if stack:
            path, kind = stack[-1]
            kind = kind if isinstance(kind, str) else kind.__qualname__
            if path:
                note = f'File "{SUBMODULE}{path}: {kind.rpartition(".")[2]}", line 0, in forward'
                node.meta["stack_trace"] = f"{node.meta.get('stack_trace') or ''}\n{note}"


def _origin(error: BaseException) -> SourceLocation | None:
    """Return the innermost line of the user's code in a traceback, or the caller's line."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if is_user_file(frame.filename) and frame.lineno is not None:
            return SourceLocation(frame.filename, frame.lineno)
    return user_location()


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
