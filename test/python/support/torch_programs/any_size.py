"""Classes of sizes without a search: the parts of the program at the largest size, computed in the
reference semantics. Rows that a call does not have are NaN there, and are cut off, so that a row
that depends on another one is noticed, as if kernels read other memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from mirage.pipeline.call import SizedRunner
from mirage.pipeline.sized_plan import SizedPlan, planned
from mirage.pipeline.sized_source import SizedSource
from mirage.semantics.ugraph import External, KernelGraph
from mirage.torch.sized_graph import SizedClass
from mirage.transforms.partition.calls import calls_of
from mirage.transforms.partition.partition import Part, partition
from mirage.verify.other_rows import computed_from

from torch_programs.op_by_op import interpreted


def any_size(found: SizedClass, options: Mapping[str, Any]) -> Any:
    """Compiles a class of a graph of TorchDynamo."""
    plan, parts = pieces_of(found.source)
    program = found.source.program
    run = SizedRunner(program, plan)
    held: dict[int, Any] = {p.index: p.data for p in program.parameters}
    place, each = next(iter(found.rows.tensors.items()))
    first = found.tensors.index(place)

    def launch(number: int, size: int, given: list[torch.Tensor]) -> list[torch.Tensor]:
        return padded(parts[number], plan.parts[number], given, size, plan.most)

    def call(*tensors: torch.Tensor) -> Any:
        rest = iter(tensors)
        inputs = [held[i] if i in held else next(rest) for i in range(len(program.graph.inputs))]
        size = tensors[first].shape[0] // each
        return run(lambda plan: launch, inputs, size, write=True)

    return call


def pieces_of(source: SizedSource) -> tuple[SizedPlan, list[KernelGraph]]:
    """The plan of a class, and its parts."""
    graph = source.program.graph
    pieces: list[External | KernelGraph] = []
    for step in partition(graph):
        pieces.extend([step.graph] if isinstance(step, Part) else calls_of(step))
    parts = [piece for piece in pieces if isinstance(piece, KernelGraph)]
    return planned(graph, pieces, source), parts


def padded(
    part: KernelGraph, rows: Sequence[int], given: Sequence[torch.Tensor], size: int, most: int
) -> list[torch.Tensor]:
    """Return the results of a part at a size below its own."""
    whole: list[torch.Tensor] = []
    for i, (x, v) in enumerate(zip(given, part.inputs, strict=True)):
        if i in rows:
            assert x.shape[0] * most == v.shape[0] * size
            missing = v.shape[0] - x.shape[0]
            fill = torch.full((missing, *x.shape[1:]), float("nan") if x.is_floating_point() else 1)
            x = torch.cat([x, fill.to(x.dtype)])
        assert tuple(x.shape) == v.shape
        whole.append(x)
    dependent = computed_from(part, rows) if rows else set()
    results = zip(part.outputs, interpreted(part, whole), strict=True)
    return [y[: v.shape[0] // most * size] if v in dependent else y for v, y in results]
