# ruff: noqa: E501 - PTX keeps its lines
"""The order of bulk copies' accesses to global memory and the other accesses of blocks and
warps."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from emulator_support.checks import TILE, fails
from emulator_support.harness import emulator, kernel, launch
from lowering import compile_mlir
from mirage.emulator import MissingFenceError, OutOfBoundsError, RaceError, TensorMap
from mirage.emulator.run_artifact import random_inputs, run_artifact
from mirage.runtime.serialization.artifact import Artifact
from written_kernels.warpgroup_graphs import Product

Words = np.ndarray[Any, np.dtype[np.uint32]]
DONE = "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"
READ = DONE.replace("wait_group", "wait_group.read")
# Threads fill a tile with their numbers (and an addend), and thread 0 may copy it: %d1 is each
# thread's element of the first array, %p1 thread 0, %p2 the first block.
FILL = """
    mov.u32 %r5, %ctaid.x; setp.eq.u32 %p2, %r5, 0; setp.eq.u32 %p1, %t, 0; mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %a0;
    mov.u32 %r1, tile; shl.b32 %r2, %t, 2; add.u32 %r3, %r1, %r2; {0} st.shared.b32 [%r3], %r4; fence.proxy.async; bar.sync 0;"""
SAME, OTHER = "mov.u32 %r4, %t;", "add.u32 %r4, %t, %r5;"
PLAIN = "cp.async.bulk.global.shared::cta.bulk_group [%a0], [%r1], 256;"
COPY, FIRST = f"@%p1 {PLAIN}", f"and.pred %p3, %p1, %p2; @%p3 {PLAIN}"
ADD = "@%p1 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%a0], [%r1], 256;"


def words(count: int = 64) -> Words:
    return np.zeros(count, np.uint32)


def filled(body: str, added: str = SAME) -> str:
    return FILL.format(added) + body


def runs(body: str, *args: Words, **options: Any) -> None:
    launch(body, list(args or (words(),)), threads=64, declarations=TILE, **options)


def test_blocks_that_copy_different_values_to_one_place() -> None:
    runs(filled(COPY + DONE), blocks=3)
    error = fails(
        RaceError,
        "cp.async.bulk.wait_group without .read, a release and an acquire .* by bulk copies of warp 0 of block number 0 .*changes the same byte 0",
        filled(COPY + DONE, OTHER),
        threads=64,
        blocks=3,
    )
    assert error.site is not None
    assert "cp.async.bulk" in error.site.text


def test_tensor_copies_of_several_blocks_to_one_place() -> None:
    """Overlapping boxes that store the same values, and others that do not."""
    copy = "@%p1 cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [%m0, {%r6}], [%r1];" + DONE
    text = kernel("", pointers=2).replace(
        "test(.param .u64 p0", "test(.param .align 64 .b8 m0[128]"
    )
    text = text.replace(
        "ld.param.u64 %a0, [p0];",
        ".reg .b64 %m0; mov.b64 %m0, m0; cvta.param.u64 %m0, %m0; mov.u64 %a0, 0;" + TILE,
    )
    for added, right in (("add.u32 %r4, %t, %r6;", True), (SAME, False)):
        begin = "mov.u32 %r6, %ctaid.x; shl.b32 %r6, %r6, 2;"
        body = text.replace("ret;", begin + filled(copy, added) + "ret;")
        out = words(72)
        given: dict[str, Any] = {
            "grid": (3,),
            "block": (64,),
            "args": [TensorMap(out, (64,)), words()],
        }
        if right:
            emulator(body).launch("test", **given)
            assert out.tolist() == list(range(72))
            continue
        with pytest.raises(RaceError, match="changes the same byte 16 of"):
            emulator(body).launch("test", **given)


def test_another_block_reads_what_was_copied() -> None:
    fails(
        RaceError,
        "a release and an acquire .* reads the same",
        filled(FIRST + DONE + "@!%p2 ld.global.b32 %r6, [%d1];"),
        threads=64,
        blocks=2,
    )


_HANDED = """
    @!%p2 bra TAKE; @%p1 {copy} @%p1 st.release.gpu.global.b32 [%a1], 1; bra END;
TAKE: @!%p1 bra TAKEN;
S:  ld.acquire.gpu.global.b32 %r6, [%a1]; setp.eq.u32 %p4, %r6, 0; @%p4 bra S;
TAKEN: bar.sync 1; {taken}
END:"""
_TAKEN = "ld.global.b32 %r7, [%d1];"
_AGAIN = (
    f"add.u32 %r4, %t, 9; st.shared.b32 [%r3], %r4; fence.proxy.async; bar.sync 0; {COPY} {DONE}"
)


def test_a_copy_that_is_waited_for_is_handed_on() -> None:
    """Also to a bulk copy of the other block, and to blocks that run later."""

    def handed(copy: str, taken: str = _TAKEN) -> str:
        return filled(_HANDED.format(copy=copy, taken=taken))

    for taken in (_TAKEN, _AGAIN, "st.global.b32 [%d1], 9;"):
        runs(handed(PLAIN + DONE, taken), words(), words(1), blocks=2)
        for wait in (READ, "cp.async.bulk.commit_group; cp.async.bulk.wait_group 1;" + READ):
            given: dict[str, Any] = {"args": [words(), words(1)], "threads": 64, "blocks": 2}
            fails(RaceError, "wait_group without .read", handed(PLAIN + wait, taken), **given)


def test_warps_of_the_block_that_copies() -> None:
    after = "bar.sync 0; ld.global.b32 %r7, [%d1];"
    runs(filled(COPY + DONE + after))
    for wait in (READ, DONE.replace("0;", "1;") + READ):
        fails(RaceError, "bulk copies of warp 0", filled(COPY + wait + after), threads=64)
    early = filled(COPY + DONE + "ld.global.b32 %r7, [%d1];")
    fails(RaceError, "without .read, a barrier between", early, threads=64)
    own = "@%p1 ld.global.b32 %r7, [%d1];"
    runs(filled(COPY + DONE + own))
    fails(RaceError, "without .read between", filled(COPY + READ + own), threads=64)


def test_plain_stores_beside_a_copy() -> None:
    """The copy uses another proxy, so the warp's own stores need a fence, too."""
    store, fence = "add.u32 %r6, %t, 9; st.global.b32 [%d1], %r6;", "fence.proxy.async; bar.sync 0;"
    runs(filled(store + fence + COPY + DONE))
    runs(filled("st.global.b32 [%d1], %t;" + COPY + DONE))  # the same values
    fails(RaceError, "expected a barrier between a write", filled(store + COPY + DONE), threads=64)
    barrier = filled(store + "bar.sync 0;" + COPY + DONE)
    fails(MissingFenceError, "fence.proxy.async between a write", barrier, threads=64)
    after = filled(COPY + DONE + "add.u32 %r6, %t, 9; st.global.b32 [%d1], %r6;")
    fails(RaceError, "without .read, a barrier between", after, threads=64)
    read = filled("ld.global.b32 %r6, [%d1];" + COPY + DONE, OTHER)
    runs(read)  # of an input, before anything is written to it
    stored = filled(
        "st.global.b32 [%d1], %t; ld.global.b32 %r6, [%d1]; fence.proxy.async;" + COPY + DONE,
        "add.u32 %r4, %t, 9;",
    )
    fails(RaceError, "expected a barrier between a (read|write)", stored, threads=64)


def test_reductions_are_atomic_among_themselves() -> None:
    out = words()
    runs(filled(ADD + DONE), out, blocks=3)
    assert out.tolist() == [3 * i for i in range(64)]
    for beside in ("ld.global.b32 %r7, [%d1];", "st.global.b32 [%d1], 9;"):
        fails(RaceError, "bulk copies of", filled(ADD + DONE + beside), threads=64, blocks=2)
    before = filled("@%p2 st.global.b32 [%d1], 9;" + ADD + DONE)
    fails(RaceError, "expected a (barrier|release)", before, threads=64, blocks=2)


_LOAD = """
    mov.u32 %r8, bar; @%p1 mbarrier.init.shared.b64 [%r8], 1; fence.mbarrier_init.release.cluster; bar.sync 0;
    @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r8], 256;
    @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%a0], 256, [%r8];
W:  mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r8], 0; @!%p5 bra W;"""


def test_copies_to_shared_memory_read() -> None:
    store, barrier = "st.global.b32 [%d1], 9;", "bar.sync 0;"
    runs(filled(_LOAD))
    runs(filled(store + "fence.proxy.async;" + barrier + _LOAD))
    fails(MissingFenceError, "fence.proxy.async", filled(store + barrier + _LOAD), threads=64)
    unordered = filled("@!%p1 " + store + _LOAD.replace("bar.sync 0;", ""))
    fails(RaceError, "a barrier between a write .* reads the same", unordered, threads=64)
    other = filled("@%p2 " + store + "fence.proxy.async;" + barrier + _LOAD)
    fails(RaceError, "a release and an acquire .* reads the same", other, threads=64, blocks=2)


def test_what_is_only_read_is_not_copied_to() -> None:
    out = words()
    out.flags.writeable = False
    fails(
        OutOfBoundsError,
        "only read, got a write",
        filled(COPY + DONE),
        [out],
        threads=64,
        addressed=False,
    )


# ---- the compiler's own kernels


@cache
def product(resident: int) -> Artifact:
    """Two tiles of 64 rows, in two blocks or in one."""
    return compile_mlir(Product(128, 64, 64, resident=resident).text())


def run_with(artifact: Artifact, ptx: str) -> None:
    files = {**artifact.files, artifact.manifest.modules[0].ptx: ptx.encode()}
    inputs = random_inputs(artifact.manifest.inputs)
    run_artifact(replace(artifact, files=files), inputs, stats=False)


@pytest.mark.parametrize("resident", [0, 1])
def test_a_compiled_kernel_whose_tiles_go_to_one_place(resident: int) -> None:
    """Two blocks store to the same place, or one that does not wait for its copies in between."""
    artifact = product(resident)
    right = artifact.ptx()
    store = re.compile(r"(cp\.async\.bulk\.tensor\.2d\.global\S+ \[%\w+, \{%\w+, )%\w+\}")
    assert len(store.findall(right)) == 1
    run_with(artifact, right)
    wrong = store.sub(r"\1%r_first}", right)
    body = wrong.index("{", wrong.index(".entry")) + 1
    wrong = f"{wrong[:body]}\n.reg .b32 %r_first; mov.b32 %r_first, 0;{wrong[body:]}"
    with pytest.raises(RaceError, match=r"bulk copies of .* changes the same byte"):
        run_with(artifact, wrong)
