"""Sums, maxima and scans of integers of any size, from PyTorch to PTX that the emulator executes:
results are those of PyTorch to the bit, at the ends of all types too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mirage as mi
import pytest
import torch
from drawn_integers import drawn
from executed_programs import executed
from lowering import compile_graph
from mirage.pipeline.call import sized_emulator
from mirage.pipeline.checks.emulated_check import emulated
from mirage.pipeline.checks.kernel_check import Outcome
from mirage.pipeline.commands.emulate import emulate
from mirage.pipeline.result import Optimized
from mirage.semantics.integer_totals import IntegerReduce
from mirage.semantics.scalar import DType, ReduceFn
from mirage.semantics.ugraph import External, KernelGraph, Launch, TensorType, Value
from mirage.transforms.integer_reductions import reducing
from thorough import some_of

Tensor = torch.Tensor
OPTIONS = executed()
KINDS = (torch.int8, torch.int16, torch.int32, torch.int64)
VIEWS = {"aten.reshape.default", "aten.narrow.default", "aten.expand.default"}
SHAPES = [
    (1, 1), (7,), (3, 1, 5), (127, 129), (2, 70000), (70000, 3), (3, 5, 7, 11), (300, 1031),
]  # fmt: skip


def compiled(program: Callable[..., Any], *inputs: Tensor) -> Optimized:
    return mi.optimize(mi.from_torch(program, *inputs, allow_fallback=True), OPTIONS)


def calls(found: Optimized) -> set[str]:
    return {op.target for op in found.graph.ops if isinstance(op, External)} - VIEWS


def kernels(found: Optimized) -> int:
    return sum(isinstance(op, Launch) for op in found.graph.ops)


def exact(program: Callable[..., Any], *inputs: Tensor) -> Optimized:
    """Compile a program, and check that kernels compute all of it like PyTorch."""
    found = compiled(program, *inputs)
    assert not calls(found)
    expected = program(*inputs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for y, e in zip(emulate(found, *inputs), expected, strict=True):
        assert y.dtype is e.dtype
        assert torch.equal(y, e)
    return found


@pytest.mark.parametrize("shape", some_of(SHAPES, every=3, one_value=True))
def test_reductions(shape: tuple[int, ...]) -> None:
    x = drawn(torch.int64, *shape)
    exact(lambda x: (x.sum(-1), x.sum(0), x.sum(), x.amax(-1), x.amax(0), x.amin(), x.max()), x)


def test_dimensions_apart() -> None:
    x = drawn(torch.int64, 3, 5, 7, 11)
    exact(lambda x: (x.sum((0, 2)), x.amax((1, 3)), x.sum((0, 1, 2)), x.amin(1), x.sum((1, 2))), x)


@pytest.mark.parametrize("dtype", some_of(KINDS, every=2, one_value=True))
def test_types(dtype: torch.dtype) -> None:
    x = drawn(dtype, 13, 37)
    exact(lambda x: (x.sum(-1), x.sum(0, dtype=dtype), x.amax(0), x.amin(-1), x.cumsum(0)), x)


PLACES = [
    ((1, 1), 0, 1), ((40, 37), 0, 1), ((40, 37), 1, 1), ((9, 1, 5), 1, 1), ((3, 5, 130, 7), 2, 1),
    ((5, 3000), 1, 1), ((300, 1031), 0, 1), ((8193,), 0, 2), ((3, 70000), 1, 2), ((70000, 3), 0, 2),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "dim", "launches"), some_of(PLACES, every=3))
def test_places_of_extremes(shape: tuple[int, ...], dim: int, launches: int) -> None:
    """The first of equal elements counts. Rows are read once: a second kernel joins parts."""
    x = drawn(torch.int64, *shape)
    assert kernels(exact(lambda x: x.argmax(dim), x)) == launches
    assert kernels(exact(lambda x: x.min(dim, keepdim=True), x)) == launches


def test_extremes_of_extremes() -> None:
    x = drawn(torch.int64, 40, 37)
    exact(lambda x: (x.argmax(0), x.argmin(1), x.max(0)[1], x.argmax(), x.amax(-1).argmin()), x)


def test_the_least_number_alone() -> None:
    """Parts whose largest number is not that of the row contribute zeros."""
    x = torch.full((2, 9000), torch.iinfo(torch.int64).min)
    x[1, 8999] += 1
    exact(lambda x: (x.argmax(-1), x.argmin(-1)), x)


def test_parts_of_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mirage.transforms.integer_rows.MOST", 32)
    monkeypatch.setattr("mirage.transforms.integer_rows.PART", 16)
    x = drawn(torch.int64, 2, 3001)
    assert kernels(exact(lambda x: x.max(-1), x)) == 3
    x = drawn(torch.int64, 301, 3)
    exact(lambda x: (x.argmin(0), x.argmax()), x)


REDUCED: dict[str, Callable[..., Any]] = {
    "the second largest": lambda a: torch.where(a == a.amax(-1, keepdim=True), -(2**63), a).amax(
        -1
    ),
    "differences": lambda a: (a - a.amin(-1, keepdim=True)).sum(-1) * 3,
    "sums of several maxima": lambda a: torch.where(
        a == a.amax((0, 1), keepdim=True), a * a, 0
    ).sum((0, 1)),
    "maxima weighted by position": lambda a: torch.where(
        a == a.amax(-1, keepdim=True), torch.arange(70) * 2**40, 0
    ).sum(-1),
}


@pytest.mark.parametrize("name", REDUCED)
def test_rows_read_once(name: str) -> None:
    assert kernels(exact(REDUCED[name], A)) == 1


@pytest.mark.parametrize(
    "shape",
    some_of(
        [(1, 1), (13,), (5, 4096), (2, 70000), (9000, 3), (3, 5, 130, 7)], every=2, one_value=True
    ),
)
def test_scans(shape: tuple[int, ...]) -> None:
    x = drawn(torch.int64, *shape)
    exact(lambda x: (x.cumsum(-1), x.cumsum(0), x.cummax(-1)[0], x.cummin(0)[0]), x)


def test_scans_from_the_end() -> None:
    x = drawn(torch.int64, 3, 9001)
    exact(lambda x: (x.flip(-1).cumsum(-1).flip(-1), x.flip(-1).cummax(-1)[0].flip(-1)), x)


A, B = drawn(torch.int64, 33, 70), drawn(torch.int64, 33, 70, seed=2)
FUSED: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "a formula before": (lambda a, b: (a * b % 1000003 * a).sum(0), (A, B)),
    "all pairs": (lambda a, b: (a[:, None] * b[None]).sum(-1) * 3 + 1, (A[0], B[1])),
    "a formula after": (lambda a: a.sum(-1) * 7 + 1, (A,)),
    "positions": (lambda a: (a * 31 + torch.arange(70)).sum(-1) % 1000, (A,)),
    "another tensor": (lambda a, b: a.sum(0) - b[3], (A, B)),
    "rows of another": (lambda a, b: a.cumsum(-1) * b[:, :1], (A, B)),
    "ids of positions": (lambda a: (a.cumsum(-1) - 1).clamp(min=0), (A,)),
    "products": (lambda a: a.prod(0), (A,)),
    "products so far": (lambda a: a.cumprod(-1) ^ a, (A,)),
    "twice": (lambda a: (a.sum(-1), a.sum(-1) + 1), (A,)),
}  # fmt: skip


@pytest.mark.parametrize("name", some_of(FUSED, every=3, one_value=True))
def test_one_kernel(name: str) -> None:
    program, inputs = FUSED[name]
    assert kernels(exact(program, *inputs)) == 1


READ: dict[str, Callable[..., Any]] = {
    "by the same tensor": lambda a: a - a.amax(-1, keepdim=True),
    "by a comparison": lambda a: a.sum(-1) > 5,
    "by a formula of two": lambda a: a.sum(-1) - a.amax(-1) * 3,
    "as floats": lambda a: (a.cumsum(0) * 2).float(),
}


@pytest.mark.parametrize("name", READ)
def test_totals_that_kernels_read(name: str) -> None:
    assert kernels(exact(READ[name], A)) == 2


def test_long_rows_are_shared() -> None:
    """Few results with many terms are computed by many blocks."""
    found = exact(lambda x: x.sum(-1), drawn(torch.int64, 2, 70000))
    first, second = (op for op in found.graph.ops if isinstance(op, Launch))
    assert first.results[0].shape == (2, 8)
    assert second.results[0].shape == (2, 1)


def test_a_dynamic_size() -> None:
    """With any number of rows they remain calls, or are kernels that take the number."""
    shapes = ({0: torch.export.Dim("batch", min=1, max=40)},)
    graph = mi.from_torch(lambda x: x.sum(-1) + 1, drawn(torch.int64, 6, 35), dynamic_shapes=shapes)
    found = graph.superoptimize(chip="sm_90a", jobs=1, use_cache=False, cubin=False)
    for rows in (1, 3, 40):
        x = drawn(torch.int64, rows, 35, seed=rows)
        (y,) = found.run(sized_emulator, (x,))
        assert torch.equal(y, x.sum(-1) + 1)


def test_other_chips() -> None:
    x = drawn(torch.int64, 5, 5000)
    found = mi.optimize(
        mi.from_torch(lambda x: (x.sum(-1), x.cumsum(-1)), x), executed(chip="sm_80")
    )
    for y, e in zip(emulate(found, x), (x.sum(-1), x.cumsum(-1)), strict=True):
        assert torch.equal(y, e)


def test_checks_see_wrong_kernels() -> None:
    """A kernel is compared with its meaning before it is used."""
    right, other = (kernel_of(fn) for fn in (ReduceFn.SUM, ReduceFn.MAX))
    artifact = compile_graph(right)
    (kernel,) = artifact.manifest.kernels
    assert emulated(right.ops[0], kernel, artifact).outcome is Outcome.PASSED
    assert emulated(other.ops[0], kernel, artifact).outcome is Outcome.FAILED


def kernel_of(fn: ReduceFn) -> KernelGraph:
    x, y = (Value(TensorType((5, n), DType.I64)) for n in (70, 1))
    launches = reducing(IntegerReduce((x,), (y,), fn, (1,)))
    return KernelGraph("kernel", (x,), tuple(launches), (y,))
