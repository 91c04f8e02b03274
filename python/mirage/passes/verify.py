"""`mirage-verify`: a verdict for each candidate; what is not equivalent is dropped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mirage.passes._rewrite import rewrite_graphs
from mirage.passes.registry import PythonPass, warn

if TYPE_CHECKING:
    from mirage import ir
    from mirage.mlir_io import ReadGraph
    from mirage.semantics.ugraph import KernelGraph


@dataclass(frozen=True)
class VerifyPassOptions:
    """Options of the pass. A negative seed draws a secret one."""

    seed: int = -1
    draws: int = 3
    check_float: bool = True


def run(op: ir.Operation, options: VerifyPassOptions) -> Mapping[str, int]:
    """Form ``candidates`` to ``verified``."""
    from mirage.passes.registry import PassError
    from mirage.pipeline.verify import verify_candidates
    from mirage.verify import Kind, VerifyOptions

    if options.draws < 1:
        raise PassError(f"expected at least one draw, got {options.draws}")
    settings = VerifyOptions(
        seed=None if options.seed < 0 else options.seed,
        draws=options.draws,
        numerics=options.check_float,
    )
    counts = dict.fromkeys((kind.value for kind in Kind), 0)

    def stage(read: ReadGraph, at: ir.Operation) -> KernelGraph:
        graph, checked = verify_candidates(read.graph, settings)
        for c in checked:
            counts[c.verdict.kind.value] += 1
            if not c.kept:
                warn(at, f"verify: candidate {c.index} was dropped: {c.verdict}")
        return graph

    rewrite_graphs(op, ("candidates",), "verified", stage)
    return counts


PASS = PythonPass(
    "mirage-verify",
    "attach a verdict to each candidate and drop what is not equivalent",
    VerifyPassOptions,
    run,
)
