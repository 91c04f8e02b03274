"""wgmma: fence, commit_group, wait_group, mma_async with descriptors or registers for A.

A wgmma reads shared memory as one agent, that of the warpgroup's first warp; wait_group in any of
the four warps waits for it, so one thread of the warpgroup may signal a producer that a stage is
free.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mirage.emulator.errors import DescriptorError, DivergenceError, OutOfBoundsError
from mirage.emulator.machine.cohort import Array, Cohort
from mirage.emulator.machine.flags import any_of
from mirage.emulator.machine.memory import CARRIER, SHARED_RESERVED
from mirage.emulator.machine.operands import Reader, items, reader
from mirage.emulator.ops.matrix import accumulator_words, fragment_a, unpack
from mirage.emulator.ops.opcodes import Compiled, Context, Modifiers, all_lanes, opcode, operands
from mirage.emulator.ops.swizzle import swizzled
from mirage.emulator.ptx.syntax import Immediate, Instruction, Operand, Register, Vector

_DEPTH = {"f16": 16, "bf16": 16, "tf32": 8, "e4m3": 32, "e5m2": 32, "s8": 32, "u8": 32}
_BYTES = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1}
_SPAN = {0: 0, 1: 128, 2: 64, 3: 32}
_LANE = np.arange(32)


@opcode("wgmma")
def compile_wgmma(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """Compile a wgmma instruction, which the four warps of a warpgroup execute together."""
    context.features.add("wgmma")
    form = modifiers.take("fence", "commit_group", "wait_group", "mma_async")
    if form is None or modifiers.take("sync") is None or modifiers.take("aligned") is None:
        raise modifiers.unknown()
    if form == "mma_async":
        return _multiply(context, instruction, modifiers)
    if form == "wait_group":
        (count,) = operands(instruction, 1)
        if not isinstance(count, Immediate) or not isinstance(count.value, int):
            raise modifiers.unknown()
        keep = count.value
        return Compiled("wgmma", run=lambda c: _wait(c, keep), required=all_lanes, whole_rows=True)
    operands(instruction, 0)
    if form == "fence":
        return Compiled(
            "wgmma", run=lambda c: c.machine.wgmma.fence(c), required=all_lanes, whole_rows=True
        )
    return Compiled(
        "wgmma", run=lambda c: c.machine.wgmma.commit(c), required=all_lanes, whole_rows=True
    )


def _leader(c: Cohort) -> Array:
    """Agent of the first warp of each row's warpgroup."""
    machine = c.machine
    return machine.agent_of_row[c.rows] - machine.warp_of_row[c.rows] % 4


def _wait(c: Cohort, keep: int) -> None:
    machine = c.machine
    done = machine.wgmma.wait(c, keep)
    agent = machine.wgmma_agent + _leader(c)
    machine.clocks[c.rows, agent] = np.maximum(machine.clocks[c.rows, agent], done)


def _shape(modifiers: Modifiers) -> tuple[int, int]:
    """(n, k) of .m64nNkK"""
    for word in modifiers.rest:
        if word.startswith("m64n") and "k" in word:
            modifiers.rest.remove(word)
            n, k = word[4:].split("k")
            if n.isdigit() and k.isdigit() and int(n) % 8 == 0 and 8 <= int(n) <= 256:
                return int(n), int(k)
    raise modifiers.unknown()


def _flag(operand: Any, modifiers: Modifiers, allowed: tuple[int, ...]) -> int:
    if isinstance(operand, Immediate) and operand.value in allowed:
        return int(operand.value)
    raise modifiers.unknown()


@dataclass(frozen=True)
class _Product:
    """The product that a `wgmma.mma_async` computes: D[64, columns] += A[64, depth] B[depth,
    columns], each with a sign, where A and B are in shared memory (transposed or not) or A is in
    registers."""

    columns: int
    depth: int
    kind_a: str
    kind_b: str
    kind_d: str
    signs: tuple[int, int]
    transposed: tuple[int, int]
    registers: list[Register]  # registers of D
    operand_registers: list[Register]  # registers of A; none if it is in shared memory
    descriptor_a: Reader | None
    descriptor_b: Reader
    scale_d: Reader  # whether the products are added to D

    def execute(self, c: Cohort) -> None:
        """Compute the products of all warpgroups of a cohort; those with equal descriptors in one
        block are computed together."""
        machine = c.machine
        machine.wgmma.issue(c, self.registers, self.operand_registers)
        keys = [_uniform(c, self.descriptor_b, "matrix descriptor")]
        if self.descriptor_a is not None:
            keys.append(_uniform(c, self.descriptor_a, "matrix descriptor"))
        keys.append(_uniform(c, self.scale_d, "scale-d"))
        table = np.stack([k.astype(np.uint64) for k in keys], axis=1)
        distinct, group_of = np.unique(table, axis=0, return_inverse=True)
        groups = c.rows.reshape(-1, 4)
        for index, key in enumerate(distinct):
            chosen = groups[group_of.reshape(-1) == index]
            product = self._matmul(c, key, chosen)
            self._store(c, product, chosen.reshape(-1), adds=bool(key[-1]))
        machine.counters.tensor_core_ops += len(groups) * 64 * self.columns * self.depth

    def _matmul(self, c: Cohort, key: Array, chosen: Array) -> Array:
        """Return A times B [groups, 64, columns] for warpgroups [groups, 4] with the same
        descriptors."""
        blocks = c.machine.block_of_row[chosen[:, 0]]
        transposed_a, transposed_b = map(bool, self.transposed)
        b = _matrix(
            c, int(key[0]), self.columns, self.depth, self.kind_b, transposed_b, chosen, blocks
        )
        if self.descriptor_a is None:
            a = self._from_registers(chosen.reshape(-1))
        else:
            a = _matrix(c, int(key[1]), 64, self.depth, self.kind_a, transposed_a, chosen, blocks)
        # sums of at most 32 products of bytes are exact in float64, which is much faster
        rows, columns = a.astype(np.float64, copy=False), b.astype(np.float64, copy=False)
        product = rows @ columns.transpose(0, 2, 1)
        if self.kind_d == "s32":
            product = product.astype(np.int64)
        return -product if self.signs[0] * self.signs[1] < 0 else product

    def _from_registers(self, rows: Array) -> Array:
        """Return A [groups, 64, depth] from registers."""
        raw = np.stack([r.data[rows] for r in self.operand_registers], axis=-1)
        values = unpack(np.ascontiguousarray(raw), self.kind_a).reshape(len(rows), -1)
        return values[:, self._order].reshape(-1, 64, self.depth)

    @cached_property
    def _order(self) -> Array:
        """Return where the elements of A, in row-major order, are in a warp's fragments."""
        row, column = fragment_a(16, self.depth, _BYTES[self.kind_a])
        return np.argsort((row * self.depth + column).ravel())

    @cached_property
    def _places(self) -> tuple[Array, Array]:
        """Return the rows and columns of a warp's part of D that each lane [32] has in its
        elements."""
        element = np.arange(self.columns // 2)
        rows = _LANE[:, None] // 4 + 8 * (element % 4 // 2)
        return rows, 8 * (element // 4) + 2 * (_LANE[:, None] % 4) + element % 2

    def _store(self, c: Cohort, product: Array, flat: Array, *, adds: bool) -> None:
        """Write D of the warps ``flat`` of a cohort."""
        rows, columns = self._places
        warps = c if len(flat) == c.n else Cohort(c.machine, flat, None)
        parts = product.reshape(-1, 16, self.columns)[:, rows, columns]
        if adds:
            raw = np.stack([warps.take(r.data) for r in self.registers], axis=-1)
            parts = parts + _read_accumulators(raw, self.kind_d)
        words = np.ascontiguousarray(accumulator_words(parts, self.kind_d).transpose(2, 0, 1))
        where = ... if warps.select is None else warps.select
        for word, register in zip(words, self.registers, strict=True):
            register.data[where] = word
            if register.tracked and register.written is not None:
                register.written[where] = True


def _kinds(modifiers: Modifiers, depth: int) -> tuple[str, str, str]:
    """Return the element types of A, B and D."""
    modifiers.drop("satfinite")
    kind_b = modifiers.type(*_DEPTH)
    kind_a = modifiers.type(*_DEPTH)
    kind_d = modifiers.type("f16", "f32", "s32")
    if depth != _DEPTH[kind_a] or _BYTES[kind_a] != _BYTES[kind_b]:
        raise modifiers.unknown()
    integer, half = kind_a in ("s8", "u8"), kind_a in ("f16", "bf16")
    if integer != (kind_d == "s32") or (half and kind_a != kind_b):
        raise modifiers.unknown()
    return kind_a, kind_b, kind_d


def _flags(
    rest: list[Operand], modifiers: Modifiers, kind_a: str, from_registers: bool
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the signs of A and B, and which of them are transposed."""
    signs, transposed = (1, 1), (0, 0)
    if kind_a not in ("s8", "u8"):
        signs = (_flag(rest[0], modifiers, (1, -1)), _flag(rest[1], modifiers, (1, -1)))
        rest = rest[2:]
    if kind_a in ("f16", "bf16"):
        flags = [_flag(o, modifiers, (0, 1)) for o in rest]
        if len(flags) != (1 if from_registers else 2):
            raise modifiers.unknown()
        transposed = (0, flags[0]) if from_registers else (flags[0], flags[1])
    elif rest:
        raise modifiers.unknown()
    return signs, transposed


def _multiply(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    columns, depth = _shape(modifiers)
    kind_a, kind_b, kind_d = _kinds(modifiers, depth)
    ops = list(operands(instruction, 4, 8))
    registers = [o for o in items(ops[0]) if isinstance(o, Register)]
    per = 2 if kind_d == "f16" else 1
    if len(registers) != columns // 2 // per:
        raise modifiers.unknown()
    from_registers = isinstance(ops[1], Vector)
    scale_d = reader(ops[3], "pred", instruction)
    signs, transposed = _flags(ops[4:], modifiers, kind_a, from_registers)
    context.shared(16)
    operand_registers: list[Register] = []
    descriptor_a: Reader | None = None
    if from_registers:
        operand_registers = [o for o in items(ops[1]) if isinstance(o, Register)]
        if len(operand_registers) != 4:
            raise modifiers.unknown()
        instruction.uses.extend(operand_registers)
    else:
        descriptor_a = reader(ops[1], "b64", instruction)
    descriptor_b = reader(ops[2], "b64", instruction)
    # With scale-d false the accumulators are not read, so they do not count as certainly used.
    instruction.defs.extend(registers)
    instruction.wgmma_registers.extend([*registers, *operand_registers])
    product = _Product(
        columns, depth, kind_a, kind_b, kind_d, signs, transposed, registers, operand_registers,
        descriptor_a, descriptor_b, scale_d,
    )  # fmt: skip

    def control(c: Cohort, pc: int) -> int | None:
        if instruction.guard is not None:
            raise modifiers.unknown()
        scheduler = c.machine.scheduler
        whole = scheduler.gather_groups(c, pc)
        if whole is None:
            return None
        product.execute(whole)
        if whole is c:
            return pc + 1
        scheduler.push(pc + 1, whole.rows, whole.mask)
        return None

    return Compiled("tensor-core", control=control, required=all_lanes)


def _read_accumulators(raw: Array, kind: str) -> Array:
    dtype: Any = {"f16": np.float16, "f32": np.float32, "s32": np.int32}[kind]
    return np.ascontiguousarray(raw).view(dtype).astype(np.int64 if kind == "s32" else np.float64)


def _uniform(c: Cohort, read: Reader, what: str) -> Array:
    """Return one value for each warpgroup [groups]."""
    value = np.broadcast_to(read(c), (c.n, 32))
    flat = value.reshape(-1, 128)
    bad = (flat != flat[:, :1]).any(axis=1)
    if any_of(bad):
        c.machine.fail(
            DivergenceError,
            f"expected one {what} for the whole warpgroup, got several",
            c,
            np.repeat(bad, 4)[:, None] & np.ones((1, 32), bool),
        )
    return flat[:, 0]


@functools.lru_cache(maxsize=4096)
def descriptor_addresses(
    descriptor: int, extent: int, depth: int, size: int, transposed: bool
) -> Array:
    """Shared address [extent, depth] of each element of an operand (extent: M or N) of `size`
    bytes.

    Canonical layouts of the PTX ISA, in bytes, for a swizzle span S (a row of 16 without swizzle):
    K-major: rows of S bytes along K; 8 rows make a group; groups are SBO apart; without swizzle,
    the next 16 bytes of K are LBO further. MN-major (transposed): rows of S bytes along M or N, 8
    rows of consecutive k make a group; with swizzle the next S bytes of M or N are LBO further and
    the next 8 k SBO, without it the other way round.
    """
    start = (descriptor & 0x3FFF) << 4
    leading = (descriptor >> 16 & 0x3FFF) << 4
    stride = (descriptor >> 32 & 0x3FFF) << 4
    span = _SPAN[descriptor >> 62 & 3]
    outer = np.arange(extent)[:, None].astype(np.int64)
    k = np.arange(depth)[None, :].astype(np.int64)
    if not transposed:
        along = k * size
        if span:
            offset = outer // 8 * stride + outer % 8 * span + along % span + along // span * leading
        else:
            offset = outer // 8 * stride + outer % 8 * 16 + along // 16 * leading + along % 16
    else:
        along = outer * size
        if span:
            offset = along % span + along // span * leading + k % 8 * span + k // 8 * stride
        else:
            offset = along % 16 + along // 16 * stride + k % 8 * 16 + k // 8 * leading
    result = swizzled(start + offset, span)
    result.flags.writeable = False
    return result


@functools.lru_cache(maxsize=4096)
def _granules(
    descriptor: int, extent: int, depth: int, size: int, transposed: bool, granule: int
) -> Array:
    """Return the granules of a block's shared memory that hold an operand, in order."""
    found = np.unique(descriptor_addresses(descriptor, extent, depth, size, transposed) // granule)
    found.flags.writeable = False
    return found


@functools.lru_cache(maxsize=4096)
def _chunks(descriptor: int, extent: int, depth: int, size: int, transposed: bool) -> Array:
    """Return the numbers of the 16-byte chunks of shared memory, which no layout divides, that hold
    the rows of an operand [extent, depth * size // 16], or its columns if it is transposed."""
    address = descriptor_addresses(descriptor, extent, depth, size, transposed)
    found = (address.T if transposed else address)[:, :: 16 // size] // 16
    found.flags.writeable = False
    return found


def _matrix(
    c: Cohort,
    descriptor: int,
    extent: int,
    depth: int,
    kind: str,
    transposed: bool,
    groups: Array,
    blocks: Array,
) -> Array:
    """Return an operand [groups, extent, depth] of shared memory, after its checks."""
    machine, shared, size = c.machine, c.machine.shared, _BYTES[kind]
    if descriptor >> 49 & 7:
        machine.fail(
            DescriptorError,
            "expected a matrix base offset of 0 (others are not emulated), got "
            f"{descriptor >> 49 & 7}",
            c,
        )
    address = descriptor_addresses(descriptor, extent, depth, size, transposed)
    low, high = int(address.min()), int(address.max()) + size
    if low < SHARED_RESERVED or high > shared.size:
        machine.fail(
            OutOfBoundsError,
            f"expected a wgmma operand within shared addresses {SHARED_RESERVED} to {shared.size}, "
            f"got {low:#x} to {high:#x} (descriptor {descriptor:#018x})",
            c,
        )
    if machine.checks:
        races = shared.races
        granules = _granules(descriptor, extent, depth, size, transposed, races.granule)
        races.read_together(
            c,
            np.searchsorted(c.rows, groups),
            blocks[:, None] * races.granules + granules[None, :],
            agent_base=machine.wgmma_agent,
            clock=machine.wgmma.current[groups[:, 0]].astype(np.int32),
        )
    chunks = _chunks(descriptor, extent, depth, size, transposed)
    index = (blocks * (shared.stride // 16))[:, None, None] + chunks
    raw = shared.data.view(CARRIER[16]).take(index).view(f"u{size}")
    values = unpack(raw, kind)
    return np.ascontiguousarray(values.transpose(0, 2, 1)) if transposed else values
