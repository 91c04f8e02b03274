"""Conversion of a module to torch-mlir's `torch` dialect, by ``torch.export``."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch_mlir import ir as untyped_ir
from torch_mlir.dialects import torch as torch_dialect
from torch_mlir.extras.fx_as_strided import rewrite_as_strided
from torch_mlir.extras.fx_importer import TORCH_DTYPE_TO_INT, FxImporter

from mirage.frontend.errors import ImportFailedError
from mirage.frontend.location import user_location
from mirage.frontend.torch_import.capture.attention_formulas import with_attention_formulas
from mirage.frontend.torch_import.capture.captured_arguments import (
    Argument,
    arguments_of,
    written_arguments,
)
from mirage.frontend.torch_import.capture.complex_pairs import complex_as_pairs
from mirage.frontend.torch_import.capture.data_dependent import check_control_flow, check_static
from mirage.frontend.torch_import.capture.decompositions import decomposed
from mirage.frontend.torch_import.capture.exporting import export_program, first_line
from mirage.frontend.torch_import.capture.filled_numbers import check_filled_numbers
from mirage.frontend.torch_import.capture.folding import fold
from mirage.frontend.torch_import.capture.kept_state import kept_state
from mirage.frontend.torch_import.capture.memories import memories_of
from mirage.frontend.torch_import.capture.sorted_rows import rows_in_place
from mirage.frontend.torch_import.rows.products.experts import GROUPED, most_separate

ir: Any = untyped_ir
_DIALECTS = ("func",)
"""The dialects that are imported, in addition to the torch dialect. A context that loads everything
takes 8 ms more."""
_COMPLEX = {torch.complex32: 8, torch.complex64: 9, torch.complex128: 10}
"""PyTorch's numbers of these types; torch-mlir has others, or none."""
SUBMODULE = "<submodule>"  # the prefix of positions that are not in a file


@dataclass(frozen=True)
class Captured:
    """The captured program: a `func.func` of the torch dialect, and a description of its
    arguments."""

    module: Any  # keeps the context alive
    function: Any
    arguments: tuple[Argument, ...]
    keys: tuple[str, ...]  # places of the results, in order: ``['loss']``, ``[0]``
    updates: tuple[int, ...] = ()  # the arguments whose new values the first results are
    memories: tuple[Hashable, ...] = ()  # memory of the other results; None for that of an argument


@kept_state
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
    check_filled_numbers(exported)
    with_attention_formulas(exported)
    memories = memories_of(exported)
    exported = _decomposed(exported, in_place=not given_exported)
    written = written_arguments(exported, allow_updates)
    graph = exported.graph
    check_control_flow(graph)
    rows_in_place(graph, GROUPED, most_separate)
    complex_as_pairs(graph)
    _strides_as_indices(graph)
    arguments, given, updates = arguments_of(exported, program, example_inputs, written)
    for node, data in fold(graph, given):
        unrounded = data.dtype is not node.meta["val"].dtype
        inline = data.dim() == 0
        arguments.append(Argument(node.name, data, inline=inline, folded=True, unrounded=unrounded))
    graph.eliminate_dead_code()
    _note_submodules(graph)
    importer, function = _in_torch_dialect(graph)
    keys = () if written else _result_keys(exported)
    return Captured(importer.module, function, tuple(arguments), keys, updates, memories)


def _in_torch_dialect(graph: torch.fx.Graph) -> tuple[FxImporter, Any]:
    """Return the importer, which owns the IR, and the imported function."""
    TORCH_DTYPE_TO_INT.update(_COMPLEX)
    context = ir.Context(load_on_create_dialects=_DIALECTS)
    torch_dialect.register_dialect(context)
    importer = FxImporter(context=context)
    try:
        function = importer.import_stateless_graph(graph)
    except Exception as error:
        raise ImportFailedError(
            f"torch-mlir could not import the program: {first_line(error)}", user_location()
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
                f"PyTorch could not decompose the program: {first_line(error)}", user_location()
            ) from error


def _strides_as_indices(graph: torch.fx.Graph) -> None:
    """Replace views that are given by strides with lookups by indices, which are folded."""
    try:
        rewrite_as_strided(graph)
    except Exception as error:
        raise ImportFailedError(
            f"torch-mlir could not import as_strided: {first_line(error)}", user_location()
        ) from error


def _result_keys(exported: torch.export.ExportedProgram) -> tuple[str, ...]:
    """Return the place of each result in the returned structure."""
    spec = exported.call_spec.out_spec
    if spec is None:
        return ()
    structure = pytree.tree_unflatten(list(range(spec.num_leaves)), spec)
    paths, _ = pytree.tree_flatten_with_path(structure)
    return tuple(pytree.keystr(path) for path, _ in paths)


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
