"""`mirage-stabilize`: exponentials relative to a running maximum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mirage.passes._rewrite import rewrite_graphs
from mirage.passes.registry import NoOptions, PythonPass, remark

if TYPE_CHECKING:
    from mirage import ir
    from mirage.mlir_io import ReadGraph
    from mirage.semantics.ugraph import KernelGraph


def run(op: ir.Operation, options: NoOptions) -> Mapping[str, int]:
    """Run on the form ``candidates``, or on kernels without a form. Verified graphs are refused,
    because a verdict holds only for the program that was verified."""
    from mirage.pipeline.stabilize import stabilize_candidates

    def stage(read: ReadGraph, at: ir.Operation) -> KernelGraph:
        graph, exponentials = stabilize_candidates(read.graph)
        for number, found in enumerate(exponentials):
            for exponential in found:
                if not exponential.stable:
                    remark(at, f"stabilize: candidate {number}: {exponential}")
        return graph

    rewrite_graphs(op, (None, "candidates"), None, stage)
    return {}


PASS = PythonPass(
    "mirage-stabilize", "rewrite exponentials so that they cannot overflow", NoOptions, run
)
