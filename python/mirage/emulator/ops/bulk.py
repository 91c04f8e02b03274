"""cp.async.bulk and cp.async.bulk.tensor: copies by the asynchronous proxy.

Bytes move at once. A copy into shared memory is a write by its mbarrier's agent, which only a wait
on that phase orders; a copy out of shared memory is a read by the warp's bulk agent, which only
wait_group orders.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mirage.emulator.cohort import Array, Cohort
from mirage.emulator.errors import (
    DescriptorError,
    MisalignedAccessError,
    OutOfBoundsError,
    UninitialisedReadError,
)
from mirage.emulator.mbarriers import Mbarrier
from mirage.emulator.memory import PARAM_WINDOW, SHARED_RESERVED, Allocation, check_dependent
from mirage.emulator.operands import Reader, address_reader, items, reader
from mirage.emulator.ops.registry import Compiled, Context, Modifiers, operands
from mirage.emulator.swizzle import swizzled
from mirage.emulator.syntax import Address, Immediate, Instruction
from mirage.emulator.tensor_map import SWIZZLE_BYTES, TensorMap

SHARED = ("shared::cluster", "shared::cta")
COMPLETE = "mbarrier::complete_tx::bytes"
_REDUCE: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def compile_bulk(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """Everything whose opcode starts with cp.async.bulk or cp.reduce.async.bulk."""
    reduce = modifiers.take("reduce") is not None
    modifiers.take("async")
    modifiers.take("bulk")
    context.shared(16)
    if modifiers.take("commit_group"):
        operands(instruction, 0)
        context.features.add("bulk_store")
        return Compiled("bulk-copy", run=_commit)
    if modifiers.take("wait_group"):
        modifiers.take("read")
        (count,) = operands(instruction, 1)
        if not isinstance(count, Immediate) or not isinstance(count.value, int):
            raise modifiers.unknown()
        keep = count.value
        context.features.add("bulk_store")
        return Compiled("bulk-copy", run=lambda c: _wait(c, keep))
    if modifiers.take("prefetch"):
        modifiers.rest.clear()
        return Compiled("bulk-copy", run=lambda c: None)
    hint = "L2::cache_hint" in modifiers.rest
    modifiers.drop("L2::cache_hint")
    tensor = modifiers.take("tensor") is not None
    rank = int((modifiers.take("1d", "2d", "3d", "4d", "5d") or "0")[0]) if tensor else 0
    if tensor:
        modifiers.drop("tile")
    spaces = [m for m in modifiers.rest if m in (*SHARED, "global")]
    modifiers.drop(*SHARED, "global")
    if len(spaces) != 2:
        raise modifiers.unknown()
    if spaces[0] == "global":
        return _store(context, instruction, modifiers, reduce=reduce, rank=rank, hint=hint)
    if reduce or modifiers.take(COMPLETE) is None:
        raise modifiers.unknown()
    multicast = modifiers.take("multicast::cluster") is not None
    context.features.add("mbarrier")
    context.shared(8)
    ops = list(operands(instruction, 3, 6))
    if hint:
        ops.pop()
    mask = reader(ops.pop(), "b16", instruction) if multicast else None
    load = _Load(
        target=address_reader(ops[0], instruction),
        source=address_reader(ops[1], instruction),
        barrier=address_reader(ops[-1], instruction),
        mask=mask,
    )
    if rank:
        coordinates = _coordinates(instruction, modifiers, ops[1], rank)
        if len(ops) != 3 or spaces[1] != "global":
            raise modifiers.unknown()
        return Compiled("bulk-copy", run=lambda c: _load_tensor(c, load, coordinates))
    if len(ops) != 4:
        raise modifiers.unknown()
    size = reader(ops[2], "u32", instruction)
    if spaces[1] == "global":
        return Compiled("bulk-copy", run=lambda c: _load_plain(c, load, size))
    return Compiled("bulk-copy", run=lambda c: _copy_shared(c, load, size))


@dataclass(frozen=True)
class _Load:
    """Operands of a copy into shared memory."""

    target: Reader
    source: Reader
    barrier: Reader
    mask: Reader | None

    def places(self, c: Cohort) -> _Places:
        """Their values."""
        mask = None if self.mask is None else _grid(c, self.mask)
        return _Places(_grid(c, self.target), _grid(c, self.barrier), mask)


@dataclass(frozen=True)
class _Places:
    """Where a copy goes: addresses and multicast masks [n, 32]."""

    target: Array
    barrier: Array
    mask: Array | None


def _coordinates(
    instruction: Instruction, modifiers: Modifiers, operand: Any, rank: int
) -> list[Reader]:
    if not isinstance(operand, Address) or len(operand.extra) != 1:
        raise modifiers.unknown()
    parts = items(operand.extra[0])
    if len(parts) != rank:
        raise modifiers.unknown()
    return [reader(p, "s32", instruction) for p in parts]


def _grid(c: Cohort, read: Reader) -> Array:
    return np.broadcast_to(read(c), (c.n, 32)).astype(np.int64)


def _one(c: Cohort, i: int, lane: int) -> Array:
    mask = np.zeros((c.n, 32), bool)
    mask[i, lane] = True
    return mask


def _require(c: Cohort, i: int, lane: int, value: int, align: int, what: str) -> None:
    if value % align:
        c.machine.fail(
            MisalignedAccessError,
            f"expected a {what} that is a multiple of {align}, got {value:#x}",
            c,
            _one(c, i, lane),
        )


# -- into shared memory ---------------------------------------------------------------------------


def _load_plain(c: Cohort, load: _Load, size: Reader) -> None:
    source, amount, places = _grid(c, load.source), _grid(c, size), load.places(c)
    for i, lane in np.argwhere(c.active()).tolist():
        address, count = int(source[i, lane]), int(amount[i, lane])
        _require(c, i, lane, address, 16, "global address")
        _require(c, i, lane, count, 16, "size")
        data = _global_range(c, i, lane, address, count, write=False)
        _deliver(c, places, i, lane, data, 16, 0)
    _count_in_flight(c)


def _copy_shared(c: Cohort, load: _Load, size: Reader) -> None:
    amount, source, places = _grid(c, size), _grid(c, load.source), load.places(c)
    for i, lane in np.argwhere(c.active()).tolist():
        count = int(amount[i, lane])
        _require(c, i, lane, int(source[i, lane]), 16, "shared address")
        _require(c, i, lane, count, 16, "size")
        flat = _flat(c, i, lane, int(places.barrier[i, lane]), 8, 8)
        barrier = c.machine.mbarriers.find(c, flat, i, lane, proxy=True)
        data = _read_shared(c, i, lane, source, count, until=barrier)
        _deliver(c, places, i, lane, data, 16, 0)
    _count_in_flight(c)


def _count_in_flight(c: Cohort) -> None:
    if c.machine.stats:
        c.machine.note_in_flight(c)


def _flat(c: Cohort, i: int, lane: int, address: int, size: int, align: int) -> int:
    """Byte index in shared memory of one lane's address; `SharedMemory.flatten` for one."""
    shared = c.machine.shared
    if SHARED_RESERVED <= address <= shared.size - size and address % align == 0:
        return int(c.machine.block_of_row[c.rows[i]]) * shared.stride + address
    lanes = c.masked(_one(c, i, lane))
    where = np.full((c.n, 32), address, np.int64)
    return int(shared.flatten(lanes, where, size, align)[i, lane])


def _load_tensor(c: Cohort, load: _Load, coordinates: list[Reader]) -> None:
    machine = c.machine
    source, places = _grid(c, load.source), load.places(c)
    where = [_grid(c, r) for r in coordinates]
    for i, lane in np.argwhere(c.active()).tolist():
        tensor, allocation = find_map(c, i, lane, int(source[i, lane]), len(where))
        start = [int(w[i, lane]) for w in where]
        box, valid, target = box_slices(tensor, start)
        data = np.zeros(box, tensor.array.dtype)
        if tensor.oob_fill == "nan":
            data[...] = np.nan
        if valid is not None:
            data[target] = tensor.array[valid]
            if allocation.written is not None and machine.checks:
                ready = _written_view(tensor, allocation)[valid]
                if not ready.all():
                    machine.fail(
                        UninitialisedReadError,
                        f"expected {allocation.name} to be written before this copy of the box at "
                        f"{tuple(start)}, but part of it is not",
                        c,
                        _one(c, i, lane),
                    )
        raw = data.reshape(-1).view(np.uint8)
        _deliver(c, places, i, lane, raw, 128, SWIZZLE_BYTES[tensor.swizzle])
    _count_in_flight(c)


def find_map(c: Cohort, i: int, lane: int, address: int, rank: int) -> tuple[TensorMap, Allocation]:
    """The tensor map at an address and its array's allocation."""
    machine = c.machine
    offset = address - PARAM_WINDOW if address >= PARAM_WINDOW else address
    tensor = machine.tensor_maps.get(offset)
    if tensor is None or tensor.array.ndim != rank:
        actual = f"{address:#x}" if tensor is None else f"a map of rank {tensor.array.ndim}"
        machine.fail(
            DescriptorError,
            f"expected the address of a tensor map parameter of rank {rank}, got {actual}",
            c,
            _one(c, i, lane),
        )
    inner = tensor.box[-1] * tensor.array.dtype.itemsize
    span = SWIZZLE_BYTES[tensor.swizzle]
    if span and inner != span:
        machine.fail(
            DescriptorError,
            f"expected an inner box extent of {span} bytes with {tensor.swizzle} swizzle "
            "(a smaller "
            f"one is not emulated), got {inner}",
            c,
            _one(c, i, lane),
        )
    pointer = int(machine.parameters[offset : offset + 8].view(np.int64)[0])
    allocation = machine.memory.find(pointer)
    assert allocation is not None
    if allocation.dependent and machine.checks:
        check_dependent(c, allocation, _one(c, i, lane))
    return tensor, allocation


def _written_view(tensor: TensorMap, allocation: Allocation) -> Array:
    """Whether each element of the tensor is written; a view with one more axis of bytes."""
    assert allocation.written is not None
    array = tensor.array
    start = array.ctypes.data - allocation.data.ctypes.data
    return np.lib.stride_tricks.as_strided(
        allocation.written[start:], (*array.shape, array.itemsize), (*array.strides, 1)
    )


def box_slices(
    tensor: TensorMap, start: list[int]
) -> tuple[tuple[int, ...], tuple[slice, ...] | None, tuple[slice, ...]]:
    """(box shape, slices of the tensor inside it or None, slices of the box that they fill).
    `start` is innermost first."""
    shape: list[int] = []
    inside: list[slice] = []
    target: list[slice] = []
    empty = False
    axes = zip(reversed(start), tensor.box, tensor.strides, tensor.array.shape, strict=True)
    for begin, extent, stride, limit in axes:
        count = -(-extent // stride)
        first = max(0, -(begin // stride)) if begin < 0 else 0
        if begin < 0 and begin + first * stride < 0:
            first += 1
        last = min(count, max(0, -(-(limit - begin) // stride)))
        shape.append(count)
        empty |= last <= first
        inside.append(slice(begin + first * stride, begin + (last - 1) * stride + 1, stride))
        target.append(slice(first, last))
    return tuple(shape), None if empty else tuple(inside), tuple(target)


def _deliver(
    c: Cohort, load: _Places, i: int, lane: int, data: Array, align: int, span: int
) -> None:
    """Writes bytes to shared memory, of several blocks with multicast, and tells the mbarrier."""
    machine = c.machine
    shared = machine.shared
    target = int(load.target[i, lane])
    _require(c, i, lane, target, align, "shared address")
    flat = _flat(c, i, lane, target, len(data), align)
    bar = _flat(c, i, lane, int(load.barrier[i, lane]), 8, 8)
    places = [(flat, bar)]
    if load.mask is not None:
        chosen = int(load.mask[i, lane])
        block = int(machine.block_of_row[c.rows[i]])
        first = block // machine.cluster_blocks * machine.cluster_blocks
        if chosen >> machine.cluster_blocks or not chosen:
            machine.fail(
                OutOfBoundsError,
                f"expected a multicast mask of the {machine.cluster_blocks} blocks of the cluster, "
                f"got {chosen:#x}",
                c,
                _one(c, i, lane),
            )
        ranks = [r for r in range(machine.cluster_blocks) if chosen >> r & 1]
        stride = shared.stride
        places = [
            ((first + r) * stride + flat % stride, (first + r) * stride + bar % stride)
            for r in ranks
        ]
    index = np.arange(0, len(data), 16)
    for to, barrier_at in places:
        barrier = machine.mbarriers.find(c, barrier_at, i, lane, proxy=True)
        base = to - to % shared.stride
        if machine.checks:
            granule = np.arange(to // shared.granule, (to + len(data)) // shared.granule)[None, :]
            shared.check_write(
                c,
                np.array([i]),
                granule,
                agent=np.array([barrier.agent]),
                clock=np.array([barrier.phase + 1]),
                proxy=True,
            )
        chunk = (base + swizzled(to - base + index, span)) // 16
        shared.data.view(np.complex128)[chunk] = data.view(np.complex128)
        machine.mbarriers.complete_bytes(barrier, len(data))
        machine.note(bulk_copy_bytes=len(data))


def _global_range(c: Cohort, i: int, lane: int, address: int, size: int, *, write: bool) -> Array:
    """Bytes of global memory: a copy to read, or the memory itself to write."""
    machine = c.machine
    allocation = machine.memory.find(address)
    offset = address - allocation.base if allocation else 0
    if allocation is None or offset < 0 or offset + size > len(allocation.data):
        where = f"byte {offset} of {allocation.name}" if allocation else f"{address:#x}"
        machine.fail(
            OutOfBoundsError,
            f"expected {size} bytes inside an array, got {where}",
            c,
            _one(c, i, lane),
        )
    part = slice(offset, offset + size)
    if allocation.dependent and machine.checks:
        check_dependent(c, allocation, _one(c, i, lane))
    if allocation.written is not None:
        if write:
            allocation.written[part] = True
        elif machine.checks and not allocation.written[part].all():
            machine.fail(
                UninitialisedReadError,
                f"expected {allocation.name} to be written before this copy of bytes {offset} to "
                f"{offset + size - 1}, but part of it is not",
                c,
                _one(c, i, lane),
            )
    return allocation.data[part] if write else allocation.data[part].copy()


# -- out of shared memory -------------------------------------------------------------------------


def _read_shared(
    c: Cohort,
    i: int,
    lane: int,
    source: Array,
    size: int,
    span: int = 0,
    align: int = 16,
    until: Mbarrier | None = None,
) -> Array:
    """Bytes of shared memory, read in the name of the row's bulk agent, or of an mbarrier that the
    copy completes on."""
    machine = c.machine
    shared = machine.shared
    _require(c, i, lane, int(source[i, lane]), align, "shared address")
    flat = _flat(c, i, lane, int(source[i, lane]), size, align)
    if machine.checks:
        row = c.rows[i]
        granule = np.arange(flat // shared.granule, (flat + size) // shared.granule)[None, :]
        shared.check_read(
            c,
            np.array([i]),
            granule,
            agent_base=machine.bulk_agent,
            clock=machine.bulk_group[[row]],
            proxy=True,
            record=until is None,
        )
        if until is not None:
            first, end = int(granule[0, 0]), int(granule[0, -1]) + 1
            shared.copies.append((first, end, until.agent, until.phase + 1))
    if until is None:
        machine.bulk_issued[c.rows[i]] = machine.bulk_group[c.rows[i]]
    base = flat - flat % shared.stride
    chunk = (base + swizzled(flat - base + np.arange(0, size, 16), span)) // 16
    return shared.data.view(np.complex128)[chunk].view(np.uint8)


def _store(
    context: Context,
    instruction: Instruction,
    modifiers: Modifiers,
    *,
    reduce: bool,
    rank: int,
    hint: bool,
) -> Compiled:
    context.features.add("bulk_store")
    if modifiers.take("bulk_group") is None:
        raise modifiers.unknown()
    operation: Callable[[Any, Any], Any] | None = None
    kind = ""
    if reduce:
        name = modifiers.take(*_REDUCE)
        modifiers.drop("noftz")
        if name is None:
            raise modifiers.unknown()
        operation = _REDUCE[name]
        if not rank:
            kind = modifiers.type("f16", "f32", "f64", "u32", "s32", "u64", "s64", "b32", "b64")
    ops = list(operands(instruction, 2, 4))
    if hint:
        ops.pop()
    target = address_reader(ops[0], instruction)
    source = address_reader(ops[1], instruction)
    if rank:
        coordinates = _coordinates(instruction, modifiers, ops[0], rank)
        return Compiled(
            "bulk-copy", run=lambda c: _store_tensor(c, target, source, coordinates, operation)
        )
    size = reader(ops[2], "u32", instruction)
    dtype: Any = kind.replace("s", "i").replace("b", "u") if kind else "u1"
    dtype = {"f16": "f2", "f32": "f4", "f64": "f8", "u32": "u4", "i32": "i4"}.get(dtype, dtype)
    dtype = {"u64": "u8", "i64": "i8"}.get(dtype, dtype)

    def run(c: Cohort) -> None:
        to, of, amount = _grid(c, target), _grid(c, source), _grid(c, size)
        for i, lane in np.argwhere(c.active()).tolist():
            count = int(amount[i, lane])
            _require(c, i, lane, int(to[i, lane]), 16, "global address")
            _require(c, i, lane, count, 16, "size")
            data = _read_shared(c, i, lane, of, count)
            place = _global_range(c, i, lane, int(to[i, lane]), count, write=True)
            if operation is not None:
                data = operation(place.view(dtype), data.view(dtype)).view(np.uint8)
            place[...] = data
            c.machine.note(bulk_copy_bytes=count)
        c.machine.events += 1

    return Compiled("bulk-copy", run=run)


def _store_tensor(
    c: Cohort,
    target: Reader,
    source: Reader,
    coordinates: list[Reader],
    operation: Callable[[Any, Any], Any] | None,
) -> None:
    machine = c.machine
    to, of = _grid(c, target), _grid(c, source)
    where = [_grid(c, r) for r in coordinates]
    for i, lane in np.argwhere(c.active()).tolist():
        tensor, allocation = find_map(c, i, lane, int(to[i, lane]), len(where))
        start = [int(w[i, lane]) for w in where]
        shape, valid, part = box_slices(tensor, start)
        size = int(np.prod(shape)) * tensor.array.itemsize
        data = _read_shared(c, i, lane, of, size, SWIZZLE_BYTES[tensor.swizzle], 128)
        box = data.view(tensor.array.dtype).reshape(shape)
        if valid is not None:
            value = box[part]
            if operation is not None:
                value = operation(tensor.array[valid], value)
            tensor.array[valid] = value
            if allocation.written is not None:
                _written_view(tensor, allocation)[valid] = True
        machine.note(bulk_copy_bytes=size)
    machine.events += 1


def _commit(c: Cohort) -> None:
    c.machine.bulk_group[c.rows] += 1


def _wait(c: Cohort, keep: int) -> None:
    machine = c.machine
    rows = c.rows
    done = np.maximum(machine.bulk_group[rows] - 1 - keep, 0)
    agent = machine.bulk_agent + machine.agent_of_row[rows]
    machine.clocks[rows, agent] = np.maximum(machine.clocks[rows, agent], done)
