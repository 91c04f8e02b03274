# ruff: noqa: E501 - PTX keeps its lines
"""Counters against counts by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from emulator_support.harness import launch
from mirage.emulator import Counters

TILE = ".shared .align 128 .b8 tile[16384]; .shared .align 8 .b64 bar;"


def counted(body: str, *, size: int = 65536, **options: Any) -> Counters:
    options.setdefault("declarations", TILE)
    return launch(body, [np.zeros(size, np.uint8)], **options).stats


@pytest.mark.parametrize(
    ("stride", "width", "sectors"),
    [(4, 4, 4), (8, 4, 8), (32, 4, 32), (128, 4, 32), (0, 4, 1), (16, 16, 16), (2, 2, 2), (36, 4, 32)],
)  # fmt: skip
def test_coalescing(stride: int, width: int, sectors: int) -> None:
    """32-byte sectors that a warp touches: lane i accesses byte i * stride."""
    kind, regs = {2: ("b16", "%h1"), 4: ("b32", "%r1"), 16: ("v4.b32", "{%r1, %r2, %r3, %r4}")}[width]  # fmt: skip
    place = f"mul.wide.u32 %d1, %t, {stride}; add.u64 %d1, %d1, %a0;"
    stats = counted(f"{place} ld.global.{kind} {regs}, [%d1];")
    assert (stats.global_load_bytes, stats.global_load_sectors) == (32 * width, sectors)
    assert stats.global_store_bytes == 0
    if stride:
        zero = "mov.u16 %h1, 0; mov.u32 %r1, 0; mov.u32 %r2, 0; mov.u32 %r3, 0; mov.u32 %r4, 0;"
        stats = counted(f"{zero} {place} st.global.{kind} [%d1], {regs};", blocks=1)
        assert (stats.global_store_bytes, stats.global_store_sectors) == (32 * width, sectors)
        assert stats.global_load_bytes == 0


@pytest.mark.parametrize(
    ("stride", "wavefronts"), [(4, 1), (8, 2), (16, 4), (128, 32), (132, 1), (0, 1), (12, 1)]
)
def test_bank_conflicts(stride: int, wavefronts: int) -> None:
    """32 banks of 4 bytes: lanes at a stride of s words take gcd(s, 32) passes."""
    fill = "shl.b32 %r8, %t, 2; add.u32 %r8, %r8, %r7;" + "".join(
        f"st.shared.b32 [%r8+{128 * i}], %t;" for i in range(40)
    )
    body = f"mov.u32 %r7, tile; mul.lo.u32 %r1, %t, {stride}; add.u32 %r1, %r1, %r7; {fill} bar.sync 0; ld.shared.b32 %r2, [%r1];"
    stats = counted(body)
    assert stats.shared_wavefronts == 40 + wavefronts
    assert stats.bank_conflicts == wavefronts - 1
    assert stats.shared_load_bytes == 128
    assert stats.shared_store_bytes == 40 * 128


def test_barriers_classes_and_launch_sizes() -> None:
    body = """
    mov.u32 %r1, 0;
L: bar.sync 0; add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 5; @%p1 bra L;
    setp.lt.u32 %p2, %t, 32; @%p2 add.f32 %f1, 0f3F800000, 0f3F800000;"""
    stats = counted(body, threads=64, blocks=3)
    assert (stats.blocks, stats.warps, stats.block_barriers) == (3, 6, 15)
    classes = stats.instructions_by_class
    assert stats.instructions == sum(classes.values())
    assert classes["integer"] == 6 * 5
    assert classes["synchronise"] == 6 * 5
    assert classes["compare"] == 6 * 6
    assert stats.declared_registers["b32"] == 201
    assert 0 < stats.live_registers < 20
    assert stats.shared_bytes >= 16384 + 8


def test_clusters_atomics_and_mbarriers() -> None:
    body = """
    mov.u32 %r2, bar; setp.eq.u32 %p1, %t, 0; @%p1 mbarrier.init.shared::cta.b64 [%r2], 64; bar.sync 0;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    atom.global.add.u32 %r1, [%a0], 1; mbarrier.arrive.shared::cta.b64 _, [%r2];
W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra W;"""
    stats = counted(body, threads=64, blocks=4, cluster=(2,))
    assert (stats.cluster_barriers, stats.global_atomics) == (2, 256)
    assert stats.mbarrier_waits >= 8


def test_copies_and_bytes_in_flight() -> None:
    """Three groups of 512 bytes are in flight before the first wait, two after it."""
    copy = "cp.async.cg.shared.global [%r3+{0}], [%d1+{0}], 16; cp.async.commit_group;"
    body = "mov.u32 %r1, tile; shl.b32 %r2, %t, 4; add.u32 %r3, %r1, %r2; cvt.u64.u32 %d1, %r2; add.u64 %d1, %d1, %a0;"
    body += "".join(copy.format(512 * i) for i in range(3)) + "cp.async.wait_group 1;"
    body += copy.format(1536) + "cp.async.wait_group 0;"
    stats = counted(body)
    assert stats.async_copy_bytes == 2048
    assert stats.peak_bytes_in_flight_per_block == 1536
    assert stats.global_load_sectors == 4 * 16
    bulk = """
    mov.u32 %r1, tile; mov.u32 %r2, bar; setp.eq.u32 %p1, %t, 0;
    @%p1 mbarrier.init.shared::cta.b64 [%r2], 1; @%p1 fence.mbarrier_init.release.cluster; bar.sync 0;
    @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 4096;
    @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%a0], 4096, [%r2];
W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra W;"""
    stats = counted(bulk, blocks=2)
    assert (stats.bulk_copy_bytes, stats.peak_bytes_in_flight_per_block) == (8192, 4096)


def test_tensor_core_operations() -> None:
    zero = "".join(f"mov.b32 %r{i}, 0;" for i in range(1, 7))
    zero += "".join(f"mov.f32 %f{i}, 0f00000000;" for i in range(1, 5))
    mma = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%f1, %f2, %f3, %f4};"
    stats = counted(zero + mma * 3, threads=64)
    assert stats.tensor_core_ops == 2 * 3 * 16 * 8 * 16
    assert stats.instructions_by_class["tensor-core"] == 6


def test_statistics_can_be_left_out() -> None:
    stats = counted("ld.global.b32 %r1, [%a0];", stats=False)
    assert stats.global_load_bytes == 0
