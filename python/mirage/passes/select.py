"""`mirage-select`: the cheapest candidate of each set of alternatives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, make_dataclass
from typing import TYPE_CHECKING, Any

from mirage.passes._rewrite import rewrite_graphs
from mirage.passes.option_text import chip_field
from mirage.passes.registry import PythonPass, warn

if TYPE_CHECKING:
    from mirage import ir
    from mirage.mlir_io import ReadGraph
    from mirage.semantics.ugraph import KernelGraph


SelectOptions = make_dataclass(
    "SelectOptions",
    [
        chip_field("the GPU whose cost model is used"),
        ("keep", int, field(default=1, metadata={"help": "how many alternatives to keep"})),
    ],
    frozen=True,
)
"""Options of the pass."""


def run(op: ir.Operation, options: Any) -> Mapping[str, int]:
    """Form ``verified`` to ``selected``; with ``keep`` above 1 it stays ``verified``, with that
    many candidates left to be measured, the cheapest first.
    """
    from mirage.cost.target import target_for
    from mirage.pipeline.errors import StageError
    from mirage.pipeline.select import keep_cheapest, select_cheapest

    target = target_for(options.chip)

    def stage(read: ReadGraph, at: ir.Operation) -> KernelGraph:
        if options.keep < 1:
            raise StageError(f"select: expected to keep at least 1 candidate, got {options.keep}")
        if options.keep > 1:
            graph, without = keep_cheapest(read.graph, target, options.keep)
        else:
            graph, without = select_cheapest(read.graph, target)
        if without:
            warn(
                at,
                f"select: {without} of the parts have no verified candidate that {options.chip} "
                "can run; they keep their reference",
            )
        return graph

    rewrite_graphs(op, ("verified",), "selected" if options.keep == 1 else "verified", stage)
    return {}


PASS = PythonPass(
    "mirage-select",
    "replace each kernel.alternatives by its cheapest alternative",
    SelectOptions,
    run,
)
