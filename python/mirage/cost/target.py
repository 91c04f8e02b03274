"""What the cost model knows about a chip: one row of parameters each.

H200: sizes and counts from the data sheet; rates and latencies fitted to kernels measured on one
card (CUDA-graph replay, cold L2; ``benchmarks/calibrate.py``). A100 (SXM4, 40 GB): public data
sheets, and the H200's latencies in clocks; not measured.
"""

from __future__ import annotations

from dataclasses import dataclass

from mirage.errors import MirageError


@dataclass(frozen=True)
class Target:
    """A GPU. Times in µs, rates per µs, sizes in bytes."""

    name: str
    chip: str
    sms: int
    dram_bytes: float  # streaming read, bytes per µs
    l2_bytes: float  # bytes per µs that all SMs together read from L2
    sm_bytes: float  # bytes per µs that one SM can take in
    box_l2_bytes: float  # the two for what the tensor memory accelerator copies
    box_sm_bytes: float
    l2_size: int
    mma_half: float  # flop per µs of one SM, f16/bf16 operands
    mma_group: float  # the same where four warps multiply from shared memory; 0: they cannot
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
    chain: float  # factor on the latency of dependent instructions
    step: float  # clocks of one loop step besides its work (waiting, barrier, copy issue)
    ring_step: float  # the same where one warp keeps a ring of tiles filled for the others
    step_latency: float  # µs until what a loop step has asked for is there
    step_warp: float  # more of them for each warp
    exchange: float  # clocks of a reduction across the lanes and warps of a block
    exchange_warp: float  # more of them for each warp
    gather: float  # clocks for each value of another warp that a thread adds up
    combine: float  # extra time of a dependent kernel
    block_start: float  # µs between the starts of two blocks of four warps on one SM
    flight: float  # bytes in flight per SM that sustain 0.7 of DRAM's bandwidth
    alone: float  # µs more of a block that multiplies without a loop: nothing is loaded meanwhile
    spill_bytes: float  # bytes per µs that all SMs together spill and read back

    @property
    def has_warpgroups(self) -> bool:
        """Whether four warps together can multiply tiles in shared memory."""
        return self.mma_group > 0

    @property
    def flight_total(self) -> float:
        """Bytes in flight on the whole chip that sustain 0.7 of DRAM's bandwidth."""
        return self.flight * self.sms


H200 = Target(
    name="h200",
    chip="sm_90a",
    sms=132,
    dram_bytes=4.4e6,
    l2_bytes=5.1e6,
    sm_bytes=54e3,
    box_l2_bytes=9.0e6,
    box_sm_bytes=70e3,
    l2_size=60 << 20,
    mma_half=4.0e6,
    mma_group=5.6e6,
    mma_f32=0.6e6,
    alu=1.62e5,
    sfu=2.26e4,
    shared_bytes=2.48e5,
    shared_block=227 << 10,
    shared_sm=228 << 10,
    registers_sm=65536,
    threads_sm=2048,
    blocks_sm=32,
    launch=0.68,
    latency=1.2,
    clock=1755.0,
    chain=0.81,
    step=186.0,
    ring_step=60.0,
    step_latency=0.76,
    step_warp=8.4,
    exchange=174.0,
    exchange_warp=14.3,
    gather=10.0,
    combine=0.45,
    block_start=0.054,
    flight=30e3,
    alone=0.52,
    spill_bytes=6.2e6,
)

A100 = Target(
    name="a100",
    chip="sm_80",
    sms=108,
    dram_bytes=1.4e6,
    l2_bytes=3.4e6,
    sm_bytes=45e3,
    box_l2_bytes=3.4e6,
    box_sm_bytes=45e3,
    l2_size=40 << 20,
    mma_half=2.4e6,
    mma_group=0.0,
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
    latency=1.2,
    clock=1410.0,
    chain=0.81,
    step=186.0,
    ring_step=186.0,
    step_latency=0.76,
    step_warp=8.4,
    exchange=174.0,
    exchange_warp=14.3,
    gather=10.0,
    combine=1.0,
    block_start=0.09,
    flight=22e3,
    alone=0.52,
    spill_bytes=3.0e6,
)

TARGETS = {t.name: t for t in (H200, A100)} | {t.chip: t for t in (H200, A100)}
"""The parameters, by name of the card and of the chip."""


class UnknownTargetError(MirageError, LookupError):
    """No parameters are known for that chip."""


def target_for(chip: str) -> Target:
    """The parameters of a chip (``sm_90a``) or card (``h200``). Raises
    :class:`UnknownTargetError`.
    """
    target = TARGETS.get(chip)
    if target is None:
        known = ", ".join(sorted(TARGETS))
        raise UnknownTargetError(f"expected a chip among {known}, got {chip!r}")
    return target
