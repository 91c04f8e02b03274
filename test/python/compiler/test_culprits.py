"""Diagnostics say which launches do not compile."""

from __future__ import annotations

from dataclasses import replace

import pytest
from example_programs import graphs
from mirage.compiler import CompileOptions, compile_text
from mirage.compiler import compile as compile_module
from mirage.compiler.culprits import kernels_at
from mirage.compiler.errors import CompileError, PtxasError
from mirage.compiler.ptxas import find_ptxas
from mirage.mlir_io import graph_to_text
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import DType, UnaryFn
from mirage.semantics.ugraph import BlockGraph, KernelGraph, Launch, Output, TensorType, Value

SMALL, LARGE = (16, 64), (64, 1 << 16)


def copying(x: Value, fn: UnaryFn) -> Launch:
    """One block that holds all of a tensor."""
    (param,) = graphs.params_of((x,))
    b = Builder(in_block=True)
    y = b.transpose(b.unary(fn, b.load(param, ((), ()), x.shape)), (1, 0))
    body = BlockGraph((param,), tuple(b.ops), (Output(y, ((), ())),))
    return graphs.launch((x,), (), body, (TensorType(y.shape, DType.F32),))


def program(shapes: list[tuple[int, int]]) -> str:
    """A kernel for a tensor of each shape, with a view between them."""
    inputs = tuple(graphs.tensor(*s, dtype=DType.F32) for s in shapes)
    kernels = [copying(x, UnaryFn.TANH) for x in inputs]
    b = Builder()
    first = b.reshape(kernels[0].result, (kernels[0].result.type.size,))
    outputs = (first, *(k.result for k in kernels[1:]))
    ops = (kernels[0], *b.ops, *kernels[1:])
    return graph_to_text(KernelGraph("g", inputs, ops, outputs), form="selected")


@pytest.mark.parametrize(
    ("shapes", "broken"),
    [([SMALL, LARGE, SMALL], (1,)), ([SMALL, SMALL, LARGE], (2,)), ([LARGE], (0,))],
)
def test_the_kernel_that_does_not_compile_is_named(
    shapes: list[tuple[int, int]], broken: tuple[int, ...]
) -> None:
    options = CompileOptions(chip="sm_90a", cubin=False, use_cache=False)
    with pytest.raises(CompileError) as raised:
        compile_text(program(shapes), options)
    assert raised.value.kernels == broken


def test_lines_of_other_ops_name_no_kernel() -> None:
    text = program([SMALL, SMALL])
    lines = text.splitlines()
    at = [n for n, line in enumerate(lines, start=1) if "kernel.launch" in line]
    view = next(n for n, line in enumerate(lines, start=1) if "kernel.reshape" in line)
    assert kernels_at(text, [at[0]]) == (0,)
    assert kernels_at(text, [at[1] + 2, view]) == (1,)
    assert kernels_at(text, [view, 1]) == ()
    assert kernels_at("kernel.graph @broken", [1]) == ()
    assert kernels_at(text, []) == ()


@pytest.mark.skipif(find_ptxas() is None, reason="ptxas is not installed")
def test_the_kernel_that_the_assembler_refuses_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    text = program([(16, 64), (16, 128), (16, 192)])
    options = CompileOptions(chip="sm_90a", use_cache=False)
    entries = [k.entry for k in compile_text(text, options).artifact.manifest.kernels]
    assert len(set(entries)) == 3
    original = compile_module.assemble

    def serialize(ptx: str, chip: str) -> object:
        report = original(ptx, chip)
        assert report is not None
        return replace(report, warnings=(f"(C7512) serialized for the function '{entries[1]}'",))

    monkeypatch.setattr(compile_module, "assemble", serialize)
    with pytest.raises(PtxasError) as raised:
        compile_text(text, options)
    assert raised.value.kernels == (1,)
