"""The public interface: parse once, launch as often as needed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np

from mirage.emulator.compiled_kernel import Program
from mirage.emulator.counters import Counters
from mirage.emulator.errors import LaunchError
from mirage.emulator.launch_arguments import ArgumentMemory, aligned, parameters_of
from mirage.emulator.launch_limits import Limits
from mirage.emulator.launch_order import Waits
from mirage.emulator.machine.exit_checks import check_exit
from mirage.emulator.machine.machine import Machine
from mirage.emulator.machine.memory import SHARED_RESERVED
from mirage.emulator.ptx.parser import parse
from mirage.emulator.ptx.syntax import Kernel, Variable

Array = np.ndarray[Any, Any]
Triple = tuple[int, int, int]


@dataclass(frozen=True)
class LaunchResult:
    """The result of a launch; outputs are in the argument arrays."""

    stats: Counters


def _run(program: Program, machine: Callable[..., Machine], numbers: Array, batch: int) -> None:
    """Run the blocks with these numbers, ``batch`` at a time."""
    for step in program.steps:
        step.count = 0
    try:
        for first in range(0, len(numbers), batch):
            one = machine(numbers=numbers[first : first + batch])
            one.scheduler.run()
            check_exit(one)
    finally:
        program.forget()


class Emulator:
    """A parsed module. Raises PtxSyntaxError or UnknownInstructionError for its text."""

    def __init__(self, ptx: str) -> None:
        self.module = parse(ptx)
        self._programs: dict[str, Program] = {}

    @property
    def kernels(self) -> tuple[str, ...]:
        """The names of the entries."""
        return tuple(self.module.kernels)

    def starts_next_first(self, name: str) -> bool:
        """Return whether a kernel lets the next grid start before it waits for earlier ones."""
        body = self.module.kernels[name].body
        forms = [i.modifiers[0] for i in body if i.opcode == "griddepcontrol"]
        return forms[:1] == ["launch_dependents"] and "wait" in forms

    def program(self, name: str) -> Program:
        """Return the compiled kernel; unknown instructions are found here."""
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
        waits: Waits = Waits.NOWHERE,
    ) -> LaunchResult:
        """Run a kernel to the end.

        grid, block, cluster: up to three extents, x first; `shared_bytes`: dynamic shared memory.
        `only`: numbers of clusters (of blocks, if a cluster is one block), x fastest; others do not
        run. `waits`: where the kernel has to wait for earlier grids.
        args: see the package. checks=False leaves out races, waits, fences and initialisation;
        stats=False leaves out sectors, bank conflicts and bytes in flight.
        Raises a subclass of EmulatorError."""
        program = self.program(name)
        limits = limits or Limits()
        kernel = program.kernel
        grid3, block3 = _triple("grid", grid), _triple("block", block)
        cluster3 = _triple("cluster", cluster)
        _check_shape(kernel, grid3, block3, cluster3)
        memory = ArgumentMemory()
        with np.errstate(all="ignore"):
            self._place_globals(memory)
            parameters, maps = parameters_of(kernel, args, memory)
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
                waits=waits,
            )
            _run(program, machine, numbers, batch)
            _summarise(counters, program, size - SHARED_RESERVED, total, block3)
        return LaunchResult(counters)

    def _place_globals(self, memory: ArgumentMemory) -> None:
        for variable in self.module.variables:
            if variable.space not in ("global", "const"):
                continue
            data = np.zeros(max(variable.bytes, 1), np.uint8)
            if variable.initial is not None:
                data[: len(variable.initial)] = np.frombuffer(variable.initial, np.uint8)
            variable.address = memory.globals.add(f"variable {variable.name}", data).base

    def _place_shared(self, kernel: Kernel, dynamic: int, limits: Limits) -> int:
        """Place static variables first, then the dynamic ones, which all start at one address."""
        everything = [*self.module.variables, *kernel.variables]
        names = {v.name for v in everything if v.space == "shared"}
        used = [v for v in everything if v.name in names and v.space == "shared"]
        end = SHARED_RESERVED
        fixed = [v for v in used if not v.extern]
        for variable in fixed:
            end = aligned(end, variable.align)
            variable.address = end
            end += variable.bytes
        dynamics: list[Variable] = [v for v in used if v.extern]
        if dynamics:
            end = aligned(end, max(v.align for v in dynamics))
            for variable in dynamics:
                variable.address = end
        elif dynamic:
            end = aligned(end, 16)
        size = end + dynamic
        if dynamic < 0 or size - SHARED_RESERVED > limits.max_shared_bytes:
            raise LaunchError(
                f"expected at most {limits.max_shared_bytes} bytes of shared memory, "
                f"got {size - SHARED_RESERVED} ({dynamic} of them dynamic)"
            )
        return size


def _chosen(grid: Triple, cluster: int, only: Sequence[int] | None) -> Array:
    """Return the numbers of the blocks that run, with those of a cluster adjacent."""
    total = grid[0] * grid[1] * grid[2]
    if only is None:
        return np.arange(total)
    if any(not 0 <= c < total // cluster for c in only):
        raise LaunchError(
            f"expected numbers of clusters below {total // cluster} to run, got {list(only)}"
        )
    first = np.unique(np.asarray(only, np.int64)) * cluster
    return (first[:, None] + np.arange(cluster)).ravel()


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
    """Return how many blocks run in parallel, a multiple of the cluster size."""
    warps = -(-(block[0] * block[1] * block[2]) // 32)
    registers = sum(r.bytes for r in program.kernel.registers)
    one = warps * 32 * (registers + 2 * program.local_bytes) + shared
    if checks:
        readers = warps * cluster * (1 + len(program.features & {"bulk_store", "wgmma"}))
        one += shared // program.shared_granule * (10 + 4 * readers)
    count = max(1, limits.max_resident_bytes // max(one, 1) // cluster)
    return min(total, count * cluster)


def _summarise(
    counters: Counters, program: Program, shared: int, blocks: int, block: Sequence[int]
) -> None:
    counters.blocks, counters.warps = blocks, blocks * -(-int(np.prod(block)) // 32)
    for step in program.steps:
        if step.count:
            kinds = counters.instructions_by_class
            kinds[step.kind] = kinds.get(step.kind, 0) + step.count
    counters.declared_registers = dict(program.kernel.declared)
    counters.live_registers = program.live_registers
    counters.shared_bytes = shared


_KEPT = 4
_IDLE: dict[str, Emulator] = {}
_LOCK = Lock()


@contextmanager
def emulator_of(ptx: str) -> Generator[Emulator]:
    """Yield the emulator of a text. If the text was among the last ones that ran, its parsed and
    compiled emulator is reused. Nothing else uses it inside of the ``with`` block, and it is not
    reused after an exception."""
    with _LOCK:
        emulator = _IDLE.pop(ptx, None)
    emulator = emulator or Emulator(ptx)
    yield emulator
    with _LOCK:
        _IDLE[ptx] = emulator
        while len(_IDLE) > _KEPT:
            del _IDLE[next(iter(_IDLE))]
