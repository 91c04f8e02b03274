"""An imported program whose parts are computed in the reference semantics. It serves to test the
code around a compiled program, and that the imported program computes the same as PyTorch. It is
divided into parts and calls in the same way as a compiled one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from mirage.frontend.program import Program
from mirage.pipeline.make_plan import plan_of_pieces
from mirage.runtime.dispatch.carriers import carried, seen_as
from mirage.runtime.launching.run_plan import Steps
from mirage.runtime.serialization.manifest import TORCH_NAMES
from mirage.semantics.evaluation.evaluate import TypedFloat, evaluate_floats
from mirage.semantics.ugraph import External, KernelGraph
from mirage.transforms.partition.calls import calls_of
from mirage.transforms.partition.partition import Part, partition

from torch_programs.written_bytes import uncounted


def op_by_op(program: Program, options: Mapping[str, Any]) -> Any:
    graph = program.graph
    pieces: list[External | KernelGraph] = []
    for step in partition(graph):
        pieces.extend([step.graph] if isinstance(step, Part) else calls_of(step))
    parts = [piece for piece in pieces if isinstance(piece, KernelGraph)]
    kernel = uncounted(interpreted)
    steps = Steps(plan_of_pieces(graph, pieces, program.updates))
    held: dict[int, Any] = {p.index: p.data for p in program.parameters}

    def call(*tensors: torch.Tensor) -> tuple[Any, ...]:
        given = iter(tensors)
        values = [held[i] if i in held else next(given) for i in range(len(graph.inputs))]
        for i in program.carriers.keys() - held.keys():  # those are carried already
            values[i] = carried(values[i])
        outputs = steps(values, lambda part, xs, _: kernel(parts[part], xs), write=True)
        return program.returned(outputs, seen_as)

    return call


def interpreted(part: KernelGraph, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Return the outputs of a part, in its reference semantics."""
    arrays = [x.detach().double().numpy() for x in tensors]
    found: list[torch.Tensor] = []
    for v, y in zip(part.outputs, evaluate_floats(part, arrays, TypedFloat()), strict=True):
        dtype = getattr(torch, TORCH_NAMES[v.dtype.value])
        found.append(torch.from_numpy(np.array(y, order="C")).to(dtype).reshape(v.shape))
    return found
