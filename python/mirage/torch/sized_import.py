"""The import of a graph of TorchDynamo with a number of rows that is known only at the call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from mirage.frontend.errors import DynamicShapeError
from mirage.frontend.program import Program, SizedProgram
from mirage.frontend.torch_import import dynamic_program, effects_of, from_torch
from mirage.frontend.torch_import.capture.effects import Effects
from mirage.frontend.torch_import.conversion.own_memory import in_own_memory
from mirage.pipeline.size_bounds import class_of
from mirage.runtime.dispatch.layouts import Arranged
from mirage.torch.autocast import has_regions
from mirage.torch.graph_import import Part, device_of, examples_of
from mirage.torch.graph_rows import Rows
from mirage.torch.graph_text import graph_text
from mirage.torch.on_host import OnHost, with_outputs


@dataclass(frozen=True)
class SizedImport:
    """An imported graph; ``calls`` are those that stay with PyTorch, with their ``reasons`` in the
    same order."""

    sizes: SizedProgram
    calls: tuple[str, ...]
    reasons: tuple[str, ...]


def import_sized(
    module: torch.fx.GraphModule,
    rows: Rows,
    inputs: Sequence[Any],
    moved: bool = True,
    effects: Effects | None = None,
) -> SizedImport:
    """Import a graph with everything except its ``rows`` as in ``inputs``; ``moved`` and
    ``effects`` are those of :func:`~mirage.torch.graph_import.import_graph`.

    Raises the errors of the import, including
    :class:`~mirage.frontend.errors.DynamicShapeError`."""
    if has_regions(module):
        raise DynamicShapeError("the casts of a region of autocast are known for one size only")
    effects = effects_of(module, inputs) if effects is None else effects
    arranged = Arranged(effects.results)
    host = OnHost(with_outputs(module, arranged.computed), device_of(inputs))
    fixed = {i: x for i, x in enumerate(inputs) if not isinstance(x, torch.Tensor)}
    places = [i for i in range(len(inputs)) if i not in fixed]
    place, each = next(iter(rows.tensors.items()))
    first = places.index(place)

    def numbers(tensors: Sequence[torch.Tensor]) -> Mapping[int, Any]:
        size: Any = tensors[first].shape[0]
        size = size if each == 1 else size // each
        return {i: size * rows.numbers[i] if i in rows.numbers else x for i, x in fixed.items()}

    part = Part(host.module, numbers, len(inputs))
    stays: tuple[Any, ...] = ()

    def at(examples: Sequence[object], size: int) -> Program:
        nonlocal stays
        imported = from_torch(
            part, *examples, allow_fallback=True, allow_updates=True, one_of_sizes=True
        )
        stays = imported.stays
        return host.on_device(in_own_memory(imported.program, arranged.memories), moved)

    size = torch.export.Dim("rows", min=rows.least, max=rows.most)
    shapes = [None if i not in rows.tensors else {0: _times(rows.tensors[i], size)} for i in places]
    reference = class_of(max(rows.size_of(inputs), rows.least + 1), rows.most)
    with torch.autocast("cpu", enabled=False):  # where it is imported, not where it runs
        sizes = dynamic_program(part, examples_of(inputs), shapes, at, reference)
    return SizedImport(sizes, tuple(s.op for s in stays), tuple(s.reason for s in stays))


def _times(each: int, size: Any) -> Any:
    return size if each == 1 else each * size


def at_size(rows: Rows, inputs: Sequence[Any], size: int) -> list[Any]:
    """Return inputs like these at another size, with tensors without elements."""

    def stated(place: int, x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return size * rows.numbers[place] if place in rows.numbers else x
        each = rows.tensors.get(place)
        shape = x.shape if each is None else (each * size, *x.shape[1:])
        return torch.empty_strided(shape, x.stride(), dtype=x.dtype, device=x.device)

    with FakeTensorMode():
        return [stated(i, x) for i, x in enumerate(inputs)]


def sized_text(module: torch.fx.GraphModule, rows: Rows, inputs: Sequence[Any]) -> str:
    """Return the canonical text of a graph with rows. Raises
    :class:`~mirage.torch.graph_text.NoTextError`."""
    return "\n".join((graph_text(module, inputs), rows.text))
