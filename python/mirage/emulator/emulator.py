"""The public entry: parse once, launch as often as needed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mirage.emulator.compiled_kernel import Program
from mirage.emulator.counters import Counters
from mirage.emulator.errors import LaunchError, OutOfBoundsError
from mirage.emulator.launch_limits import Limits
from mirage.emulator.machine.machine import Machine
from mirage.emulator.machine.memory import SHARED_RESERVED, Allocation, GlobalMemory
from mirage.emulator.ptx.parser import parse
from mirage.emulator.ptx.syntax import Kernel, Parameter, Variable
from mirage.emulator.tensor_map import TensorMap

Array = np.ndarray[Any, Any]
Triple = tuple[int, int, int]


@dataclass(eq=False)
class Uninitialised:
    """An argument whose contents kernels must not read before they wrote them.

    The first launch fills the array with NaN poison. `written` is a bool for each byte of the
    memory that the array is part of; a later launch with the same object goes on from there.
    """

    array: Array
    written: Array | None = None

    @property
    def unwritten(self) -> int:
        """Bytes of the array that no launch has written."""
        if self.written is None:
            return self.array.nbytes
        view = self.written_bytes()
        return int(view.size - np.count_nonzero(view))

    def written_bytes(self) -> Array:
        """Which bytes of the array a launch has written: the array's shape, then bytes."""
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


@dataclass(frozen=True)
class LaunchResult:
    """What a launch returns; results are in the argument arrays."""

    stats: Counters


class _Memory:
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
        """Address of the first element; the allocation spans the elements of the base array."""
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
    """The array whose memory this is a view of."""
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    low, high = np.lib.array_utils.byte_bounds(root)
    return root if low <= array.ctypes.data <= high else array


def memory_of(array: Array) -> Array:
    """The memory that an array's elements span, as bytes [size]; writes go through."""
    if array.flags.c_contiguous:
        return array.reshape(-1).view(np.uint8)
    low, high = np.lib.array_utils.byte_bounds(array)
    if array.ctypes.data != low:
        raise LaunchError("expected arrays with non-negative strides, got a negative one")
    first = array[tuple(slice(0, 1) for _ in array.shape)].reshape(-1).view(np.uint8)
    return np.lib.stride_tricks.as_strided(first, (high - low,), (1,))


def _run(program: Program, machine: Callable[..., Machine], numbers: Array, batch: int) -> None:
    """Runs the blocks of these numbers, ``batch`` at a time."""
    for step in program.steps:
        step.count = 0
    try:
        for first in range(0, len(numbers), batch):
            one = machine(numbers=numbers[first : first + batch])
            one.scheduler.run()
            one.check_exit()
    finally:
        program.forget()


class Emulator:
    """A parsed module. Raises PtxSyntaxError or UnknownInstructionError for its text."""

    def __init__(self, ptx: str) -> None:
        self.module = parse(ptx)
        self._programs: dict[str, Program] = {}

    @property
    def kernels(self) -> tuple[str, ...]:
        """Names of the entries."""
        return tuple(self.module.kernels)

    @staticmethod
    def uninitialised(array: Array) -> Uninitialised:
        """See `Uninitialised`."""
        return Uninitialised(array)

    def program(self, name: str) -> Program:
        """The compiled kernel; unknown instructions are found here."""
        if name not in self._programs:
            kernel = self.module.kernels.get(name)
            if kernel is None:
                raise LaunchError(f"expected a kernel of {list(self.kernels)}, got {name!r}")
            self._programs[name] = Program(kernel)
        return self._programs[name]

    def launch(
        self,
        name: str,
        *,
        grid: Sequence[int],
        block: Sequence[int],
        args: Sequence[Any],
        shared_bytes: int = 0,
        cluster: Sequence[int] = (1, 1, 1),
        limits: Limits | None = None,
        checks: bool = True,
        stats: bool = True,
        only: Sequence[int] | None = None,
    ) -> LaunchResult:
        """Runs a kernel to the end.

        grid, block, cluster: up to three extents, x first; `shared_bytes`: dynamic shared memory.
        `only`: numbers of clusters (of blocks, where a cluster is one), x fastest; others do not
        run.
        args: see the package. checks=False leaves out races, waits, fences and initialisation;
        stats=False leaves out sectors, bank conflicts and bytes in flight.
        Raises a subclass of EmulatorError.
        """
        program = self.program(name)
        limits = limits or Limits()
        kernel = program.kernel
        grid3, block3 = _triple("grid", grid), _triple("block", block)
        cluster3 = _triple("cluster", cluster)
        _check_shape(kernel, grid3, block3, cluster3)
        memory = _Memory()
        with np.errstate(all="ignore"):
            self._place_globals(memory)
            parameters, maps = _parameters(kernel, args, memory)
            size = self._place_shared(kernel, shared_bytes, limits)
            memory.globals.order.granule = program.global_granule
            counters = Counters(kernel=name)
            clusters = cluster3[0] * cluster3[1] * cluster3[2]
            numbers = _chosen(grid3, clusters, only)
            total = len(numbers)
            batch = _batch(program, block3, clusters, size, limits, total, checks=checks)
            machine = functools.partial(
                Machine,
                program,
                grid=grid3,
                block=block3,
                cluster=cluster3,
                shared_bytes=size,
                dynamic_bytes=shared_bytes,
                memory=memory.globals,
                parameters=parameters,
                tensor_maps=maps,
                limits=limits,
                checks=checks,
                stats=stats,
                counters=counters,
            )
            _run(program, machine, numbers, batch)
            counters.blocks, counters.warps = total, total * -(-int(np.prod(block3)) // 32)
            _summarise(counters, program, size - SHARED_RESERVED)
        return LaunchResult(counters)

    def _place_globals(self, memory: _Memory) -> None:
        for variable in self.module.variables:
            if variable.space not in ("global", "const"):
                continue
            data = np.zeros(max(variable.bytes, 1), np.uint8)
            if variable.initial is not None:
                data[: len(variable.initial)] = np.frombuffer(variable.initial, np.uint8)
            variable.address = memory.globals.add(f"variable {variable.name}", data).base

    def _place_shared(self, kernel: Kernel, dynamic: int, limits: Limits) -> int:
        """Static variables first, then the dynamic ones, which all start at one place."""
        everything = [*self.module.variables, *kernel.variables]
        names = {v.name for v in everything if v.space == "shared"}
        used = [v for v in everything if v.name in names and v.space == "shared"]
        end = SHARED_RESERVED
        fixed = [v for v in used if not v.extern]
        for variable in fixed:
            end = _align(end, variable.align)
            variable.address = end
            end += variable.bytes
        dynamics: list[Variable] = [v for v in used if v.extern]
        if dynamics:
            end = _align(end, max(v.align for v in dynamics))
            for variable in dynamics:
                variable.address = end
        elif dynamic:
            end = _align(end, 16)
        size = end + dynamic
        if dynamic < 0 or size - SHARED_RESERVED > limits.max_shared_bytes:
            raise LaunchError(
                f"expected at most {limits.max_shared_bytes} bytes of shared memory, "
                f"got {size - SHARED_RESERVED} ({dynamic} of them dynamic)"
            )
        return size


def _chosen(grid: Triple, cluster: int, only: Sequence[int] | None) -> Array:
    """The numbers of the blocks that run, those of a cluster side by side."""
    total = grid[0] * grid[1] * grid[2]
    if only is None:
        return np.arange(total)
    if any(not 0 <= c < total // cluster for c in only):
        raise LaunchError(
            f"expected numbers of clusters below {total // cluster} to run, got {list(only)}"
        )
    first = np.unique(np.asarray(only, np.int64)) * cluster
    return (first[:, None] + np.arange(cluster)).ravel()


def _align(value: int, align: int) -> int:
    return -(-value // align) * align


def _triple(what: str, value: Sequence[int]) -> Triple:
    extents = [int(v) for v in value]
    if not 1 <= len(extents) <= 3 or any(v < 1 for v in extents):
        raise LaunchError(f"expected 1 to 3 positive extents as {what}, got {tuple(value)}")
    x, y, z = [*extents, 1, 1][:3]
    return (x, y, z)


def _check_shape(kernel: Kernel, grid: Triple, block: Triple, cluster: Triple) -> None:
    threads = block[0] * block[1] * block[2]
    if threads > 1024:
        raise LaunchError(f"expected at most 1024 threads in a block, got {threads}")
    if any(g % c for g, c in zip(grid, cluster, strict=True)):
        raise LaunchError(
            f"expected a grid that is a multiple of the cluster {cluster}, got {grid}"
        )
    if cluster[0] * cluster[1] * cluster[2] > 16:
        raise LaunchError(f"expected at most 16 blocks in a cluster, got {cluster}")
    required = kernel.directives.get("reqntid")
    if required and (*required, 1, 1)[:3] != block:
        raise LaunchError(f"expected block {required} (.reqntid), got {block}")
    most = kernel.directives.get("maxntid")
    if most and threads > int(np.prod(most)):
        raise LaunchError(
            f"expected at most {int(np.prod(most))} threads (.maxntid), got {threads}"
        )
    wanted = kernel.directives.get("reqnctapercluster")
    if wanted and (*wanted, 1, 1)[:3] != cluster:
        raise LaunchError(f"expected cluster {wanted} (.reqnctapercluster), got {cluster}")


def _batch(
    program: Program,
    block: Triple,
    cluster: int,
    shared: int,
    limits: Limits,
    total: int,
    *,
    checks: bool,
) -> int:
    """How many blocks run side by side, a multiple of the cluster."""
    warps = -(-(block[0] * block[1] * block[2]) // 32)
    registers = sum(r.bytes for r in program.kernel.registers)
    one = warps * 32 * (registers + 2 * program.local_bytes) + shared
    if checks:
        readers = warps * cluster * (1 + len(program.features & {"bulk_store", "wgmma"}))
        one += shared // program.shared_granule * (10 + 4 * readers)
    count = max(1, limits.max_resident_bytes // max(one, 1) // cluster)
    return min(total, count * cluster)


def _parameters(
    kernel: Kernel, args: Sequence[Any], memory: _Memory
) -> tuple[Array, dict[int, TensorMap]]:
    declared = kernel.parameters
    if len(args) != len(declared):
        names = ", ".join(p.name for p in declared)
        raise LaunchError(f"expected {len(declared)} arguments ({names}), got {len(args)}")
    end = max((p.offset + p.bytes for p in declared), default=0)
    raw = np.zeros(_align(end, 16), np.uint8)
    maps: dict[int, TensorMap] = {}
    for parameter, value in zip(declared, args, strict=True):
        data = _encode(parameter, value, memory, maps)
        raw[parameter.offset : parameter.offset + parameter.bytes] = np.frombuffer(data, np.uint8)
    return raw, maps


def _encode(parameter: Parameter, value: Any, memory: _Memory, maps: dict[int, TensorMap]) -> bytes:
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


def _summarise(counters: Counters, program: Program, shared: int) -> None:
    for step in program.steps:
        if step.count:
            kinds = counters.instructions_by_class
            kinds[step.kind] = kinds.get(step.kind, 0) + step.count
    counters.declared_registers = dict(program.kernel.declared)
    counters.live_registers = program.live_registers
    counters.shared_bytes = shared
