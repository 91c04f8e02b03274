# ruff: noqa: E501 - PTX keeps its lines
"""Exchange between lanes, divergence, loops, barriers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from emulator_support.harness import elementwise, launch
from hypothesis import given, settings
from hypothesis import strategies as st

Array = np.ndarray[Any, Any]


def _shuffle(mode: str, values: list[int], lane: int, b: int, c: int) -> tuple[int, bool]:
    """The PTX manual's pseudo code for shfl.sync."""
    segment, bound = c >> 8 & 31, c & 31
    limit = (lane & segment) | (bound & ~segment & 31)
    if mode == "up":
        j = lane - b
        good = j >= limit
    elif mode == "down":
        j = lane + b
        good = j <= limit
    elif mode == "bfly":
        j = lane ^ b
        good = j <= limit
    else:
        j = (lane & segment) | (b & ~segment & 31)
        good = j <= limit
    return (values[j] if good else values[lane]), good


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@settings(max_examples=20, deadline=None)
@given(b=st.integers(0, 31), width=st.sampled_from([2, 4, 8, 16, 32]))
def test_shuffle(mode: str, b: int, width: int) -> None:
    c = (32 - width) << 8 | (0 if mode == "up" else 31)
    values = list(range(100, 132))
    body = f"shfl.sync.{mode}.b32 %r2|%p1, %r1, {b}, {c}, -1; selp.b32 %r3, 1000, 0, %p1; add.u32 %r0, %r2, %r3;"
    out = elementwise(body, [np.array(values, np.uint32)], np.uint32)
    for lane, got in enumerate(out.tolist()):
        value, good = _shuffle(mode, values, lane, b, c)
        assert got == value + 1000 * good


@settings(max_examples=15, deadline=None)
@given(values=st.lists(st.integers(0, 3), min_size=32, max_size=32))
def test_votes_matches_and_reductions(values: list[int]) -> None:
    x = np.array(values, np.uint32)
    ballot = sum((v > 1) << i for i, v in enumerate(values))

    def of(body: str) -> list[int]:
        return elementwise(body, [x], np.uint32).tolist()

    assert of("setp.gt.u32 %p1, %r1, 1; vote.sync.ballot.b32 %r0, %p1, -1;") == [ballot] * 32
    assert (
        of("setp.gt.u32 %p1, %r1, 1; vote.sync.any.pred %p2, %p1, -1; selp.b32 %r0, 1, 0, %p2;")
        == [int(ballot != 0)] * 32
    )
    assert (
        of("setp.lt.u32 %p1, %r1, 3; vote.sync.all.pred %p2, %p1, -1; selp.b32 %r0, 1, 0, %p2;")
        == [int(max(values) < 3)] * 32
    )
    assert of("match.any.sync.b32 %r0, %r1, -1;") == [
        sum((w == v) << i for i, w in enumerate(values)) for v in values
    ]
    assert of("redux.sync.add.u32 %r0, %r1, -1;") == [sum(values)] * 32
    assert of("redux.sync.max.u32 %r0, %r1, -1;") == [max(values)] * 32
    assert of("redux.sync.xor.b32 %r0, %r1, -1;") == [int(np.bitwise_xor.reduce(x))] * 32
    assert of("elect.sync _|%p1, -1; selp.b32 %r0, 1, 0, %p1;") == [1] + [0] * 31


def test_shuffle_among_some_lanes_of_a_diverged_warp() -> None:
    body = """
    setp.lt.u32 %p1, %t, 8;
    mov.u32 %r0, 0;
    @!%p1 bra REST;
    shfl.sync.bfly.b32 %r0, %r1, 1, 31, 0xff;
    bra.uni END;
REST:
    shfl.sync.idx.b32 %r0, %r1, 31, 31, 0xffffff00;
END:"""
    out = elementwise(body, [np.arange(32, dtype=np.uint32)], np.uint32)
    assert out.tolist() == [i ^ 1 for i in range(8)] + [31] * 24


def test_lanes_that_arrive_one_after_another_shuffle_together() -> None:
    """Odd lanes take a longer path to the same instruction."""
    body = """
    and.b32 %r2, %t, 1; setp.eq.u32 %p1, %r2, 0;
    @%p1 bra JOIN;
    add.u32 %r1, %r1, 100;
    bra.uni JOIN;
JOIN:
    shfl.sync.bfly.b32 %r0, %r1, 1, 31, -1;"""
    out = elementwise(body, [np.arange(32, dtype=np.uint32)], np.uint32)
    assert out.tolist() == [(i ^ 1) + (100 if i % 2 == 0 else 0) for i in range(32)]


@settings(max_examples=20, deadline=None)
@given(values=st.lists(st.integers(0, 40), min_size=64, max_size=64))
def test_divergent_loops_and_nested_branches(values: list[int]) -> None:
    """As in the Collatz problem, every lane takes a different number of steps."""
    body = """
    mov.u32 %r0, 0;
    setp.lt.u32 %p1, %r1, 2; @%p1 bra DONE;
LOOP:
    and.b32 %r2, %r1, 1; setp.eq.u32 %p2, %r2, 0;
    @%p2 bra EVEN;
    mad.lo.u32 %r1, %r1, 3, 1;
    bra.uni NEXT;
EVEN:
    shr.u32 %r1, %r1, 1;
NEXT:
    add.u32 %r0, %r0, 1;
    setp.gt.u32 %p3, %r1, 1; @%p3 bra LOOP;
DONE:"""

    def steps(n: int) -> int:
        count = 0
        while n > 1:
            n, count = (n // 2 if n % 2 == 0 else 3 * n + 1), count + 1
        return count

    out = elementwise(body, [np.array(values, np.uint32)], np.uint32)
    assert out.tolist() == [steps(v) for v in values]


def test_reduction_through_shared_memory() -> None:
    out = np.zeros(4, np.uint32)
    body = """
    mov.u32 %r1, tile; shl.b32 %r2, %t, 2; add.u32 %r3, %r1, %r2;
    mov.u32 %r9, %ctaid.x; mad.lo.u32 %r4, %r9, 256, %t;
    st.shared.u32 [%r3], %r4; bar.sync 0;
    mov.u32 %r5, 128;
LOOP:
    setp.ge.u32 %p1, %t, %r5; @%p1 bra SKIP;
    shl.b32 %r6, %r5, 2; add.u32 %r6, %r6, %r3;
    ld.shared.u32 %r7, [%r6]; ld.shared.u32 %r8, [%r3]; add.u32 %r8, %r8, %r7; st.shared.u32 [%r3], %r8;
SKIP:
    bar.sync 0;
    shr.u32 %r5, %r5, 1; setp.ne.u32 %p2, %r5, 0; @%p2 bra LOOP;
    setp.ne.u32 %p3, %t, 0; @%p3 ret;
    ld.shared.u32 %r8, [%r1]; mul.wide.u32 %d1, %r9, 4; add.u64 %d1, %d1, %a0; st.global.u32 [%d1], %r8;"""
    stats = launch(
        body, [out], threads=256, blocks=4, declarations=".shared .align 4 .b8 tile[1024];"
    ).stats
    assert out.tolist() == [sum(range(256 * b, 256 * b + 256)) for b in range(4)]
    assert stats.block_barriers == 4 * 9


def test_lanes_wait_for_their_own_warp_at_a_barrier() -> None:
    """The first lane of each warp arrives later, on a path that is behind; another warp reaches the
    barrier in between."""
    out = np.zeros(64, np.uint32)
    body = """
    mov.u32 %r1, tile; shr.u32 %r2, %t, 5; shl.b32 %r2, %r2, 2; add.u32 %r3, %r1, %r2;
    and.b32 %r4, %t, 31;
    setp.ge.u32 %p1, %t, 32; @%p1 bra LATE;
HERE:
    setp.eq.u32 %p2, %r4, 0; @%p2 bra FIRST;
JOIN:
    bar.sync 0;
    ld.shared.u32 %r5, [%r3];
    mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %a0; st.global.u32 [%d1], %r5;
    ret;
LATE:
    add.u32 %r9, %t, 1;
    bra.uni HERE;
FIRST:
    add.u32 %r6, %t, 7; st.shared.u32 [%r3], %r6;
    bra.uni JOIN;"""
    launch(body, [out], threads=64, blocks=1, declarations=".shared .align 4 .b8 tile[8];")
    assert out.tolist() == [7] * 32 + [39] * 32


def test_named_barriers_order_producer_and_consumer() -> None:
    """Warp 0 fills a tile and arrives; warps 1 to 3 wait; two rounds in a ring of one."""
    out = np.zeros((2, 96), np.uint32)
    body = """
    mov.u32 %r1, tile; shl.b32 %r2, %t, 2; mov.u32 %r9, 0;
    setp.lt.u32 %p1, %t, 32; @!%p1 bra CONSUME;
PRODUCE:
    add.u32 %r3, %r1, %r2; mad.lo.u32 %r4, %r9, 1000, %t; st.shared.u32 [%r3], %r4;
    bar.arrive 1, 128;
    bar.sync 2, 128;
    add.u32 %r9, %r9, 1; setp.lt.u32 %p2, %r9, 2; @%p2 bra PRODUCE;
    ret;
CONSUME:
    bar.sync 1, 128;
    and.b32 %r5, %t, 31; shl.b32 %r5, %r5, 2; add.u32 %r5, %r5, %r1; ld.shared.u32 %r6, [%r5];
    bar.arrive 2, 128;
    mul.lo.u32 %r7, %r9, 96; add.u32 %r7, %r7, %t; sub.u32 %r7, %r7, 32;
    mul.wide.u32 %d1, %r7, 4; add.u64 %d1, %d1, %a0; st.global.u32 [%d1], %r6;
    add.u32 %r9, %r9, 1; setp.lt.u32 %p2, %r9, 2; @%p2 bra CONSUME;"""
    launch(body, [out], threads=128, declarations=".shared .align 4 .b8 tile[128];")
    for i in range(2):
        assert out[i].tolist() == [1000 * i + t % 32 for t in range(96)]


def test_barrier_reductions() -> None:
    out = np.zeros((64, 3), np.uint32)
    body = """
    setp.lt.u32 %p1, %t, 40;
    bar.red.popc.u32 %r1, 0, %p1; bar.red.and.pred %p2, 0, %p1; bar.red.or.pred %p3, 0, %p1;
    selp.b32 %r2, 1, 0, %p2; selp.b32 %r3, 1, 0, %p3;
    mul.wide.u32 %d1, %t, 12; add.u64 %d1, %d1, %a0;
    st.global.b32 [%d1], %r1; st.global.b32 [%d1+4], %r2; st.global.b32 [%d1+8], %r3;"""
    launch(body, [out], threads=64)
    assert (out == [40, 0, 1]).all()


def test_block_that_is_not_a_multiple_of_a_warp() -> None:
    out = np.zeros(50, np.uint32)
    body = """
    mov.u32 %r1, tile; shl.b32 %r2, %t, 2; add.u32 %r3, %r1, %r2; st.shared.u32 [%r3], %t;
    bar.sync 0;
    sub.u32 %r4, 49, %t; shl.b32 %r4, %r4, 2; add.u32 %r4, %r4, %r1; ld.shared.u32 %r5, [%r4];
    mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %a0; st.global.u32 [%d1], %r5;"""
    launch(body, [out], threads=50, declarations=".shared .align 4 .b8 tile[256];")
    assert out.tolist() == list(range(49, -1, -1))


def test_blocks_that_wait_for_each_other_through_global_memory() -> None:
    """A grid barrier by an arrival counter and a spin loop."""
    flags, data, out = np.zeros(1, np.uint32), np.zeros(8, np.uint32), np.zeros(8, np.uint32)
    body = """
    setp.ne.u32 %p1, %t, 0; @%p1 bra END;
    mov.u32 %r1, %ctaid.x; mul.wide.u32 %d1, %r1, 4; add.u64 %d2, %a1, %d1;
    add.u32 %r2, %r1, 5; st.global.u32 [%d2], %r2;
    membar.gl; atom.acq_rel.gpu.global.add.u32 %r3, [%a0], 1;
SPIN:
    ld.acquire.gpu.global.u32 %r4, [%a0]; setp.lt.u32 %p2, %r4, 8; @%p2 bra SPIN;
    sub.u32 %r5, 7, %r1; mul.wide.u32 %d3, %r5, 4; add.u64 %d3, %d3, %a1; ld.global.u32 %r6, [%d3];
    add.u64 %d4, %a2, %d1; st.global.u32 [%d4], %r6;
END:"""
    launch(body, [flags, data, out], blocks=8)
    assert out.tolist() == [12 - b for b in range(8)]


def test_jump_table() -> None:
    body = """
    and.b32 %r2, %t, 3;
    TABLE: .branchtargets CASE0, CASE1, CASE2, CASE1;
    brx.idx %r2, TABLE;
CASE0: mov.u32 %r0, 10; bra.uni END;
CASE1: mov.u32 %r0, 20; bra.uni END;
CASE2: mov.u32 %r0, 30;
END:"""
    out = elementwise(body, [np.zeros(32, np.uint32)], np.uint32)
    assert out.tolist() == [10, 20, 30, 20] * 8


def test_lanes_that_leave_a_loop_keep_their_state() -> None:
    """The predicate of the branch is overwritten while the other lanes still loop."""
    body = """
    mov.u32 %r0, 0;
LOOP:
    add.u32 %r0, %r0, 1; setp.lt.u32 %p1, %r0, %t; @%p1 bra LOOP;
    mov.u32 %r0, %r0;"""
    out = elementwise(body, [np.zeros(64, np.uint32)], np.uint32)
    assert out.tolist() == [max(1, t) for t in range(64)]
