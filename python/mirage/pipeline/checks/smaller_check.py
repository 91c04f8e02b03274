"""Kernels that are too large for the emulator, run at smaller sizes.

The block graph is compiled again with fewer blocks and fewer steps in its loops
(:mod:`mirage.pipeline.checks.smaller_launch`), and this kernel is run in place of the one that is
returned. This checks the code that the compiler generates for these tiles with this schedule,
though not the PTX itself. Both kernels must move data, multiply and wait with the same
instructions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from mirage.compiler import CompileError, CompileOptions, compile_graph
from mirage.pipeline.checks.emulated_check import (
    BYTES,
    EMULATOR,
    emulated,
    tensor_bytes,
    with_two_each,
)
from mirage.pipeline.checks.kernel_check import KernelCheck, Outcome
from mirage.pipeline.checks.smaller_launch import NotSmallerError, smaller
from mirage.runtime.serialization.artifact import Artifact
from mirage.runtime.serialization.manifest import KernelLaunch
from mirage.semantics.check import InvalidGraph, check_graph
from mirage.semantics.ugraph import KernelGraph, Launch, Op, axis_extents, launches

SMALLER = f"{EMULATOR}, at smaller sizes"

_BLOCKS = 3
"""The number of parts along an axis of the grid: the first, one in between, and the last."""
_TELLING = re.compile(
    r"\b(?:cp\.|wgmma|mma\.|ldmatrix|stmatrix|mbarrier|bar(?:rier)?\.|fence|atom|red\.|setmaxnreg"
    r"|(?:ld|st)\.(?:global|shared))[\w.:]*"
)
"""The instructions that move data, multiply and wait."""


def at_smaller_sizes(
    op: Op, kernel: KernelLaunch, artifact: Artifact, options: CompileOptions
) -> KernelCheck | None:
    """Return the check of the kernel ``op`` at sizes that the emulator can run, or None if there
    are none. ``kernel`` of ``artifact`` is the kernel that is returned, and ``options`` are those
    of the compiler."""
    real = next(launches((op,)), None)
    if real is None or artifact.manifest.size is not None:
        return None
    telling = _instructions(artifact.ptx(kernel.module), kernel.entry)
    for launch in _launches(real):
        graph = KernelGraph(
            "kernel", tuple(dict.fromkeys(launch.operands)), (launch,), launch.results
        )
        try:
            check_graph(graph)
            compiled = compile_graph(graph, options).artifact
        except (InvalidGraph, CompileError):
            continue
        (own,) = compiled.manifest.kernels
        if _instructions(compiled.ptx(own.module), own.entry) != telling:
            continue
        check = emulated(launch, with_two_each(launch, own), compiled)
        if check.outcome is not Outcome.UNCHECKED:
            text = f"{_said(real, launch)}: {check.text}"
            return replace(check, kernel=kernel.entry, how=SMALLER, text=text)
    return None


def _launches(launch: Launch) -> Iterator[Launch]:
    """Yield the launch with fewer and fewer parts. With twice as many steps as there are slots for
    tiles, plus one, each slot is reused twice."""
    cluster, stages = launch.schedule.cluster, launch.schedule.stages
    blocks = -(-_BLOCKS // cluster) * cluster
    before = axis_extents(launch)
    grid = {a.name: blocks if a.extent % cluster == 0 else a.extent for a in launch.grid}
    made = [before]
    for steps in (2 * stages + 1, stages + 1, 2):
        if not launch.schedule.warpgroups:  # the blocks of a cluster share the steps
            steps = -(-steps // cluster) * cluster
        try:
            small = smaller(launch, dict.fromkeys(before, steps) | grid)
        except NotSmallerError:
            continue
        after = axis_extents(small)
        fewer_steps = any(after[a] < n for a, n in before.items() if a not in grid)
        if after not in made and (fewer_steps or tensor_bytes(launch) > BYTES):
            made.append(after)
            yield small


def _instructions(ptx: str, entry: str) -> frozenset[str]:
    """Return the instructions of a kernel that must be the same at both sizes."""
    start = re.search(rf"\.entry\s+{re.escape(entry)}\b", ptx)
    assert start is not None
    body = ptx[start.end() :].split(".entry", 1)[0]
    return frozenset(_TELLING.findall(body))


def _said(launch: Launch, small: Launch) -> str:
    before, after = axis_extents(launch), axis_extents(small)
    return ", ".join(
        f"{after[a]} of {n:,} parts along {a}" for a, n in before.items() if after[a] < n
    )
