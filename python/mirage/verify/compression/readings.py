"""Ways to read two or more programs in common digits.

The programs are used unchanged if their tiles, reshapes and slices are compatible. Otherwise
adjacent dimensions that no op separates are merged
(:mod:`mirage.verify.compression.merged_dimensions`), or dimensions that the programs merge are kept
apart (:mod:`mirage.verify.compression.split_dimensions`). As a last resort, the digits that do not
fit stay uncompressed (:mod:`mirage.verify.compression.digits`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mirage.semantics.ugraph import Cumulation, KernelGraph, all_ops
from mirage.verify.compression.digits import Structure
from mirage.verify.compression.index_relations import Irregular
from mirage.verify.compression.merged_dimensions import merged
from mirage.verify.compression.split_dimensions import split


@dataclass(frozen=True)
class Reading:
    """The programs that replace the given ones, and their digits.

    ``at_hand`` says that the lengths of the digits hold only for the given sizes of the programs.
    """

    graphs: tuple[KernelGraph, ...]
    structure: Structure
    at_hand: bool


def readings(graphs: tuple[KernelGraph, ...]) -> Iterator[Reading]:
    """Yield the possible readings lazily, the best first.

    The graphs have primitive ops only. Raises :class:`Irregular` if there is no reading.
    """
    if any(isinstance(op, Cumulation) for g in graphs for op in all_ops(g.ops)):
        raise Irregular("running results depend on all indices of a dimension")
    first: Irregular | None = None
    found = False
    for programs, sever in _options(graphs):
        structure = _structure(programs, sever)
        if isinstance(structure, Irregular):
            first = first or structure
        elif not sever or structure.severed:  # otherwise it was tried already
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
