"""Results that have memory of their own in PyTorch, although they have the elements of an input or
of each other: ``torch.cat([x])``, ``x.repeat(1, 1)``, ``x.flip(0)`` of one row."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from mirage.frontend.program import Program
from mirage.transforms.copies import with_own_memory


def in_own_memory(program: Program, memories: Sequence[Hashable]) -> Program:
    """Return the program with copies for results that would share memory that they do not share in
    PyTorch. ``memories`` names the memory of each result after the updates, or is None where that
    is an input's."""
    places = program.returned(range(len(program.graph.outputs)), lambda place, dtype: place)
    names: dict[int, Hashable] = {}
    for place, name in zip(places[len(program.updates) :], memories, strict=True):
        if isinstance(place, int) and name is not None:
            names.setdefault(place, name)
    graph = with_own_memory(program.graph, names)
    return program if graph is program.graph else replace(program, graph=graph)
