"""Ways to read two programs, or more of them, in common digits.

As they are, if tiles, reshapes and slices fit each other. Else with dimensions merged that always
stand side by side (:mod:`mirage.verify.compression.merged_dimensions`), or apart that the programs
merge (:mod:`mirage.verify.compression.split_dimensions`), and else with those digits left
uncompressed that do not fit (:mod:`mirage.verify.compression.digits`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mirage.semantics.ugraph import KernelGraph
from mirage.verify.compression.digits import Structure
from mirage.verify.compression.index_relations import Irregular
from mirage.verify.compression.merged_dimensions import merged
from mirage.verify.compression.split_dimensions import split


@dataclass(frozen=True)
class Reading:
    """Programs that stand for those given, and their digits.

    ``at_hand``: the lengths of the digits say nothing about other sizes of the programs given.
    """

    graphs: tuple[KernelGraph, ...]
    structure: Structure
    at_hand: bool


def readings(graphs: tuple[KernelGraph, ...]) -> Iterator[Reading]:
    """All ways that there are, the best first; each is looked for when it is asked for.

    The graphs have primitive ops only. Raises :class:`Irregular` where there is none.
    """
    first: Irregular | None = None
    found = False
    for programs, sever in _options(graphs):
        structure = _structure(programs, sever)
        if isinstance(structure, Irregular):
            first = first or structure
        elif not sever or structure.severed:  # else it is one that was tried
            found = True
            yield Reading(programs, structure, sever)
    if first is not None and not found:
        raise first


def _structure(graphs: tuple[KernelGraph, ...], sever: bool) -> Structure | Irregular:
    try:
        return Structure(graphs, sever=sever)
    except Irregular as reason:
        return reason


def _options(graphs: tuple[KernelGraph, ...]) -> Iterator[tuple[tuple[KernelGraph, ...], bool]]:
    yield graphs, False
    joined = merged(graphs)
    if joined is not None:
        yield joined, False
    apart = split(graphs)
    if apart is not None:
        yield apart, False
    yield graphs, True
    if joined is not None:
        yield joined, True
