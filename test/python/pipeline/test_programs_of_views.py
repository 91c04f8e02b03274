"""Programs that mostly move elements: from PyTorch to PTX that the emulator executes, and their
predicted time compared with that of the bytes that must move."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import mirage as mi
import pytest
import torch
import torch.nn.functional as F
from executed_programs import executed
from mirage.cost.target import target_for
from mirage.pipeline.checks.kernel_check import Outcome
from mirage.pipeline.commands.emulate import emulate
from mirage.search import superoptimize
from mirage.semantics.ugraph import External, KernelGraph, Launch
from thorough import some_of

Tensor = torch.Tensor
OPTIONS = executed(candidates=2, budget=300.0, use_cache=False)
CARD = target_for("h200")
FIXED = 2.5
"""µs of a launch, of the latency of the first byte, and of the work that no other block hides."""


def rand(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape))).half()


def rotary(x: Tensor, c: Tensor, s: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return x * c + torch.cat((-b, a), -1) * s


def rotary_planes(x: Tensor, c: Tensor, s: Tensor) -> Tensor:
    a, b = x.view(*x.shape[:-1], 2, -1).unbind(-2)
    return x * c + torch.stack((-b, a), -2).flatten(-2) * s


def rotary_pairs(x: Tensor, c: Tensor, s: Tensor) -> Tensor:
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack((a * c - b * s, b * c + a * s), -1).flatten(-2)


def windows(x: Tensor) -> Tensor:
    n, h, w, c = x.shape
    return x.view(n, h // 7, 7, w // 7, 7, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 49, c)


def parts_of_heads(x: Tensor) -> tuple[Tensor, ...]:
    q, k, v = x.reshape(*x.shape[:2], 3, 16, -1).permute(2, 0, 3, 1, 4).unbind(0)
    return q * 0.125, F.relu(k), F.relu(v)


def shifted(x: Tensor) -> Tensor:
    return windows(torch.roll(x, (-3, -3), (1, 2)))


def swiglu(x: Tensor) -> Tensor:
    gate, up = x.chunk(2, -1)
    return F.silu(gate) * up


SMALL: dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...]]] = {
    "pixels of two": (lambda x: F.pixel_shuffle(x, 2), (rand(2, 16, 6, 10),)),
    "pixels of three": (lambda x: F.relu(F.pixel_shuffle(x, 3)), (rand(2, 18, 7, 9),)),
    "pixels of four": (lambda x: F.relu(F.pixel_shuffle(x, 4)), (rand(2, 32, 8, 8),)),
    "channels of pixels": (lambda x: F.pixel_unshuffle(x, 2), (rand(2, 4, 12, 20),)),
    "pairs as halves": (lambda x: x.view(40, 16, 2).mT.reshape(40, 32) * 2, (rand(40, 32),)),
    "rolled": (lambda x: torch.roll(x, -3, -1), (rand(40, 61),)),
    "rolled twice": (lambda x: torch.roll(x, (3, -2), (1, 2)) * 2, (rand(2, 8, 8, 16),)),
    "rolled as one line": (lambda x: torch.roll(x, 7), (rand(12, 16),)),
    "rolled all around": (lambda x: torch.roll(x, 12, 0) * 2, (rand(12, 16),)),
    "joined slices": (
        lambda x, y: torch.cat((x[:, 8:], y[:, :20]), 1), (rand(40, 64), rand(40, 64)),
    ),
    "padded on all sides": (
        lambda x: F.relu(F.pad(x, (1, 2, 2, 1), value=3.0)), (rand(2, 3, 9, 13),),
    ),
    "joined twice": (
        lambda x, y: torch.cat((torch.cat((x, y), 1) * 2, x.repeat(1, 2) + 1), 0) * 3,
        (rand(5, 8), rand(5, 8)),
    ),
    "halves as planes": (rotary_planes, (rand(3, 5, 16), rand(5, 16), rand(5, 16))),
    "pairs": (rotary_pairs, (rand(3, 5, 32), rand(5, 16), rand(5, 16))),
    "sum of all": (lambda x: x.float().sum(), (rand(1024, 2560),)),
    "mean of all": (lambda x: x.float().mean(), (rand(1023, 2051),)),
    "long rows": (lambda x: x + 1, (rand(7, 3000),)),
}  # fmt: skip


@pytest.mark.parametrize("name", some_of(SMALL, 6))
def test_what_is_compiled_is_right(name: str) -> None:
    program, inputs = SMALL[name]
    found = mi.optimize(mi.from_torch(program, *inputs).program, OPTIONS)
    assert any(isinstance(op, Launch) for op in found.graph.ops)
    assert not any(isinstance(op, External) for op in found.graph.ops)
    (actual,) = emulate(found, *inputs)
    expected = program(*(x.double() for x in inputs)).to(actual.dtype)
    torch.testing.assert_close(actual, expected, rtol=2e-3, atol=1e-5)


NEIGHBOURS: dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...]]] = {
    "pixels": (lambda x: F.pixel_shuffle(x, 2), (rand(1, 16, 4, 64),)),
    "pairs": (rotary_pairs, (rand(2, 4, 128), rand(4, 64), rand(4, 64))),
}


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_neighbours_in_memory_are_stored_together(name: str) -> None:
    """A thread has the same elements of both parts of a join, which are neighbours there. The
    kernel passes its check, whose results share memory as they do in the program."""
    program, inputs = NEIGHBOURS[name]
    given = mi.from_torch(program, *inputs).program
    found = mi.optimize(given, replace(OPTIONS, check_kernels=True))
    (check,) = found.report.checks
    assert check.outcome is Outcome.PASSED, check
    stores = re.findall(r"st\.global\S*", found.artifacts[0].ptx())
    assert stores
    assert not any(store.endswith("global.b16") for store in stores)
    (actual,) = emulate(found, *inputs)
    expected = program(*(x.double() for x in inputs)).half()
    torch.testing.assert_close(actual, expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("program", [shifted, lambda x: F.pad(x, (0, 0, 1, 2, 2, 1))])
def test_rows_that_are_looked_up_are_right(program: Callable[..., Tensor]) -> None:
    x = rand(2, 14, 7, 32)
    found = mi.optimize(mi.from_torch(lambda x: program(x) * 2, x).program, OPTIONS)
    assert sum(isinstance(op, Launch) for op in found.graph.ops) == 1
    (actual,) = emulate(found, x)
    torch.testing.assert_close(actual, program(x) * 2)


def large(*shape: int) -> Tensor:
    """Without memory, since nothing is computed with it."""
    return torch.empty(shape, dtype=torch.float16, device="meta")


LARGE: dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...]]] = {
    "pixels of two": (lambda x: F.pixel_shuffle(x, 2), (large(64, 256, 64, 64),)),
    "channels of pixels": (lambda x: F.pixel_unshuffle(x, 2), (large(64, 64, 128, 128),)),
    "sum of all": (lambda x: x.sum(), (large(8192, 8192),)),
    "sum of columns": (lambda x: x.sum(0), (large(65536, 1024),)),
    "mean of channels": (lambda x: x.mean((0, 2, 3)), (large(256, 256, 56, 56),)),
    "one is added": (lambda x: x + 1, (large(70000, 70000),)),
    "gate and up": (swiglu, (large(4096, 28672),)),
    "windows": (lambda x, w: windows(x) @ w, (large(64, 56, 56, 96), large(96, 288))),
    "rolled": (lambda x: torch.roll(x, 5, -1) * 2, (large(8192, 8192),)),
    "rows rolled": (lambda x: torch.roll(x, 5, 0) * 2, (large(8192, 8192),)),
    "joined slices": (
        lambda x, y: torch.cat((x[:, :4088], y[:, 8:]), 1),
        (large(8192, 4096), large(8192, 4096)),
    ),
    "cache joined": (
        lambda q, k, k2, v, v2: F.scaled_dot_product_attention(
            q, torch.cat((k, k2), 2), torch.cat((v, v2), 2)
        ),
        (large(64, 32, 7, 128), *(large(64, 32, n, 128) for n in (96, 7, 96, 7))),
    ),
    "lower triangle": (lambda x: x.tril(), (large(8192, 8192),)),
    "upper triangle": (lambda x: x.triu(1), (large(8192, 8192),)),
    "every other column": (lambda x: x[:, ::2] + x[:, 1::2], (large(8192, 8192),)),
    "parts of heads": (parts_of_heads, (large(8, 1024, 3072),)),
    "images padded": (lambda x: F.pad(x, (1, 1, 1, 1)), (large(64, 64, 56, 56),)),
    "images padded, with a function": (
        lambda x: F.relu(F.pad(x, (1, 1, 1, 1))), (large(64, 64, 112, 112),),
    ),
    "rotary positions": (rotary, (large(32, 4096, 128), large(4096, 128), large(4096, 128))),
    "rotary positions, planes": (
        rotary_planes, (large(32, 4096, 128), large(4096, 128), large(4096, 128)),
    ),
    "sums so far": (lambda x: x.cumsum(-1), (large(8192, 4096),)),
    "sums from here": (lambda x: x.flip(-1).cumsum(-1).flip(-1), (large(8192, 4096),)),
    "turned around": (lambda x: F.relu(x.permute(0, 2, 3, 1)), (large(64, 256, 64, 64),)),
}  # fmt: skip


def least(program: KernelGraph) -> float:
    """Return the µs for transferring all inputs and outputs, and for a launch."""
    size = sum(v.type.bytes for v in (*program.inputs, *program.outputs))
    return size / CARD.dram_bytes + FIXED


@pytest.mark.parametrize("name", some_of(LARGE, 6))
def test_predicted_time_is_that_of_the_bytes(name: str) -> None:
    program, inputs = LARGE[name]
    graph = mi.from_torch(program, *inputs).program.graph
    best = superoptimize(graph, CARD).candidates[0]
    assert best.cost.time <= 1.2 * least(graph)


def test_sums_over_everything_have_as_many_blocks_as_load_best() -> None:
    """67 MB of f32, without an allowance for the launches: 1.225 with up to 256 blocks."""
    x = torch.empty(4096, 4096, device="meta")
    graph = mi.from_torch(lambda x: x.sum(), x).program.graph
    best = superoptimize(graph, CARD).candidates[0]
    assert best.cost.time <= 1.215 * graph.inputs[0].type.bytes / CARD.dram_bytes


def test_long_sums_so_far_read_twice_what_they_write() -> None:
    """Rows of a million elements: the totals of blocks, and their running sums."""
    x = torch.empty(16, 1 << 20, device="meta")
    graph = mi.from_torch(lambda x: x.cumsum(-1), x).program.graph
    best = superoptimize(graph, CARD).candidates[0]
    assert best.cost.time <= 1.65 * least(graph)


@pytest.mark.parametrize(("rows", "most"), [(4096, 1.25), (5003, 1.5), (8192, 1.8)])
def test_sums_of_columns_so_far(rows: int, most: float) -> None:
    """Rows that exceed one block: only their part, or everything, is read twice. (A block that has
    the sums so far of 4096 rows and their total would spill.)"""
    x = torch.empty(rows, 4096, device="meta")
    graph = mi.from_torch(lambda x: x.cumsum(0), x).program.graph
    best = superoptimize(graph, CARD).candidates[0]
    assert best.cost.time <= most * least(graph)


LATE: dict[str, tuple[Callable[..., Tensor], tuple[Tensor, ...]]] = {
    "largest so far": (lambda x: x.cummax(-1), (large(8192, 1024).float(),)),
    "windows moved": (lambda x: F.relu(shifted(x)), (large(16, 56, 56, 96),)),
    "padded images": (lambda x: F.relu(F.pad(x, (0, 0, 1, 1, 1, 1))), (large(16, 56, 56, 96),)),
    "columns in reverse": (lambda x: x.flip(-1) + x, (large(8192, 8192),)),
    "rows of planes": (
        lambda x, i: torch.take_along_dim(x, i, 1),
        (large(64, 2048, 64), torch.empty((64, 2048, 1), dtype=torch.int64, device="meta")),
    ),
}  # fmt: skip
"""Rows are looked up by the kernels that load them, which is decided after the search."""


@pytest.mark.parametrize("name", some_of(LATE, every=2))
def test_predicted_time_is_that_of_the_bytes_in_the_end(name: str) -> None:
    program, inputs = LATE[name]
    given = mi.from_torch(program, *inputs, allow_fallback=True).program
    found = mi.optimize(given, replace(OPTIONS, chip="h200", compile=False, numerics=False))
    assert found.report.prediction is not None
    assert found.report.prediction.time <= 1.2 * least(given.graph)
