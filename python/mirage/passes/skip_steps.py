"""`mirage-skip-steps`: loops without the steps whose tiles a mask empties."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mirage.passes._rewrite import rewrite_graphs
from mirage.passes.registry import NoOptions, PythonPass

if TYPE_CHECKING:
    from mirage import ir
    from mirage.mlir_io import ReadGraph
    from mirage.semantics.ugraph import KernelGraph


def run(op: ir.Operation, options: NoOptions) -> Mapping[str, int]:
    """Run on the form ``candidates``, or on kernels without a form. Verified graphs are refused,
    because a verdict holds only for the program that was verified."""
    from mirage.pipeline.skip_steps import skip_steps_of_candidates

    def stage(read: ReadGraph, at: ir.Operation) -> KernelGraph:
        return skip_steps_of_candidates(read.graph)

    rewrite_graphs(op, (None, "candidates"), None, stage)
    return {}


PASS = PythonPass(
    "mirage-skip-steps", "leave out steps of loops whose tiles a mask empties", NoOptions, run
)
