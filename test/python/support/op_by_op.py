"""A program as it was imported, computed op by op: to test what is around a compiled one, and that
what was imported is what PyTorch computes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from mirage.frontend.program import Program
from mirage.pipeline.call import call_external
from mirage.runtime.manifest import TORCH_NAMES
from mirage.semantics.evaluate import TypedFloat, evaluate_floats
from mirage.semantics.ugraph import External, KernelGraph


def op_by_op(program: Program, options: Mapping[str, Any]) -> Any:
    def call(*tensors: torch.Tensor) -> tuple[Any, ...]:
        graph = program.graph
        held = {p.index: p.data for p in program.parameters}
        given = iter(tensors)
        values: dict[Any, Any] = {
            v: held[i] if i in held else next(given) for i, v in enumerate(graph.inputs)
        }
        for op in graph.ops:
            if isinstance(op, External):
                values.update(zip(op.results, call_external(op, values), strict=True))
                continue
            one = KernelGraph("one", tuple(dict.fromkeys(op.operands)), (op,), op.results)
            inputs = [values[v].detach().double().numpy() for v in one.inputs]
            for v, y in zip(op.results, evaluate_floats(one, inputs, TypedFloat()), strict=True):
                dtype = getattr(torch, TORCH_NAMES[v.dtype.value])
                values[v] = torch.from_numpy(np.array(y)).to(dtype).reshape(v.shape)
        return program.returned([values[v] for v in graph.outputs])

    return call
