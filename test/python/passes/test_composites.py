"""Composites are decomposed in the same way in C++ (`mirage-decompose`) and in Python."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from mirage import ir
from mirage.mlir_io import graph_from_text, graph_to_text
from mirage.passmanager import PassManager
from mirage.semantics.decompose import decompose
from mirage.semantics.ops.op import Op
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import (
    Composite,
    KernelGraph,
    LayerNorm,
    RmsNorm,
    Softmax,
    TensorType,
    Value,
)
from thorough import some_of


def graph(
    make: type[Op], dtype: DType, shapes: tuple[tuple[int, ...], ...], *what: object
) -> KernelGraph:
    inputs = tuple(Value(TensorType(s, dtype), f"x{i}") for i, s in enumerate(shapes))
    result = Value(inputs[0].type)
    return KernelGraph("g", inputs, (make(inputs, (result,), *what),), (result,))


CASES = [
    (Softmax, ((4, 8),), (1,)),
    (Softmax, ((4, 8, 3),), (0,)),
    (RmsNorm, ((4, 8),), (1e-6, 1)),
    (RmsNorm, ((4, 8), (8,)), (1e-5, 1)),
    (RmsNorm, ((2, 4, 8), (4, 8)), (1e-5, 2)),
    (LayerNorm, ((4, 6),), (1e-5, 1)),
    (LayerNorm, ((4, 6), (6,)), (1e-5, 1)),
    (LayerNorm, ((4, 6), (6,), (6,)), (1e-5, 1)),
    (LayerNorm, ((2, 4, 6), (4, 6), (4, 6)), (1e-5, 2)),
]


def by_pass(reference: KernelGraph, stable: bool) -> KernelGraph:
    with ir.Context():
        module = ir.Module.parse(graph_to_text(reference))
        option = "{stable=true}" if stable else ""
        pipeline = f"builtin.module(kernel.graph(mirage-decompose{option}))"
        PassManager.parse(pipeline).run(module.operation)
        return graph_from_text(str(module)).graph


def written(graph: KernelGraph) -> str:
    """Return the result as one expression, independent of the order of the ops."""
    definitions = {op.result: op for op in graph.ops}
    inputs = {v: f"%{i}" for i, v in enumerate(graph.inputs)}

    def text(value: Value) -> str:
        if value in inputs:
            return inputs[value]
        op = definitions[value]
        what = [getattr(op, f.name) for f in fields(op) if f.name not in ("operands", "results")]
        operands = ", ".join(map(text, op.operands))
        return f"{type(op).__name__}{what}({operands}): {value.type}"

    (output,) = graph.outputs
    return text(output)


def test_all_composites_are_compared() -> None:
    ours = {c for c in Composite.__subclasses__() if c.__module__.startswith("mirage.")}
    assert {case[0] for case in CASES} == ours


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16, DType.F32, DType.F64])
@pytest.mark.parametrize(
    "case",
    some_of(CASES, one_value=True),
    ids=lambda c: f"{c[0].__name__}{len(c[1])}-{len(c[1][0])}",
)
def test_the_decompositions_agree(case: Any, dtype: DType, stable: bool) -> None:
    make, shapes, what = case
    reference = graph(make, dtype, shapes, *what)
    assert written(by_pass(reference, stable)) == written(decompose(reference, stable=stable))
