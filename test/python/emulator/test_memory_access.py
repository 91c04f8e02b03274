# ruff: noqa: E501 - PTX keeps its lines
"""Loads, stores and atomics in every space."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from emulator_support.harness import elementwise, launch, stated
from hypothesis import given, settings
from hypothesis import strategies as st
from mirage.emulator import Dependent, MissingWaitError


@pytest.mark.parametrize("lanes", [1, 2, 4])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_vector_loads_and_stores(lanes: int, bits: int) -> None:
    if lanes * bits > 128:
        return
    dtype: Any = f"u{bits // 8}"
    source = np.random.default_rng(0).integers(0, 255, 32 * lanes).astype(dtype)
    out = np.zeros_like(source)
    reg = {8: "%h", 16: "%h", 32: "%r", 64: "%d"}[bits]
    v = "" if lanes == 1 else f".v{lanes}"
    regs = f"{reg}1" if lanes == 1 else "{" + ", ".join(f"{reg}{i + 1}" for i in range(lanes)) + "}"
    body = f"""
    mul.wide.u32 %d50, %t, {lanes * bits // 8};
    add.u64 %d51, %d50, %a0; add.u64 %d52, %d50, %a1;
    ld.global.nc.L1::no_allocate.L2::128B{v}.b{bits} {regs}, [%d51];
    st.global.cs{v}.b{bits} [%d52], {regs};"""
    result = launch(body, [source, out])
    np.testing.assert_array_equal(out, source)
    assert result.stats.global_load_bytes == source.nbytes
    assert result.stats.global_load_sectors == source.nbytes // 32


def test_narrow_loads_extend_to_the_register() -> None:
    source = np.arange(-16, 16, dtype=np.int8)
    out = np.zeros(32, np.int32)
    body = """
    cvt.u64.u32 %d1, %t; add.u64 %d1, %d1, %a0; ld.global.s8 %r1, [%d1];
    mul.wide.u32 %d2, %t, 4; add.u64 %d2, %d2, %a1; st.global.b32 [%d2], %r1;"""
    launch(body, [source, out])
    assert out.tolist() == source.tolist()


def test_shared_local_const_and_generic_spaces() -> None:
    out = np.zeros(64, np.uint32)
    module = ".const .align 4 .b32 table[4] = {10, 20, 30, 40};\n.global .align 8 .b32 word = 7;"
    declarations = ".shared .align 16 .b8 tile[256]; .local .align 8 .b8 depot[16]; .reg .b64 %SP; .reg .b64 %SPL;"
    body = """
    mul.wide.u32 %d1, %t, 4;
    mov.u64 %d2, tile; add.u64 %d3, %d2, %d1;
    st.shared.b32 [%d3], %t;                         // as shared
    bar.sync 0;
    cvta.shared.u64 %d4, %d3; ld.b32 %r1, [%d4];       // as generic
    mov.u64 %SPL, depot; cvta.local.u64 %SP, %SPL;
    st.b32 [%SP+4], %r1; ld.local.b32 %r2, [%SPL+4];   // generic, then local
    and.b32 %r3, %t, 3; mul.wide.u32 %d5, %r3, 4; mov.u64 %d6, table; add.u64 %d5, %d5, %d6;
    ld.const.b32 %r4, [%d5];
    ld.global.b32 %r5, [word];
    add.u32 %r6, %r2, %r4; add.u32 %r6, %r6, %r5;
    add.u64 %d7, %a0, %d1; st.b32 [%d7], %r6;"""
    launch(body, [out], threads=64, declarations=declarations, module=module)
    assert out.tolist() == [t + 10 * (1 + t % 4) + 7 for t in range(64)]


def test_atomics_return_old_values_in_some_order() -> None:
    counter, tickets = np.zeros(4, np.uint32), np.zeros(128, np.uint32)
    body = """
    mov.u32 %r9, %ctaid.x; mad.lo.u32 %r9, %r9, 64, %t;
    atom.global.add.u32 %r1, [%a0], 1;
    mul.wide.u32 %d1, %r9, 4; add.u64 %d1, %d1, %a1; st.global.b32 [%d1], %r1;
    red.global.max.u32 [%a0+4], %r9; red.global.or.b32 [%a0+8], %r9;
    atom.global.inc.u32 %r2, [%a0+12], 99;"""
    with stated("atomics happen in any order"):
        launch(body, [counter, tickets], threads=64, blocks=2)
    assert sorted(tickets.tolist()) == list(range(128))
    assert counter.tolist() == [128, 127, 127, 28]


def test_compare_and_swap_lock_free_sum() -> None:
    total = np.zeros(1, np.float32)
    body = """
    cvt.rn.f32.u32 %f1, %t;
    ld.global.b32 %r1, [%a0];
RETRY:
    mov.b32 %f2, %r1; add.f32 %f3, %f2, %f1; mov.b32 %r2, %f3;
    atom.global.cas.b32 %r3, [%a0], %r1, %r2;
    setp.ne.b32 %p1, %r3, %r1; mov.b32 %r1, %r3;
    @%p1 bra RETRY;"""
    launch(body, [total], threads=64)
    assert total[0] == sum(range(64))


@pytest.mark.parametrize(("kind", "dtype"), [("f32", np.float32), ("f64", np.float64)])
def test_float_atomics_on_shared(kind: str, dtype: Any) -> None:
    out = np.zeros(1, dtype)
    size = np.dtype(dtype).itemsize
    reg = "%f" if kind == "f32" else "%g"
    body = f"""
    setp.eq.u32 %p1, %t, 0; mov.u32 %r1, acc;
    @%p1 st.shared.{kind} [%r1], {"0f00000000" if size == 4 else "0d0000000000000000"};
    bar.sync 0;
    cvt.rn.{kind}.u32 {reg}1, %t; red.shared.add.{kind} [%r1], {reg}1;
    bar.sync 0;
    ld.shared.{kind} {reg}2, [%r1]; @%p1 st.global.{kind} [%a0], {reg}2;"""
    launch(body, [out], threads=96, declarations=".shared .align 8 .b8 acc[8];")
    assert out[0] == sum(range(96))


@settings(max_examples=15, deadline=None)
@given(index=st.lists(st.integers(0, 63), min_size=32, max_size=32))
def test_bank_conflicts_are_counted(index: list[int]) -> None:
    table = np.array(index, np.uint32)
    out = np.zeros(32, np.uint32)
    body = """
    mul.wide.u32 %d1, %t, 4; add.u64 %d2, %d1, %a0; ld.global.b32 %r1, [%d2];
    mov.u32 %r2, tile; shl.b32 %r3, %t, 2; add.u32 %r4, %r2, %r3;
    st.shared.b32 [%r4], %t; st.shared.b32 [%r4+128], %t;
    bar.warp.sync -1;
    shl.b32 %r5, %r1, 2; add.u32 %r5, %r5, %r2; ld.shared.b32 %r6, [%r5];
    add.u64 %d3, %d1, %a1; st.global.b32 [%d3], %r6;"""
    stats = launch(body, [table, out], declarations=".shared .align 128 .b8 tile[256];").stats
    assert out.tolist() == [i % 32 for i in index]
    waves = max(len({i for i in index if i % 32 == bank}) for bank in range(32))
    assert stats.shared_wavefronts == 2 + waves
    assert stats.bank_conflicts == waves - 1


def test_kernel_parameters_of_every_type() -> None:
    from emulator_support.harness import HEADER, emulator

    text = f"""{HEADER}
.visible .entry test(.param .u64 out, .param .u8 a, .param .u16 b, .param .s32 c, .param .f32 d,
                     .param .f64 e, .param .align 8 .b8 f[16])
{{
.reg .b16 %h<4>; .reg .b32 %r<8>; .reg .b64 %d<8>; .reg .f32 %f<4>; .reg .f64 %g<4>;
ld.param.u64 %d1, [out]; ld.param.u8 %h1, [a]; ld.param.u16 %h2, [b]; ld.param.s32 %r1, [c];
ld.param.f32 %f1, [d]; ld.param.f64 %g1, [e]; ld.param.v2.b64 {{%d2, %d3}}, [f];
cvt.rn.f64.u16 %g2, %h1; st.global.f64 [%d1], %g2;
cvt.rn.f64.u16 %g2, %h2; st.global.f64 [%d1+8], %g2;
cvt.rn.f64.s32 %g2, %r1; st.global.f64 [%d1+16], %g2;
cvt.f64.f32 %g2, %f1; st.global.f64 [%d1+24], %g2; st.global.f64 [%d1+32], %g1;
cvt.rn.f64.u64 %g2, %d3; st.global.f64 [%d1+40], %g2;
ret;
}}
"""
    out = np.zeros(6)
    aggregate = np.array([1, 99], np.uint64).tobytes()
    emulator(text).launch(
        "test", grid=(1,), block=(1,), args=[out, 200, 60000, -5, 0.25, 1e300, aggregate]
    )
    assert out.tolist() == [200, 60000, -5, 0.25, 1e300, 99]


def test_strided_arrays_and_views_share_their_base() -> None:
    base = np.arange(64, dtype=np.uint32)
    out = np.zeros((8, 8), np.uint32)
    body = """
    mul.wide.u32 %d1, %t, 16; add.u64 %d2, %d1, %a0; ld.global.b32 %r1, [%d2];
    mul.wide.u32 %d3, %t, 32; add.u64 %d3, %d3, %a1; setp.lt.u32 %p1, %t, 8;
    @%p1 st.global.b32 [%d3], %r1;"""
    launch(body, [base[2::4], out[:, 1]], threads=8)
    assert out[:, 1].tolist() == base[2::4][:8].tolist()


def test_dependent_memory_needs_griddepcontrol_wait() -> None:
    source, out = np.arange(32, dtype=np.uint32), np.zeros(32, np.uint32)
    body = """
    mul.wide.u32 %d1, %t, 4; add.u64 %d2, %d1, %a0; add.u64 %d3, %d1, %a1;
    {wait} ld.global.b32 %r1, [%d2]; griddepcontrol.launch_dependents; st.global.b32 [%d3], %r1;"""
    launch(body.format(wait="griddepcontrol.wait;"), [Dependent(source), out])
    assert out.tolist() == source.tolist()
    with pytest.raises(MissingWaitError, match=r"griddepcontrol.wait before p0"):
        launch(body.format(wait=""), [Dependent(source), out])


def test_special_registers() -> None:
    out = np.zeros((2, 3, 64, 8), np.uint32)
    body = """
    mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %nctaid.x; mov.u32 %r4, %ntid.x;
    mov.u32 %r5, %laneid; mov.u32 %r6, %ntid.y; mov.u32 %r7, %lanemask_lt;
    mad.lo.u32 %r8, %r2, %r3, %r1; mad.lo.u32 %r8, %r8, %r4, %t;
    mul.wide.u32 %d1, %r8, 32; add.u64 %d1, %d1, %a0;
    st.global.v4.b32 [%d1], {%r1, %r2, %r3, %r4}; st.global.v2.b32 [%d1+16], {%r5, %r6};
    st.global.v2.b32 [%d1+24], {%r7, %t};"""
    from emulator_support.harness import emulator, kernel

    emulator(kernel(body)).launch("test", grid=(3, 2), block=(64,), args=[out])
    for y in range(2):
        for x in range(3):
            for t in range(64):
                assert out[y, x, t].tolist() == [x, y, 3, 64, t % 32, 1, (1 << t % 32) - 1, t]


def test_warp_identifier() -> None:
    out = np.zeros(64, np.uint32)
    with stated("PTX ISA: %warpid is volatile and need not be tid / 32"):
        body = "mul.wide.u32 %d1, %t, 4; add.u64 %d1, %d1, %a0; st.global.b32 [%d1], %r1;"
        launch("mov.u32 %r1, %warpid; " + body, [out], threads=64)
    assert out.tolist() == [t // 32 for t in range(64)]


def test_elementwise_harness_is_honest() -> None:
    assert elementwise(
        "add.u32 %r0, %r1, %r1;", [np.arange(5, dtype=np.uint32)], np.uint32
    ).tolist() == [0, 2, 4, 6, 8]
