"""The launches of a module that diagnostics of the compiler and the assembler are about, found by
their lines in its text."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable
from typing import Any

_PLACE = re.compile(r'"[^"\n]*":(\d+):\d+')
"""A place in a file, in the syntax of locations, including those composed of others."""


def lines_of(error: Any) -> list[int]:
    """Return the lines (from 1 on) that the diagnostics of an ``ir.MLIRError`` mention."""
    places = (_PLACE.findall(str(d.location)) for d in error.error_diagnostics)
    return [int(line) for found in places for line in found]


def lines_of_functions(module: Any, names: Collection[str]) -> list[int]:
    """Return the lines of the launches that became calls of some functions of a compiled
    ``module``."""
    ops = [op for graph in module.body.operations for op in _ops_of(graph.operation)]
    calls = (op for op in ops if op.name == "kernel.invoke")
    places = (str(op.location) for op in calls if _called_by(op) in names)
    return [int(line) for place in places for line in _PLACE.findall(place)]


def kernels_at(text: str, lines: Iterable[int]) -> tuple[int, ...]:
    """Return the numbers of the launches at these lines, among the launches of the graph in
    ``text``."""
    from mirage import ir

    wanted = sorted(set(lines))
    if not wanted:
        return ()
    starts: list[int] = []
    launches: list[int | None] = []  # the number of each op, if it is a launch
    with ir.Context(load_on_create_dialects=()):
        try:
            module = ir.Module.parse(text)
        except ir.MLIRError:  # text that cannot be parsed has no kernels
            return ()
        ops = [op for graph in module.body.operations for op in _ops_of(graph.operation)]
        for op in ops:
            starts.append(op.location.start_line)
            launch = op.name == "kernel.launch"
            launches.append(sum(n is not None for n in launches) if launch else None)
    places = (bisect_right(starts, line) - 1 for line in wanted)
    found = (launches[place] for place in places if place >= 0)
    return tuple(sorted({number for number in found if number is not None}))


def _ops_of(graph: Any) -> list[Any]:
    if graph.name != "kernel.graph":
        return []
    return [op.operation for op in graph.regions[0].blocks[0].operations]


def _called_by(invoke: Any) -> str:
    """Return the name of a function, without that of its module."""
    return re.findall(r'@"?([^":]+)"?', str(invoke.attributes["callee"]))[-1]
