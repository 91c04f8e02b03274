"""Kernels that work while those before them run (``KernelLaunch.beside``).

Such a kernel may not touch memory that one of the others writes, and they may not touch memory that
it writes. The check uses only the places in memory that the manifest states, so it covers the
dependences of the program as well as the plan of the workspace.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from typing import TypeAlias

from mirage.runtime.serialization.manifest import KernelLaunch, Manifest

_Range: TypeAlias = tuple[str, int, int]
"""Memory: a space, and the first and last byte offset."""


def conflicts(manifest: Manifest) -> Iterator[str]:
    """Describe the kernels that cannot run at the same time as the number of kernels that the
    manifest states."""
    before = 0
    for number, kernel in enumerate(manifest.kernels):
        running, before = before + 1, kernel.beside
        if not kernel.beside:
            continue
        if not kernel.dependent or kernel.beside != running or kernel.beside > number:
            yield (
                f"kernel {number}: expected beside 0, or {min(running, number)} of a dependent "
                f"kernel, got {kernel.beside}"
            )
            continue
        for other in range(number - kernel.beside, number):
            if shared := _shared(manifest, kernel, manifest.kernels[other]):
                yield (
                    f"kernels {other} and {number} may run at once: expected no memory in common "
                    f"that one of them writes, got {shared}"
                )


def written_meanwhile(manifest: Manifest, entry: str, early: Container[str] = ()) -> set[int]:
    """Return the arguments of a kernel whose memory others may still write when it starts, in any
    of its launches. These others are the previous kernel, and those that run at the same time as
    that one. If the previous kernel is one of the ``early`` ones, which let the next kernel start
    before they wait themselves, they also include the kernels for which it waits. Before the first
    kernel of a program, others may write anything."""
    found: set[int] = set()
    for number, kernel in enumerate(manifest.kernels):
        if kernel.entry != entry or not kernel.dependent:
            continue
        arguments = range(len(kernel.arguments))
        if not number:
            found.update(arguments)
            continue
        first = number - 1
        while (
            first and manifest.kernels[first].entry in early and not manifest.kernels[first].beside
        ):
            first -= 1
        running = manifest.kernels[first - manifest.kernels[first].beside : number]
        written = [m for k in running for m in _memory(manifest, k, k.writes)]
        found.update(
            a
            for a in arguments
            for space, start, end in _memory(manifest, kernel, (a,))
            if any(s == space and start < e and t < end for s, t, e in written)
        )
    return found


def _shared(manifest: Manifest, a: KernelLaunch, b: KernelLaunch) -> str | None:
    """Return a place that both kernels touch and one of them writes."""
    for written, touched in ((a, b), (b, a)):
        all_of = list(_memory(manifest, touched, range(len(touched.arguments))))
        for space, start, end in _memory(manifest, written, written.writes):
            if any(s == space and start < e and t < end for s, t, e in all_of):
                return f"{space} from byte {start}" if space == "workspace" else space
    return None


def _memory(
    manifest: Manifest, kernel: KernelLaunch, numbers: range | tuple[int, ...]
) -> Iterator[_Range]:
    """Yield the memory of some of a kernel's arguments; of inputs and outputs, all of it."""
    for number in numbers:
        a = kernel.arguments[number]
        if a.kind == "workspace":
            buffer = manifest.workspace[a.index]
            yield a.kind, buffer.offset, buffer.offset + buffer.bytes
        elif a.kind != "size":
            yield f"{a.kind} {a.index}", 0, 1
