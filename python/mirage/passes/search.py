"""`mirage-search`: the reference and what the search found, side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mirage.cost.target import DEFAULT_CHIP
from mirage.passes._rewrite import rewrite_graphs
from mirage.passes.registry import PythonPass, remark

if TYPE_CHECKING:
    from mirage import ir
    from mirage.mlir_io import ReadGraph
    from mirage.semantics.ugraph import KernelGraph


@dataclass(frozen=True)
class SearchOptions:
    """Options of the pass. A bound of 0 is the search's default."""

    seed: int = 0
    time_limit: float = 60.0
    max_candidates: int = 8
    chip: str = DEFAULT_CHIP
    max_plans: int = 0
    max_cuts: int = 0
    max_matmuls: int = 0
    max_outputs: int = 0
    max_choices: int = 0
    max_goals: int = 0
    max_derivations: int = 0
    max_columns: int = 0
    max_samples: int = 0


def run(op: ir.Operation, options: SearchOptions) -> Mapping[str, int]:
    """Form ``reference`` (or none) to ``candidates``."""
    from mirage.cost.target import target_for
    from mirage.passes.registry import PassError
    from mirage.pipeline.errors import StageError
    from mirage.pipeline.search import add_candidates
    from mirage.search import SearchLimits

    target = target_for(options.chip)
    if not options.time_limit > 0:
        raise PassError(f"expected a positive time-limit, got {options.time_limit:g}")
    if options.max_candidates < 1:
        raise PassError(f"expected max-candidates of at least 1, got {options.max_candidates}")
    if options.seed < 0:
        raise PassError(f"expected a seed of at least 0, got {options.seed}")
    limits = SearchLimits(
        budget=options.time_limit,
        candidates=options.max_candidates,
        seed=options.seed,
        **_bounds(options),
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
                f"stopped: {report.stop.value}{notes}",
            )
        return graph

    rewrite_graphs(op, (None, "reference"), "candidates", stage)
    return {"candidates": found}


def _bounds(options: SearchOptions) -> dict[str, int]:
    from mirage.passes.registry import PassError
    from mirage.search import BOUNDS

    given: dict[str, int] = {name: getattr(options, f"max_{name}") for name in BOUNDS}
    for name, value in given.items():
        if value < 0:
            raise PassError(f"expected max-{name} of at least 1, or 0, got {value}")
    return {name: value for name, value in given.items() if value}


PASS = PythonPass(
    "mirage-search", "find candidate µGraphs for each reference graph", SearchOptions, run
)
