"""Kernels that prevent a program from compiling are found without compiling each separately."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import mirage as mi
import pytest
from example_programs.built import linear
from mirage.compiler import compile as compile_module
from mirage.compiler.errors import CompileError
from mirage.pipeline.compile import build as build_module
from mirage.pipeline.compile.broken import broken_in, broken_kernels, key_of
from mirage.pipeline.optimize import optimize
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import DType, UnaryFn
from mirage.semantics.ugraph import (
    BlockGraph,
    KernelGraph,
    Launch,
    Load,
    Output,
    TensorType,
    Value,
    launches,
)


def chain(count: int) -> list[Launch]:
    """Return this number of different kernels, each of which reads the result of the previous
    one."""
    found: list[Launch] = []
    value = Value(TensorType((4, 8), DType.F32))
    for number in range(count):
        b = Builder(in_block=True)
        param = Value(value.type)
        tile = Value(value.type)
        b.ops.append(Load((param,), (tile,), ((), ())))
        y = tile
        for _ in range(number + 1):
            y = b.unary(UnaryFn.SQUARE, y)
        body = BlockGraph((param,), tuple(b.ops), (Output(y, ((), ())),))
        found.append(Launch((value,), (Value(value.type),), (), body))
        value = found[-1].results[0]
    return found


def failing(wrong: set[str], seen: list[int]) -> Callable[[KernelGraph], bool]:
    def compiles(program: KernelGraph) -> bool:
        kernels = list(launches(program.ops))
        seen.append(len(kernels))
        return wrong.isdisjoint(map(key_of, kernels))

    return compiles


@pytest.mark.parametrize("wrong", [{0}, {7}, {15}, {3, 4}, {0, 15}, set(range(16)), set[int]()])
def test_halves_are_compiled_until_those_are_left_that_do_not_compile(wrong: set[int]) -> None:
    kernels = chain(16)
    seen: list[int] = []
    found = broken_kernels(kernels, (), failing({key_of(kernels[n]) for n in wrong}, seen))
    assert found == wrong
    if len(wrong) == 1:
        assert len(seen) <= 8  # a half of each half, and the other half if there may be more
        assert sum(seen) < 2 * len(kernels)


def test_what_the_compiler_names_is_not_looked_for() -> None:
    kernels = chain(8)
    seen: list[int] = []
    named = broken_in(KernelGraph("g", (), tuple(kernels), ()), CompileError("no", (5, 99)))
    assert broken_kernels([*kernels, kernels[5]], named.keys, failing(set(), seen)) == {5, 8}
    assert not seen


def test_equal_kernels_are_compiled_once() -> None:
    kernels = chain(2)
    seen: list[int] = []
    wrong = {key_of(kernels[1])}
    found = broken_kernels([kernels[1], kernels[0], kernels[1]], (), failing(wrong, seen))
    assert found == {0, 2}
    assert seen == [1, 1]


@pytest.mark.parametrize("named", [True, False])
def test_the_search_goes_on_without_what_does_not_compile(
    monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    """Whether the compiler named it or it was searched for."""
    options = mi.OptimizeOptions(candidates=1, finalists=1, verify_seed=1, jobs=1, use_cache=False)
    usual = optimize(linear().program(), replace(options, compile=False))
    wrong = {key_of(launch) for launch in launches(usual.graph.ops)}
    compiled: list[int] = []
    real = compile_module.compile_text

    def steps(self: Any, part: Any, alone: bool) -> Any:
        kernels = list(launches(part.ops))
        compiled.append(len(kernels))
        numbers = tuple(n for n, k in enumerate(kernels) if key_of(k) in wrong)
        if numbers:
            raise broken_in(part, CompileError("no registers", numbers if named else ()))
        text, names = self._written(part, alone)
        return real(text, self._options(alone), names=names)

    monkeypatch.setattr(build_module.Builder, "_compile", steps)
    found = optimize(linear().program(), options)
    assert found.artifacts
    assert wrong.isdisjoint(map(key_of, launches(found.graph.ops)))
    assert any("does not compile" in note for note in found.report.notes)
    if named:
        assert len(compiled) == 2  # the original, and its replacement
