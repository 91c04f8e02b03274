"""Arithmetic on integers of any size, from PyTorch to PTX that the emulator executes: results are
those of PyTorch to the bit, at the ends of all types too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mirage as mi
import pytest
import torch
import torch.nn.functional as F
from drawn_integers import drawn
from executed_programs import executed
from lowering import compile_graph
from mirage.pipeline.call import sized_emulator
from mirage.pipeline.checks.emulated_check import emulated
from mirage.pipeline.checks.kernel_check import Outcome
from mirage.pipeline.commands.emulate import emulate
from mirage.pipeline.result import Optimized
from mirage.semantics.integer_formula import Formula, read_step
from mirage.semantics.integers import Integers, TileIntegers
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import (
    External,
    KernelGraph,
    Launch,
    TensorType,
    Value,
    all_ops,
)
from mirage.transforms.computed_integers import computing
from thorough import some_of

Tensor = torch.Tensor
OPTIONS = executed()
KINDS = (torch.int8, torch.int16, torch.int32, torch.int64)
VIEWS = {"aten.reshape.default", "aten.narrow.default", "aten.expand.default"}


def compiled(program: Callable[..., Any], *inputs: Tensor) -> Optimized:
    return mi.optimize(mi.from_torch(program, *inputs, allow_fallback=True), OPTIONS)


def calls(found: Optimized) -> set[str]:
    return {op.target for op in found.graph.ops if isinstance(op, External)} - VIEWS


def exact(found: Optimized, program: Callable[..., Any], *inputs: Tensor) -> None:
    expected = program(*inputs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for y, e in zip(emulate(found, *inputs), expected, strict=True):
        assert y.dtype is e.dtype
        assert torch.equal(y, e)


def arithmetic(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """Functions of two tensors of one type; divisors are at least 2, as PyTorch refuses 0, and the
    least number by -1 traps on some processors."""
    by = y.clamp(min=2)
    return (
        x + y, x - y, x * y, torch.maximum(x, y) * 3, torch.minimum(x, y) - 5, -x, (x + y).abs(),
        x // by, x % by, (x * 3 <= y), (x - y == y), (x * y != 0) & (x + 1 > y),
        torch.where(x > y, x, y + 1), x.clamp(-3, 100) * x, (x ^ y) & (x | 12), ~x << y, x >> y,
        5 << y,
    )  # fmt: skip


@pytest.mark.parametrize("dtype", some_of(KINDS, every=2))
def test_arithmetic(dtype: torch.dtype) -> None:
    inputs = drawn(dtype, 5, 33), drawn(dtype, 5, 33, seed=1)
    found = compiled(arithmetic, *inputs)
    assert not calls(found)
    exact(found, arithmetic, *inputs)


def towards_zero(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    """The least number has no absolute value."""
    by = torch.where(y.abs() < 2, 3, y)
    return (
        torch.fmod(x, by), torch.fmod(x, 3), torch.fmod(x, -4), x % -5,
        torch.div(x, by, rounding_mode="trunc"), torch.div(x, -3, rounding_mode="trunc"),
        torch.div(x, by, rounding_mode="floor"),
    )  # fmt: skip


@pytest.mark.parametrize("dtype", some_of(KINDS, every=2))
def test_quotients_and_remainders_towards_zero(dtype: torch.dtype) -> None:
    inputs = drawn(dtype, 5, 33), drawn(dtype, 5, 33, seed=1)
    found = compiled(towards_zero, *inputs)
    assert not calls(found)
    exact(found, towards_zero, *inputs)


def least_of_rows(x: Tensor) -> tuple[Tensor, ...]:
    """Comparisons of a call's result, which are solved for it, are results by themselves."""
    least = x.amin(-1, keepdim=True)
    return least == 3, ~least < 7, (least - 2) // 4 != 1


def test_solved_comparisons_as_results() -> None:
    for x in (drawn(torch.int64, 5, 33), torch.arange(66).view(11, 6) - 9):
        exact(compiled(least_of_rows, x), least_of_rows, x)


def test_bits_need_no_leave_for_calls() -> None:
    def hashed(x: Tensor, y: Tensor) -> Tensor:
        return (x ^ (y >> 3)) & (x | 12)

    x, y = drawn(torch.int64, 4, 9), drawn(torch.int64, 4, 9, seed=1)
    found = mi.optimize(mi.from_torch(hashed, x, y), OPTIONS)
    assert not calls(found)
    exact(found, hashed, x, y)


def conversions(x: Tensor) -> tuple[Tensor, ...]:
    narrow = tuple(x.to(dtype) for dtype in KINDS if dtype is not x.dtype)
    return (*narrow, (x * 3).float(), (x - 1).half() if x.dtype is torch.int8 else x + 1)


@pytest.mark.parametrize("dtype", KINDS)
def test_conversions(dtype: torch.dtype) -> None:
    x = drawn(dtype, 3, 70)
    found = compiled(conversions, x)
    exact(found, conversions, x)


def truncated(x: Tensor) -> tuple[Tensor, ...]:
    return tuple(x.to(dtype) + 1 for dtype in KINDS)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_floats_are_truncated(dtype: torch.dtype) -> None:
    x = (torch.randn(4, 40, generator=torch.Generator().manual_seed(2)) * 40).to(dtype)
    found = compiled(truncated, x)
    assert not calls(found)
    exact(found, truncated, x)


IDS, OTHERS = drawn(torch.int64, 7, 50), drawn(torch.int64, 50, seed=3)
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "a sum and a product": (lambda i: i * 2 + 1, (IDS,)),
    "a large factor": (lambda i: i * 6364136223846793005 + 1442695040888963407, (IDS,)),
    "a hash": (lambda i: ((i ^ (i >> 16)) * 0x45D9F3B) % 1000, (IDS.int(),)),
    "another's type": (lambda i, j: i.int() * j, (IDS, OTHERS.int())),
    "positions": (lambda i: i + torch.arange(50) * 3, (IDS,)),
    "positions of rows": (lambda i: i * torch.arange(7)[:, None], (IDS,)),
    "positions of heads": (lambda i: i[None] - torch.arange(3)[:, None, None], (IDS,)),
    "all pairs": (lambda i, j: i[:, :, None] >= j[None, None, :], (IDS, OTHERS)),
    "turned": (lambda i, j: i.t() * 3 + j[:, None], (IDS, OTHERS)),
    "one row": (lambda i: i * 3, (OTHERS,)),
    "one number": (lambda i, n: i + n, (IDS, torch.tensor(2**62))),
    "views between": (lambda i: ((i + 1).reshape(7, 1, 50) * 2).transpose(0, 2) - 1, (IDS,)),
    "a long row": (lambda i: i.repeat(400) + 1, (OTHERS,)),
    "results twice": (lambda i: (i + 1, (i + 1) * (i + 1)), (IDS,)),
    "a choice of one": (lambda i: torch.where(i == 7, -100, i), (IDS,)),
}  # fmt: skip


@pytest.mark.parametrize("name", some_of(PROGRAMS, every=3))
def test_programs(name: str) -> None:
    program, inputs = PROGRAMS[name]
    found = compiled(program, *inputs)
    assert calls(found) <= {"aten.repeat.default", "aten.permute.default"}
    exact(found, program, *inputs)


def attention(ids: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Queries attend to the keys whose number, times 3, is at most their own."""
    seen = ids[:, None] >= ids[None, :] * 3
    return F.scaled_dot_product_attention(q, k, v, attn_mask=seen)


def test_a_mask_of_large_integers_is_computed_where_it_is_read() -> None:
    generator = torch.Generator().manual_seed(4)
    q, k, v = (torch.randn(2, 40, 16, generator=generator).half() for _ in range(3))
    ids = drawn(torch.int64, 40, seed=5)
    found = compiled(attention, ids, q, k, v)
    assert not calls(found)
    inside = [x for op in found.graph.ops if isinstance(op, Launch) for x in all_ops(op.body.ops)]
    assert any(isinstance(op, TileIntegers) for op in inside)
    assert all(
        v.type.size < 40 * 40 or v.shape[-1] == 16 for op in found.graph.ops for v in op.results
    )
    (y,) = emulate(found, ids, q, k, v)
    torch.testing.assert_close(y, attention(ids, q, k, v), rtol=5e-3, atol=5e-3)


def test_a_kernel_and_its_reader() -> None:
    """Values computed from integers may be compared as floats with known numbers."""

    def program(ids: Tensor, x: Tensor) -> Tensor:
        return torch.where(ids // 16 == torch.arange(50), x, 0.0) + (ids % 8).float()

    ids, x = drawn(torch.int64, 7, 50).remainder(900), torch.ones(7, 50)
    found = compiled(program, ids, x)
    assert not calls(found)
    exact(found, program, ids, x)


@pytest.mark.parametrize("descending", [False, True])
def test_an_order(*, descending: bool) -> None:
    """Integers of any size are compared by exact arithmetic, and no parts of them are stored."""

    def program(ids: Tensor) -> tuple[Tensor, Tensor]:
        found = ids.sort(dim=-1, stable=True, descending=descending)
        return found.values, found.indices

    ids = torch.cat([drawn(torch.int64, 3, 6), torch.tensor([[7, -7, 7, 2**62]]).expand(3, 4)], 1)
    found = compiled(program, ids)
    assert not calls(found)
    exact(found, program, ids)


@pytest.mark.parametrize(("width", "bounds"), [(16, [[10]]), (65536, [[10], [10]])])
def test_indices_that_may_be_outside(width: int, bounds: list[list[int]]) -> None:
    """A program can check indices before kernels read rows by them. A large lookup is a part of its
    own, and a small one computes its indices."""

    def program(ids: Tensor, table: Tensor) -> Tensor:
        return F.embedding(ids + 1, table) * 2

    ids, table = torch.arange(6) - 1, torch.randn(10, width)
    found = compiled(program, ids, table)
    assert not calls(found)
    assert [[b.below for b in a.manifest.bounds] for a in found.artifacts] == bounds
    if width == 16:
        (y,) = emulate(found, ids, table)
        torch.testing.assert_close(y, program(ids, table))


def test_a_dynamic_size() -> None:
    """Kernels of exact arithmetic take the number of rows as a parameter, like others."""

    def program(ids: Tensor) -> tuple[Tensor, Tensor]:
        return ids * 3, torch.where(ids >= ids * ids, 1.0, 0.0) * 2

    shapes = ({0: torch.export.Dim("batch", min=1, max=40)},)
    graph = mi.from_torch(program, drawn(torch.int64, 6, 35), dynamic_shapes=shapes)
    found = graph.superoptimize(chip="sm_90a", jobs=1, use_cache=False, cubin=False)
    for rows in (1, 3, 8, 40):
        ids = drawn(torch.int64, rows, 35, seed=rows)
        for y, e in zip(found.run(sized_emulator, (ids,)), program(ids), strict=True):
            assert torch.equal(y, e)


def kernel_of(*lines: str) -> KernelGraph:
    x = Value(TensorType((5, 70), DType.I32))
    formula = Formula(tuple(map(read_step, lines)))
    result = Value(TensorType((5, 70), DType.I32))
    launch = computing([Integers((x,), (result,), formula)])
    return KernelGraph("kernel", (x,), (launch,), launch.results)


@pytest.mark.parametrize("wrong", ["sub 1 0 : i32", "add 1 1 : i32", "mul 1 0 : i32"])
def test_checks_see_wrong_kernels(wrong: str) -> None:
    """A kernel is compared with the meaning of its formula before it is used."""
    right = kernel_of("load 0 1", "square 0 : i32", "add 1 0 : i32")
    other = kernel_of("load 0 1", "square 0 : i32", wrong)
    artifact = compile_graph(right)
    (kernel,) = artifact.manifest.kernels
    assert emulated(right.ops[0], kernel, artifact).outcome is Outcome.PASSED
    assert emulated(other.ops[0], kernel, artifact).outcome is Outcome.FAILED


def test_other_chips() -> None:
    inputs = drawn(torch.int64, 5, 33), drawn(torch.int64, 5, 33, seed=1)
    graph = mi.from_torch(arithmetic, *inputs, allow_fallback=True)
    found = mi.optimize(graph, executed(chip="sm_80"))
    exact(found, arithmetic, *inputs)
