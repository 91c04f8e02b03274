"""`mirage-rank`: the candidate that is predicted to be the fastest once it is compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import make_dataclass
from typing import TYPE_CHECKING, Any

from mirage.passes._rewrite import rewrite_graphs
from mirage.passes.option_text import chip_field, copied
from mirage.passes.registry import PythonPass, remark
from mirage.pipeline.options import OptimizeOptions

if TYPE_CHECKING:
    from mirage import ir
    from mirage.mlir_io import ReadGraph
    from mirage.semantics.ugraph import KernelGraph


RankOptions = make_dataclass(
    "RankOptions",
    [
        *copied(OptimizeOptions, {"finalists": "finalists"}),
        chip_field("the GPU to compile for"),
    ],
    frozen=True,
)
"""Options of the pass."""


def run(op: ir.Operation, options: Any) -> Mapping[str, int]:
    """Form ``verified``, with one candidate for each part; with none where one has none."""
    from mirage.cost.target import target_for
    from mirage.frontend.program import Parameter, Program
    from mirage.pipeline.compile.build import Builder
    from mirage.pipeline.errors import StageError
    from mirage.pipeline.rank import rank_candidates

    target = target_for(options.chip)

    def stage(read: ReadGraph, at: ir.Operation) -> KernelGraph:
        if options.finalists < 1:
            raise StageError(
                f"rank: expected to compile at least 1 candidate, got {options.finalists}"
            )
        weights = ((i, note.parameter) for i, note in read.notes.items())
        parameters = (Parameter(i, name, None) for i, name in weights if name is not None)
        builder = Builder(Program(read.graph, parameters=tuple(parameters)), options.chip)
        return rank_candidates(
            read.graph,
            target,
            options.finalists,
            lambda selected: tuple(builder.steps(selected)),
            lambda text: remark(at, f"rank: {text}"),
        )

    rewrite_graphs(op, ("verified",), None, stage)
    return {}


PASS = PythonPass(
    "mirage-rank",
    "keep the candidates that are predicted to be the fastest once compiled",
    RankOptions,
    run,
)
