# ruff: noqa: E501 - PTX keeps its lines
"""Divergence, deadlock, endless loops, traps: caught, with a list of the waits."""

from __future__ import annotations

import numpy as np
import pytest
from emulator_support.checks import fails
from emulator_support.harness import emulator, kernel, launch
from mirage.emulator import (
    DeadlockError,
    DivergenceError,
    InstructionBudgetError,
    Limits,
    OutOfBoundsError,
    TrapError,
)


def test_barrier_divergence() -> None:
    fails(DivergenceError, "lanes", "setp.lt.u32 %p1, %t, 16; @%p1 bra SKIP; bar.sync 0; SKIP:")
    fails(
        DivergenceError,
        r"expected 128 threads .* but 96 arrive; exited",
        "setp.lt.u32 %p1, %t, 32; @%p1 ret; bar.sync 0;",
        threads=128,
        of_warps=True,
    )
    fails(
        DivergenceError,
        "others wait for barrier 1",
        "setp.lt.u32 %p1, %t, 32; @%p1 bra B; bar.sync 0; ret; B: bar.sync 1;",
        threads=64,
        of_warps=True,
    )
    fails(
        DivergenceError,
        "same thread count",
        "shr.u32 %r1, %t, 5; add.u32 %r1, %r1, 2; shl.b32 %r1, %r1, 5; bar.sync 3, %r1;",
        threads=64,
    )
    fails(DivergenceError, "multiple of 32", "mov.u32 %r3, 33; bar.sync 0, %r3;", threads=64)
    fails(
        DivergenceError,
        "same in all lanes",
        "setp.lt.u32 %p1, %t, 16; @%p1 bar.sync 0;",
        threads=32,
    )


def test_divergence_at_warp_instructions() -> None:
    fails(
        DivergenceError,
        "together",
        "setp.lt.u32 %p1, %t, 16; @%p1 bra SKIP; shfl.sync.idx.b32 %r1, %t, 0, 31, -1; SKIP:",
    )
    fails(DivergenceError, "member mask", "shfl.sync.idx.b32 %r1, %t, 0, 31, 0xff;")
    fails(
        DivergenceError,
        "source lane",
        "setp.lt.u32 %p1, %t, 16; @%p1 bra SKIP; shfl.sync.bfly.b32 %r1, %t, 16, 31, 0xffff0000; SKIP:",
    )
    body = """setp.lt.u32 %p1, %t, 32; @%p1 bra SKIP; wgmma.fence.sync.aligned;
    mov.u64 %d1, 0; mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1; wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %d1, %d1, 1, 1, 1, 0, 0; SKIP:"""
    fails(DivergenceError, "warps of the warpgroup", body, threads=128)


def test_deadlock_says_who_waits_for_what() -> None:
    body = """
    mov.u32 %r1, bar; setp.eq.u32 %p1, %t, 0; @%p1 mbarrier.init.shared::cta.b64 [%r1], 2; bar.sync 0;
    setp.ge.u32 %p3, %t, 32; @%p3 bra OTHER;
A:  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r1], 0; @!%p2 bra A; bra.uni END;
OTHER: bar.sync 1, 64;
END:"""
    error = fails(DeadlockError, "every warp waits", body, threads=64)
    assert "warp 0: the mbarrier at" in str(error)
    assert "warp 1: barrier 1 at ptx line" in str(error)


def test_spin_on_memory_that_never_changes() -> None:
    body = "S: ld.acquire.gpu.global.b32 %r1, [%a0]; setp.eq.u32 %p1, %r1, 0; @%p1 bra S;"
    fails(DeadlockError, "polling memory", body)


def test_blocks_that_are_not_resident_together() -> None:
    body = """
    atom.global.add.u32 %r2, [%a0], 1;
S:  ld.acquire.gpu.global.b32 %r1, [%a0]; setp.lt.u32 %p1, %r1, 64; @%p1 bra S;"""
    launch(body, [np.zeros(1, np.uint32)], blocks=2)
    fails(
        DeadlockError,
        "only 1 of 2 blocks are resident",
        body,
        [np.zeros(1, np.uint32)],
        blocks=2,
        limits=Limits(max_resident_bytes=1),
    )


def test_endless_loop_runs_out_of_budget() -> None:
    error = fails(
        InstructionBudgetError,
        "within 1000 warp-instructions",
        "L: add.u32 %t, %t, 1; bra L;",
        limits=Limits(max_instructions=1000),
    )
    assert "running at ptx line" in str(error)


def test_trap() -> None:
    error = fails(TrapError, "trap", "setp.eq.u32 %p1, %t, 5; @%p1 trap;")
    assert error.thread is not None
    assert error.thread.lane == 5


@pytest.mark.parametrize("last", [False, True])
def test_source_location_is_reported(last: bool) -> None:
    """LLVM puts file directives after the kernels."""
    file = '.file 1 "model.py"\n'
    text = kernel(".loc 1 42 7\nld.global.b32 %r1, [%a0+64];", module="" if last else file)
    text += file if last else ""
    with pytest.raises(OutOfBoundsError, match=r"from model.py:42:7") as caught:
        emulator(text).launch("test", grid=(1,), block=(1,), args=[np.zeros(4, np.uint32)])
    assert caught.value.site is not None
    assert caught.value.site.location == "model.py:42:7"
