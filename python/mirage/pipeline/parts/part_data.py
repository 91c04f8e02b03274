"""The options for solving a part, and the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from mirage.cost.target import Target
from mirage.pipeline.deadline import Deadline
from mirage.pipeline.verify import Checked
from mirage.search import SearchLimits, SearchResult, Watch
from mirage.semantics.alternatives import Alternatives, VerdictNote
from mirage.semantics.bounds.idle_steps import positions_of
from mirage.semantics.decompose import decompose
from mirage.semantics.positions import Iota, Lookup
from mirage.semantics.ugraph import KernelGraph
from mirage.transforms import Exponential
from mirage.verify import VerifyOptions
from mirage.verify.pieces.ledger import Ledger

FIRST_PLANS = 8
"""The sets of stored intermediates that are considered for a first answer."""
OWN_OPS = VerdictNote("proved", 0, "the program's own ops, each a kernel of its own")


@dataclass(frozen=True)
class PartOptions:
    """The options for solving a part: of the candidates found within ``limits``, ``wanted`` are
    verified, or fewer once ``enough`` of them are accepted.

    ``portion`` is the part's share of the program; ``stored`` says whether results for pieces on
    disk count. ``answered`` is called once a first answer has been verified."""

    target: Target
    limits: SearchLimits
    wanted: int
    enough: int
    verify: VerifyOptions
    deadline: Deadline
    ledger: Ledger
    portion: float = 1.0
    first_plans: int = FIRST_PLANS
    stored: bool = False
    executor: Executor | None = None
    watch_search: Watch | None = None
    watch_verdict: Callable[[Checked], None] | None = None
    say: Callable[[str], None] = lambda text: None
    timed: Callable[[str], AbstractContextManager[None]] = lambda phase: nullcontext()
    answered: Callable[[], None] = lambda: None


@dataclass
class SolvedPart:
    """A part's programs in each form, with the search result and the verdicts. ``exponentials`` and
    ``checked`` have an entry for each verified candidate of ``search``."""

    candidates: Alternatives
    stabilized: Alternatives
    verified: Alternatives
    search: SearchResult
    exponentials: tuple[tuple[Exponential, ...], ...]
    checked: tuple[Checked, ...]
    fell_back: str = ""
    late: bool = False
    """Whether the time ran out before all work was done."""
    in_runs: bool = False
    """Whether a part that fell back is put together from smaller parts."""

    @property
    def what_it_is(self) -> str:
        """Say what a part that fell back is."""
        return "is put together from smaller parts" if self.in_runs else "keeps its own ops"


def positions_among(known: Mapping[int, Lookup]) -> dict[int, Iota]:
    """Return those of the lookups that are positions."""
    found = positions_of(known.values())
    return {i: found[op.results[0]] for i, op in known.items() if op.results[0] in found}


def with_positions(graph: KernelGraph, known: Mapping[int, Lookup]) -> KernelGraph:
    """Return a program in which lookups make those of the inputs ``known`` that are positions."""
    made = {graph.inputs[i]: op for i, op in positions_among(known).items()}
    lookups = (replace(iota, results=(value,)) for value, iota in made.items())
    inputs = tuple(v for v in graph.inputs if v not in made)
    return KernelGraph(graph.name, inputs, (*lookups, *graph.ops), graph.outputs)


def of_own_ops(graph: KernelGraph) -> Alternatives:
    """Return a part with its own ops, each a kernel of its own, as its only candidate."""
    programs = (graph, decompose(graph, stable=True))
    return Alternatives(graph.inputs, graph.outputs, programs, (OWN_OPS,), (None, None))
