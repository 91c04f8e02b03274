"""`mirage-verify`: a verdict for each candidate; candidates that are not equivalent are dropped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, make_dataclass
from typing import TYPE_CHECKING, Any

from mirage.passes._rewrite import rewrite_graphs
from mirage.passes.option_text import copied
from mirage.passes.registry import PassError, PythonPass, warn
from mirage.verify import Kind, VerifyOptions

if TYPE_CHECKING:
    from mirage import ir
    from mirage.mlir_io import ReadGraph
    from mirage.semantics.ugraph import KernelGraph


VerifyPassOptions = make_dataclass(
    "VerifyPassOptions",
    [
        (
            "seed",
            int,
            field(
                default=-1,
                metadata={"help": "seed of the random tests; negative: from the system's entropy"},
            ),
        ),
        *copied(VerifyOptions, {"draws": "draws", "numerics": "check_float"}),
    ],
    frozen=True,
)
"""Options of the pass. A negative seed draws a secret one."""


REMEDY = (
    "the reference's own ops remain: let the search find more (mirage-search max-candidates) and "
    "verify more of them (mirage-shortlist candidates), or use `mirage optimize`, which searches "
    "again without the kernels that were refused"
)
"""The remedy if no candidate is left: passes do not go back to the search."""


def run(op: ir.Operation, options: Any) -> Mapping[str, int]:
    """Form ``candidates`` to ``verified``."""
    from mirage.pipeline.verify import verify_candidates

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
        for part in sorted({c.part for c in checked} - {c.part for c in checked if c.kept}):
            warn(
                at, f"verify: part {part}: expected candidates that can be kept, got none; {REMEDY}"
            )
        return graph

    rewrite_graphs(op, ("candidates",), "verified", stage)
    return counts


PASS = PythonPass(
    "mirage-verify",
    "attach a verdict to each candidate and drop what is not equivalent",
    VerifyPassOptions,
    run,
)
