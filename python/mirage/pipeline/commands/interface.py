"""The call interface of a module, in the form that an artifact contains."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mirage.frontend.program import Parameter, Program
from mirage.pipeline.whole_model import IncompleteModelError, Interface
from mirage.runtime.dispatch.layouts import Layout
from mirage.runtime.models.model_manifest import Fixed, Given, Result
from mirage.runtime.serialization.manifest import TORCH_NAMES, TensorSpec
from mirage.semantics.substitute import without_dead_ops
from mirage.semantics.ugraph import KernelGraph
from mirage.transforms.copies import with_own_memory

if TYPE_CHECKING:
    import torch

    from mirage.frontend.torch_import import ImportedGraph


def name_of(model: object) -> str:
    """Return the name of an exported module."""
    name = getattr(model, "__name__", type(model).__name__)
    return name if name.isidentifier() and name != "ExportedProgram" else "model"


def interface_of(
    exported: torch.export.ExportedProgram, imported: ImportedGraph, model: object = None
) -> tuple[Program, Interface]:
    """Return the program without results that need not be computed, and its call interface.
    ``model`` is the exported object, which knows the names of its parameters. Raises
    :class:`IncompleteModelError`."""
    from mirage.frontend.torch_import import ModuleCall, names_by_position

    call = ModuleCall(exported)
    program = imported.program
    _check_devices(call)
    arguments = tuple(map(_argument, call.arguments))
    memories = {place: number for number, place in enumerate(call.tensors)}
    bound = {p.name: p.index for p in program.parameters}
    others: list[Parameter] = []
    results: list[Result | Fixed] = []
    for found in call.results:
        if not isinstance(found, Layout):
            results.append(Fixed(found))
            continue
        memory: int | None = None
        if found.input is not None:
            held = call.held.get(found.input)
            if held is None:
                memory = memories[found.input]
            else:
                if held.name not in bound:
                    bound[held.name] = index = len(program.graph.inputs) + len(others)
                    others.append(Parameter(index, held.name, held.data))
                memory = bound[held.name]
        results.append(_result(found, memory))
    check_apart(program)
    count = len(program.updates)
    computed = [i for i, r in enumerate(results) if isinstance(r, Result) and r.memory is None]
    places = program.returned(range(len(program.graph.outputs)))
    outputs = [program.graph.outputs[places[count + i]] for i in computed]  # type: ignore[index]
    graph = program.graph
    whole = (*graph.outputs[:count], *outputs)
    groups = (r.group for r in results if isinstance(r, Result) and r.memory is None)
    graph = with_own_memory(
        KernelGraph(graph.name, graph.inputs, graph.ops, whole), dict(enumerate(groups, count))
    )
    graph = without_dead_ops(graph)
    kept = set(graph.ops)
    locations = {op: at for op, at in program.locations.items() if op in kept}
    interface = Interface(
        call.structure,
        arguments,
        tuple(results),
        call.result_structure,
        tuple(range(count, len(whole))),
        tuple(others),
        frozenset(exported.state_dict),
        names_by_position(
            exported if model is None else model, len(call.structure.children[0].children)
        ),
    )
    small = replace(program, graph=graph, locations=locations, results=None, keys=())
    return small, interface


def _argument(argument: Any) -> Given | Fixed:
    name, value = argument
    import torch

    if isinstance(value, torch.Tensor):
        return Given(
            TensorSpec(name, tuple(value.shape), value.stride(), _dtype(name, value.dtype))
        )
    if value is None or isinstance(value, bool | int | float | str):
        return Fixed(value)
    raise IncompleteModelError(
        f"argument {name}: expected a tensor, a number, a string or None, got "
        f"{type(value).__name__}, which an artifact cannot describe"
    )


def _result(found: Layout, memory: int | None) -> Result:
    if found.conjugate or found.negative:
        raise IncompleteModelError(
            "a result holds the negatives of the elements in its memory, which an artifact cannot "
            "describe; return resolve_conj() or resolve_neg() of it"
        )
    dtype = _dtype("a result", found.dtype)
    return Result(found.shape, found.strides, dtype, found.offset, found.bytes, memory, found.group)


def _dtype(what: str, dtype: torch.dtype) -> str:
    name = str(dtype).removeprefix("torch.")
    short = next((short for short, known in TORCH_NAMES.items() if known == name), None)
    if short is None:
        raise IncompleteModelError(
            f"{what}: tensors of {dtype} cannot be described by an artifact; expected one of "
            f"{', '.join(TORCH_NAMES.values())}"
        )
    return short


def _check_devices(call: Any) -> None:
    if len(call.devices) > 1:
        names = ", ".join(sorted(map(str, call.devices)))
        raise IncompleteModelError(
            f"the model has tensors on {names}; an artifact runs on one device: move the module "
            "and its inputs to one"
        )


def check_apart(program: Program) -> None:
    """Raise :class:`IncompleteModelError` if a tensor that is updated shares memory with another
    tensor that the module holds."""
    updated = set(program.updates)
    held = {p.index: p for p in program.parameters}
    storages: dict[int, Any] = {
        i: p.data.untyped_storage().data_ptr()  # type: ignore[attr-defined]
        for i, p in held.items()
    }
    for i in updated & set(held):
        same = [j for j in held if j != i and storages[j] == storages[i] != 0]
        if same:
            raise IncompleteModelError(
                f"{held[i].name} is updated and shares memory with {held[same[0]].name}, which an "
                "artifact cannot keep; give each of them memory of its own"
            )
