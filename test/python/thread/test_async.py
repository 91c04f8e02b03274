"""sm_90: TMA rings fed by a producer warp, wgmma, clusters, dependent launches, grid-wide combination."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from thread_kernels import Array, Kernel, Layout, blocked, memref

from mirage.emulator import Emulator, TensorMap

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


@pytest.mark.parametrize("swizzle", [32, 64, 128])
@pytest.mark.parametrize("lhs_transposed", [False, True])
@pytest.mark.parametrize("rhs_transposed", [False, True])
def test_wgmma_operands(swizzle: int, lhs_transposed: bool, rhs_transposed: bool) -> None:
    """Both majornesses of both operands, tiles of several panels, filled by cp.async."""
    n, k = 64, 64
    a, b = random(k, 64) if lhs_transposed else random(64, k), random(n, k) if rhs_transposed else random(k, n)
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
    """The left operand in registers; widths that are no power of two."""
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


