"""sm_90: TMA rings fed by a producer warp, wgmma, clusters, dependent launches, grid-wide combination."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from mirage.emulator import Emulator, TensorMap
from thorough import some_of
from written_kernels.thread_kernels import Array, Kernel, Layout, blocked, memref, ptxas

RNG = np.random.default_rng(17)
LANE = ((0, 2), (0, 4), (1, 0), (2, 0), (4, 0))


def random(*shape: int) -> Array:
    """Normal f16 numbers."""
    return RNG.standard_normal(shape).astype(np.float16)


@dataclass(frozen=True)
class Map:
    """A tensor-map parameter."""

    name: str
    array: Array
    box: tuple[int, ...]
    swizzle: int

    @property
    def type(self) -> str:
        """The parameter's type."""
        extents = "x".join(map(str, self.box))
        swizzle = f", swizzle = {self.swizzle}" if self.swizzle else ""
        return f"!thread.tensormap<{extents}xf16{swizzle}>"

    @property
    def argument(self) -> TensorMap:
        """The emulator's argument."""
        return TensorMap(self.array, self.box, f"{self.swizzle}B" if self.swizzle else "none")


def launch(
    body: str, maps: list[Map], arrays: list[Array], warps: int, shared: int, **options: int
) -> str:
    """Runs a kernel whose parameters are arrays, then tensor maps; returns the PTX."""
    cluster = options.get("cluster", 1)
    kernel = Kernel(
        body,
        warps,
        options.get("grid", cluster),
        extra_params=tuple(f"%{m.name}: {m.type}" for m in maps),
    )
    ptx = kernel.ptx(arrays)
    Emulator(ptx).launch(
        "k",
        grid=(kernel.grid, 1, 1),
        block=(32 * warps, 1, 1),
        cluster=(cluster, 1, 1),
        shared_bytes=shared,
        args=[*arrays, *(m.argument for m in maps)],
    )
    return ptx


def wgmma_acc(n: int) -> Layout:
    """A 64 x n accumulator of one warpgroup."""
    power = n & -n
    reg = [(0, 1), (8, 0)] + [(0, 1 << i) for i in range(3, power.bit_length() - 1)]
    return Layout(tuple(reg), LANE, ((16, 0), (32, 0)), (1, n // power))


def wgmma_lhs(k: int) -> Layout:
    """A 64 x k left operand of one warpgroup."""
    reg = [(0, 1), (8, 0), (0, 8)] + [(0, 1 << i) for i in range(4, k.bit_length() - 1)]
    return Layout(tuple(reg), LANE, ((16, 0), (32, 0)))


@pytest.mark.parametrize("swizzle", some_of([32, 64, 128], every=2))
@pytest.mark.parametrize("lhs_transposed", [False, True])
@pytest.mark.parametrize("rhs_transposed", [False, True])
def test_wgmma_operands(swizzle: int, lhs_transposed: bool, rhs_transposed: bool) -> None:
    """Both storage orders of both operands, tiles of several panels, filled by cp.async."""
    n, k = 64, 64
    a, b = (
        random(k, 64) if lhs_transposed else random(64, k),
        random(n, k) if rhs_transposed else random(k, n),
    )
    out = np.zeros((64, n), np.float32)
    tile = f"!thread.shared<64x64xf16, swizzle = {swizzle}>"
    acc = wgmma_acc(n).fragment("f32")
    body = f"""
    %sa = thread.shared_alloc 0 : {tile}
    %sb = thread.shared_alloc 8192 : {tile}
    thread.copy_async %a0[%c0, %c0] dims [0, 1] in_bounds [true, true] to %sa : {memref(a)} to {tile}
    thread.copy_async %a1[%c0, %c0] dims [0, 1] in_bounds [true, true] to %sb : {memref(b)} to {tile}
    thread.copy_commit
    thread.copy_wait 0
    thread.fence async_proxy
    thread.barrier
    %z = thread.constant 0.0 : {acc}
    %d = thread.wgmma %sa{" transposed" if lhs_transposed else ""}, %sb{" transposed" if rhs_transposed else ""}, %z : {tile}, {tile}, {acc}
    thread.wgmma_commit
    %r = thread.wgmma_wait 0 (%d) : {acc}
    thread.store_global %r, %a2[%c0, %c0] dims [0, 1] in_bounds [true, true] : {acc}, {memref(out)}
"""
    launch(body, [], [a, b, out], 4, 16384)
    left = a.T if lhs_transposed else a
    right = b.T if rhs_transposed else b
    assert np.allclose(out, left.astype(np.float64) @ right.astype(np.float64), atol=1e-4)


@pytest.mark.parametrize("n", [96, 128, 256])
def test_wgmma_from_registers(n: int) -> None:
    """The left operand in registers; widths that are not powers of two."""
    a, b, out = random(64, 32), random(n, 32), np.zeros((64, n), np.float32)
    tile = f"!thread.shared<{n}x32xf16, swizzle = 64>"
    acc, lhs = wgmma_acc(n).fragment("f32"), wgmma_lhs(32).fragment("f16")
    body = f"""
    %s = thread.shared_alloc 0 : {tile}
    thread.copy_async %a1[%c0, %c0] dims [0, 1] in_bounds [true, true] to %s : {memref(b)} to {tile}
    thread.copy_commit
    thread.copy_wait 0
    thread.fence async_proxy
    thread.barrier
    %x = thread.load_global %a0[%c0, %c0] dims [0, 1] in_bounds [true, true] : {memref(a)} -> {lhs}
    %z = thread.constant 0.0 : {acc}
    %d = thread.wgmma %x, %s transposed, %z : {lhs}, {tile}, {acc}
    thread.wgmma_commit
    %r = thread.wgmma_wait 0 (%d) : {acc}
    thread.store_global %r, %a2[%c0, %c0] dims [0, 1] in_bounds [true, true] : {acc}, {memref(out)}
"""
    launch(body, [], [a, b, out], 4, 65536)
    assert np.allclose(out, a.astype(np.float64) @ b.astype(np.float64).T, atol=1e-4)


def test_producer_and_consumers() -> None:
    """One warp fills a ring by TMA, four warps multiply from it by wgmma."""
    m, n, k, stages = 64, 128, 512, 3
    a, b, out = random(m, k), random(k, n), np.zeros((m, n), np.float32)
    maps = [Map("ma", a, (64, 64), 128), Map("mb", b, (64, 64), 128)]
    ta, tb = (
        "!thread.shared<3x64x64xf16, swizzle = 128>",
        "!thread.shared<3x64x128xf16, swizzle = 128>",
    )
    sa, sb = ta.replace("3x64x", "64x"), tb.replace("3x64x", "64x")
    bars = f"!thread.mbarrier<{stages}>"
    acc = wgmma_acc(n).fragment("f32")
    slots = f"""
      %stage = arith.remui %i, %c3 : index
      %round = arith.divui %i, %c3 : index
      %ta = thread.slot %ra[%stage] : {ta}
      %tb = thread.slot %rb[%stage] : {tb}"""
    body = f"""
    %ra = thread.shared_alloc 0 : {ta}
    %rb = thread.shared_alloc 24576 : {tb}
    %full = thread.mbarrier_alloc 73728 : {bars}
    %empty = thread.mbarrier_alloc 73752 : {bars}
    thread.mbarrier_init %full arrivals 1 : {bars}
    thread.mbarrier_init %empty arrivals 4 : {bars}
    thread.barrier
    thread.warps first 4 count 1 barrier 1 {{
      scf.for %i = %c0 to %c{k // 64} step %c1 {{
        {slots}
        %k = arith.muli %i, %c64 : index
        %next = arith.addi %round, %c1 : index
        %p = arith.remui %next, %c2 : index
        thread.mbarrier_wait %empty[%stage] parity %p : {bars}
        thread.mbarrier_expect %full[%stage] bytes 24576 : {bars}
        thread.tma_load %ma[%c0, %k] to %ta signal %full[%stage] : {maps[0].type} to {sa}, {bars}
        thread.tma_load %mb[%k, %c0] to %tb signal %full[%stage] : {maps[1].type} to {sb}, {bars}
      }}
    }}
    thread.warps first 0 count 4 barrier 2 {{
      %z = thread.constant 0.0 : {acc}
      %r = scf.for %i = %c0 to %c{k // 64} step %c1 iter_args(%acc = %z) -> ({acc}) {{
        {slots}
        %p = arith.remui %round, %c2 : index
        thread.mbarrier_wait %full[%stage] parity %p : {bars}
        %d = thread.wgmma %ta, %tb, %acc : {sa}, {sb}, {acc}
        thread.wgmma_commit
        %w = thread.wgmma_wait 0 (%d) : {acc}
        thread.mbarrier_arrive %empty[%stage] : {bars}
        scf.yield %w : {acc}
      }}
      thread.store_global %r, %a0[%c0, %c0] dims [0, 1] in_bounds [true, true] : {acc}, {memref(out)}
    }}
"""
    launch(body, maps, [out], 5, 73776)
    assert np.allclose(out, a.astype(np.float64) @ b.astype(np.float64), atol=1e-3)


def test_tma_store_drops_what_lies_outside() -> None:
    a, out = random(32, 64), np.full((40, 100), -1, np.float16)
    maps = [Map("mo", out, (32, 64), 128)]
    tile = "!thread.shared<32x64xf16, swizzle = 128>"
    fragment = blocked(32, 64, 8, 4).fragment("f16")
    # TMA requires row pitches that are multiples of 16 bytes.
    out = np.full((40, 104), -1, np.float16)[:, :100]
    maps = [Map("mo", out, (32, 64), 128)]
    body = f"""
    %x = thread.load_global %a0[%c0, %c0] dims [0, 1] in_bounds [true, true] : {memref(a)} -> {fragment}
    %s = thread.shared_alloc 0 : {tile}
    thread.store_shared %x, %s : {fragment}, {tile}
    thread.fence async_proxy
    thread.barrier
    thread.tma_store %s to %mo[%c16, %c64] : {tile} to {maps[0].type}
    thread.bulk_commit
    thread.bulk_wait 0
"""
    launch(body, maps, [a], 4, 4096)
    expected = np.full((40, 100), -1, np.float16)
    expected[16:, 64:] = a[:24, :36]
    assert np.array_equal(out, expected)


@pytest.mark.parametrize("rows", [1, 4])
def test_bulk_copies(rows: int) -> None:
    a, out = random(8, 256), np.zeros((rows, 128), np.float16)
    tile = f"!thread.shared<{rows}x128xf16>"
    fragment = blocked(rows, 128, 4, 1).fragment("f16")
    body = f"""
    %s = thread.shared_alloc 0 : {tile}
    %b = thread.mbarrier_alloc 4096 : !thread.mbarrier<1>
    thread.mbarrier_init %b arrivals 1 : !thread.mbarrier<1>
    thread.barrier
    thread.mbarrier_expect %b[%c0] bytes {rows * 256} : !thread.mbarrier<1>
    thread.bulk_copy %a0[%c2, %c128] dims [0, 1] to %s signal %b[%c0] : {memref(a)} to {tile}, !thread.mbarrier<1>
    thread.mbarrier_wait %b[%c0] parity %c0 : !thread.mbarrier<1>
    %x = thread.load_shared %s : {tile} -> {fragment}
    thread.store_global %x, %a1[%c0, %c0] dims [0, 1] in_bounds [true, true] : {fragment}, {memref(out)}
"""
    launch(body, [], [a, out], 1, 4104)
    assert np.array_equal(out, a[2 : 2 + rows, 128:])


def test_blocks_of_a_cluster_exchange_tiles() -> None:
    """Each block stores its tile to its neighbour's shared memory, and reads its own neighbour's."""
    a, out = RNG.standard_normal((2, 16, 32)).astype(np.float32), np.zeros((2, 16, 32), np.float32)
    tile = "!thread.shared<16x32xf32>"
    fragment = blocked(16, 32, 4, 4).fragment("f32")
    body = f"""
    %s = thread.shared_alloc 0 : {tile}
    %t = thread.shared_alloc 2048 : {tile}
    %b = gpu.block_id x
    %other = arith.subi %c1, %b : index
    %x = thread.load_global %a0[%b, %c0, %c0] dims [1, 2] in_bounds [true, true] : {memref(a)} -> {fragment}
    thread.cluster_barrier
    thread.store_remote %x, %s rank %other : {fragment}, {tile}
    thread.store_shared %x, %t : {fragment}, {tile}
    thread.cluster_barrier
    %y = thread.load_shared %s : {tile} -> {fragment}
    %z = thread.load_remote %t rank %other : {tile} -> {fragment}
    %d = thread.binary sub %y, %z : {fragment}
    %e = thread.binary add %y, %d : {fragment}
    thread.store_global %e, %a1[%b, %c0, %c0] dims [1, 2] in_bounds [true, true] : {fragment}, {memref(out)}
    thread.cluster_barrier
"""
    launch(body, [], [a, out], 4, 4096, cluster=2)
    assert np.array_equal(out, a[::-1])


def test_multicast_fills_all_blocks() -> None:
    a, out = random(16, 64), np.zeros((2, 16, 64), np.float16)
    maps = [Map("ma", a, (16, 64), 128)]
    tile = "!thread.shared<16x64xf16, swizzle = 128>"
    fragment = blocked(16, 64, 8, 4).fragment("f16")
    body = f"""
    %s = thread.shared_alloc 0 : {tile}
    %b = thread.mbarrier_alloc 2048 : !thread.mbarrier<1>
    thread.mbarrier_init %b arrivals 1 : !thread.mbarrier<1>
    thread.mbarrier_expect %b[%c0] bytes 2048 : !thread.mbarrier<1>
    thread.cluster_barrier
    %i = gpu.block_id x
    %first = arith.cmpi eq, %i, %c0 : index
    scf.if %first {{
      thread.tma_load %ma[%c0, %c0] to %s signal %b[%c0] multicast 3 : {maps[0].type} to {tile}, !thread.mbarrier<1>
    }}
    thread.mbarrier_wait %b[%c0] parity %c0 : !thread.mbarrier<1>
    %x = thread.load_shared %s : {tile} -> {fragment}
    thread.store_global %x, %a0[%i, %c0, %c0] dims [1, 2] in_bounds [true, true] : {fragment}, {memref(out)}
    thread.cluster_barrier
"""
    launch(body, maps, [out], 4, 2056, cluster=2)
    assert np.array_equal(out, np.stack([a, a]))


def test_blocks_combine_within_a_launch() -> None:
    """Partial results, a counter, and one block that adds them up; and the same by atomics."""
    blocks = 4
    a = RNG.integers(-9, 9, (blocks, 16, 32)).astype(np.float32)
    work, out, total = np.zeros_like(a), *(np.zeros((16, 32), np.float32) for _ in range(2))
    counter = np.zeros(1, np.int32)
    fragment = blocked(16, 32, 4, 4).fragment("f32")
    place = "dims [1, 2] in_bounds [true, true]"
    body = f"""
    %b = gpu.block_id x
    %x = thread.load_global %a0[%b, %c0, %c0] {place} : {memref(a)} -> {fragment}
    thread.atomic_add %x, %a3[%c0, %c0] dims [0, 1] in_bounds [true, true] : {fragment}, {memref(total)}
    thread.store_global %x, %a1[%b, %c0, %c0] {place} : {fragment}, {memref(work)}
    thread.signal %a4[%c0] : {memref(counter)}
    %first = arith.cmpi eq, %b, %c0 : index
    scf.if %first {{
      thread.wait_counter %a4[%c0] reaches {blocks} : {memref(counter)}
      %z = thread.constant 0.0 : {fragment}
      %s = scf.for %i = %c0 to %c{blocks} step %c1 iter_args(%acc = %z) -> ({fragment}) {{
        %y = thread.load_global %a1[%i, %c0, %c0] {place} : {memref(work)} -> {fragment}
        %n = thread.binary add %acc, %y : {fragment}
        scf.yield %n : {fragment}
      }}
      thread.store_global %s, %a2[%c0, %c0] dims [0, 1] in_bounds [true, true] : {fragment}, {memref(out)}
    }}
"""
    launch(body, [], [a, work, out, total, counter], 4, 0, grid=blocks)
    assert np.array_equal(out, a.sum(axis=0))
    assert np.array_equal(total, a.sum(axis=0))


def test_dependent_launches_and_register_budgets() -> None:
    """Data that a kernel waits for must not be read earlier: such loads are not invariant."""
    a, out = RNG.standard_normal((16, 32)).astype(np.float32), np.zeros((16, 32), np.float32)
    fragment = blocked(16, 32, 4, 8).fragment("f32")
    body = f"""
    thread.warps first 8 count 4 barrier 1 {{
      thread.set_max_registers decrease 40
    }}
    thread.warps first 0 count 8 barrier 2 {{
      thread.set_max_registers increase 232
      thread.dependent_wait
      %x = thread.load_global %a0[%c0, %c0] dims [0, 1] in_bounds [true, true] : {memref(a)} -> {fragment}
      thread.dependent_launch
      thread.store_global %x, %a1[%c0, %c0] dims [0, 1] in_bounds [true, true] : {fragment}, {memref(out)}
    }}
"""
    ptx = launch(body, [], [a, out], 12, 0)
    assert "ld.global.nc" not in ptx
    assert ptx.index("griddepcontrol.wait") < ptx.index("ld.global")
    assert np.array_equal(out, a)


def test_wgmma_is_not_serialised() -> None:
    """Two products in flight on two accumulators: ptxas gives no warnings."""
    tile = "!thread.shared<64x64xf16, swizzle = 128>"
    acc = wgmma_acc(64).fragment("f32")
    out = np.zeros((64, 64), np.float32)
    body = f"""
    %s = thread.shared_alloc 0 : {tile}
    %z = thread.constant 0.0 : {acc}
    %r:2 = scf.for %i = %c0 to %c8 step %c1 iter_args(%p = %z, %q = %z) -> ({acc}, {acc}) {{
      %d = thread.wgmma %s, %s, %p : {tile}, {tile}, {acc}
      thread.wgmma_commit
      %e = thread.wgmma %s, %s transposed, %q : {tile}, {tile}, {acc}
      thread.wgmma_commit
      %w:2 = thread.wgmma_wait 0 (%d, %e) : {acc}, {acc}
      scf.yield %w#0, %w#1 : {acc}, {acc}
    }}
    %t = thread.binary add %r#0, %r#1 : {acc}
    thread.store_global %t, %a0[%c0, %c0] dims [0, 1] in_bounds [true, true] : {acc}, {memref(out)}
"""
    ptx = Kernel(body, 4).ptx([out])
    report = ptxas(ptx, "sm_90a")
    assert report is None or not report.warnings
