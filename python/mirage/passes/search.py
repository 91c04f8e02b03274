"""`mirage-search`: the reference and the candidates that the search found, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import make_dataclass
from typing import TYPE_CHECKING, Any

from mirage.passes._rewrite import rewrite_graphs
from mirage.passes.option_text import chip_field, copied
from mirage.passes.registry import PythonPass, remark
from mirage.search import BOUNDS, SearchLimits

if TYPE_CHECKING:
    from mirage import ir
    from mirage.mlir_io import ReadGraph
    from mirage.semantics.ugraph import KernelGraph


SearchOptions = make_dataclass(
    "SearchOptions",
    [
        *copied(
            SearchLimits,
            {"seed": "seed", "budget": "time_limit", "candidates": "max_candidates"}
            | {name: f"max_{name}" for name in BOUNDS},
        ),
        chip_field("the GPU whose limits and cost model are used"),
    ],
    frozen=True,
)
"""Options of the pass: :class:`~mirage.search.SearchLimits` and the chip."""


def run(op: ir.Operation, options: Any) -> Mapping[str, int]:
    """Form ``reference`` (or none) to ``candidates``."""
    from mirage.cost.target import target_for
    from mirage.pipeline.errors import StageError
    from mirage.pipeline.search import add_candidates

    target = target_for(options.chip)
    limits = SearchLimits(
        budget=options.time_limit,
        candidates=options.max_candidates,
        seed=options.seed,
        **{name: getattr(options, f"max_{name}") for name in BOUNDS},
    )
    found = 0

    def stage(read: ReadGraph, at: ir.Operation) -> KernelGraph:
        nonlocal found
        graph, results = add_candidates(read.graph, target, limits)
        for result in results:
            report = result.report
            notes = "".join(f"; {note}" for note in report.notes)
            if not result.candidates:
                raise StageError(f"no candidate was found ({report.stop.value}){notes}")
            found += len(result.candidates)
            remark(
                at,
                f"search: {len(result.candidates)} candidates, best "
                f"{result.candidates[0].cost.time:.2f} us; "
                f"{report.frames} frames, {report.values} values, {report.plans} plans; "
                f"stopped: {report.reason}{notes}",
            )
        return graph

    rewrite_graphs(op, (None, "reference"), "candidates", stage)
    return {"candidates": found}


PASS = PythonPass(
    "mirage-search", "find candidate µGraphs for each reference graph", SearchOptions, run
)
