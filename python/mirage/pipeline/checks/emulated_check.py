"""Compiled kernels, run in the emulator and compared with their meaning.

The emulator runs a few blocks of each kernel's final PTX, at its real sizes, with all of its
checks. Their results are compared with the verified µGraph, evaluated in float64. Nothing is
compiled again, so the checked code is the code that will run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from mirage.cost.copy_kernels import unfused_in
from mirage.emulator.emulator import emulator_of
from mirage.emulator.errors import (
    EmulatorError,
    InstructionBudgetError,
    LaunchError,
    PtxSyntaxError,
    UnknownInstructionError,
)
from mirage.emulator.launch_arguments import Dependent
from mirage.emulator.launch_limits import Limits
from mirage.emulator.launch_order import Waits
from mirage.emulator.run_artifact import early_kernels, waits_of
from mirage.pipeline.checks.kernel_check import KernelCheck, Outcome
from mirage.pipeline.checks.kernel_memory import (
    KernelMemory,
    RowStore,
    UnknownArgumentsError,
    memory_for,
)
from mirage.pipeline.checks.kernel_values import WrongValueError, compare
from mirage.pipeline.result import Step
from mirage.runtime.serialization.artifact import Artifact
from mirage.runtime.serialization.kernels_beside import written_meanwhile
from mirage.runtime.serialization.manifest import KernelLaunch
from mirage.semantics.row_updates import row_parts, row_updates
from mirage.semantics.ugraph import KernelGraph, Op, launches

WORK = 60_000
"""The warp-instructions of a kernel that the emulator executes: the limit for one block; further
blocks run as long as the total stays below it (about a second)."""
SHARED = 4
"""The factor on the limit for the blocks of a cluster that share the work of one."""
BYTES = 1 << 30
"""The most bytes of a kernel's tensors."""


EMULATOR = "in the emulator"


def kernel_ops(graph: KernelGraph) -> list[Op]:
    """Return the ops of a µGraph that are kernels, in the order of an artifact's launches:
    launches, and ops that become a kernel each."""
    written = {*launches(graph.ops), *unfused_in(graph)}
    return [op for op in graph.ops if op in written]


def unchecked(step: Step, why: str) -> list[KernelCheck]:
    """Return checks of a step's kernels that say that none was run."""
    assert step.compiled is not None
    return [left_unchecked(k, why) for k in step.compiled.artifact.manifest.kernels]


def left_unchecked(kernel: KernelLaunch, why: str) -> KernelCheck:
    """Return a check that says that a kernel was not run."""
    return KernelCheck(kernel.entry, EMULATOR, Outcome.UNCHECKED, why)


def row_stores(graph: KernelGraph, op: Op) -> tuple[RowStore, ...]:
    """Return the results that a kernel stores to inputs of the graph."""
    found: list[RowStore] = []
    made = {v: inner for inner in graph.ops for v in inner.results}
    for copy in row_updates(graph):
        found.extend(
            RowStore(op.results.index(part.computed), copy, part)
            for part in row_parts(copy, made)
            if part.computed in op.results
        )
    return tuple(found)


class TooLargeError(Exception):
    """A kernel that the emulator does not run at its real sizes; the message says why."""


def emulated(
    op: Op, kernel: KernelLaunch, artifact: Artifact, stores: Sequence[RowStore] = ()
) -> KernelCheck:
    """Return the result of :func:`at_real_sizes`; kernels that are too large are not checked."""
    try:
        return at_real_sizes(op, kernel, artifact, stores)
    except TooLargeError as error:
        return left_unchecked(kernel, str(error))


def tensor_bytes(op: Op) -> int:
    """Return the bytes of all operands and results."""
    return sum(v.type.size * v.dtype.numpy.itemsize for v in (*op.operands, *op.results))


def at_real_sizes(
    op: Op, kernel: KernelLaunch, artifact: Artifact, stores: Sequence[RowStore] = ()
) -> KernelCheck:
    """Check a few blocks of ``kernel``, which computes ``op`` and stores results as ``stores``
    says, in the emulator. Raises :class:`TooLargeError`."""
    size = tensor_bytes(op)
    if size > BYTES:
        raise TooLargeError(f"its tensors have {size:,} bytes, more than {BYTES:,}")
    found = _attempt(op, kernel, artifact, stores, positive=False)
    if found.outcome is Outcome.UNCHECKED:  # roots and logarithms need positive numbers
        again = _attempt(op, kernel, artifact, stores, positive=True)
        found = found if again.outcome is Outcome.UNCHECKED else again
    return found


def _attempt(
    op: Op, kernel: KernelLaunch, artifact: Artifact, stores: Sequence[RowStore], *, positive: bool
) -> KernelCheck:
    def said(outcome: Outcome, text: str) -> KernelCheck:
        return KernelCheck(kernel.entry, EMULATOR, outcome, text)

    total = _clusters(kernel)
    blocks: list[int] = []
    try:
        kernel, memory, work = _last_block(op, kernel, artifact, stores, positive=positive)
        total = _clusters(kernel)
        blocks = [total - 1, *_others(total, WORK // work - 1)]
        if blocks[1:]:
            work += _run(kernel, artifact, memory, blocks[1:], 2 * WORK)
        compared = compare(op, memory, sum(_positions(op, kernel, b) for b in blocks))
    except InstructionBudgetError:
        what = "the blocks of a row are" if _shares(op, kernel) else "one block is"
        raise TooLargeError(
            f"{what} more than {_most_work(op, kernel):,} warp-instructions"
        ) from None
    except (UnknownInstructionError, PtxSyntaxError, LaunchError, UnknownArgumentsError) as error:
        return said(Outcome.UNCHECKED, str(error).splitlines()[0])
    except (EmulatorError, WrongValueError) as error:
        return said(Outcome.FAILED, str(error))
    if not compared:
        return said(
            Outcome.UNCHECKED, "what its blocks compute is undefined, or rounding decides it"
        )
    return said(
        Outcome.PASSED,
        f"{'blocks' if _together(kernel) == 1 else 'clusters'} "
        f"{', '.join(map(str, sorted(blocks)))} of {total:,}, {compared:,} elements, "
        f"{work:,} warp-instructions",
    )


def _last_block(
    op: Op, kernel: KernelLaunch, artifact: Artifact, stores: Sequence[RowStore], *, positive: bool
) -> tuple[KernelLaunch, KernelMemory, int]:
    """Run the last block, or cluster of blocks. Return its launch, its memory and its
    warp-instructions.

    If blocks compute several positions of the grid, the number of blocks may be any. Here it is
    chosen so that each block has two positions, or one if two take too much work."""
    total, together = prod(kernel.grid), _together(kernel)
    numbers = [total]
    if (positions := _shared_positions(op)) is not None:
        numbers = [max(total, prod(with_two_each(op, kernel).grid)), positions]
    for blocks in numbers:
        launch = kernel if blocks == total else replace(kernel, grid=(blocks, 1, 1))
        rng, size = np.random.default_rng(total), artifact.manifest.size
        memory = memory_for(op, kernel, rng, positive=positive, size=size, stores=stores)
        try:
            most = _most_work(op, kernel)
            return launch, memory, _run(launch, artifact, memory, (blocks // together - 1,), most)
        except InstructionBudgetError:
            if blocks == numbers[-1]:
                raise
    raise AssertionError("expected a number of blocks")


def with_two_each(op: Op, kernel: KernelLaunch) -> KernelLaunch:
    """If blocks compute several positions of the grid, return the launch with so few blocks that
    each has two positions."""
    positions, together = _shared_positions(op), _together(kernel)
    if positions is None:
        return kernel
    return replace(kernel, grid=(-(-positions // (2 * together)) * together, 1, 1))


def _together(kernel: KernelLaunch) -> int:
    """Return the number of blocks in a cluster."""
    return prod(kernel.cluster or (1, 1, 1))


def _clusters(kernel: KernelLaunch) -> int:
    """Return the number of clusters of a launch; without clusters, of its blocks."""
    return prod(kernel.grid) // _together(kernel)


def _positions(op: Op, kernel: KernelLaunch, cluster: int) -> int:
    """Return the number of grid positions that the blocks of a cluster compute."""
    positions, together = _shared_positions(op), _together(kernel)
    if _shares(op, kernel):
        return 1
    if positions is None:
        return together * _packed(op, kernel)
    blocks = range(cluster * together, (cluster + 1) * together)
    return sum(len(range(block, positions, prod(kernel.grid))) for block in blocks)


def _shares(op: Op, kernel: KernelLaunch) -> bool:
    """Return whether the blocks of a cluster share the work of one position of the grid."""
    return _together(kernel) > 1 and not any(x.schedule.warpgroups for x in launches((op,)))


def _most_work(op: Op, kernel: KernelLaunch) -> int:
    """Return the most warp-instructions of a block, or of the blocks of a cluster."""
    return WORK * SHARED if _shares(op, kernel) else WORK


def _packed(op: Op, kernel: KernelLaunch) -> int:
    """Return the number of grid positions that each block computes because several are packed."""
    launch = next(launches((op,)), None)
    positions = 0 if launch is None else prod(axis.extent for axis in launch.grid)
    return max(1, positions // prod(kernel.grid))


def _shared_positions(op: Op) -> int | None:
    """Return the number of positions of a grid whose blocks each compute several, or None."""
    launch = next(launches((op,)), None)
    if launch is None or not launch.schedule.resident:
        return None
    return prod(axis.extent for axis in launch.grid)


def _others(count: int, most: int) -> list[int]:
    """Return the blocks to run besides the last one, which has the tails and masks: the first, and
    one in between."""
    between = int(np.random.default_rng(count).integers(0, count))
    return list(dict.fromkeys(b for b in (0, between) if b != count - 1))[: max(0, most)]


def _run(
    kernel: KernelLaunch,
    artifact: Artifact,
    memory: KernelMemory,
    blocks: Sequence[int],
    most: int,
) -> int:
    """Run some blocks and return the number of warp-instructions. Memory that other kernels may
    still write when this one starts is absent until it has waited for them. The same holds for its
    own memory, which they may still use."""
    early = early_kernels(artifact)
    waits = waits_of(kernel, early)
    absent = written_meanwhile(artifact.manifest, kernel.entry, early) | set(kernel.writes)
    args = [
        Dependent(a)
        if waits is not Waits.NOWHERE
        and not kernel.beside
        and number in absent
        and isinstance(a, np.ndarray)
        else a
        for number, a in enumerate(memory.arguments)
    ]
    with emulator_of(artifact.ptx(kernel.module)) as emulator:
        ran = emulator.launch(
            kernel.entry,
            grid=kernel.grid,
            block=kernel.block,
            cluster=kernel.cluster or (1, 1, 1),
            shared_bytes=kernel.shared_bytes,
            args=args,
            limits=Limits(max_instructions=most),
            stats=False,
            only=blocks,
            waits=waits,
        )
    return ran.stats.instructions
