"""What the cost model knows about a chip: one row of parameters each.

H200: measured on one card (CUDA-graph replay, cold L2). A100 (SXM4, 40 GB): public data sheets,
not measured.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Target:
    """A GPU. Times in µs, rates per µs, sizes in bytes."""

    name: str
    chip: str
    sms: int
    dram_bytes: float  # streaming read, bytes per µs
    l2_bytes: float  # bytes per µs that all SMs together read from L2
    sm_bytes: float  # bytes per µs that one SM can take in
    l2_size: int
    mma_half: float  # flop per µs of one SM, f16/bf16 operands
    mma_f32: float  # the same for f32 operands (three tf32 products each)
    alu: float  # f32 lane operations per µs of one SM
    sfu: float  # special-function results per µs of one SM
    shared_bytes: float  # shared-memory bytes per µs of one SM
    shared_block: int  # shared memory that one block may have
    shared_sm: int  # shared memory of one SM
    registers_sm: int
    threads_sm: int
    blocks_sm: int
    launch: float  # an empty kernel in graph replay
    latency: float  # first byte from DRAM
    clock: float  # clocks per µs
    step: float  # clocks of one loop step besides its work (waiting, barrier, copy issue)
    combine: float  # extra time of a dependent combine kernel
    block_start: float  # µs between the starts of two blocks of four warps on one SM
    flight: float  # bytes in flight per SM that saturate DRAM
    spill: float = 1.15  # factor on the time of a kernel whose registers spill

    @property
    def flight_total(self) -> float:
        """Bytes in flight on the whole chip that saturate DRAM."""
        return self.flight * self.sms


H200 = Target(
    name="h200",
    chip="sm_90a",
    sms=132,
    dram_bytes=4.4e6,
    l2_bytes=7.0e6,
    sm_bytes=70e3,
    l2_size=60 << 20,
    mma_half=4.0e6,
    mma_f32=0.6e6,
    alu=128 * 1755.0 * 0.8,
    sfu=16 * 1755.0,
    shared_bytes=128 * 1755.0,
    shared_block=227 << 10,
    shared_sm=228 << 10,
    registers_sm=65536,
    threads_sm=2048,
    blocks_sm=32,
    launch=0.76,
    latency=0.9,
    clock=1755.0,
    step=180.0,
    combine=0.9,
    block_start=0.04,
    flight=32 << 10,
)

A100 = Target(
    name="a100",
    chip="sm_80",
    sms=108,
    dram_bytes=1.4e6,
    l2_bytes=4.0e6,
    sm_bytes=45e3,
    l2_size=40 << 20,
    mma_half=2.4e6,
    mma_f32=0.35e6,
    alu=64 * 1410.0 * 0.8,
    sfu=16 * 1410.0,
    shared_bytes=128 * 1410.0,
    shared_block=163 << 10,
    shared_sm=164 << 10,
    registers_sm=65536,
    threads_sm=2048,
    blocks_sm=32,
    launch=1.5,
    latency=0.9,
    clock=1410.0,
    step=180.0,
    combine=1.5,
    block_start=0.04,
    flight=24 << 10,
)

TARGETS = {t.name: t for t in (H200, A100)} | {t.chip: t for t in (H200, A100)}
