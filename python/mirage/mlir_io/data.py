"""Facts in IR about a µGraph besides the µGraph itself, and the error for invalid IR."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mirage.errors import OperationError, SourceLocation
from mirage.semantics.ugraph import KernelGraph, Op

if TYPE_CHECKING:
    from mirage import ir


HOLDS = "kernel.holds"
"""The attribute of `kernel.alternatives` with what each candidate's tensors hold
(:class:`~mirage.semantics.alternatives.Holds`)."""


class GraphIOError(OperationError):
    """The IR has no counterpart as data."""


@dataclass(frozen=True)
class InputNote:
    """A fact about a graph's input besides its type: the weight of the imported module that it
    stands for.
    """

    parameter: str | None = None


@dataclass(frozen=True)
class ReadGraph:
    """A `kernel.graph` as data; ``locations`` are MLIR's, for writing back in the same context."""

    graph: KernelGraph
    form: str | None
    locations: Mapping[Op, ir.Location] = field(default_factory=dict[Op, "ir.Location"])
    notes: Mapping[int, InputNote] = field(default_factory=dict[int, InputNote])
    dynamic: tuple[int, tuple[int, ...]] | None = None
    """The largest size of a graph with a dynamic one, and the inputs whose rows it determines."""

    def source(self, op: Op) -> SourceLocation | None:
        """Return the place of ``op`` in the user's program."""
        location = self.locations.get(op)
        return None if location is None else source_of(location)


def source_of(location: ir.Location) -> SourceLocation | None:
    """Return the first file position in an MLIR location."""
    if location.is_a_file():
        return SourceLocation(location.filename, location.start_line)
    if location.is_a_name():
        return source_of(location.child_loc)
    if location.is_a_callsite():
        return source_of(location.callee) or source_of(location.caller)
    if location.is_a_fused():
        return next((s for s in map(source_of, location.locations) if s is not None), None)
    return None
