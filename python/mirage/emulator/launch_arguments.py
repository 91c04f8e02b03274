"""Arguments of a launch: arrays in global memory, and the bytes of a kernel's parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mirage.emulator.errors import LaunchError, OutOfBoundsError
from mirage.emulator.machine.cohort import Array
from mirage.emulator.machine.memory import Allocation, GlobalMemory
from mirage.emulator.ptx.syntax import Kernel, Parameter
from mirage.emulator.tensor_map import TensorMap


@dataclass(eq=False)
class Uninitialised:
    """An argument whose contents kernels must not read before they have written them.

    The first launch fills the array with NaN poison. `written` is a bool for each byte of the
    memory that the array is part of; a later launch with the same object continues with it.
    """

    array: Array
    written: Array | None = None

    @property
    def unwritten(self) -> int:
        """The number of bytes of the array that no launch has written."""
        if self.written is None:
            return self.array.nbytes
        view = self.written_bytes()
        return int(view.size - np.count_nonzero(view))

    def written_bytes(self) -> Array:
        """Return which bytes of the array a launch has written: the array's shape, then bytes."""
        assert self.written is not None
        low, _ = np.lib.array_utils.byte_bounds(_root(self.array))
        return np.lib.stride_tricks.as_strided(
            self.written[self.array.ctypes.data - low :],
            (*self.array.shape, self.array.itemsize),
            (*self.array.strides, 1),
        )


@dataclass(frozen=True, eq=False)
class Dependent:
    """An argument that the previous grid of a programmatic dependent launch writes: accessing it
    before griddepcontrol.wait is an error."""

    array: Array


class ArgumentMemory:
    """Arguments as allocations: views of one base share one."""

    def __init__(self) -> None:
        self.globals = GlobalMemory()
        self._known: dict[tuple[int, int], Allocation] = {}
        self._keep: list[Array] = []

    def pointer(
        self,
        array: Array,
        name: str,
        *,
        fresh: Uninitialised | None = None,
        dependent: bool = False,
    ) -> int:
        """Return the address of the first element; the allocation spans the elements of the base
        array."""
        root = _root(array)
        low, high = np.lib.array_utils.byte_bounds(root)
        known = self._known.get((low, high))
        if known is None:
            data = memory_of(root)
            known = self.globals.add(name, data)
            self._known[(low, high)] = known
            self._keep.append(root)
        known.dependent |= dependent
        if fresh is not None:
            if not array.flags.writeable:
                raise LaunchError(f"expected {name} to be writeable, but it is read-only")
            if fresh.written is None:
                if known.written is None:
                    known.written = np.ones(len(known.data), bool)
                start, end = array.ctypes.data - low, np.lib.array_utils.byte_bounds(array)[1] - low
                known.data[start:end] = 0xFF
                known.written[start:end] = False
                fresh.written = known.written
            else:
                known.written = fresh.written
        return known.base + array.ctypes.data - low


def _root(array: Array) -> Array:
    """Return the array whose memory this is a view of."""
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    low, high = np.lib.array_utils.byte_bounds(root)
    return root if low <= array.ctypes.data <= high else array


def memory_of(array: Array) -> Array:
    """Return the memory that an array's elements span, as bytes [size]; writes to it change the
    array."""
    if array.flags.c_contiguous:
        return array.reshape(-1).view(np.uint8)
    low, high = np.lib.array_utils.byte_bounds(array)
    if array.ctypes.data != low:
        raise LaunchError("expected arrays with non-negative strides, got a negative one")
    first = array[tuple(slice(0, 1) for _ in array.shape)].reshape(-1).view(np.uint8)
    return np.lib.stride_tricks.as_strided(first, (high - low,), (1,))


def aligned(value: int, align: int) -> int:
    return -(-value // align) * align


def parameters_of(
    kernel: Kernel, args: Sequence[Any], memory: ArgumentMemory
) -> tuple[Array, dict[int, TensorMap]]:
    declared = kernel.parameters
    if len(args) != len(declared):
        names = ", ".join(p.name for p in declared)
        raise LaunchError(f"expected {len(declared)} arguments ({names}), got {len(args)}")
    end = max((p.offset + p.bytes for p in declared), default=0)
    raw = np.zeros(aligned(end, 16), np.uint8)
    maps: dict[int, TensorMap] = {}
    for parameter, value in zip(declared, args, strict=True):
        data = _encode(parameter, value, memory, maps)
        raw[parameter.offset : parameter.offset + parameter.bytes] = np.frombuffer(data, np.uint8)
    return raw, maps


def _encode(
    parameter: Parameter, value: Any, memory: ArgumentMemory, maps: dict[int, TensorMap]
) -> bytes:
    name, size = parameter.name, parameter.bytes

    def refuse(expected: str) -> LaunchError:
        return LaunchError(
            f"expected {expected} for parameter {name} (.{parameter.type}, {size} "
            f"bytes), got {type(value).__name__}"
        )

    if isinstance(value, (Uninitialised, Dependent, np.ndarray)) and not (
        isinstance(value, np.ndarray) and value.ndim == 0
    ):
        array = value if isinstance(value, np.ndarray) else value.array
        if size != 8 or parameter.type in ("f64",):
            raise refuse("a scalar or aggregate, not an array,")
        address = memory.pointer(
            array,
            name,
            fresh=value if isinstance(value, Uninitialised) else None,
            dependent=isinstance(value, Dependent),
        )
        return address.to_bytes(8, "little")
    if isinstance(value, TensorMap):
        if size != 128 or parameter.align < 64:
            raise refuse("128 bytes aligned to 64 in the kernel")
        maps[parameter.offset] = value
        address = memory.pointer(value.array, name)
        if address % 16:
            raise OutOfBoundsError(
                f"expected a tensor map address that is a multiple of 16, got {address:#x}"
            )
        return address.to_bytes(8, "little") + bytes(120)
    if isinstance(value, (bytes, bytearray)):
        if len(value) != size:
            raise LaunchError(f"expected {size} bytes for parameter {name}, got {len(value)}")
        return bytes(value)
    if isinstance(value, (bool, int, float, np.generic, np.ndarray)):
        return _scalar(parameter, value, refuse)
    raise refuse("an array, scalar, TensorMap or bytes")


def _scalar(parameter: Parameter, value: Any, refuse: Any) -> bytes:
    size, kind = parameter.bytes, parameter.type
    if isinstance(value, (np.generic, np.ndarray)) and value.dtype.kind not in "iub":
        if value.dtype.itemsize == size and kind[0] in "fb":
            return value.tobytes()
        value = float(value)
    if kind in ("f32", "f64", "f16"):
        return np.array(value, f"f{size}").tobytes()
    if size not in (1, 2, 4, 8):
        raise refuse("bytes")
    if isinstance(value, float):
        if kind == "b32":
            return np.float32(value).tobytes()
        if kind == "b64":
            return np.float64(value).tobytes()
        raise refuse("an integer")
    number = int(value)
    if not -(1 << (8 * size - 1)) <= number < 1 << (8 * size):
        raise LaunchError(
            f"expected a {size}-byte integer for parameter {parameter.name}, got {number}"
        )
    return (number & ((1 << (8 * size)) - 1)).to_bytes(size, "little")
