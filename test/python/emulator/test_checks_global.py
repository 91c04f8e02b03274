# ruff: noqa: E501 - PTX keeps its lines
"""Orders that blocks, and lanes of a warp, must not rely on: caught, with the place; the correct
kernel passes."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from emulator_support.checks import TILE, fails
from emulator_support.harness import launch
from example_programs import graphs
from lowering import compile_graph, with_schedule
from mirage.emulator import DeadlockError, Emulator, EmulatorError, Limits, RaceError
from mirage.emulator.run_artifact import random_inputs, run_artifact

WORDS = np.uint32


def words(count: int = 64) -> np.ndarray[Any, Any]:
    return np.zeros(count, WORDS)


# ---- stores of several blocks to one place

_STORE = "mov.u32 %r1, %ctaid.x; mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %a0; {0} st.global.b32 [%d1], %r2;"
SAME, OTHER = "mov.u32 %r2, 7;", "add.u32 %r2, %r1, 7;"


def test_blocks_that_store_different_values_to_one_place() -> None:
    launch(_STORE.format(SAME), [words()], blocks=3)
    error = fails(
        RaceError, "of block number .*changes the same byte", _STORE.format(OTHER), blocks=3
    )
    assert error.site is not None
    assert "st.global" in error.site.text


def test_blocks_that_run_one_after_another() -> None:
    """They might have run in parallel."""
    few = Limits(max_resident_bytes=1)
    launch(_STORE.format(SAME), [words()], blocks=3, limits=few)
    fails(
        RaceError,
        "a release and an acquire of gpu scope",
        _STORE.format(OTHER),
        blocks=3,
        limits=few,
    )


def test_places_side_by_side_are_none_in_common() -> None:
    body = """
    mov.u32 %r1, %ctaid.x; shl.b32 %r2, %t, 1; add.u32 %r2, %r2, %r1; mul.wide.u32 %d1, %r2, 2;
    add.u64 %d1, %d1, %a0; cvt.u16.u32 %h1, %r1; st.global.b16 [%d1], %h1;"""
    launch(body, [words()], blocks=2)


def test_warps_of_one_block() -> None:
    body = """
    shl.b32 %r1, %t, 2; cvt.u64.u32 %d1, %r1; add.u64 %d1, %d1, %a0; st.global.b32 [%d1], %t; {0}
    xor.b32 %r1, %r1, 128; cvt.u64.u32 %d1, %r1; add.u64 %d1, %d1, %a0; ld.global.b32 %r2, [%d1];"""
    launch(body.format("bar.sync 0;"), [words()], threads=64)
    fails(RaceError, "expected a barrier between a write", body.format(""), threads=64)


# ---- release and acquire

_HANDED = """
    mov.u32 %r1, %ctaid.x; mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %a0; setp.eq.u32 %p1, %t, 0;
    setp.ne.u32 %p2, %r1, 0; @%p2 bra TAKE;
    add.u32 %r2, %t, 5; st.global.b32 [%d1], %r2; {published}
    @%p1 {release}
    bra END;
TAKE:
    @!%p1 bra TAKEN;
S:  {acquire} setp.eq.u32 %p3, %r3, 0; @%p3 bra S; {after}
TAKEN: {taken}
    ld.global.b32 %r4, [%d1];
END:"""
_RIGHT = {
    "published": "bar.sync 0;", "release": "st.release.gpu.global.b32 [%a1], 1;",
    "acquire": "ld.acquire.gpu.global.b32 %r3, [%a1];", "after": "", "taken": "bar.sync 0;",
}  # fmt: skip


def handed(**changes: str) -> str:
    return _HANDED.format(**{**_RIGHT, **changes})


RELAXED = {
    "release": "st.relaxed.gpu.global.b32 [%a1], 1;",
    "acquire": "ld.relaxed.gpu.global.b32 %r3, [%a1];",
}
FENCE = "fence.acq_rel.gpu;"


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"release": "red.release.gpu.global.add.u32 [%a1], 1;"},
        {"release": "atom.acq_rel.gpu.global.add.u32 %r9, [%a1], 1;"},
        {**RELAXED, "published": f"bar.sync 0; {FENCE}", "after": FENCE},
        {"release": "atom.global.add.u32 %r9, [%a1], 1;", "published": "bar.sync 0; membar.gl;"},
        {"release": "st.volatile.global.b32 [%a1], 1;", "published": "bar.sync 0; fence.sc.sys;"},
    ],
)
def test_what_is_released_and_acquired_can_be_read(changes: dict[str, str]) -> None:
    launch(handed(**changes), [words(), words(1)], blocks=2, threads=64)


@pytest.mark.parametrize(
    "changes",
    [
        RELAXED,
        {"release": RELAXED["release"]},
        {"acquire": RELAXED["acquire"]},
        {"release": "red.global.add.u32 [%a1], 1;"},
        {"release": "st.release.cta.global.b32 [%a1], 1;"},
        {"acquire": "ld.acquire.cta.global.b32 %r3, [%a1];"},
        {"published": ""},  # the other warp's store is not released
        {"taken": ""},  # the other warp does not wait
        {**RELAXED, "published": f"bar.sync 0; {FENCE}"},
        {**RELAXED, "after": FENCE},
        {**RELAXED, "published": f"{FENCE} bar.sync 0;", "after": FENCE},
        {**RELAXED, "published": "bar.sync 0; fence.acq_rel.cta;", "after": FENCE},
    ],
)
def test_what_is_not_cannot(changes: dict[str, str]) -> None:
    fails(
        RaceError,
        "a release and an acquire of gpu scope between a write .* reads the same",
        handed(**changes),
        [words(), words(1)],
        blocks=2,
        threads=64,
    )


_LAST = """
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, 64; mad.lo.u32 %r3, %r1, %r2, %t; mul.wide.u32 %d1, %r3, 4;
    add.u64 %d1, %d1, %a0; st.global.b32 [%d1], %r3; bar.sync 0;
    mov.u32 %r6, tile; setp.eq.u32 %p1, %t, 0; @!%p1 bra WAIT; {0} %r4, [%a1], 1; st.shared.b32 [%r6], %r4;
WAIT: bar.sync 0; ld.shared.b32 %r4, [%r6]; setp.ne.u32 %p2, %r4, 3; @%p2 bra END;
    mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %a0; ld.global.b32 %r5, [%d1]; ld.global.b32 %r5, [%d1+256]; ld.global.b32 %r5, [%d1+512];
END:"""


@pytest.mark.parametrize("resident", [1 << 20, 1])
def test_the_last_block_reads_what_all_wrote(resident: int) -> None:
    """Also if blocks run in turns, and a release passes through a chain of atomics."""
    given: dict[str, Any] = {
        "blocks": 4, "threads": 64, "limits": Limits(max_resident_bytes=resident),
    }  # fmt: skip
    right = _LAST.format("atom.acq_rel.gpu.global.add.u32")
    launch(right, [words(256), words(1)], declarations=TILE, **given)
    for order in ("relaxed", "release", "acquire"):
        wrong = _LAST.format(f"atom.{order}.gpu.global.add.u32")
        fails(RaceError, "a release and an acquire", wrong, [words(256), words(1)], **given)


def test_a_write_after_a_read_of_another_block() -> None:
    body = """
    mov.u32 %r1, %ctaid.x; mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %a0; setp.ne.u32 %p1, %r1, 0;
    @!%p1 st.global.b32 [%d1], %t; @!%p1 ld.global.b32 %r2, [%d1]; @%p1 bra OTHER; ret;
OTHER: add.u32 %r3, %t, 1; st.global.b32 [%d1], %r3;"""
    fails(RaceError, "between a (read|write)", body, [words()], blocks=2)


def test_atomics_need_no_order_among_themselves() -> None:
    body = "red.global.add.u32 [%a0], 1; ld.relaxed.gpu.global.b32 %r1, [%a0];"
    launch(body, [words(1)], blocks=4, threads=64)
    fails(
        RaceError,
        "reads the same",
        "red.global.add.u32 [%a0], 1; ld.global.b32 %r1, [%a0];",
        blocks=2,
    )


# ---- lanes of a warp

_LANES = """
    mov.u32 %r1, tile; shl.b32 %r2, %t, 2; add.u32 %r3, %r1, %r2; st.shared.b32 [%r3], %t; {0}
    xor.b32 %r4, %r2, 4; add.u32 %r4, %r4, %r1; ld.shared.b32 %r5, [%r4]; {1} st.shared.b32 [%r3], %r5;"""
_SYNC = "bar.warp.sync -1;"


def test_lanes_that_exchange_through_shared_memory() -> None:
    for sync in (_SYNC, "bar.sync 0;"):
        launch(_LANES.format(sync, sync), [words()], declarations=TILE)
    fails(RaceError, r"bar.warp.sync between the write by lane 1 of", _LANES.format("", _SYNC))
    fails(RaceError, r"bar.warp.sync between the read by lane 1 of", _LANES.format(_SYNC, ""))
    fails(RaceError, "bar.warp.sync", _LANES.format("shfl.sync.idx.b32 %r9, %t, 0, 31, -1;", _SYNC))


_COPIED = """
    mov.u32 %r1, tile; shl.b32 %r2, %t, 2; add.u32 %r3, %r1, %r2; cvt.u64.u32 %d1, %r2; add.u64 %d1, %d1, %a0;
    cp.async.ca.shared.global [%r3], [%d1], 4; cp.async.commit_group; cp.async.ca.shared.global [%r3+128], [%d1], 4; cp.async.commit_group;
    cp.async.wait_group 1; {0} xor.b32 %r4, %r2, 4; add.u32 %r4, %r4, %r1; ld.shared.b32 %r5, [%r4];
    cp.async.wait_group 0; {1} ld.shared.b32 %r5, [%r4]; ld.shared.b32 %r5, [%r4+{2}];"""


def test_lanes_that_read_what_others_copied() -> None:
    launch(_COPIED.format(_SYNC, _SYNC, 128), [words()], declarations=TILE)
    launch(_COPIED.format(_SYNC, "", 0), [words()], declarations=TILE)
    copied = "bar.warp.sync between the write by lane 1 of"
    fails(RaceError, copied, _COPIED.format("", _SYNC, 128))
    fails(RaceError, copied, _COPIED.format(_SYNC, "", 128))


def test_a_lane_may_read_what_it_wrote_itself() -> None:
    body = "mov.u32 %r1, tile; shl.b32 %r2, %t, 2; add.u32 %r3, %r1, %r2; st.shared.b32 [%r3], %t; ld.shared.b32 %r4, [%r3]; st.shared.b32 [%r3], %r4;"
    launch(body, [words()], declarations=TILE)


def test_one_value_for_all_lanes() -> None:
    body = """
    mov.u32 %r1, tile; setp.eq.u32 %p1, %t, 3; @%p1 st.shared.b32 [%r1], %t; {0} ld.shared.b32 %r2, [%r1]; {1}
    @%p1 st.shared.b32 [%r1], %r2;"""
    launch(body.format(_SYNC, _SYNC), [words()], declarations=TILE)
    fails(RaceError, "the write by lane 3", body.format("", _SYNC))
    fails(RaceError, "the read by other lanes", body.format(_SYNC, ""))


def test_matrices_of_all_lanes() -> None:
    body = """
    mov.u32 %r1, tile; shl.b32 %r2, %t, 4; add.u32 %r3, %r1, %r2; st.shared.v4.b32 [%r3], {{%t, %t, %t, %t}}; {0}
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{%r4, %r5, %r6, %r7}}, [%r3];"""
    launch(body.format(_SYNC), [words()], declarations=TILE)
    fails(RaceError, "bar.warp.sync", body.format(""))


# ---- plain spins


def test_a_plain_spin_ends_with_a_diagnosis() -> None:
    right, wrong = handed(), handed(acquire="ld.global.b32 %r3, [%a1];")
    launch(right, [words(), words(1)], blocks=2, threads=64)
    late = wrong.replace("setp.ne.u32 %p2, %r1, 0;", "setp.eq.u32 %p2, %r1, 0;")
    error = fails(
        DeadlockError,
        "expected ld.acquire, .relaxed or .volatile in a loop that waits for memory",
        late,
        [words(), words(1)],
        blocks=2,
        threads=64,
        limits=Limits(max_resident_bytes=1),
    )
    assert "warp 0" in str(error)
    assert "lane 0" in str(error) or "lanes 0" in str(error)


def test_a_spin_on_shared_memory() -> None:
    body = """
    mov.u32 %r1, tile; setp.eq.u32 %p1, %t, 0; @%p1 st.shared.b32 [%r1], 0; bar.sync 0;
S:  ld.shared.b32 %r2, [%r1]; setp.eq.u32 %p2, %r2, 0; @%p2 bra S;"""
    fails(DeadlockError, "plain loads, which need never see the change", body)
    waiting = body.replace("ld.shared", "ld.volatile.shared")
    fails(DeadlockError, "polling memory", waiting)


def test_loops_that_go_on_are_no_spins() -> None:
    """A list is followed, a counter counts, a guarded load leaves the old value."""
    follow = "S: ld.global.b32 %r1, [%d1]; cvt.u64.u32 %d2, %r1; add.u64 %d1, %d1, %d2; setp.ne.u32 %p1, %r1, 0; @%p1 bra S;"
    steps = np.array([4, 4, 4, 0], WORDS)
    launch(f"mov.u64 %d1, %a0; {follow}", [steps])
    count = "mov.u32 %r1, 0; S: ld.global.b32 %r2, [%a0]; add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 9; @%p1 bra S;"
    launch(count, [words()])
    guarded = "mov.u32 %r2, 0; setp.eq.u32 %p2, %t, 99; setp.ne.u32 %p3, %t, 99; S: @%p2 mov.u32 %r2, 1; @%p3 ld.global.b32 %r2, [%a0]; setp.eq.u32 %p1, %r2, 1; @%p1 bra S;"
    launch(guarded, [words()])


# ---- the compiler's own kernels


@cache
def asynchronous() -> Any:
    """The tests of features of sm_90; they run kernels and check the results."""
    path = Path(__file__).parents[1] / "thread" / "test_async.py"
    spec = importlib.util.spec_from_file_location("sm90_global", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["sm90_global"] = module
    spec.loader.exec_module(module)
    return module


def combine(edit: Callable[[str], str]) -> str:
    """Blocks combine their results within a launch, with the compiler's PTX edited."""
    module, seen = asynchronous(), list[str]()

    class Edited(Emulator):
        def __init__(self, text: str) -> None:
            seen.append(edit(text))
            super().__init__(seen[-1])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "Emulator", Edited)
        module.test_blocks_combine_within_a_launch()
    return seen[0]


@pytest.mark.parametrize(
    ("what", "instead", "error"),
    [
        (r"fence\.acq_rel\.gpu;\s*red\.release\.gpu", "red.relaxed.gpu", RaceError),
        (r"ld\.acquire\.gpu", "ld.relaxed.gpu", RaceError),
        (r"bar\.sync[^;]*;", "", RaceError),
        (r"ld\.acquire\.gpu\.global", "ld.global", (DeadlockError, RaceError)),
    ],
)
def test_breaking_the_compilers_own_order(
    what: str, instead: str, error: type[EmulatorError]
) -> None:
    right = combine(lambda text: text)
    assert re.search(what, right)
    with pytest.raises(error):
        combine(lambda text: re.sub(what, instead, text))


@pytest.mark.parametrize("place", ["%b", "%c0"])
def test_a_compiled_kernel_whose_blocks_store_to_one_place(place: str) -> None:
    module = asynchronous()
    a = module.random(3, 16, 32)
    out = np.zeros_like(a)
    fragment = module.blocked(16, 32, 8, 4).fragment("f16")
    whole = "dims [1, 2] in_bounds [true, true]"
    body = f"""
    %b = gpu.block_id x
    %x = thread.load_global %a0[%b, %c0, %c0] {whole} : {module.memref(a)} -> {fragment}
    thread.store_global %x, %a1[{place}, %c0, %c0] {whole} : {fragment}, {module.memref(out)}
"""
    if place == "%b":
        module.launch(body, [], [a, out], 4, 0, grid=3)
        assert np.array_equal(a, out)
        return
    with pytest.raises(RaceError, match="changes the same byte"):
        module.launch(body, [], [a, out], 4, 0, grid=3)


def test_a_compiled_kernel_of_one_warp() -> None:
    """Its barriers are those of the warp."""
    pair = graphs.rms_linear(16, 64, 32, blocks=2, steps=2)
    graph = with_schedule(pair.candidates["one_kernel"], 1, 2)
    artifact = compile_graph(graph)
    text = artifact.ptx()
    sync = re.compile(r"bar\.(warp\.)?sync[^;]*;")
    assert sync.search(text)

    def run(ptx: str) -> None:
        files = {**artifact.files, "kernels.ptx": ptx.encode()}
        inputs = random_inputs(artifact.manifest.inputs)
        run_artifact(replace(artifact, files=files), inputs)

    run(text)
    with pytest.raises(RaceError, match=r"bar\.warp\.sync"):
        run(sync.sub("", text))
