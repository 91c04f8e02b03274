"""Imports of graphs with a dynamic size, of earlier runs or another process
(:mod:`mirage.torch.kept_import`).

An entry is for one class of sizes; its text is that of the largest size. It has the programs at
that size and at the one below, from which the program at all sizes of the class follows.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from mirage.cache import PlainError
from mirage.frontend.program import Program, SizedProgram
from mirage.pipeline.parts.graph_record import BadRecordError
from mirage.torch.graph_rows import Rows
from mirage.torch.graph_text import NoTextError
from mirage.torch.kept_import import KeptGraph, entry_of, kept_graph, program_of, put_entry
from mirage.torch.sized_import import SizedImport, at_size

log = logging.getLogger("mirage.cache")


@dataclass(frozen=True)
class KeptSizes:
    """The entry of a graph for a class of sizes."""

    text: str
    name: str
    at_least: int
    at_most: int
    inputs: tuple[int, ...]
    largest: KeptGraph
    below: KeptGraph
    calls: tuple[str, ...]
    reasons: tuple[str, ...]


def keep_sizes(text: str, module: torch.fx.GraphModule, found: SizedImport, most: int) -> None:
    """Keep the import of a class that ends at ``most``; failing to is not an error, unless there is
    no program for these sizes: raises :class:`~mirage.frontend.errors.DynamicShapeError`."""
    sizes = found.sizes
    programs = sizes.at(most), sizes.at(most - 1)
    try:
        largest, below = (kept_graph(p, module) for p in programs)
        kept = KeptSizes(
            text, sizes.name, sizes.at_least, sizes.at_most, sizes.inputs, largest, below,
            found.calls, found.reasons,
        )  # fmt: skip
        put_entry(text, module, kept)
    except (BadRecordError, PlainError, NoTextError) as error:
        log.debug("the import of a graph is not kept: %s", error)


def kept_sizes(
    text: str,
    module: torch.fx.GraphModule,
    rows: Rows,
    inputs: Sequence[Any],
    most: int,
    made: list[torch.Tensor],
) -> SizedImport | None:
    """Return the import of a class that has been kept, or None. Tensors of the largest program that
    are not the graph's own are added to ``made``."""

    def restored(kept: KeptSizes) -> SizedImport:
        programs: dict[int, Program] = {
            size: program_of(graph, module, at_size(rows, inputs, size), tensors)
            for size, graph, tensors in ((most, kept.largest, made), (most - 1, kept.below, []))
        }
        at = programs.__getitem__
        sizes = SizedProgram(kept.name, kept.at_least, kept.at_most, kept.inputs, at)
        return SizedImport(sizes, kept.calls, kept.reasons)

    return entry_of(text, KeptSizes, restored)
