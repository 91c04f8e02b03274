"""`mirage-shortlist`: the candidates that are most worth verifying."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import make_dataclass
from typing import TYPE_CHECKING, Any

from mirage.passes._rewrite import rewrite_graphs
from mirage.passes.option_text import chip_field, copied
from mirage.passes.registry import PythonPass
from mirage.pipeline.options import OptimizeOptions

if TYPE_CHECKING:
    from mirage import ir
    from mirage.mlir_io import ReadGraph
    from mirage.semantics.ugraph import KernelGraph


ShortlistOptions = make_dataclass(
    "ShortlistOptions",
    [
        *copied(OptimizeOptions, {"candidates": "candidates"}),
        chip_field("the GPU whose cost model is used"),
    ],
    frozen=True,
)
"""Options of the pass."""


def run(op: ir.Operation, options: Any) -> Mapping[str, int]:
    """Form ``candidates``, with fewer of them."""
    from mirage.cost.target import target_for
    from mirage.pipeline.errors import StageError
    from mirage.pipeline.shortlist import shortlist

    target = target_for(options.chip)
    kept = 0

    def stage(read: ReadGraph, at: ir.Operation) -> KernelGraph:
        nonlocal kept
        if options.candidates < 1:
            raise StageError(
                f"shortlist: expected to keep at least 1 candidate, got {options.candidates}"
            )
        graph, places = shortlist(read.graph, target, options.candidates)
        kept += sum(map(len, places))
        return graph

    rewrite_graphs(op, ("candidates",), None, stage)
    return {"candidates": kept}


PASS = PythonPass(
    "mirage-shortlist",
    "keep the candidates that are most worth verifying",
    ShortlistOptions,
    run,
)
