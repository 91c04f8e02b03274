"""Results that have memory of their own in PyTorch, although they have the elements of an input or
of each other: ``torch.cat([x])``, ``x.repeat(1, 1)``, ``x.flip(0)`` of one row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mirage.frontend.program import Program
from mirage.runtime.dispatch.layouts import Layout
from mirage.transforms.copies import with_own_memory


def in_own_memory(program: Program, layouts: Sequence[Layout]) -> Program:
    """Return the program with copies for results that would share memory that they do not share in
    PyTorch. ``layouts`` are those of the results after the updates."""
    places = program.returned(range(len(program.graph.outputs)), lambda place, dtype: place)
    groups: dict[int, int] = {}
    for place, at in zip(places[len(program.updates) :], layouts, strict=True):
        if isinstance(place, int):
            groups.setdefault(place, at.group)
    graph = with_own_memory(program.graph, groups)
    return program if graph is program.graph else replace(program, graph=graph)
