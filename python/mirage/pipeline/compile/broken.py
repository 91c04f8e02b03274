"""The kernels of a program that do not compile.

The compiler reports where in its input it failed, and so which kernels failed. If it does not,
halves of the kernels are compiled until the kernels that fail alone are found.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Sequence

from mirage.compiler.errors import CompileError
from mirage.semantics.signature import signature
from mirage.semantics.ugraph import KernelGraph, Launch, launches


class NoTimeError(Exception):
    """There is no time to compile the kernels in question."""


class BrokenKernelsError(CompileError):
    """A program does not compile; ``keys`` identify the kernels that are known to be the cause."""

    def __init__(self, message: str, keys: frozenset[str] = frozenset()) -> None:
        super().__init__(message)
        self.keys = keys


def key_of(launch: Launch) -> str:
    """Return a key that is equal for kernels that compile to the same code."""
    return signature(group_of([launch]))


def broken_in(graph: KernelGraph, error: CompileError) -> BrokenKernelsError:
    """Return the error for a part (its lookups computed) that does not compile, with the kernels
    that cause it."""
    kernels = list(launches(graph.ops))
    numbers = (n for n in error.kernels if n < len(kernels))
    return BrokenKernelsError(error.message, frozenset(key_of(kernels[n]) for n in numbers))


def broken_kernels(
    kernels: Sequence[Launch], named: Collection[str], compiles: Callable[[KernelGraph], bool]
) -> set[int]:
    """Return the numbers of those ``kernels`` (their lookups computed) that do not compile. Only
    the ``named`` ones are considered if there are any; otherwise all are. Equal kernels are
    compiled once. If ``compiles`` raises :class:`NoTimeError`, the kernels that are known by then
    are returned."""
    keys = [key_of(launch) for launch in kernels]
    wrong = {key for key in keys if key in named}
    if not wrong:
        different = dict(zip(keys, kernels, strict=True))
        found: list[Launch] = []
        with contextlib.suppress(NoTimeError):
            _failing(list(different.values()), compiles, found)
        wrong = set(map(key_of, found))
    return {number for number, key in enumerate(keys) if key in wrong}


def group_of(kernels: Sequence[Launch]) -> KernelGraph:
    """Return a program of some kernels that returns all of their results."""
    made = {v: None for launch in kernels for v in launch.results}
    read = dict.fromkeys(v for launch in kernels for v in launch.operands if v not in made)
    return KernelGraph("kernels", tuple(read), tuple(kernels), tuple(made))


def _failing(
    kernels: Sequence[Launch],
    compiles: Callable[[KernelGraph], bool],
    found: list[Launch],
    known: bool = True,
) -> None:
    """Add the kernels that do not compile to ``found``. ``known`` says that at least one of them,
    together with others, does not."""
    alone = len(kernels) < 2  # errors of the other ops of a group are not a kernel's fault
    if not kernels or ((alone or not known) and compiles(group_of(kernels))):
        return
    if alone:
        found.extend(kernels)
        return
    half, before = len(kernels) // 2, len(found)
    _failing(kernels[:half], compiles, found, known=False)
    _failing(kernels[half:], compiles, found, known=len(found) == before)
