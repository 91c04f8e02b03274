"""Counts what a block does: for a :class:`Launch`, and (through :class:`Accountant`) for the
search's derivations."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from mirage.cost.model import KernelFeatures, Known
from mirage.cost.registers import RegisterEstimator, with_enough_warps
from mirage.cost.shared_memory import shared_bytes
from mirage.semantics.scalar import UNARY, BinaryFn, DType
from mirage.semantics.ugraph import (
    Binary,
    Cast,
    Launch,
    Load,
    Loop,
    Mask,
    Matmul,
    Op,
    Reduce,
    RunningMax,
    Schedule,
    Transpose,
    Unary,
    Value,
)

Num = Any
LINE = 128.0  # bytes of a cache line
BURST = 64.0  # bytes of a DRAM burst
SECTOR = 32.0  # bytes of the smallest DRAM and L2 access
MMA_LATENCY = 33.0  # clocks from one mma to the next that depends on it
HELD = 128.0  # f32 values of a result that a thread holds where warps share a contraction


def _up(x: Num, multiple: int) -> Num:
    return np.ceil(x / multiple) * multiple


@dataclass(frozen=True)
class Resources:
    """What a compiled kernel needs: threads of a block, bytes of shared memory, registers of a
    thread (None where nobody assembled it) and bytes that it spills and reads back.
    """

    threads: int
    shared_bytes: int
    registers: int | None = None
    spilled_bytes: int = 0


@dataclass
class Accountant:
    """Adds up the features of one kernel; sizes may be floats or arrays."""

    features: KernelFeatures = field(default_factory=KernelFeatures)

    def _add(self, what: str, amount: Num, in_loop: bool) -> None:
        name = f"{what}_{'step' if in_loop else 'once'}"
        setattr(self.features, name, getattr(self.features, name) + amount)

    def merge(self, added: Mapping[str, Num]) -> None:
        """What another account has counted."""
        for name, amount in added.items():
            have = getattr(self.features, name)
            setattr(
                self.features, name, np.maximum(have, amount) if name == "live" else have + amount
            )

    def read(self, total_bytes: float, run_bytes: Num) -> None:
        """One input tensor, whatever the number of loads from it; short rows use DRAM bursts
        badly."""
        row = np.minimum(run_bytes, total_bytes)
        waste = 0.03 * (row < LINE) + 0.12 * (row < BURST) + 0.5 * (row < SECTOR)
        self.features.dram_read = self.features.dram_read + total_bytes * (1.0 + waste)

    def load(self, elements: Num, run: Num, width: int, in_loop: bool) -> None:
        """A tile of ``elements`` of ``width`` bytes, ``run`` of them contiguous."""
        wasted = np.maximum(1.0, SECTOR / (run * width))
        narrow = np.where(run * width < 16, 2.0, 1.0)  # element-wise copies instead of 16-byte ones
        self._add("load", elements * width * wasted * narrow, in_loop)
        self._add("shared", _up(elements * width, 128), in_loop)
        self._add("alu", elements * width / 16.0 * narrow, in_loop)

    def matmul(self, m: Num, n: Num, k: Num, half: bool, in_loop: bool, shared: Num = None) -> None:
        """A tile matmul, padded to fragments of 16x8x16 (or 8x16x16 with the sides exchanged).

        ``shared`` says how many warps share the contraction, where that is known.
        """
        padded = np.minimum(_up(m, 16) * _up(n, 8), _up(m, 8) * _up(n, 16)) * _up(k, 16)
        self._add("mma" if half else "mma32", 2.0 * padded, in_loop)
        width = 2.0 if half else 4.0
        # each warp reads its strip of one operand and all of the other; warps share strips of at
        # least 16
        warps = self.features.warps
        across = np.minimum(warps, np.maximum(1.0, np.ceil(n / 16.0)))
        down = np.minimum(np.maximum(1.0, warps / across), np.maximum(1.0, np.ceil(m / 16.0)))
        self._add("move", width * k * (m * across + n * down), in_loop)
        fragments = np.maximum(
            1.0, padded / (16.0 * 8.0 * _up(k, 16) * warps)
        )  # independent ones of a warp
        chain = padded / (16.0 * 8.0 * 16.0 * warps) * MMA_LATENCY / np.minimum(fragments, 4.0)
        self._add("clocks", np.maximum(chain, MMA_LATENCY) + 60.0, in_loop)
        if shared is None:
            shared = self._contraction_warps(padded / _up(k, 16), k)
        # they write their results to shared memory, and read all of them
        self._add("sums", np.where(shared > 1, 2.0 * 4.0 * shared * m * n, 0.0), False)
        self._add("exchanges", np.where(shared > 1, 2.0, 0.0), False)
        if not in_loop:
            self.features.live = np.maximum(self.features.live, m * n)

    def _contraction_warps(self, size: Num, k: Num) -> Num:
        """Warps that share a contraction: all, if there are fewer fragments of the result."""
        warps = self.features.warps
        most = np.minimum(warps, np.maximum(1.0, k / 16.0))
        return np.where(size < 16.0 * 8.0 * warps, most, 1.0)

    def elementwise(
        self, elements: Num, flops: float, special: float, in_loop: bool, live: bool = True
    ) -> None:
        """A scalar function of each element."""
        self._add("alu", elements * flops, in_loop)
        self._add("sfu", elements * special, in_loop)
        self._add("clocks", 10.0 + 20.0 * special, in_loop)
        if live:
            self.features.live = np.maximum(self.features.live, elements)

    def fetch(self, elements: Num, width: int, in_loop: bool) -> None:
        """A loaded tile that ordinary arithmetic uses: read from shared memory and converted."""
        self._add("move", elements * width, in_loop)
        self._add("alu", elements * (1.0 if width < 4 else 0.0), in_loop)

    def convert(self, elements: Num, in_loop: bool) -> None:
        """A computed tile made an operand of a matmul: rounded, and moved to other lanes."""
        self._add("alu", 0.5 * elements, in_loop)
        self._add("move", 4.0 * elements, in_loop)
        self._add("clocks", 60.0, in_loop)

    def reduce(self, elements: Num, in_loop: bool) -> None:
        """A reduction of a tile of ``elements``."""
        self._add("alu", elements, in_loop)
        self._add("exchanges", 1.0, in_loop)

    def accumulate(self, elements: Num, of_matmul: bool) -> None:
        """An accumulator of ``elements``; the sum is free where a matmul produces the value."""
        self.features.accumulators = self.features.accumulators + elements
        if not of_matmul:
            self._add("alu", elements, True)

    def store(self, total_bytes: Num) -> None:
        """A result tensor."""
        self.features.dram_write = self.features.dram_write + total_bytes
        self._add("clocks", 100.0, False)


def features_of(
    launch: Launch, hot: Collection[Value] = (), compiled: Resources | None = None
) -> KernelFeatures:
    """The features of a launch; ``hot`` are operands that L2 holds, as the kernel before has just
    written them. ``compiled`` is what the compiler made of it, in place of estimates."""
    if compiled is None:
        launch = with_enough_warps(launch)
    else:
        warps = compiled.threads // 32
        launch = replace(launch, schedule=Schedule(warps, launch.schedule.stages))
    account = Accountant(
        KernelFeatures(
            blocks=float(prod(a.extent for a in launch.grid)),
            warps=float(launch.schedule.warps),
            stages=float(launch.schedule.stages),
        )
    )
    read: set[Value] = {
        p for p, v in zip(launch.body.params, launch.operands, strict=True) if v in hot
    }
    estimated = RegisterEstimator(launch)
    shared = {op: grid.k for op, grid in estimated.grid.items()}
    nested = sum(isinstance(op, Loop) for op in launch.body.ops)
    for op in launch.body.ops:
        if isinstance(op, Loop):
            account.features.steps = (
                float(op.axis.extent)
                if nested == 1
                else max(account.features.steps, float(op.axis.extent))
            )
            matmuls = {r for o in op.body if isinstance(o, Matmul) for r in o.results}
            for inner in op.body:
                _count(account, inner, True, read, shared)
            for acc in op.accumulators:
                account.accumulate(float(acc.value.type.size), acc.value in matmuls)
                if acc.rescale is not None:
                    account.elementwise(float(acc.value.type.size), 1.0, 0.0, True, live=False)
        else:
            _count(account, op, False, read, shared)
    for value in launch.results:
        account.store(float(value.type.bytes))
    registers = estimated.run()
    known = Known(float(shared_bytes(launch).staged), registers.used, registers.spilled_bytes)
    if compiled is not None:
        known = replace(known, shared=float(compiled.shared_bytes))
        if compiled.registers is not None:
            known = replace(
                known, registers=float(compiled.registers), spilled=float(compiled.spilled_bytes)
            )
    account.features.known = known
    return account.features


def _count(
    account: Accountant, op: Op, in_loop: bool, read: set[Value], shared: Mapping[Matmul, int]
) -> None:
    if isinstance(op, Loop):  # a nested loop: its steps run for each outer one
        for _ in range(op.axis.extent):
            for inner in op.body:
                _count(account, inner, in_loop, read, shared)
        return
    size = float(op.results[0].type.size) if op.results else 0.0
    if isinstance(op, Unary | Binary | Reduce):
        for operand in op.operands:
            if operand.dtype.is_half:
                account.fetch(float(operand.type.size), operand.dtype.bytes, in_loop)
    match op:
        case Load():
            (source,) = op.operands
            if source not in read:
                read.add(source)
                account.read(
                    float(source.type.bytes), float(contiguous_run(op) * source.dtype.bytes)
                )
            account.load(size, float(contiguous_run(op)), source.dtype.bytes, in_loop)
        case Matmul():
            a, b = op.operands
            half = a.dtype.is_half and b.dtype.is_half
            batch = float(prod(op.result.shape[:-2]))
            m, n, k = a.shape[-2], b.shape[-1], a.shape[-1]
            account.matmul(float(m) * batch, float(n), float(k), half, in_loop, shared.get(op, 1))
        case Unary():
            info = UNARY[op.fn]
            account.elementwise(size, info.flops, info.special, in_loop)
        case Binary():
            cost = (1.0, 0.0) if op.fn not in (BinaryFn.DIV, BinaryFn.POW) else (8.0, 1.0)
            account.elementwise(size, *cost, in_loop)
        case Reduce() | RunningMax():
            account.reduce(float(op.operands[0].type.size), in_loop)
        case Cast() if op.result.dtype.is_half and not op.operands[0].dtype.is_half:
            account.convert(size, in_loop)
        case Mask():
            account.elementwise(size, 1.0, 0.0, in_loop)
        case Transpose():
            if not isinstance_load(op):
                account.elementwise(size, 2.0, 0.0, in_loop)
        case _:
            pass


def isinstance_load(op: Transpose) -> bool:
    """Whether a transpose reads a tile in the tensor's own type, that is (almost surely) a load:
    free through ldmatrix."""
    return op.operands[0].dtype in (DType.F16, DType.BF16)


def contiguous_run(load: Load) -> int:
    """Contiguous elements of a tile's rows in device memory."""
    (source,) = load.operands
    run = 1
    for tile, size in zip(reversed(load.result.shape), reversed(source.shape), strict=True):
        run *= min(tile, size)
        if tile < size:
            break
    return run
