"""How a part of a program is solved, and what comes out."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from mirage.cost.target import Target
from mirage.pipeline.deadline import Deadline
from mirage.pipeline.verify import Checked
from mirage.search import SearchLimits, SearchResult, Watch
from mirage.semantics.alternatives import Alternatives, VerdictNote
from mirage.semantics.decompose import decompose
from mirage.semantics.ugraph import KernelGraph
from mirage.transforms import Exponential
from mirage.verify import VerifyOptions
from mirage.verify.pieces.ledger import Ledger

OWN_OPS = VerdictNote("proved", 0, "the program's own ops, each a kernel of its own")


@dataclass(frozen=True)
class PartOptions:
    """How to solve a part: ``wanted`` candidates are verified of those found within ``limits``, or
    fewer, once ``enough`` of them are accepted. ``portion`` is the part's share of the program;
    ``stored`` says whether what is known of pieces on disk counts. ``answered`` is called once
    a first answer was verified."""

    target: Target
    limits: SearchLimits
    wanted: int
    enough: int
    verify: VerifyOptions
    deadline: Deadline
    ledger: Ledger
    portion: float = 1.0
    stored: bool = False
    executor: Executor | None = None
    watch_search: Watch | None = None
    watch_verdict: Callable[[Checked], None] | None = None
    say: Callable[[str], None] = lambda text: None
    timed: Callable[[str], AbstractContextManager[None]] = lambda phase: nullcontext()
    answered: Callable[[], None] = lambda: None


@dataclass
class SolvedPart:
    """A part's programs in each form, with what was found out on the way. ``exponentials`` and
    ``checked`` have an entry for each candidate of ``search`` that was verified."""

    candidates: Alternatives
    stabilized: Alternatives
    verified: Alternatives
    search: SearchResult
    exponentials: tuple[tuple[Exponential, ...], ...]
    checked: tuple[Checked, ...]
    fell_back: str = ""
    late: bool = False
    """Whether the time was up before all was done."""


def of_own_ops(graph: KernelGraph) -> Alternatives:
    """A part beside its own ops, each a kernel of its own."""
    programs = (graph, decompose(graph, stable=True))
    return Alternatives(graph.inputs, graph.outputs, programs, (OWN_OPS,), (None, None))
