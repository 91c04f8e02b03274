"""cp.async.bulk.tensor: copies of boxes of a tensor map."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from mirage.emulator.errors import (
    DescriptorError,
    MisalignedAccessError,
    OutOfBoundsError,
    UninitialisedReadError,
)
from mirage.emulator.machine.cohort import Array, Cohort
from mirage.emulator.machine.flags import all_of
from mirage.emulator.machine.memory import PARAM_WINDOW, Allocation, check_dependent
from mirage.emulator.machine.operands import Reader, items, reader
from mirage.emulator.ops.bulk_access import (
    Load,
    count_in_flight,
    deliver,
    grid,
    note_read,
    note_write,
    one,
    read_shared,
    require_writeable,
)
from mirage.emulator.ops.convert import tf32_bits
from mirage.emulator.ops.opcodes import Modifiers
from mirage.emulator.ptx.syntax import Address, Instruction
from mirage.emulator.tensor_map import SWIZZLE_BYTES, TensorMap

_FILL = np.uint16(0x7FF7)
"""The value that an H200 writes to each two bytes of a NaN fill; it is NaN as f16, bf16, f32 and
f64."""


def coordinates_of(
    instruction: Instruction, modifiers: Modifiers, operand: Any, rank: int
) -> list[Reader]:
    if not isinstance(operand, Address) or len(operand.extra) != 1:
        raise modifiers.unknown()
    parts = items(operand.extra[0])
    if len(parts) != rank:
        raise modifiers.unknown()
    return [reader(p, "s32", instruction) for p in parts]


def load_tensor(c: Cohort, load: Load, coordinates: list[Reader]) -> None:
    machine = c.machine
    source, places = grid(c, load.source), load.places(c)
    where = [grid(c, r) for r in coordinates]
    for i, lane in np.argwhere(c.active()).tolist():
        tensor, allocation = find_map(c, i, lane, int(source[i, lane]), len(where))
        start = _start(c, i, lane, tensor, where)
        box, valid, target = box_slices(tensor, start)
        data = np.zeros(box, tensor.array.dtype)
        if tensor.oob_fill == "nan":
            data.reshape(-1).view(np.uint16)[...] = _FILL
        if valid is not None:
            values = tensor.array[valid]
            # measured: like cvt.rna.tf32.f32, except perhaps for ties
            data[target] = tf32_bits(values).view(np.float32) if tensor.tf32 else values
            if machine.checks:
                first, size = _rows(tensor, allocation, valid)
                note_read(c, i, lane, allocation, first, size)
            if allocation.written is not None and machine.checks:
                ready = _written_view(tensor, allocation)[valid]
                if not all_of(ready):
                    machine.fail(
                        UninitialisedReadError,
                        f"expected {allocation.name} to be written before this copy of the box at "
                        f"{tuple(start)}, but part of it is not",
                        c,
                        one(c, i, lane),
                    )
        raw = data.reshape(-1).view(np.uint8)
        deliver(c, places, i, lane, raw, 128, SWIZZLE_BYTES[tensor.swizzle])
    count_in_flight(c)


def _start(c: Cohort, i: int, lane: int, tensor: TensorMap, where: list[Array]) -> list[int]:
    """Return where one lane's box starts, innermost first. The hardware takes its innermost rows in
    units of 16 bytes and raises an illegal instruction for a box that does not start at such a
    unit, inside the tensor or not."""
    start = [int(w[i, lane]) for w in where]
    size = tensor.array.dtype.itemsize
    if start[0] * size % 16:
        c.machine.fail(
            MisalignedAccessError,
            "expected an innermost coordinate whose place in its row is a multiple of 16 bytes, "
            f"got {start[0]} (elements of {size} bytes)",
            c,
            one(c, i, lane),
        )
    return start


def find_map(c: Cohort, i: int, lane: int, address: int, rank: int) -> tuple[TensorMap, Allocation]:
    """Return the tensor map at an address and its array's allocation."""
    machine = c.machine
    offset = address - PARAM_WINDOW if address >= PARAM_WINDOW else address
    tensor = machine.tensor_maps.get(offset)
    if tensor is None or tensor.array.ndim != rank:
        actual = f"{address:#x}" if tensor is None else f"a map of rank {tensor.array.ndim}"
        machine.fail(
            DescriptorError,
            f"expected the address of a tensor map parameter of rank {rank}, got {actual}",
            c,
            one(c, i, lane),
        )
    inner = tensor.box[-1] * tensor.array.dtype.itemsize
    span = SWIZZLE_BYTES[tensor.swizzle]
    if span and inner != span:
        machine.fail(
            DescriptorError,
            f"expected an inner box extent of {span} bytes with {tensor.swizzle} swizzle "
            f"(a smaller one is not emulated), got {inner}",
            c,
            one(c, i, lane),
        )
    pointer = int(machine.parameters[offset : offset + 8].view(np.int64)[0])
    allocation = machine.memory.find(pointer)
    assert allocation is not None
    if allocation.dependent and machine.checks:
        check_dependent(c, allocation, one(c, i, lane))
    return tensor, allocation


def _written_view(tensor: TensorMap, allocation: Allocation) -> Array:
    """Return whether each element of the tensor is written, as a view with an additional axis of
    bytes."""
    assert allocation.written is not None
    array = tensor.array
    start = array.ctypes.data - allocation.data.ctypes.data
    return np.lib.stride_tricks.as_strided(
        allocation.written[start:], (*array.shape, array.itemsize), (*array.strides, 1)
    )


def box_slices(
    tensor: TensorMap, start: list[int]
) -> tuple[tuple[int, ...], tuple[slice, ...] | None, tuple[slice, ...]]:
    """Return (box shape, slices of the tensor inside it or None, slices of the box that they fill).
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


def _rows(
    tensor: TensorMap, allocation: Allocation, inside: tuple[slice, ...]
) -> tuple[Array, int]:
    """Return the bytes of an allocation at which the rows of a part of its tensor start, and the
    bytes of a row."""
    array = tensor.array
    first = np.array(array.ctypes.data - allocation.data.ctypes.data)
    for part, stride in zip(inside[:-1], array.strides[:-1], strict=True):
        first = first[..., None] + np.arange(part.start, part.stop, part.step) * stride
    row = inside[-1]
    return first.reshape(-1) + row.start * array.itemsize, (row.stop - row.start) * array.itemsize


def _bits(values: Array) -> Array:
    return np.ascontiguousarray(values).view(np.uint8).reshape(-1)


def _whole_units(
    c: Cohort, i: int, lane: int, tensor: TensorMap, allocation: Allocation
) -> TensorMap:
    """Return the tensor as stores see it: the hardware truncates stores at the end of a row in
    units of 16 bytes, so they also write the part of a row's last unit that lies beyond the tensor.
    """
    array = tensor.array
    per = 16 // array.itemsize
    width = -(-array.shape[-1] // per) * per
    if width == array.shape[-1]:
        return tensor
    last = sum((n - 1) * s for n, s in zip(array.shape[:-1], array.strides[:-1], strict=True))
    first = array.ctypes.data - allocation.data.ctypes.data
    if first + last + width * array.itemsize > len(allocation.data):
        c.machine.fail(
            OutOfBoundsError,
            f"expected rows of {allocation.name} that end at a multiple of 16 bytes or memory up "
            f"to there, which a tensor store writes too, got rows of {array.shape[-1]} elements of "
            f"{array.itemsize} bytes at the end of the array",
            c,
            one(c, i, lane),
        )
    wide = np.lib.stride_tricks.as_strided(array, (*array.shape[:-1], width), array.strides)
    return replace(tensor, array=wide)


def store_tensor(
    c: Cohort,
    target: Reader,
    source: Reader,
    coordinates: list[Reader],
    operation: Callable[[Any, Any], Any] | None,
) -> None:
    machine = c.machine
    to, of = grid(c, target), grid(c, source)
    where = [grid(c, r) for r in coordinates]
    for i, lane in np.argwhere(c.active()).tolist():
        tensor, allocation = find_map(c, i, lane, int(to[i, lane]), len(where))
        start = _start(c, i, lane, tensor, where)
        tensor = _whole_units(c, i, lane, tensor, allocation)
        shape, valid, part = box_slices(tensor, start)
        size = int(np.prod(shape)) * tensor.array.itemsize
        data = read_shared(c, i, lane, of, size, SWIZZLE_BYTES[tensor.swizzle], 128)
        box = data.view(tensor.array.dtype).reshape(shape)
        if valid is not None:
            require_writeable(c, i, lane, allocation)
            before, value = tensor.array[valid], box[part]
            if operation is not None:
                value = operation(before, value)
            if machine.checks:
                first, _ = _rows(tensor, allocation, valid)
                changes, strong = _bits(before) != _bits(value), operation is not None
                note_write(c, i, lane, allocation, first, changes, strong=strong)
            tensor.array[valid] = value
            if allocation.written is not None:
                _written_view(tensor, allocation)[valid] = True
        machine.note(bulk_copy_bytes=size)
    machine.events += 1
