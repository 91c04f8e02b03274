"""The call of a captured module: its arguments and results, nested as in the caller, and their
places in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree

from mirage.frontend.errors import GraphTypeError
from mirage.frontend.location import user_location
from mirage.frontend.torch_import.capture.effects import effects_of
from mirage.runtime.dispatch.layouts import Found
from mirage.runtime.models.structure import Structure

_HELD = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


@dataclass(frozen=True)
class HeldTensor:
    """A tensor that the module holds."""

    name: str
    data: torch.Tensor


class ModuleCall:
    """The call of an exported program. Raises :class:`GraphTypeError` if arguments or results have
    classes that an artifact cannot describe, and the errors of :func:`effects_of`."""

    def __init__(self, exported: torch.export.ExportedProgram) -> None:
        if exported.call_spec.in_spec is None or exported.call_spec.out_spec is None:
            raise GraphTypeError(
                "expected a program that knows how it is called, got one without", user_location()
            )
        self.structure = structure_from(exported.call_spec.in_spec, "an argument")
        self.result_structure = structure_from(exported.call_spec.out_spec, "a result")
        signature = exported.graph_signature
        nodes = exported.graph.find_nodes(op="placeholder")
        self.held: dict[int, HeldTensor] = {}
        """The tensors that the module holds, by their positions among the inputs of the graph."""
        values: list[Any] = []
        users: list[int] = []
        for place, (node, spec) in enumerate(zip(nodes, signature.input_specs, strict=True)):
            value = node.meta.get("val", getattr(spec.arg, "value", None))
            values.append(value)
            if spec.kind is InputKind.USER_INPUT:
                users.append(place)
            elif spec.kind in _HELD and isinstance(value, torch.Tensor):
                self.held[place] = HeldTensor(str(spec.target), held_tensor(exported, spec))
            else:
                raise GraphTypeError(
                    f"expected a module that holds tensors, got {spec.target or spec.arg}",
                    user_location(),
                )
        names = self._names(exported)
        self.arguments = [(name, values[place]) for name, place in zip(names, users, strict=True)]
        self.tensors = [p for p in users if isinstance(values[p], torch.Tensor)]
        """The positions of the arguments that are tensors."""
        self.devices = {v.device for v in values if isinstance(v, torch.Tensor)}
        self.results = self._results(exported, values)
        """The memory of each result; inputs are numbered as in the graph."""

    def _names(self, exported: torch.export.ExportedProgram) -> list[str]:
        """Return the names of arguments in messages and files."""
        specs = exported.graph_signature.input_specs
        names = [str(s.arg.name) for s in specs if s.kind is InputKind.USER_INPUT]
        positional, named = self.structure.children
        keyed = zip(named.keys, named.children, strict=True)
        return names[: positional.leaves] + [p for key, c in keyed for p in c.places(str(key))]

    def _results(
        self, exported: torch.export.ExportedProgram, values: Sequence[Any]
    ) -> tuple[Found, ...]:
        effects = effects_of(exported.graph_module, values)
        kinds = [spec.kind for spec in exported.graph_signature.output_specs]
        found = zip(effects.results, kinds, strict=True)
        return tuple(result for result, kind in found if kind is OutputKind.USER_OUTPUT)


def held_tensor(exported: torch.export.ExportedProgram, spec: Any) -> torch.Tensor:
    """Return the tensor that an input of the graph stands for."""
    target = str(spec.target)
    data: Any = exported.state_dict.get(target)
    return exported.constants[target] if data is None else data  # type: ignore[return-value]


def structure_from(spec: Any, what: str) -> Structure:
    """Convert a structure of ``torch.utils._pytree``. Raises :class:`GraphTypeError` for other
    classes that are not mappings."""
    if spec.is_leaf():
        return Structure()
    children = tuple(structure_from(child, what) for child in spec.children())
    kind: Any = spec.type
    if kind is tuple or kind is list:
        return Structure(kind.__name__, children)
    named = next((c for c in (kind, spec.context) if pytree.is_namedtuple_class(c)), None)
    if named is not None:  # PyTorch records the class itself
        return Structure("named", children, tuple(named._fields), named.__name__)
    keys = _keys(spec, len(children)) if issubclass(kind, Mapping) else None
    if keys is None:
        raise GraphTypeError(
            f"{what} is a {kind.__name__}, which an artifact cannot describe; use tensors in "
            "tuples, lists and dictionaries",
            user_location(),
        )
    return Structure("dict", children, keys)


def _keys(spec: Any, count: int) -> tuple[str | int, ...] | None:
    """Return the keys of a mapping, as PyTorch records them: a list, or the last of several
    things."""
    for found in (spec.context, *(spec.context if isinstance(spec.context, list | tuple) else ())):
        if isinstance(found, list | tuple) and len(found) == count:
            keys = tuple(found)
            if all(isinstance(key, str | int) for key in keys):
                return keys
    return None
