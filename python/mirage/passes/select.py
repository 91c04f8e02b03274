"""`mirage-select`: of each set of alternatives the cheapest candidate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mirage.passes._rewrite import rewrite_graphs
from mirage.passes.registry import PythonPass, warn

if TYPE_CHECKING:
    from mirage import ir
    from mirage.passes.ugraph_io import ReadGraph
    from mirage.semantics.ugraph import KernelGraph


@dataclass(frozen=True)
class SelectOptions:
    """Options of the pass."""

    chip: str = "sm_90a"


def run(op: ir.Operation, options: SelectOptions) -> Mapping[str, int]:
    """Form ``verified`` to ``selected``."""
    from mirage.stages import select_cheapest, target_for

    target = target_for(options.chip)

    def stage(read: ReadGraph, at: ir.Operation) -> KernelGraph:
        graph, without = select_cheapest(read.graph, target)
        if without:
            warn(
                at,
                f"select: {without} of the parts have no verified candidate that {options.chip} "
                "can run; they keep their reference",
            )
        return graph

    rewrite_graphs(op, ("verified",), "selected", stage)
    return {}


PASS = PythonPass(
    "mirage-select",
    "replace each kernel.alternatives by its cheapest alternative",
    SelectOptions,
    run,
)
