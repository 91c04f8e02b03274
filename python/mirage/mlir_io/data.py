"""What the `kernel` dialect has beyond :mod:`mirage.semantics.ugraph`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mirage.errors import SourceLocation
from mirage.passes.registry import PassError
from mirage.semantics.ugraph import KernelGraph, Op

if TYPE_CHECKING:
    from mirage import ir


HOLDS = "kernel.holds"
"""The attribute of `kernel.alternatives` with :class:`Holds` of each candidate."""


class GraphIOError(PassError):
    """IR that has no counterpart as data; ``op`` is the operation."""


@dataclass(frozen=True)
class VerdictNote:
    """`#kernel.verdict`: ``kind`` as in ``mirage.verify.Kind``, the bound as a base-2 logarithm
    rounded up.
    """

    kind: str
    bound_log2: int = 0
    evidence: str | None = None


@dataclass(frozen=True)
class Holds:
    """What the tensors of a candidate are said to hold: a hint for verification.

    Each triple has the number of a value of the program that was searched (the results of its ops,
    counted), and the number of an op of the candidate with that of its result, which has the same
    elements in row-major order. ``stable`` says with which decomposition of softmax the program was
    searched."""

    stable: bool
    places: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True, eq=False)
class Alternatives(Op):
    """`kernel.alternatives`: programs that are claimed to be equivalent, the reference first.

    Each program's inputs stand for the operands. ``verdicts`` has one entry for each candidate,
    ``costs`` (µs) one for each program, None (in the IR -1) where there is no prediction,
    ``holds`` one for each candidate."""

    programs: tuple[KernelGraph, ...]
    verdicts: tuple[VerdictNote, ...] | None = None
    costs: tuple[float | None, ...] | None = None
    holds: tuple[Holds, ...] | None = None


@dataclass(frozen=True)
class InputNote:
    """What a graph's input is besides its type: the weight of the imported module that it stands
    for.
    """

    parameter: str | None = None


@dataclass(frozen=True)
class ReadGraph:
    """A `kernel.graph` as data; ``locations`` are MLIR's, for writing back in the same context."""

    graph: KernelGraph
    form: str | None
    locations: Mapping[Op, ir.Location] = field(default_factory=dict[Op, "ir.Location"])
    notes: Mapping[int, InputNote] = field(default_factory=dict[int, InputNote])

    def source(self, op: Op) -> SourceLocation | None:
        """Where ``op`` stands in the user's program."""
        location = self.locations.get(op)
        return None if location is None else source_of(location)


def source_of(location: ir.Location) -> SourceLocation | None:
    """The first file position in an MLIR location."""
    if location.is_a_file():
        return SourceLocation(location.filename, location.start_line)
    if location.is_a_name():
        return source_of(location.child_loc)
    if location.is_a_callsite():
        return source_of(location.callee) or source_of(location.caller)
    if location.is_a_fused():
        return next((s for s in map(source_of, location.locations) if s is not None), None)
    return None
