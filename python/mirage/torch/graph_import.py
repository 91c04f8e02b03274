"""The import of a graph of TorchDynamo for inputs of fixed sizes: its effects, and the program that
computes its results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from mirage.frontend.program import Program
from mirage.frontend.torch_import.capture.effects import Effects, effects_of
from mirage.runtime.dispatch.layouts import Arranged
from mirage.torch.autocast import with_explicit_casts
from mirage.torch.on_host import OnHost, with_outputs


@dataclass(frozen=True)
class GraphImport:
    """An imported graph. ``program`` is None if there is nothing to compute; ``calls`` are those
    that stay with PyTorch, with their ``reasons`` in the same order."""

    effects: Effects
    program: Program | None = None
    calls: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()


def import_graph(
    module: torch.fx.GraphModule,
    inputs: Sequence[Any],
    moved: bool = True,
    effects: Effects | None = None,
) -> GraphImport:
    """Import a graph, whose ``effects`` may be known. Tensors that are made by it are ``moved`` to
    the device of the inputs, or stay on the host.

    Raises the errors of :func:`~mirage.frontend.torch_import.from_torch` and
    :func:`~mirage.frontend.torch_import.effects_of`."""
    from mirage.frontend.torch_import import from_torch
    from mirage.frontend.torch_import.conversion.own_memory import in_own_memory

    effects = effects_of(module, inputs) if effects is None else effects
    arranged = Arranged(effects.results)
    computed = arranged.computed
    if not computed and not effects.written:
        return GraphImport(effects)  # views of inputs, and constants
    numbers = {i: x for i, x in enumerate(inputs) if not isinstance(x, torch.Tensor)}
    plain = with_explicit_casts(module, inputs)
    host = OnHost(with_outputs(plain, computed), device_of(inputs))
    part = Part(host.module, lambda tensors: numbers, len(inputs))
    with torch.autocast("cpu", enabled=False):  # where it is imported, not where it runs
        imported = from_torch(part, *examples_of(inputs), allow_fallback=True, allow_updates=True)
    program = in_own_memory(imported.program, arranged.memories)
    return GraphImport(
        effects,
        host.on_device(program, moved),
        tuple(call.op for call in imported.stays),
        tuple(call.reason for call in imported.stays),
    )


def device_of(inputs: Sequence[Any]) -> torch.device:
    """Return the device of a graph with these inputs."""
    tensors = (x for x in inputs if isinstance(x, torch.Tensor))
    return next((x.device for x in tensors), torch.device("cpu"))


def examples_of(inputs: Sequence[Any]) -> list[torch.Tensor]:
    """Return the tensors among inputs, on the host. Their elements are never read, so they take no
    memory."""
    return [
        torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="cpu")
        for x in inputs
        if isinstance(x, torch.Tensor)
    ]


class Part(torch.nn.Module):
    """A graph of ``count`` inputs as a function of its tensors only; ``numbers`` gives the other
    inputs by their places."""

    def __init__(
        self,
        module: torch.fx.GraphModule,
        numbers: Callable[[Sequence[torch.Tensor]], Mapping[int, Any]],
        count: int,
    ) -> None:
        super().__init__()
        self.module, self.numbers, self.count = module, numbers, count

    def forward(self, *tensors: torch.Tensor) -> Any:
        numbers, rest = self.numbers(tensors), iter(tensors)
        return self.module(*(numbers[i] if i in numbers else next(rest) for i in range(self.count)))
