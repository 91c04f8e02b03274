# ruff: noqa: E501 - PTX keeps its lines
"""Races, missing waits and fences: caught, with the place; the correct kernel passes."""

from __future__ import annotations

from typing import Any

import numpy as np
from emulator_support.checks import TILE, fails
from emulator_support.harness import launch
from mirage.emulator import (
    DeadlockError,
    DivergenceError,
    MbarrierError,
    MissingFenceError,
    MissingWaitError,
    OutOfBoundsError,
    RaceError,
    UninitialisedReadError,
)

_SHARE = """
    mov.u32 %r1, tile; shl.b32 %r2, %t, 2; add.u32 %r3, %r1, %r2;
    st.shared.b32 [%r3], %t; {0}
    xor.b32 %r4, %r2, 128; add.u32 %r4, %r4, %r1; ld.shared.b32 %r5, [%r4]; {1}
    st.shared.b32 [%r3], %r5;"""


def test_race_read_after_write_and_write_after_read() -> None:
    launch(
        _SHARE.format("bar.sync 0;", "bar.sync 0;"), [np.zeros(1)], threads=64, declarations=TILE
    )
    error = fails(
        RaceError,
        r"write by warp \d .*st.shared.b32.*reads",
        _SHARE.format("", "bar.sync 0;"),
        threads=64,
    )
    assert error.site is not None
    assert "ld.shared" in error.site.text
    fails(RaceError, r"between a read by warp \d", _SHARE.format("bar.sync 0;", ""), threads=64)


def test_race_of_two_writes_in_one_instruction() -> None:
    fails(RaceError, "writes them too", "mov.u32 %r1, tile; st.shared.b32 [%r1], %t;", threads=64)


def test_a_barrier_of_other_warps_does_not_order() -> None:
    body = """
    mov.u32 %r1, tile; setp.lt.u32 %p1, %t, 64; setp.lt.u32 %p2, %t, 32; @!%p1 bra LATE;
    @%p2 st.shared.b32 [%r1], %r1; bar.sync 1, 64; ret;
LATE:
    ld.shared.b32 %r2, [%r1];"""
    fails((RaceError, UninitialisedReadError), "expected", body, threads=96)  # type: ignore[arg-type]


def test_atomics_do_not_race_with_each_other_but_with_plain_reads() -> None:
    body = """
    mov.u32 %r1, tile; setp.eq.u32 %p1, %t, 0; @%p1 st.shared.b32 [%r1], 0; bar.sync 0;
    red.shared.add.u32 [%r1], 1; {0} ld.shared.b32 %r2, [%r1];"""
    launch(body.format("bar.sync 0;"), [np.zeros(1)], threads=64, declarations=TILE)
    fails(RaceError, "an atomic by warp", body.format(""), threads=64)


_COPY = """
    mov.u32 %r1, tile; shl.b32 %r2, %t, 4; add.u32 %r3, %r1, %r2; mul.wide.u32 %d1, %t, 16;
    add.u64 %d1, %d1, %a0; setp.lt.u32 %p1, %t, 16;
    @%p1 cp.async.cg.shared.global [%r3], [%d1], 16; cp.async.commit_group;
    @%p1 cp.async.ca.shared.global [%r3+256], [%d1], 8; cp.async.commit_group;
    {0}
    @%p1 ld.shared.b32 %r4, [%r3]; @%p1 ld.shared.b32 %r5, [%r3+{1}];"""


def test_missing_wait_on_cp_async() -> None:
    source = [np.zeros(64, np.uint32)]
    launch(_COPY.format("cp.async.wait_group 0;", 256), source, declarations=TILE)
    launch(_COPY.format("cp.async.wait_group 1;", 0), source, declarations=TILE)
    fails(MissingWaitError, "cp.async copies of warp 0", _COPY.format("", 0), source)
    fails(
        MissingWaitError,
        "cp.async copies of warp 0",
        _COPY.format("cp.async.wait_group 1;", 256),
        source,
    )
    fails(MissingWaitError, "cp.async", _COPY.format("@%p1 st.shared.b32 [%r3], %t;", 0), source)


_BULK = """
    mov.u32 %r1, tile; mov.u32 %r2, bar; setp.eq.u32 %p1, %t, 0;
    @%p1 mbarrier.init.shared::cta.b64 [%r2], 1; {fence} {barrier}
    @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], {expect};
    @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%a0], 256, [%r2];
WAIT:
    {wait} @!%p2 bra WAIT;
    ld.shared.b32 %r3, [%r1]; {after}"""
_GOOD = {"fence": "@%p1 fence.mbarrier_init.release.cluster;", "barrier": "bar.sync 0;", "expect": "256",
         "wait": "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0;", "after": ""}  # fmt: skip


def _bulk(**changes: str) -> str:
    return _BULK.format(**{**_GOOD, **changes})


def test_bulk_copy_and_its_mbarrier() -> None:
    launch(_bulk(), [np.zeros(64, np.uint32)], threads=64, declarations=TILE)
    fails(
        MissingWaitError,
        "bulk copies that complete on the mbarrier",
        _bulk(wait="setp.eq.u32 %p2, 0, 0;"),
        threads=64,
    )
    fails(MissingFenceError, "fence.mbarrier_init", _bulk(fence=""), threads=64)
    fails(RaceError, "between mbarrier.init", _bulk(barrier=""), threads=64)
    fails(DeadlockError, r"0 of 1 arrivals and 16 bytes missing", _bulk(expect="272"), threads=64)
    fails(
        DeadlockError,
        "mbarrier at .* phase 1",
        _bulk(after="W2: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 1; @!%p2 bra W2;"),
        threads=64,
    )


def test_bulk_copy_never_waited_for() -> None:
    body = _bulk(wait="setp.eq.u32 %p2, 0, 0;").replace("ld.shared.b32 %r3, [%r1];", "")
    fails(MissingWaitError, "before the block exits", body, threads=64)


def test_mbarrier_misuse() -> None:
    fails(
        MbarrierError,
        "expected mbarrier.init",
        "mov.u32 %r1, bar; mbarrier.arrive.shared::cta.b64 _, [%r1];",
    )
    fails(
        MbarrierError,
        "arrival count from 1",
        "mov.u32 %r1, bar; setp.eq.u32 %p1, %t, 0; @%p1 mbarrier.init.shared::cta.b64 [%r1], 0;",
    )
    body = """
    mov.u32 %r1, bar; setp.eq.u32 %p1, %t, 0; @%p1 mbarrier.init.shared::cta.b64 [%r1], 2;
    bar.warp.sync -1; @%p1 mbarrier.arrive.shared::cta.b64 _, [%r1], 3;"""
    fails(MbarrierError, "at most 2 pending arrivals", body)
    fails(
        MbarrierError,
        "phase parity",
        body.replace(
            "@%p1 mbarrier.arrive.shared::cta.b64 _, [%r1], 3;",
            "mov.u32 %r3, 2; mbarrier.test_wait.parity.shared::cta.b64 %p2, [%r1], %r3;",
        ),
    )


def test_missing_proxy_fence_before_a_bulk_store() -> None:
    body = """
    mov.u32 %r1, tile; shl.b32 %r2, %t, 2; add.u32 %r3, %r1, %r2; st.shared.b32 [%r3], %t;
    {0} bar.sync 0; {1} setp.eq.u32 %p1, %t, 0;
    @%p1 cp.async.bulk.global.shared::cta.bulk_group [%a0], [%r1], 256;
    cp.async.bulk.commit_group; {2}"""
    wait = "cp.async.bulk.wait_group.read 0;"
    out = np.zeros(64, np.uint32)
    launch(
        body.format("fence.proxy.async.shared::cta;", "", wait),
        [out],
        threads=64,
        declarations=TILE,
    )
    assert out.tolist() == list(range(64))
    launch(body.format("", "fence.proxy.async;", wait), [out], threads=64, declarations=TILE)
    fails(
        MissingFenceError,
        "fence.proxy.async between the write by warp",
        body.format("", "", wait),
        threads=64,
    )
    fails(
        MissingWaitError,
        "cp.async.bulk.wait_group before the warp exits",
        body.format("fence.proxy.async;", "", ""),
        threads=64,
        of_warps=True,
    )
    reuse = "bar.sync 0; st.shared.b32 [%r3], %t; " + wait
    fails(
        MissingWaitError,
        "a read by bulk copies of warp 0",
        body.format("fence.proxy.async;", "", reuse),
        threads=64,
    )


_PEER = """
    mov.u32 %r1, tile; mov.u32 %r9, %cluster_ctarank; xor.b32 %r9, %r9, 1;
    {0}
    shl.b32 %r2, %t, 2; add.u32 %r3, %r1, %r2; mapa.shared::cluster.u32 %r4, %r3, %r9;
    st.shared::cluster.b32 [%r4], %t;
    {1}
    ld.shared.b32 %r5, [%r3];"""
_SYNC = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"


def test_cluster_barriers_order_distributed_shared_memory() -> None:
    options: dict[str, Any] = {"blocks": 2, "cluster": (2,)}
    launch(_PEER.format(_SYNC, _SYNC), [np.zeros(1)], declarations=TILE, **options)
    fails((RaceError, UninitialisedReadError), "expected", _PEER.format(_SYNC, ""), **options)  # type: ignore[arg-type]
    fails(MissingWaitError, "may not have started", _PEER.format("", _SYNC), **options)
    relaxed = _SYNC.replace("arrive", "arrive.relaxed")
    fails(
        RaceError, r"write by warp 0 of block \(1, 0, 0\)", _PEER.format(_SYNC, relaxed), **options
    )
    fails(
        DivergenceError,
        "expected barrier.cluster.arrive before",
        _PEER.format(_SYNC, "barrier.cluster.wait.aligned;"),
        **options,
    )
    twice = "barrier.cluster.arrive.aligned; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
    fails(
        DivergenceError, "between two barrier.cluster.arrive", _PEER.format(twice, _SYNC), **options
    )
    fails(
        OutOfBoundsError,
        "block rank below 2",
        _PEER.format("mov.u32 %r9, 2;", _SYNC),
        addressed=False,
        **options,
    )


def test_block_that_exits_while_a_peer_reads_it() -> None:
    body = """
    mov.u32 %r1, tile; mov.u32 %r9, %cluster_ctarank; xor.b32 %r9, %r9, 1;
    shl.b32 %r2, %t, 2; add.u32 %r3, %r1, %r2; st.shared.b32 [%r3], %t;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    mapa.shared::cluster.u32 %r4, %r3, %r9; ld.shared::cluster.b32 %r5, [%r4];
    {0}"""
    options: dict[str, Any] = {"blocks": 2, "cluster": (2,)}
    launch(body.format(_SYNC), [np.zeros(1)], declarations=TILE, **options)
    fails(RaceError, "the exit of that block", body.format(""), of_warps=True, **options)


def test_block_that_exits_while_a_peer_may_arrive_at_its_mbarrier() -> None:
    """All of them wait for each other, or each one waits for its own arrivals."""
    body = """
    mov.u32 %r1, bar; mov.u32 %r9, %cluster_ctarank; xor.b32 %r9, %r9, 1; setp.eq.u32 %p1, %t, 0;
    @%p1 mbarrier.init.shared::cta.b64 [%r1], 1;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    mapa.shared::cluster.u32 %r4, %r1, %r9;
    @%p1 mbarrier.arrive.shared::cluster.b64 _, [%r4];
    {0}"""
    wait = "W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r1], 0; @!%p2 bra W;"
    options: dict[str, Any] = {"blocks": 2, "cluster": (2,)}
    for right in (_SYNC, wait):
        launch(body.format(right), [np.zeros(1)], declarations=TILE, **options)
    fails(RaceError, "last use of an mbarrier of block", body.format(""), of_warps=True, **options)
