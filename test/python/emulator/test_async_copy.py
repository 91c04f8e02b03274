# ruff: noqa: E501 - PTX keeps its lines
"""mbarriers, bulk and tensor copies, swizzles, multicast, dependent features of sm_90."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from emulator_support.harness import HEADER, emulator, launch
from hypothesis import given, settings
from hypothesis import strategies as st
from mirage.emulator import (
    DeadlockError,
    DescriptorError,
    MisalignedAccessError,
    MissingWaitError,
    OutOfBoundsError,
    RaceError,
    TensorMap,
    Uninitialised,
)
from mirage.emulator.ops.swizzle import swizzled

Array = np.ndarray[Any, Any]
# Two bytes of the filling of a box outside a tensor if NaN is requested, as on an H200.
NAN_FILL = np.array([0x7FF7], np.uint16)
DATA = ".shared .align 1024 .b8 tile[8192]; .shared .align 8 .b64 bar;"
INIT = """
    mov.u32 %r1, tile; mov.u32 %r2, bar; setp.eq.u32 %p1, %t, 0;
    @%p1 mbarrier.init.shared::cta.b64 [%r2], 1; @%p1 fence.mbarrier_init.release.cluster; bar.sync 0;"""
WAIT = """
W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra W;"""


def dump(size: int, pointer: str = "%a1") -> str:
    """Copy `size` bytes of the tile to a pointer, 16 bytes per thread, 32 threads."""
    return f"""
    shl.b32 %r90, %t, 4;
D: add.u32 %r91, %r1, %r90; ld.shared.v4.b32 {{%r92, %r93, %r94, %r95}}, [%r91];
    cvt.u64.u32 %d40, %r90; add.u64 %d40, %d40, {pointer}; st.global.v4.b32 [%d40], {{%r92, %r93, %r94, %r95}};
    add.u32 %r90, %r90, 512; setp.lt.u32 %p9, %r90, {size}; @%p9 bra D;"""


def tensor_kernel(body: str, maps: int = 1, pointers: int = 1) -> str:
    params = [f".param .align 64 .b8 m{i}[128]" for i in range(maps)]
    params += [f".param .u64 p{i}" for i in range(pointers)]
    loads = "\n".join(f"mov.b64 %m{i}, m{i}; cvta.param.u64 %m{i}, %m{i};" for i in range(maps))
    loads += "\n" + "\n".join(f"ld.param.u64 %a{i}, [p{i}];" for i in range(pointers))
    return f"""{HEADER}
.visible .entry test({", ".join(params)})
{{
.reg .pred %p<20>; .reg .b16 %h<40>; .reg .b32 %r<100>; .reg .b64 %d<60>; .reg .b64 %a<9>; .reg .b64 %m<4>;
.reg .b32 %t; {DATA}
{loads}
mov.u32 %t, %tid.x;
{body}
ret;
}}
"""


def box_bytes(tensor: TensorMap) -> int:
    """Return the bytes that one copy writes, including the filling out of bounds."""
    axes = zip(tensor.box, tensor.strides, strict=True)
    return math.prod(-(-extent // stride) for extent, stride in axes) * tensor.array.itemsize


def load_box(tensor: TensorMap, start: tuple[int, ...]) -> Array:
    """Return the bytes that a tensor copy of the box at `start` (innermost first) leaves in shared
    memory."""
    rank = tensor.array.ndim
    coordinates = ", ".join(f"%r{10 + i}" for i in range(rank))
    moves = "".join(f"mov.b32 %r{10 + i}, {v};" for i, v in enumerate(start))
    size = box_bytes(tensor)
    text = tensor_kernel(f"""{INIT} {moves}
    @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], {size};
    @%p1 cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], [%m0, {{{coordinates}}}], [%r2];
    {WAIT} {dump(size, "%a0")}""")
    out = np.zeros(max(size, 512) + 512, np.uint8)
    emulator(text).launch("test", grid=(1,), block=(min(32, size // 16),), args=[tensor, out])
    return out[:size]


def expected_box(tensor: TensorMap, start: tuple[int, ...], fill: float) -> Array:
    """Return the box by its definition, element by element, without a swizzle."""
    box = tensor.box
    result = np.full(box, fill, tensor.array.dtype)
    for index in np.ndindex(*box):
        place = tuple(i + s for i, s in zip(index, reversed(start), strict=True))
        if all(0 <= p < n for p, n in zip(place, tensor.array.shape, strict=True)):
            result[index] = tensor.array[place]
    return result


@settings(max_examples=25, deadline=None)
@given(
    rows=st.integers(1, 40),
    columns=st.integers(1, 6).map(lambda v: v * 8),
    x=st.integers(-3, 8).map(lambda v: v * 8),
    y=st.integers(-20, 50),
    swizzle=st.sampled_from(["none", "32B", "64B", "128B"]),
    nan=st.booleans(),
)
def test_tensor_copy_with_bounds_and_swizzles(
    rows: int, columns: int, x: int, y: int, swizzle: Any, nan: bool
) -> None:
    inner = {"none": 24, "32B": 16, "64B": 32, "128B": 64}[swizzle]
    array = np.random.default_rng(0).standard_normal((rows, columns)).astype(np.float16)
    tensor = TensorMap(array, box=(16, inner), swizzle=swizzle, oob_fill="nan" if nan else "zero")
    got = load_box(tensor, (x, y)).view(np.uint16)
    fill = NAN_FILL.view(np.float16)[0] if nan else 0
    plain = expected_box(tensor, (x, y), fill).reshape(-1).view(np.uint16)
    # The tile starts at a multiple of 1024, so offsets swizzle as addresses do.
    offset = swizzled(
        np.arange(0, box_bytes(tensor), 2), int(swizzle[:-1]) if swizzle != "none" else 0
    )
    np.testing.assert_array_equal(got[offset // 2], plain)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_what_nan_fill_writes(dtype: Any) -> None:
    tensor = TensorMap(np.ones((3, 16), dtype), box=(4, 8), oob_fill="nan")
    got = load_box(tensor, (8, 1))
    fill = np.tile(NAN_FILL, 4).view(dtype)[0]
    assert np.isnan(fill)
    np.testing.assert_array_equal(
        got, expected_box(tensor, (8, 1), fill).reshape(-1).view(np.uint8)
    )


def test_a_box_starts_at_a_multiple_of_16_bytes() -> None:
    """A GPU raises an illegal instruction otherwise, even if all of the box is out of bounds."""
    for dtype, good, bad in ((np.uint8, 16, 8), (np.float16, 8, 4), (np.float32, 4, 2)):
        tensor = TensorMap(np.ones((4, 64), dtype), box=(2, 16))
        load_box(tensor, (good, 0))
        load_box(tensor, (-good, -1))
        for x in (bad, -1, 64 + bad):
            with pytest.raises(MisalignedAccessError, match=rf"multiple of 16 bytes, got {x}"):
                load_box(tensor, (x, 0))


@pytest.mark.parametrize("dtype", [np.uint8, np.float16, np.float32])
@pytest.mark.parametrize("nan", [False, True])
def test_rows_that_end_inside_16_bytes_are_filled_element_by_element(dtype: Any, nan: bool) -> None:
    per = 16 // np.dtype(dtype).itemsize
    if nan and dtype == np.uint8:
        return
    base = np.arange(1, 4 * 4 * per + 1).reshape(4, 4 * per).astype(dtype)
    tensor = TensorMap(base[:, : 2 * per + 3], box=(2, 4 * per), oob_fill="nan" if nan else "zero")
    fill = NAN_FILL.repeat(2).view(dtype)[0] if nan else 0
    for start in ((0, 1), (per, 3), (-per, 0)):
        np.testing.assert_array_equal(
            load_box(tensor, start), expected_box(tensor, start, fill).reshape(-1).view(np.uint8)
        )


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("reduce", [False, True])
def test_stores_end_rows_at_multiples_of_16_bytes(dtype: Any, reduce: bool) -> None:
    """An H200 does the same: a tensor store writes all of the last 16 bytes that a row reaches
    into."""
    per = 16 // np.dtype(dtype).itemsize
    base = np.full((5, 4 * per), -1, dtype)
    tensor = TensorMap(base[:, : 2 * per + 3], box=(4, 2 * per))
    fill = np.dtype(dtype).itemsize // 2 * 0x3C003C00
    op = "cp.reduce.async" if reduce else "cp.async"
    add = ".add" if reduce else ""
    text = tensor_kernel(f"""
    mov.u32 %r1, tile; setp.eq.u32 %p1, %t, 0; shl.b32 %r5, %t, 2; add.u32 %r6, %r1, %r5;
    mov.u32 %r7, {fill % 2**32}; st.shared.b32 [%r6], %r7; fence.proxy.async.shared::cta; bar.sync 0;
    mov.b32 %r10, {per}; mov.b32 %r11, 3;
    @%p1 {op}.bulk.tensor.2d.global.shared::cta{add}.tile.bulk_group [%m0, {{%r10, %r11}}], [%r1];
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;""")
    emulator(text).launch("test", grid=(1,), block=(32,), args=[tensor, np.zeros(1)])
    value = np.full(2, fill % 2**32, np.uint32).view(dtype)[0]
    expected = np.full((5, 4 * per), -1, dtype)
    expected[3:, per : 3 * per] = value + (expected[0, 0] if reduce else 0)
    np.testing.assert_array_equal(base, expected)
    short = np.zeros(4 * 4 * per + 2 * per + 3, dtype)  # the last row is its only one
    strides = base.strides
    rows = np.lib.stride_tricks.as_strided(short, (5, 2 * per + 3), strides)
    with pytest.raises(OutOfBoundsError, match="end at a multiple of 16 bytes"):
        emulator(text).launch(
            "test", grid=(1,), block=(32,), args=[TensorMap(rows, (4, 2 * per)), np.zeros(1)]
        )


def test_element_strides_skip_rows() -> None:
    array = np.arange(16 * 32, dtype=np.float32).reshape(16, 32)
    tensor = TensorMap(array, box=(8, 16), element_strides=(3, 1))
    got = load_box(tensor, (4, 1)).view(np.float32).reshape(3, 16)
    np.testing.assert_array_equal(got, array[1:9:3, 4:20])


def test_swizzle_is_the_documented_permutation() -> None:
    """Rows of 128 bytes: 16-byte chunk c of row r lies at chunk c ^ (r % 8); 64-byte rows: two rows share a
    line of the pattern, chunk c ^ (r / 2 % 4); 32-byte rows: c ^ (r / 4 % 2)."""
    for span, rows_a_line in ((128, 1), (64, 2), (32, 4)):
        for row in range(16):
            for chunk in range(span // 16):
                address = np.array(row * span + chunk * 16, np.int64)
                moved = chunk ^ (row // rows_a_line % (span // 16))
                assert int(swizzled(address, span)) == row * span + moved * 16


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
def test_tensor_copy_of_every_rank(rank: int) -> None:
    shape = (2, 3, 4, 5, 24)[-rank:]
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    tensor = TensorMap(array, box=(1, 2, 3, 2, 8)[-rank:])
    start = (8, 1, 2, 1, 1)[:rank]
    np.testing.assert_array_equal(
        load_box(tensor, start).view(np.float32), expected_box(tensor, start, 0).reshape(-1)
    )


def test_tensor_store_and_reduction_leave_out_what_is_out_of_bounds() -> None:
    for reduce in (False, True):
        array = np.ones((5, 24), np.float32)
        tensor = TensorMap(array, box=(4, 16))
        op = (
            "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group"
            if reduce
            else "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group"
        )
        text = (
            tensor_kernel(f"""
        mov.u32 %r1, tile; setp.eq.u32 %p1, %t, 0; mul.lo.u32 %r5, %t, 4; add.u32 %r6, %r1, %r5;
        cvt.rn.f32.u32 %r7, %t; st.shared.b32 [%r6], %r7; fence.proxy.async.shared::cta; bar.sync 0;
        mov.b32 %r10, 16; mov.b32 %r11, 3;
        @%p1 {op} [%m0, {{%r10, %r11}}], [%r1];
        cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;""")
            .replace(".reg .b32 %t;", ".reg .b32 %t; .reg .f32 %f<3>;")
            .replace("cvt.rn.f32.u32 %r7, %t;", "cvt.rn.f32.u32 %f1, %t; mov.b32 %r7, %f1;")
        )
        emulator(text).launch("test", grid=(1,), block=(64,), args=[tensor, np.zeros(1)])
        expected = np.ones((5, 24), np.float32)
        block = np.arange(64, dtype=np.float32).reshape(4, 16)[:2, :8]
        expected[3:5, 16:24] = block + expected[3:5, 16:24] if reduce else block
        np.testing.assert_array_equal(array, expected)


def test_tensor_copy_into_a_swizzled_store_returns_the_tile() -> None:
    source = np.random.default_rng(0).standard_normal((16, 64)).astype(np.float16)
    target = np.zeros_like(source)
    text = tensor_kernel(
        f"""{INIT} mov.b32 %r10, 0;
    @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 2048;
    @%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%m0, {{%r10, %r10}}], [%r2];
    {WAIT}
    @%p1 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%m1, {{%r10, %r10}}], [%r1];
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;""",
        maps=2,
    )
    maps = [TensorMap(v, box=(16, 64), swizzle="128B") for v in (source, target)]
    emulator(text).launch("test", grid=(1,), block=(32,), args=[*maps, np.zeros(1)])
    np.testing.assert_array_equal(target, source)


def test_multicast_fills_all_blocks_of_a_cluster() -> None:
    source = np.random.default_rng(0).integers(0, 255, (8, 128)).astype(np.uint8)
    out = np.zeros((4, 1024), np.uint8)
    text = tensor_kernel(f"""{INIT}
    @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 1024;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    mov.u32 %r5, %cluster_ctarank; setp.eq.and.u32 %p3, %r5, 1, %p1; mov.b32 %r10, 0; mov.u16 %h1, 15;
    @%p3 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r1], [%m0, {{%r10, %r10}}], [%r2], %h1;
    {WAIT}
    mul.wide.u32 %d10, %r5, 1024; add.u64 %a0, %a0, %d10; {dump(1024, "%a0")}""")
    emulator(text).launch(
        "test", grid=(4,), block=(32,), cluster=(4,), args=[TensorMap(source, box=(8, 128)), out]
    )
    for rank in range(4):
        np.testing.assert_array_equal(out[rank], source.reshape(-1))


def test_bulk_copy_between_blocks() -> None:
    """Each block pushes its tile to the next one, which waits on its own mbarrier."""
    out = np.zeros((2, 256), np.uint32)
    body = f"""{INIT}
    mov.u32 %r5, %cluster_ctarank; xor.b32 %r6, %r5, 1;
    mul.lo.u32 %r7, %r5, 1000; add.u32 %r7, %r7, %t; shl.b32 %r8, %t, 2; add.u32 %r9, %r1, %r8;
    st.shared.b32 [%r9], %r7; fence.proxy.async.shared::cta; bar.sync 0;
    @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 128;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;
    add.u32 %r20, %r1, 1024; mapa.shared::cluster.u32 %r21, %r20, %r6; mapa.shared::cluster.u32 %r22, %r2, %r6;
    @%p1 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r21], [%r1], 128, [%r22];
    {WAIT}
    add.u32 %r23, %r9, 1024; ld.shared.b32 %r24, [%r23];
    mul.wide.u32 %d10, %r5, 1024; mul.wide.u32 %d11, %t, 4; add.u64 %d10, %d10, %d11; add.u64 %d10, %d10, %a0;
    st.global.b32 [%d10], %r24;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"""
    launch(body, [out], blocks=2, cluster=(2,), declarations=DATA)
    assert out[0, :32].tolist() == [1000 + i for i in range(32)]
    assert out[1, :32].tolist() == list(range(32))


def test_bulk_reduction_to_global_memory() -> None:
    out = np.full(32, 100, np.int32)
    body = """
    mov.u32 %r1, tile; shl.b32 %r2, %t, 2; add.u32 %r3, %r1, %r2; st.shared.b32 [%r3], %t;
    fence.proxy.async.shared::cta; bar.warp.sync -1; setp.eq.u32 %p1, %t, 0;
    @%p1 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s32 [%a0], [%r1], 128;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"""
    launch(body, [out], declarations=DATA, blocks=3)
    assert out.tolist() == [100 + 3 * i for i in range(32)]


def test_out_of_bounds_and_unaligned_bulk_copies() -> None:
    def copy(size: str, source: str = "%a0") -> str:
        return f"""{INIT} @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], {size}; add.u64 %d9, %a0, 8;
        @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [{source}], {size}, [%r2]; {WAIT}"""

    args = [np.zeros(256, np.uint8)]
    launch(copy("256"), args, declarations=DATA)
    for body, match in (
        (copy("272"), "272 bytes inside an array"),
        (copy("24"), "multiple of 16"),
        (copy("16", "%d9"), "multiple of 16"),
    ):
        with pytest.raises(Exception, match=match):
            launch(body, args, declarations=DATA)


def test_stage_refilled_without_waiting_for_its_readers() -> None:
    body = f"""{INIT}
    @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 256;
    @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%a0], 256, [%r2];
    {WAIT} ld.shared.b32 %r5, [%r1]; {{0}}
    @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 256;
    @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%a0], 256, [%r2];
V: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 1; @!%p2 bra V;"""
    args = [np.zeros(256, np.uint8)]
    launch(body.format("bar.sync 0;"), args, threads=64, declarations=DATA)
    with pytest.raises(RaceError, match="between a read by warp 1"):
        launch(body.format(""), args, threads=64, declarations=DATA)


def test_cp_async_that_arrives_on_an_mbarrier() -> None:
    source, out = np.arange(128, dtype=np.uint32), np.zeros(128, np.uint32)
    body = """
    mov.u32 %r1, tile; mov.u32 %r2, bar; setp.eq.u32 %p1, %t, 0;
    @%p1 mbarrier.init.shared::cta.b64 [%r2], 32; bar.sync 0;
    shl.b32 %r3, %t, 4; add.u32 %r4, %r1, %r3; cvt.u64.u32 %d1, %r3; add.u64 %d2, %a0, %d1; add.u64 %d3, %a1, %d1;
    setp.ge.u32 %p3, %t, 32; @%p3 bra WAIT;
    cp.async.cg.shared.global [%r4], [%d2], 16;
    {0}
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra WAIT;
    @!%p3 bra END;
    sub.u32 %r4, %r4, 512; ld.shared.v4.b32 {{%r5, %r6, %r7, %r8}}, [%r4]; add.u64 %d3, %d3, -512;
    st.global.v4.b32 [%d3], {{%r5, %r6, %r7, %r8}};
END:"""
    for arrive in (
        "cp.async.mbarrier.arrive.noinc.shared.b64 [%r2];",
        "cp.async.mbarrier.arrive.shared.b64 [%r2]; mbarrier.arrive.shared.b64 %d9, [%r2];",
    ):
        launch(body.format(arrive), [source, Uninitialised(out)], threads=64, declarations=DATA)
        assert out.tolist() == source.tolist()
    with pytest.raises(MissingWaitError, match=r"cp\.async copies of warp 0"):
        launch(
            body.format("mbarrier.arrive.shared.b64 %d9, [%r2];"),
            [source, Uninitialised(out)],
            threads=64,
            declarations=DATA,
        )


def test_mbarrier_states_counts_and_test_wait() -> None:
    out = np.zeros(4, np.uint32)
    body = """
    mov.u32 %r2, bar; mbarrier.init.shared::cta.b64 [%r2], 3;
    mbarrier.arrive.shared::cta.b64 %d1, [%r2]; mbarrier.test_wait.shared::cta.b64 %p1, [%r2], %d1; selp.b32 %r3, 1, 0, %p1;
    mbarrier.arrive.shared::cta.b64 %d2, [%r2], 2; mbarrier.test_wait.shared::cta.b64 %p1, [%r2], %d1; selp.b32 %r4, 1, 0, %p1;
    mbarrier.arrive_drop.shared::cta.b64 %d3, [%r2]; mbarrier.arrive.shared::cta.b64 %d3, [%r2], 2;
    mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r2], 1; selp.b32 %r5, 1, 0, %p1;
    mbarrier.arrive.shared::cta.b64 %d4, [%r2], 2;
    mbarrier.test_wait.shared::cta.b64 %p1, [%r2], %d4; selp.b32 %r6, 1, 0, %p1;
    mbarrier.inval.shared::cta.b64 [%r2];
    st.global.v4.b32 [%a0], {%r3, %r4, %r5, %r6};"""
    launch(body, [out], threads=1, declarations=DATA)
    assert out.tolist() == [0, 1, 1, 1]


def test_setmaxnreg_moves_registers_and_deadlocks_without_a_donor() -> None:
    body = """
    setp.lt.u32 %p1, %t, 128; @%p1 bra PRODUCER;
    setmaxnreg.inc.sync.aligned.u32 {0}; bra.uni END;
PRODUCER: {1}
END: bar.sync 0;"""
    module = emulator_with_registers(body.format(168, "setmaxnreg.dec.sync.aligned.u32 40;"))
    module.launch("test", grid=(1,), block=(256,), args=[])
    module = emulator_with_registers(body.format(240, "setmaxnreg.dec.sync.aligned.u32 40;"))
    with pytest.raises(DeadlockError, match="240 registers for setmaxnreg"):
        module.launch("test", grid=(1,), block=(256,), args=[])
    module = emulator_with_registers(body.format(96, ""))
    with pytest.raises(DeadlockError, match=r"setmaxnreg.inc from 104 registers, got 96"):
        module.launch("test", grid=(1,), block=(256,), args=[])


def emulator_with_registers(body: str) -> Any:
    return emulator(
        f"{HEADER}\n.visible .entry test() .maxnreg 104 {{ .reg .pred %p<3>; .reg .b32 %t; mov.u32 %t, %tid.x;\n{body}\nret; }}"
    )


@pytest.mark.parametrize(("arguments", "match"), [
    ({"box": (8,)}, "box rank"),
    ({"box": (8, 300)}, "box extents"),
    ({"box": (8, 4)}, "inner box extent in bytes"),
    ({"box": (8, 64), "swizzle": "64B"}, "64B swizzle"),
    ({"box": (8, 16), "swizzle": "16B"}, "one of"),
    ({"box": (8, 16), "oob_fill": "one"}, "out-of-bounds fill"),
    ({"box": (8, 16), "element_strides": (9, 1)}, "element strides"),
    ({"box": (8, 16), "element_strides": (1, 2)}, "innermost element stride"),
])  # fmt: skip
def test_tensor_maps_that_the_driver_refuses(arguments: dict[str, Any], match: str) -> None:
    with pytest.raises(DescriptorError, match=match):
        TensorMap(np.zeros((16, 64), np.float16), **arguments)


def test_tensor_map_strides_rank_and_fill() -> None:
    with pytest.raises(DescriptorError, match="strides"):
        TensorMap(np.zeros((16, 36), np.float16), box=(8, 16))
    with pytest.raises(DescriptorError, match="innermost stride"):
        TensorMap(np.zeros((16, 64), np.float16)[:, ::2], box=(8, 16))
    with pytest.raises(DescriptorError, match="floating point"):
        TensorMap(np.zeros((16, 64), np.int32), box=(8, 16), oob_fill="nan")
    load_three = tensor_kernel(f"""{INIT} mov.b32 %r10, 0;
    @%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%m0, {{%r10, %r10}}], [%r2];""")
    tensor = TensorMap(np.zeros((2, 16, 64), np.float16), box=(1, 8, 16))
    with pytest.raises(DescriptorError, match="of rank 2"):
        emulator(load_three).launch("test", grid=(1,), block=(32,), args=[tensor, np.zeros(1)])
    text = tensor_kernel(f"""{INIT} mov.b32 %r10, 0; mov.u16 %h1, 3;
    @%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r1], [%m0, {{%r10, %r10}}], [%r2], %h1;""")
    with pytest.raises(OutOfBoundsError, match="multicast mask"):
        emulator(text).launch(
            "test",
            grid=(1,),
            block=(32,),
            args=[TensorMap(np.zeros((16, 64), np.float16), box=(8, 16)), np.zeros(1)],
        )
