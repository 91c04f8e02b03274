# ruff: noqa: E501 - PTX keeps its lines
"""For every check a kernel that breaks it: caught, with the place, and the right kernel passes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from emulator_support.harness import HEADER, emulator, kernel, launch
from mirage.emulator import (
    DeadlockError,
    DivergenceError,
    Emulator,
    EmulatorError,
    InstructionBudgetError,
    LaunchError,
    Limits,
    MbarrierError,
    MisalignedAccessError,
    MissingFenceError,
    MissingWaitError,
    OutOfBoundsError,
    PtxSyntaxError,
    RaceError,
    TensorMap,
    TrapError,
    Uninitialised,
    UninitialisedReadError,
    UnknownInstructionError,
)

TILE = ".shared .align 128 .b8 tile[512]; .shared .align 8 .b64 bar; .shared .align 8 .b64 bar2;"


def fails(
    error: type[EmulatorError], match: str, body: str, args: list[Any] | None = None, **options: Any
) -> EmulatorError:
    """The kernel raises `error`; with the same args and checks=False it may do anything but hang."""
    options.setdefault("declarations", TILE)
    with pytest.raises(error, match=match) as caught:
        launch(body, args if args is not None else [np.zeros(64, np.uint32)], **options)
    return caught.value


def test_out_of_bounds_global_names_array_lane_and_line() -> None:
    body = "mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %a0; ld.global.b32 %r1, [%d1+136];"
    error = fails(OutOfBoundsError, r"inside p0 \(256 bytes\), got 4 bytes at byte 256", body)
    assert error.thread is not None
    assert error.thread.lane == 30
    assert error.site is not None
    assert "ld.global.b32 %r1, [%d1+136]" in error.site.text
    assert error.address is not None


def test_out_of_bounds_before_the_array_and_null() -> None:
    fails(OutOfBoundsError, "is in none|inside p0", "ld.global.b32 %r1, [%a0+-4];")
    fails(OutOfBoundsError, "is in none", "mov.u64 %d1, 0; ld.global.b32 %r1, [%d1];")
    fails(OutOfBoundsError, "only read", "st.global.b32 [%a0], %t;", [_read_only()])


def _read_only() -> np.ndarray[Any, Any]:
    array = np.zeros(4, np.uint32)
    array.flags.writeable = False
    return array


def test_out_of_bounds_shared_and_local() -> None:
    fails(OutOfBoundsError, "shared address", "mov.u32 %r1, tile; st.shared.b32 [%r1+100000], %t;")
    fails(OutOfBoundsError, "shared address", "mov.u32 %r1, 0; ld.shared.b32 %r2, [%r1];")
    fails(
        OutOfBoundsError,
        "local memory",
        "ld.local.b32 %r1, [depot+64];",
        declarations=".local .align 4 .b8 depot[16];",
    )


def test_out_of_bounds_parameter_and_barrier_number() -> None:
    fails(OutOfBoundsError, "barrier number", "mov.u32 %r1, 16; bar.sync %r1;")


@pytest.mark.parametrize("body", [
    "ld.global.b64 %d1, [%a0+4];",
    "mov.u32 %r1, tile; st.shared.v4.b32 [%r1+8], {%t, %t, %t, %t};",
    "mov.u32 %r1, tile; cp.async.cg.shared.global [%r1+4], [%a0], 16;",
    "mov.u32 %r1, tile; cp.async.cg.shared.global [%r1], [%a0+8], 16;",
])  # fmt: skip
def test_misaligned(body: str) -> None:
    fails(MisalignedAccessError, "multiple of", body)


def test_uninitialised_register() -> None:
    error = fails(
        UninitialisedReadError,
        r"register %r5",
        "setp.lt.u32 %p1, %t, 31; @%p1 mov.u32 %r5, 1; add.u32 %r1, %r5, 1;",
    )
    assert error.thread is not None
    assert error.thread.lane == 31
    launch(
        "setp.lt.u32 %p1, %t, 31; @%p1 mov.u32 %r5, 1; @!%p1 mov.u32 %r5, 2; add.u32 %r1, %r5, 1;",
        [np.zeros(1)],
    )


def test_uninitialised_register_through_a_copy() -> None:
    fails(
        UninitialisedReadError,
        "register %r2",
        "mov.b32 %r2, %r7; mov.b32 %r3, %r2; add.u32 %r1, %r2, 1;",
    )


def test_uninitialised_shared_local_global() -> None:
    fails(UninitialisedReadError, "shared memory", "mov.u32 %r1, tile; ld.shared.b32 %r2, [%r1];")
    fails(
        UninitialisedReadError,
        "local memory",
        "ld.local.b32 %r1, [depot];",
        declarations=".local .align 4 .b8 depot[16];",
    )
    fails(
        UninitialisedReadError,
        "p0 to be written",
        "ld.global.b32 %r1, [%a0];",
        [Uninitialised(np.zeros(8, np.uint32))],
    )
    body = "mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %a0; st.global.b32 [%d1], %t; ld.global.b32 %r1, [%d1];"
    launch(body, [Uninitialised(np.zeros(32, np.uint32))])


def test_uninitialised_memory_is_nan_without_checks() -> None:
    out = np.zeros(32, np.float32)
    body = "mov.u32 %r1, tile; ld.shared.b32 %r2, [%r1]; mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %a0; st.global.b32 [%d1], %r2;"
    launch(body, [out], declarations=TILE, checks=False)
    assert np.isnan(out).all()


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
    )
    reuse = "bar.sync 0; st.shared.b32 [%r3], %t; " + wait
    fails(
        MissingWaitError,
        "a read by bulk copies of warp 0",
        body.format("fence.proxy.async;", "", reuse),
        threads=64,
    )


def test_barrier_divergence() -> None:
    fails(DivergenceError, "lanes", "setp.lt.u32 %p1, %t, 16; @%p1 bra SKIP; bar.sync 0; SKIP:")
    fails(
        DivergenceError,
        r"expected 128 threads .* but 96 arrive; exited",
        "setp.lt.u32 %p1, %t, 32; @%p1 ret; bar.sync 0;",
        threads=128,
    )
    fails(
        DivergenceError,
        "others wait for barrier 1",
        "setp.lt.u32 %p1, %t, 32; @%p1 bra B; bar.sync 0; ret; B: bar.sync 1;",
        threads=64,
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


def test_source_location_is_reported() -> None:
    text = kernel(".loc 1 42 7\nld.global.b32 %r1, [%a0+64];", module='.file 1 "model.py"')
    with pytest.raises(OutOfBoundsError, match=r"from model.py:42:7") as caught:
        emulator(text).launch("test", grid=(1,), block=(1,), args=[np.zeros(4, np.uint32)])
    assert caught.value.site is not None
    assert caught.value.site.location == "model.py:42:7"


# -- clusters -------------------------------------------------------------------------------------

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
    fails(OutOfBoundsError, "block rank below 2", _PEER.format("mov.u32 %r9, 2;", _SYNC), **options)


def test_block_that_exits_while_a_peer_reads_it() -> None:
    body = """
    mov.u32 %r1, tile; mov.u32 %r9, %cluster_ctarank; xor.b32 %r9, %r9, 1;
    shl.b32 %r2, %t, 2; add.u32 %r3, %r1, %r2; st.shared.b32 [%r3], %t;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    mapa.shared::cluster.u32 %r4, %r3, %r9; ld.shared::cluster.b32 %r5, [%r4];
    {0}"""
    options: dict[str, Any] = {"blocks": 2, "cluster": (2,)}
    launch(body.format(_SYNC), [np.zeros(1)], declarations=TILE, **options)
    fails(RaceError, "the exit of that block", body.format(""), **options)


# -- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("body", "match"), [
    ("frobnicate.u32 %r1, %r2;", "frobnicate"),
    ("add.u33 %r1, %r1, %r1;", r"add.u33 \(.u33 not understood\)"),
    ("add.u32.wrong %r1, %r1, %r1;", "wrong"),
    ("add.u32 %r1, %r1;", "expected 3 operands, got 2"),
    ("add.u32 %h1, %h1, %h1;", r"register %h1 \(.b16\)|destination %h1"),
    ("mma.sync.aligned.m16n8k16.row.row.f32.f16.f16.f32 {%f1}, {%r1}, {%r1}, {%f1};", "row"),
    ("cp.async.cg.shared.global [%r1], [%a0], 4;", "cp.async"),
])  # fmt: skip
def test_unknown_instruction_quotes_the_line(body: str, match: str) -> None:
    with pytest.raises(UnknownInstructionError, match=match) as caught:
        Emulator(kernel(body)).program("test")
    assert caught.value.site is not None
    assert caught.value.site.text == body


@pytest.mark.parametrize(("body", "match"), [
    ("add.u32 %r1, %r1, %zz;", "%zz"),
    ("bra NOWHERE;", "NOWHERE"),
    ("add.u32 %r1 %r1;", "expected ',' or ';'"),
    ("@%r1 bra X; X:", "a predicate register"),
    ("add.u32 %r1, %r1, 0x;", "."),
    ("X: X: ret;", "one label"),
    ("{ .reg .b32 q; mov.u32 q, 1; } mov.u32 %r1, q;", "q"),
    ("mov.u32 %r1, ?;", r"'\?'"),
])  # fmt: skip
def test_malformed_ptx_quotes_the_line(body: str, match: str) -> None:
    with pytest.raises(EmulatorError, match=match) as caught:
        Emulator(kernel(body)).program("test")
    assert isinstance(caught.value, (PtxSyntaxError, UnknownInstructionError))
    assert "ptx line" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        HEADER + ".visible .entry f(",
        HEADER + ".visible .entry f() { ret;",
        ".version 8.0\n.entry f() { ret; }",
    ],
)
def test_text_that_is_no_module(text: str) -> None:
    with pytest.raises(PtxSyntaxError):
        Emulator(text)


def test_inline_ptx_scopes_have_names_of_their_own() -> None:
    body = """
    mov.u32 %r1, 0;
    { .reg .pred p; .reg .b32 t; mov.u32 t, 5;
    L1: add.u32 %r1, %r1, t; setp.lt.u32 p, %r1, 20; @p bra L1; }
    { .reg .pred p; .reg .b32 t; mov.u32 t, 3;
    L1: add.u32 %r1, %r1, t; setp.lt.u32 p, %r1, 30; @p bra L1; }
    st.global.b32 [%a0], %r1;"""
    out = np.zeros(1, np.uint32)
    launch(body, [out], threads=1)
    assert out[0] == 32


def test_launches_that_do_not_fit() -> None:
    module = emulator(kernel("", declarations=TILE))
    one: list[Any] = [np.zeros(4)]

    def refuses(match: str, **options: Any) -> None:
        call: dict[str, Any] = {"grid": (1,), "block": (32,), "args": one, **options}
        with pytest.raises(LaunchError, match=match):
            module.launch("test", **call)

    refuses("expected 1 arguments", args=[])
    refuses("an array, scalar", args=["text"])
    refuses("8-byte integer", args=[2**64])
    refuses("an integer", args=[1.5])
    refuses("positive extents as grid", grid=(0,))
    refuses("at most 1024 threads", block=(1025,))
    refuses("multiple of the cluster", grid=(3,), cluster=(2,))
    refuses("shared memory", shared_bytes=300_000)
    refuses(
        "expected 128 bytes aligned|128 bytes",
        args=[TensorMap(np.zeros((8, 8), np.float16), box=(8, 8))],
    )
    with pytest.raises(LaunchError, match="expected a kernel of"):
        module.launch("other", grid=(1,), block=(1,), args=[])
    bounded = emulator(f"{HEADER}.visible .entry f() .maxntid 64, 1, 1 {{ ret; }}")
    with pytest.raises(LaunchError, match="maxntid"):
        bounded.launch("f", grid=(1,), block=(65,), args=[])
