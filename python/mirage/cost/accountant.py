"""Counts the work of a block, op by op: for written launches and for the search's derivations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mirage import _target
from mirage.cost.kernel_features import KernelFeatures
from mirage.cost.shared_memory_bound import ROW_PAD
from mirage.cost.skewed_rows import is_odd
from mirage.cost.uniform import is_zero, somewhere, where
from mirage.semantics.ugraph import TensorType

Num = Any
LINE = 128.0  # bytes of a cache line
START = 16.0  # bytes at whose multiples rows of boxes start
# additional cost of a row that lies in two lines (two requests, five sectors instead of four): for
# a tile that threads copy, and for a box
SPLIT_ROW, SPLIT_BOX_ROW = 0.5, 1.5
SPLIT_SKEWED_ROW, SPLIT_ALIKE_ROW = 0.8, 0.2
"""The additional cost of a skewed row that lies in two lines, and of one that has the same offset
in shared memory modulo 128 bytes; threads copy pieces of 16 bytes."""
SKEWED_END, ALIKE_END = 96.0, 64.0
"""The bytes that the last piece of a skewed row counts as, wherever the row ends: threads request
it separately."""
BURST = 64.0  # bytes of a DRAM burst
WRITTEN_LINE, WRITTEN_BURST = 0.04, 0.52
"""The additional cost of rows that are written in pieces of at most a line, and less than a burst,
where L2 does not hold the result until the other pieces are there: 67 MB of i64 in pieces of 32,
64, 128, 256 and 1024 bytes took 25.4, 17.0, 16.5, 16.3 and 16.2 µs on an H200. Softmax of 512 rows
of 262,144 f16 takes 213.6 in pieces of 128 bytes and 201.3 in 2048, RMSNorm 207.5 and 196.4."""
WRITTEN_AT_ONCE = 32.0 * 2**20
"""The bytes of results that L2 holds."""
SECTOR = 32.0  # bytes of the smallest DRAM and L2 access
MMA_LATENCY = 33.0  # clocks from one mma to the next that depends on it
SHUFFLES = 60.0  # clocks of a reduction over four lanes
SPREAD = 0.5  # shuffles of each warp for a number of a column, which lanes of products need
GROUP_LATENCY = 60.0  # clocks from the last product of a warpgroup to its result
BESIDE = 4.0  # products that run in parallel; four times as many for f32 factors
TF32_CHAIN = 6.0  # times the steps along K of f32 factors: 8 of K at a time, three products each
TF32_DEPTH = 8.0  # of the contraction, whose sums are added by ordinary additions
ROUNDING = 1.0  # lane operations that round one
WIDENING = 1.0  # lane operations that make one of a number of 16 bits
SPLIT = 14.0  # that make two of a number of 32 bits: four, which wait for each other
PROMOTED = 64.0 * _target.PROMOTED_COLUMNS / 128.0  # of a part that is added to sums in f32
SKEWED_READ, ALIKE_READ = 1.25, 2.0
"""The factor by which skewed rows take longer to read: nine words where aligned rows have eight,
and two rows in the same bank if their offsets agree. (The first of each two is set from 16 rows by
4096 columns with a depth of 4095 and 4097, in eight tilings each: 15.96 to 21.4 µs on an H200; the
second from nine tilings: 12.7 to 16.9 µs; with 4096 elements 10.4 to 11.1.)"""
GROUP_ROWS = 64.0
"""The rows of a product that a group of four warps has."""
MOST = frozenset({"live", "live_once", "scratch"})
"""The features whose largest amount counts instead of the sum; none is below 0."""


def splits_lines(type_: TensorType) -> bool:
    """Return whether some rows of a tensor start within cache lines."""
    return any(n * type_.dtype.bytes % LINE != 0 and type_.size > n for n in type_.shape[-1:])


def _up(x: Num, multiple: int) -> Num:
    return np.ceil(x / multiple) * multiple


@dataclass(frozen=True)
class Around:
    """The loops around an op, except those whose steps :attr:`KernelFeatures.steps` counts."""

    times: Num = 1.0
    """How often the ops outside of those steps run."""
    slots: Num = 1.0
    """The number of tiles that a load holds at once."""
    looped: bool = False
    """Whether a loop sums the results of matmuls."""
    crowded: bool = False
    """Whether tiles of a loop stay in shared memory while warps exchange their sums."""
    share: float = 1.0
    """The share of their tensors that loads read, if loops skip steps according to integers that
    are read (lengths of sequences)."""


@dataclass(frozen=True)
class Operands:
    """The operands of a matmul: whether both are multiplied as 16-bit numbers and, if not, which of
    them are casts of such numbers, which TF32 represents exactly.

    ``eight_bits``: both are tiles of tensors of 8 bits, of which warpgroups multiply twice as many
    at a time. ``computed``: the block computes one of the two. ``tf32``: f32 factors are rounded
    to TF32, which takes one product. ``skewed``: which of them have skewed rows."""

    half: bool
    exact: tuple[bool, bool] = (False, False)
    eight_bits: bool = False
    computed: bool = False
    tf32: bool = False
    skewed: tuple[Num, Num] = (False, False)

    @property
    def share(self) -> float:
        """The share of TF32 products that is needed, of those that 32-bit operands take."""
        return 1.0 / 3.0 if self.tf32 else 1.0 - sum(self.exact) / 3.0

    @property
    def width(self) -> int:
        """The bytes of an element as warpgroups multiply it."""
        return 1 if self.eight_bits else 2 if self.half else 4


def _chain(fragments: Num, steps: Num, warps: Num, shared: Num, operands: Operands) -> Num:
    """Return the clocks of products that depend on each other if ``shared`` warps share the
    contraction: a warp's part of the result's fragments, some of which run in parallel, times its
    part of the steps along K."""
    own = np.maximum(1.0, fragments / np.minimum(fragments, np.maximum(warps / shared, 1.0)))
    if operands.half:
        return steps / shared * own / np.minimum(own, BESIDE) * MMA_LATENCY
    steps = TF32_CHAIN * operands.share * steps
    return steps / shared * own / np.minimum(own, 4.0 * BESIDE) * MMA_LATENCY


@dataclass
class Accountant:
    """Adds up the features of one kernel; sizes may be floats or arrays."""

    features: KernelFeatures = field(default_factory=KernelFeatures)
    around: Around = Around()

    def _add(self, what: str, amount: Num, in_loop: bool) -> None:
        if is_zero(amount):
            return
        features = self.features
        name = what + ("_step" if in_loop else "_once")
        if not in_loop:
            amount = amount * self.around.times
        have = getattr(features, name)
        setattr(features, name, amount if is_zero(have) else have + amount)

    def merge(self, added: Mapping[str, Num]) -> None:
        """Add the features that another account has counted."""
        own = vars(self.features)
        for name, amount in added.items():
            have = own.get(name, 0.0)  # variables that were not set have their initial values
            if is_zero(have):
                own[name] = amount
            else:
                own[name] = np.maximum(have, amount) if name in MOST else have + amount

    def read(self, total_bytes: Num, run_bytes: Num) -> None:
        """Count one input tensor, whatever the number of loads from it; short rows use DRAM bursts
        badly."""
        self.features.dram_read = self.features.dram_read + self._bursts(total_bytes, run_bytes)

    def read_again(self, total_bytes: Num, run_bytes: Num, *, anew: bool) -> None:
        """Count one input tensor of which each block reads its part once more in a later loop, for
        the first time if ``anew``."""
        size = self._bursts(total_bytes, run_bytes)
        self.features.again_read = self.features.again_read + size
        if anew:
            self.features.again_tensors = self.features.again_tensors + size

    def _bursts(self, total_bytes: Num, run_bytes: Num) -> Num:
        total_bytes = total_bytes * self.around.share
        row = np.minimum(run_bytes, total_bytes)
        if not somewhere(row < LINE):
            return total_bytes
        waste = 0.03 * (row < LINE) + 0.12 * (row < BURST) + 0.5 * (row < SECTOR)
        return total_bytes * (1.0 + waste)

    def load(
        self,
        elements: Num,
        run: Num,
        type_: TensorType,
        in_loop: bool,
        factor: bool = True,
        skewed: Num = False,
        shifted: Num = False,
    ) -> None:
        """Count a tile of ``elements`` of a tensor, ``run`` of them contiguous. ``factor``: a
        product may read it. ``skewed``: its rows keep their offset within a line when they are
        copied to shared memory, whatever that is. ``shifted``: a box begins at the multiple of 16
        bytes before each row."""
        width = type_.dtype.bytes
        size, row = elements * width, run * width
        odd: Num = 0.0
        if is_odd(type_):
            odd = where(skewed | np.asarray(shifted), 0.0, 1.0)
            self._add("odd", odd * elements, in_loop)
        wasted = np.maximum(1.0, SECTOR / row)
        narrow = where(row < 16, 2.0, 1.0)  # element-wise copies instead of 16-byte ones
        self._add("load", size * wasted * narrow, in_loop)
        if splits_lines(type_):
            # a row that begins within a line ends in the next one
            split = np.maximum(np.minimum(row, LINE) - START, 0.0) / LINE  # extra cost of the rows
            alike = self._lies_alike(run)
            more = where(skewed, where(alike, SPLIT_ALIKE_ROW, SPLIT_SKEWED_ROW), SPLIT_ROW)
            more = where(self.features.warpgroups, SPLIT_BOX_ROW, more) * split
            if somewhere(skewed):  # a skewed row takes one line of 16 bytes more than it fills
                more = more + where(skewed, where(alike, ALIKE_END, SKEWED_END) / row, 0.0)
            self._add("split", more * elements * width * (1.0 - odd), in_loop)
        held = _up(size, 128)
        if in_loop:
            self.features.shared_step = self.features.shared_step + held
        elif factor:  # everything else goes to registers
            self.features.shared_once = self.features.shared_once + held * self.around.slots
        self._add("alu", size / 16.0 * narrow, in_loop)

    def _lies_alike(self, columns: Num) -> Num:
        """Return whether skewed rows have the same offset modulo 128 bytes in shared memory as in
        the tensor: each warp has enough instructions along them (``SkewedTiles.cpp``)."""
        return np.asarray(columns % (_target.RUN_ELEMENTS * self.features.warps) == 0)

    def copy_odd(self, elements: Num, in_loop: bool) -> None:
        """Count a factor whose rows start at odd elements: threads copy it to shared memory."""
        self._add("copied", elements, in_loop)

    def matmul(
        self, m: Num, n: Num, k: Num, operands: Operands, in_loop: bool, shared: Num = None
    ) -> None:
        """Count a tile matmul, padded to fragments of 16x8x16 (or 8x16x16 with the sides
        exchanged).

        ``shared`` is the number of warps that share the contraction, if known.
        """
        depth = _up(k, 16)
        results = np.minimum(_up(m, 16) * _up(n, 8), _up(m, 8) * _up(n, 16))
        padded = results * depth
        self._multiply(m * n, k, padded, operands, in_loop)
        unknown = shared is None
        if unknown:
            shared = self._contraction_warps(padded / depth, k)
        ring = self.features.warpgroups
        shared = where(ring, 1.0, shared)
        # each warp reads its strip of one operand and all of the other; warps share strips of at
        # least 16
        warps = self.features.warps
        across = np.minimum(warps, np.maximum(1.0, np.ceil(n / 16.0)))
        down = np.minimum(np.maximum(1.0, warps / across), np.maximum(1.0, np.ceil(m / 16.0)))
        reads = (k * m * across, k * n * down)
        if not operands.half:  # warps that share a contraction read different parts of both factors
            across, down = (np.maximum(1.0, ways / shared) for ways in (across, down))
            for read, exact in zip((k * m * across, k * n * down), operands.exact, strict=True):
                each = WIDENING if exact else ROUNDING if operands.tf32 else SPLIT
                self._add("alu", each * read, in_loop)
        self._add("move", self._read_by_products(m, n, k, operands, reads, in_loop), in_loop)
        fragments, steps = padded / (16.0 * 8.0 * depth), depth / 16.0
        if unknown:  # all warps have the same work
            own = fragments / warps
            chain = steps * own / np.clip(own, 1.0, BESIDE) * MMA_LATENCY
        else:
            chain = _chain(fragments, steps, warps, shared, operands)
        clocks = where(ring, GROUP_LATENCY, np.maximum(chain, MMA_LATENCY) + 60.0)
        self._add("clocks", clocks, in_loop)
        # those that share a contraction write their results to shared memory, and read all of them
        several = np.asarray(shared) > 1
        if somewhere(several):
            self._add("sums", where(several, 2.0 * 4.0 * shared * m * n, 0.0), False)
            self._add("exchanges", where(several, 2.0, 0.0), False)
            if self.around.crowded:
                scratch = where(several, 4.0 * shared * m * (n + ROW_PAD), 0.0)
                self.features.scratch = np.maximum(self.features.scratch, scratch)
        if not in_loop and not self.around.looped:
            self.features.live = np.maximum(self.features.live, m * n)
            self._add("turned", float(operands.computed), in_loop)

    def _read_by_products(
        self,
        m: Num,
        n: Num,
        k: Num,
        operands: Operands,
        reads: tuple[Num, Num],
        in_loop: bool,
    ) -> Num:
        """Return the bytes that a matmul reads from shared memory, given the elements of each
        factor that warps read on their own; count the shifts of skewed rows."""
        widths = (2.0 if operands.half or exact else 4.0 for exact in operands.exact)
        longer = where(
            self._lies_alike(k) & operands.skewed[0] & operands.skewed[1], ALIKE_READ, SKEWED_READ
        )
        slower = [where(skewed, longer, 1.0) for skewed in operands.skewed]
        move = sum(w * s * read for w, s, read in zip(widths, slower, reads, strict=True))
        if any(somewhere(skewed) for skewed in operands.skewed):
            shifted = sum(0.5 * (s > 1.0) * read for s, read in zip(slower, reads, strict=True))
            self._add("alu", shifted, in_loop)
        ring = self.features.warpgroups
        if not somewhere(ring):
            return move
        # a warpgroup reads both factors of each 64 rows
        width = where(ring & np.asarray(operands.eight_bits), 1.0, 4.0 if operands.tf32 else 2.0)
        return where(ring, width * k * np.ceil(m / 64.0) * (64.0 + n), move)

    def _multiply(
        self, results: Num, k: Num, padded: Num, operands: Operands, in_loop: bool
    ) -> None:
        """Count the instructions of a tile matmul, and the additions of their sums."""
        narrow = self.features.warpgroups & np.asarray(operands.eight_bits)
        flops = 2.0 * padded * operands.share * where(narrow, 0.5, 1.0)
        if operands.tf32:  # half the rate of 16 bits for warpgroups
            groups = self.features.warpgroups
            self._add("mma", where(groups, 4.0 * padded, 0.0), in_loop)
            self._add("mma32", where(groups, 0.0, flops), in_loop)
        else:
            self._add("mma" if operands.half else "mma32", flops, in_loop)
        # each step's product is added to the sum; both are held in registers
        if operands.eight_bits:
            self._add("alu", where(narrow, results, 0.0), in_loop)
            part = np.minimum(results, PROMOTED * 32.0 * self.features.warps)
            held = where(narrow, part, 0.0)
            self.features.live = np.maximum(self.features.live, held)
        elif not (operands.half or operands.tf32):
            fragments = padded / _up(k, 16)
            self._add("alu", (results + fragments) * np.ceil(k / TF32_DEPTH), in_loop)

    def _contraction_warps(self, size: Num, k: Num) -> Num:
        """Return the number of warps that share a contraction: all, if the result has fewer
        fragments."""
        warps = self.features.warps
        most = np.minimum(warps, np.maximum(1.0, k / 16.0))
        return where(size < 16.0 * 8.0 * warps, most, 1.0)

    def elementwise(
        self, elements: Num, flops: float, special: float, in_loop: bool, live: bool = True
    ) -> None:
        """Count a scalar function of each element."""
        self._add("alu", elements * flops, in_loop)
        if special:
            self._add("sfu", elements * special, in_loop)
        self._add("clocks", 10.0 + 20.0 * special, in_loop)
        if live and in_loop:
            self.features.live = np.maximum(self.features.live, elements)
        elif live:
            self.features.live_once = np.maximum(self.features.live_once, elements)

    def fetch(self, elements: Num, width: int, in_loop: bool) -> None:
        """Count a loaded tile that ordinary arithmetic uses: it is read from shared memory and
        converted."""
        self._add("move", elements * width, in_loop)
        if width < 4:
            self._add("alu", elements, in_loop)

    def convert(self, elements: Num, in_loop: bool) -> None:
        """Count a computed tile that becomes an operand of a matmul: it is rounded and moved to
        other lanes."""
        self._add("alu", 0.5 * elements, in_loop)
        self._add("move", 4.0 * elements, in_loop)
        self._add("clocks", 60.0, in_loop)

    def turn(self, elements: Num, width: int, in_loop: bool) -> None:
        """Count a tile whose rows become columns for ops in registers: warps exchange it."""
        self._add("alu", 2.0 * elements, in_loop)
        self._add("move", 2.0 * width * elements, in_loop)
        self._add("exchanges", 1.0, in_loop)

    def reduce(
        self, elements: Num, results: Num, in_loop: bool, across: bool, rows: bool = True
    ) -> None:
        """Count a reduction of a tile of ``elements``: ``across`` rows, or of columns. The results
        belong to ``rows`` of products, or to columns, like the sums of the columns of a factor."""
        self._add("alu", elements, in_loop)
        # a warp has whole rows, or a thread whole columns
        threads = self.features.warps * (1.0 if across else 32.0)
        own = results >= threads
        within: Num = np.False_
        if in_loop and somewhere(self.features.warpgroups):
            # rows of products lie within four lanes of a warp, unless groups share them; a factor
            # is summed by all groups together, which then distribute its sums
            ring = self.features.warpgroups
            within = ring & rows & (results >= GROUP_ROWS / 4.0 * self.features.warps)
            own = own & np.logical_not(ring)
            spread = 0.0 if rows else SPREAD * results * self.features.warps
            self._add("clocks", where(ring, where(within, SHUFFLES, spread), 0.0), in_loop)
        self._add("rows", where(own, 1.0, 0.0), in_loop)
        self._add("exchanges", where(within | own, 0.0, 1.0), in_loop)

    def cumulate(self, elements: Num, rows: Num, in_loop: bool, across: bool) -> None:
        """Count running sums or maxima in a tile of ``elements``: the exchanges of a reduction to
        ``rows``, and the additions to each element."""
        self.reduce(elements, rows, in_loop, across)
        self._add("alu", 3.0 * elements, in_loop)

    def accumulate(self, elements: Num, of_matmul: bool, in_loop: bool = True) -> None:
        """Count an accumulator of ``elements``; the sum is free if a matmul produces the value."""
        self.features.accumulators = self.features.accumulators + elements
        if not of_matmul:
            self._add("alu", elements, in_loop)

    def store(self, total_bytes: Num, run_bytes: Num = SECTOR, gap_bytes: Num = 0.0) -> None:
        """Count a result tensor. Each piece of a sector is a separate write, unless the tile has
        several of them, which start ``gap_bytes`` apart."""
        waste = WRITTEN_LINE * (run_bytes <= LINE) + WRITTEN_BURST * (run_bytes < BURST)
        waste = waste * (np.asarray(gap_bytes) > 0) * (total_bytes > WRITTEN_AT_ONCE)
        self.features.dram_write = self.features.dram_write + total_bytes * (1.0 + waste)
        apart = where(np.asarray(gap_bytes) > 0, np.minimum(gap_bytes, SECTOR), SECTOR)
        pieces = np.maximum(1.0, apart / run_bytes)
        self.features.pieces = self.features.pieces + total_bytes * (pieces - 1.0)
        self._add("clocks", 100.0, False)
