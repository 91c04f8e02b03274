"""Programs that only move elements: slices, joins, reshapes, transposes, tiles that are copied.

Each element of an output is one element of an input, or zero where a tile goes past the end of its
tensor, whatever the inputs hold. So one run on inputs all of whose elements are different numbers,
none of them zero, says which one it is, and two programs are equal exactly if they agree on it.
"""

from __future__ import annotations

from typing import TypeGuard

import numpy as np

from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.ops.op import Elementwise, Movement
from mirage.semantics.region import whole_demand
from mirage.semantics.ugraph import KernelGraph, Launch, Load, Op, all_ops
from mirage.verify.evidence.samples.sampled_outputs import graph_work
from mirage.verify.verdict import Evidence

_MOST = 5e7
"""Elements of all values of both programs; far below the integers that float64 does not hold."""


def compare_movements(first: KernelGraph, second: KernelGraph) -> Evidence | None:
    """Whether both programs move the same elements to the same places: a proof either way. None
    where they do more than that, or are too large."""
    graphs = (first, second)
    if not all(_moves(op) for graph in graphs for op in all_ops(graph.ops)):
        return None
    if sum(graph_work(g, whole_demand(g)) for g in graphs) > _MOST:
        return None
    inputs: list[np.ndarray[tuple[int, ...], np.dtype[np.float64]]] = []
    start = 1
    for value in first.inputs:
        size = value.type.size
        inputs.append(np.arange(start, start + size, dtype=np.float64).reshape(value.shape))
        start += size
    ours, theirs = (evaluate_floats(graph, inputs) for graph in graphs)
    same = all(np.array_equal(x, y) for x, y in zip(ours, theirs, strict=True))
    text = "each output element is the same input element" if same else "other elements are moved"
    return Evidence("movements", same, text)


def _moves(op: Op) -> TypeGuard[Movement | Elementwise | Load | Launch]:
    return isinstance(op, Movement | Load | Launch) or (isinstance(op, Elementwise) and op.identity)
