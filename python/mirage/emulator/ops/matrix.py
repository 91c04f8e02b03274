"""ldmatrix, stmatrix, movmatrix and mma.sync."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from mirage.emulator.machine import access_patterns, memory
from mirage.emulator.machine.cohort import Array, Cohort
from mirage.emulator.machine.operands import address_reader, bf16_to_f32, items, reader, writer
from mirage.emulator.ops.opcodes import Compiled, Context, Modifiers, all_lanes, opcode, operands
from mirage.emulator.ptx.syntax import Instruction

_LANE = np.arange(32)
_ROW, _PAIR = _LANE // 4, 2 * (_LANE % 4)


@opcode("ldmatrix", "stmatrix")
def compile_ldmatrix(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """8x8 matrices of 16-bit elements between shared memory and registers: lanes 8j to 8j+7 give
    the row addresses of matrix j; lane l holds elements (l / 4, 2 * (l % 4)) and the next."""
    loads = instruction.opcode == "ldmatrix"
    for word in ("sync", "aligned", "m8n8"):
        if modifiers.take(word) is None:
            raise modifiers.unknown()
    modifiers.type("b16")
    transposed = modifiers.take("trans") is not None
    count = int((modifiers.take("x1", "x2", "x4") or "x1")[1:])
    space = modifiers.take("shared", "shared::cta") or "generic"
    registers, place = operands(instruction, 2)[:: 1 if loads else -1]
    parts = items(registers)
    if len(parts) != count:
        raise modifiers.unknown()
    address = address_reader(place, instruction)
    context.shared(16)
    base = np.int64(memory.SHARED_WINDOW if space == "generic" else 0)
    used = np.zeros((1, 32), bool)
    used[:, : 8 * count] = True

    def rows_of(c: Cohort) -> tuple[Cohort, Array]:
        lanes = c if count == 4 else c.masked(np.repeat(used, c.n, axis=0))
        where = np.broadcast_to(address(c) - base, (c.n, 32))
        if c.machine.stats:
            _count(lanes, where, count, store=not loads)
        return lanes, where

    if loads:
        writes = [writer(p, "b32", instruction) for p in parts]

        def run(c: Cohort) -> None:
            lanes, where = rows_of(c)
            raw = np.ascontiguousarray(c.machine.shared.load(lanes, where, 16, collective=True))
            tiles = raw.view(np.uint16).reshape(c.n, 4, 8, 8)
            for j, write in enumerate(writes):
                tile = tiles[:, j]
                if transposed:
                    tile = np.ascontiguousarray(tile.transpose(0, 2, 1))
                write(c, tile.reshape(c.n, 64).view(np.uint32).copy())

        return Compiled("matrix-move", run=run, required=all_lanes, whole_rows=True)
    reads = [reader(p, "b32", instruction) for p in parts]

    def run_store(c: Cohort) -> None:
        lanes, where = rows_of(c)
        tiles = np.zeros((c.n, 4, 8, 8), np.uint16)
        for j, read in enumerate(reads):
            value = np.ascontiguousarray(np.broadcast_to(read(c), (c.n, 32)))
            tile = value.view(np.uint16).reshape(c.n, 8, 8)
            tiles[:, j] = tile.transpose(0, 2, 1) if transposed else tile
        c.machine.events += 1
        values = tiles.reshape(c.n, 256).view(np.complex128)
        c.machine.shared.store(lanes, where, values, 16, collective=True)

    return Compiled("matrix-move", run=run_store, required=all_lanes, whole_rows=True)


def _count(c: Cohort, address: Array, count: int, *, store: bool) -> None:
    """Each matrix is one pass of eight rows."""
    machine = c.machine
    offset = address & ((1 << memory.RANK_SHIFT) - 1)
    waves = 0
    for j in range(count):
        part = np.ascontiguousarray(offset[:, 8 * j : 8 * j + 8])
        waves += access_patterns.wavefronts(part, None, 16, machine.pattern_cache)
    name = "shared_store_bytes" if store else "shared_load_bytes"
    amounts = {name: c.n * count * 128}
    machine.note(**amounts, shared_wavefronts=waves, bank_conflicts=waves - c.n * count)


@opcode("movmatrix")
def compile_movmatrix(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """Transposes an 8x8 matrix across the warp."""
    for word in ("sync", "aligned", "m8n8", "trans"):
        if modifiers.take(word) is None:
            raise modifiers.unknown()
    modifiers.type("b16")
    target, source = operands(instruction, 2)
    write, read = writer(target, "b32", instruction), reader(source, "b32", instruction)

    def run(c: Cohort) -> None:
        value = np.ascontiguousarray(np.broadcast_to(read(c), (c.n, 32)))
        tile = np.ascontiguousarray(value.view(np.uint16).reshape(c.n, 8, 8).transpose(0, 2, 1))
        write(c, tile.reshape(c.n, 64).view(np.uint32).copy())

    return Compiled("matrix-move", run=run, required=all_lanes, whole_rows=True)


# -- mma ------------------------------------------------------------------------------------------

_ELEMENT: dict[str, tuple[Any, int]] = {
    "f16": (np.float16, 2),
    "bf16": (None, 2),
    "tf32": (np.float32, 4),
    "e4m3": (ml_dtypes.float8_e4m3fn, 1),
    "e5m2": (ml_dtypes.float8_e5m2, 1),
    "s8": (np.int8, 1),
    "u8": (np.uint8, 1),
    "f64": (np.float64, 8),
}
_SHAPES = {
    "m16n8k16": ("f16", "bf16", "s8", "u8"),
    "m16n8k8": ("f16", "bf16", "tf32"),
    "m16n8k4": ("tf32",),
    "m16n8k32": ("e4m3", "e5m2", "s8", "u8"),
    "m8n8k4": ("f64",),
}


def unpack(raw: Array, kind: str) -> Array:
    """Register words [.., w] as element values [.., w * elements a word] (float64 or int64)."""
    if kind == "bf16":
        return bf16_to_f32(raw.view(np.uint16)).astype(np.float64)
    if kind == "tf32":
        return (raw & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
    dtype = _ELEMENT[kind][0]
    values = raw.view(dtype)
    return values.astype(np.int64 if kind in ("s8", "u8") else np.float64)


def fragment_a(rows: int, depth: int, size: int) -> tuple[Array, Array]:
    """Row and column [32, elements] that each lane holds of A [rows, depth], elements of `size`
    bytes: words go down 8 rows first, then to the second half of the columns."""
    per = max(1, 4 // size)
    words = rows // 8 * depth // (4 * per)
    index = np.arange(words * per)
    word, element = index // per, index % per
    down, across = word % (rows // 8), word // (rows // 8)
    row = _ROW[:, None] + 8 * down
    column = (_LANE % 4)[:, None] * per + element + 4 * per * across
    return row, column


def fragment_b(depth: int, size: int) -> tuple[Array, Array]:
    """Row (k) and column (n) [32, elements] that each lane holds of B [depth, 8]."""
    per = max(1, 4 // size)
    index = np.arange(depth // 4)
    word, element = index // per, index % per
    row = (_LANE % 4)[:, None] * per + element + 4 * per * word
    return row, np.broadcast_to(_ROW[:, None], row.shape)


def fragment_c(rows: int) -> tuple[Array, Array]:
    """Row and column [32, elements] that each lane holds of C and D [rows, 8]."""
    index = np.arange(rows // 4)
    return _ROW[:, None] + 8 * (index // 2), _PAIR[:, None] + index % 2


def _mma_kinds(modifiers: Modifiers, shape: str) -> tuple[str, str, str, str]:
    """Return the element types of D, A, B and C."""
    accumulators = ("f16", "f32", "f64", "s32")
    kind_c = modifiers.type(*accumulators)
    kind_b = modifiers.type(*_SHAPES[shape])
    kind_a = modifiers.type(*_SHAPES[shape])
    kind_d = modifiers.type(*accumulators)
    if (kind_a in ("s8", "u8")) != (kind_c == "s32") or (kind_a == "f64") != (kind_c == "f64"):
        raise modifiers.unknown()
    if (kind_c == "f16" or kind_d == "f16") and kind_a == "bf16":
        raise modifiers.unknown()
    return kind_d, kind_a, kind_b, kind_c


@opcode("mma")
def compile_mma(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """mma.sync.aligned.shape.row.col.d.a.b.c. Products and sums are exact to float64, rounded once:
    tensor cores add in an order and precision that PTX leaves open."""
    for word in ("sync", "aligned"):
        if modifiers.take(word) is None:
            raise modifiers.unknown()
    shape = modifiers.take(*_SHAPES)
    if shape is None or modifiers.take("row") is None or modifiers.take("col") is None:
        raise modifiers.unknown()
    modifiers.drop("rn")
    saturates = modifiers.take("satfinite") is not None
    kind_d, kind_a, kind_b, kind_c = _mma_kinds(modifiers, shape)
    rows, _, depth = (int(v) for v in shape[1:].replace("n", " ").replace("k", " ").split())
    integer = kind_a in ("s8", "u8")
    size = _ELEMENT[kind_a][1]
    word_type = "b64" if size == 8 else "b32"
    d, a, b, c_operand = (items(o) for o in operands(instruction, 4))
    row_a, col_a = fragment_a(rows, depth, size)
    row_b, col_b = fragment_b(depth, size)
    row_c, col_c = fragment_c(rows)
    counts = (
        _words(rows, kind_d),
        row_a.shape[1] * size // (8 if size == 8 else 4),
        row_b.shape[1] * size // (8 if size == 8 else 4),
        _words(rows, kind_c),
    )
    if tuple(len(v) for v in (d, a, b, c_operand)) != counts:
        raise modifiers.unknown()
    read_a = [reader(o, word_type, instruction) for o in a]
    read_b = [reader(o, word_type, instruction) for o in b]
    type_c, type_d = _word_type(kind_c), _word_type(kind_d)
    read_c = [reader(o, type_c, instruction) for o in c_operand]
    writes = [writer(o, type_d, instruction) for o in d]
    operations = rows * 8 * depth
    # Positions in the fragments of the elements of each matrix, in row-major order.
    gather_a = np.argsort((row_a * depth + col_a).ravel())
    gather_b = np.argsort((row_b * 8 + col_b).ravel())
    flat_c = (row_c * 8 + col_c).ravel()
    gather_c = np.argsort(flat_c)
    dtype: Any = np.int64 if integer else np.float64

    def run(c: Cohort) -> None:
        left = unpack(_stack(c, read_a), kind_a).reshape(c.n, -1)[:, gather_a]
        right = unpack(_stack(c, read_b), kind_b).reshape(c.n, -1)[:, gather_b]
        total = _accumulators(_stack(c, read_c), kind_c).reshape(c.n, -1)[:, gather_c]
        product = left.reshape(c.n, rows, depth).astype(dtype) @ right.reshape(
            c.n, depth, 8
        ).astype(dtype)
        result = (product.reshape(c.n, rows * 8) + total)[:, flat_c].reshape(c.n, 32, -1)
        c.machine.counters.tensor_core_ops += operations * c.n
        words = accumulator_words(result, kind_d, saturates=saturates)
        for i, write in enumerate(writes):
            write(c, words[:, :, i].copy())

    return Compiled("tensor-core", run=run, required=all_lanes, whole_rows=True)


def _words(rows: int, kind: str) -> int:
    return rows // 4 // (2 if kind == "f16" else 1)


def _word_type(kind: str) -> str:
    return {"f16": "b32", "f32": "b32", "s32": "b32", "f64": "b64"}[kind]


def _stack(c: Cohort, reads: list[Any]) -> Array:
    """Registers as [n, 32, words], contiguous."""
    first = reads[0](c)
    result = np.empty((c.n, 32, len(reads)), first.dtype)
    result[:, :, 0] = first
    for i, read in enumerate(reads[1:], 1):
        result[:, :, i] = read(c)
    return result


def _accumulators(raw: Array, kind: str) -> Array:
    dtype: Any = {"f16": np.float16, "f32": np.float32, "s32": np.int32, "f64": np.float64}[kind]
    return raw.view(dtype).astype(np.int64 if kind == "s32" else np.float64)


def accumulator_words(result: Array, kind: str, *, saturates: bool = False) -> Array:
    """Results [.., elements] (float64 or int64) as register words [.., words]."""
    if kind == "f16":
        return np.ascontiguousarray(result.astype(np.float16)).view(np.uint32)
    if kind == "f64":
        return result.view(np.uint64)
    if kind == "s32":
        if saturates:
            result = np.clip(result, -(2**31), 2**31 - 1)
        return result.astype(np.uint64).astype(np.uint32)
    narrow = result.astype(np.float32)
    return np.where(np.isnan(narrow), np.uint32(0x7FFFFFFF), narrow.view(np.uint32))
