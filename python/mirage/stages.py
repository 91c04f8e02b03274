"""The stages of the pipeline on µGraph data; the passes and the driver are thin layers over these.

    reference --search--> candidates --stabilize--> candidates --verify--> verified --select-->
    selected

In the middle forms each searchable part of the program is an
:class:`~mirage.passes.ugraph_io.Alternatives` op."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from mirage.cost import (
    CheckError,
    CostReport,
    Resources,
    Target,
    check_launch,
    features_of,
)
from mirage.cost.copies import is_unfused, unfused_report
from mirage.cost.model import KernelFeatures, report
from mirage.cost.target import UnknownTargetError as UnknownTargetError
from mirage.cost.target import target_for as target_for
from mirage.errors import MirageError
from mirage.passes.ugraph_io.data import Alternatives, Holds, VerdictNote
from mirage.search import Candidate, Pick, Planner, SearchLimits, SearchResult, Watch, searched
from mirage.semantics.check import InvalidGraph
from mirage.semantics.substitute import rename_graph
from mirage.semantics.ugraph import External, KernelGraph, Launch, Loop, Op, Softmax, Value, walk
from mirage.transforms import Exponential, stabilize
from mirage.transforms.partition import partition
from mirage.verify import Kind, SignatureMismatch, Verdict, VerifyOptions
from mirage.verify.ledger import Ledger
from mirage.verify.pieces import Hint
from mirage.verify.together import Claim, Terms, verify_all

if TYPE_CHECKING:
    from mirage.runtime.manifest import Manifest


class StageError(MirageError):
    """A stage was given a graph that it does not take, or it found nothing."""


def reference_graph(graph: KernelGraph) -> KernelGraph:
    """The program that ``graph`` claims to be: of each set of alternatives the reference."""
    return _inline(graph, lambda op: 0)


# ---- search

_FIRST = 0.6
"""The share of its time that a search may take before it is known whether its kernels overflow."""
_ROUNDS = 2
"""Times that the search goes on without kernels that no rewrite can make safe from overflow."""


def add_candidates(
    graph: KernelGraph,
    target: Target,
    limits: SearchLimits | None = None,
    executor: Executor | None = None,
    watch: Watch | None = None,
) -> tuple[KernelGraph, tuple[SearchResult, ...]]:
    """Form ``candidates``: each part of the program beside what the search found for it, cheapest
    first. The search's ``executor`` and ``watch`` are those of :func:`superoptimize`.

    Raises :class:`StageError` for kernels that are there already.
    """
    for op in graph.ops:
        if isinstance(op, Launch | Alternatives):
            raise StageError(
                f"search: expected predefined ops only, got {type(op).__name__.lower()}"
            )
    ops: list[Op] = []
    results: list[SearchResult] = []
    for step in partition(graph):
        if isinstance(step, External):
            ops.append(step)
            continue
        _, result = search_part(step.graph, target, limits, executor, watch)
        results.append(result)
        ops.append(alternatives(step.graph, result))
    return KernelGraph(graph.name, graph.inputs, tuple(ops), graph.outputs), tuple(results)


def search_part(
    graph: KernelGraph,
    target: Target,
    limits: SearchLimits | None = None,
    executor: Executor | None = None,
    watch: Watch | None = None,
) -> tuple[Planner, SearchResult]:
    """What the search finds for a program without external calls, and the search itself, which can
    be continued."""
    limits = limits or SearchLimits()
    end = time.perf_counter() + limits.budget
    exponentials = any(isinstance(op, Softmax) for op in graph.ops)
    share = _FIRST * limits.budget if exponentials else limits.budget
    planner = Planner(graph, target, replace(limits, budget=share), executor, watch)
    result = planner.run()
    if not exponentials:
        return planner, result
    for _ in range(_ROUNDS):
        left = end - time.perf_counter()
        if not _overflows(result) or left <= 0.0:
            return planner, result
        kernels = _overflowing(result)
        if not kernels:
            break
        result = planner.again(kernels, _FIRST * left)
    left = end - time.perf_counter()
    if left > 0.0 and _overflows(result):
        limits = replace(limits, budget=left)
        safe_planner = Planner(graph, target, limits, executor, watch, stable=True)
        safe = safe_planner.run()
        if safe.candidates:
            safe.report.note("rows in several kernels: searched with their maximum")
            return safe_planner, safe
    return planner, result


def _overflows(result: SearchResult) -> bool:
    """Whether no candidate can be made safe from overflow."""
    return all(stabilize(c.graph).unstable for c in result.candidates)


def _overflowing(result: SearchResult) -> list[Pick]:
    """The kernels with exponentials that no rewrite can make safe."""
    found: dict[int, Pick] = {}
    for c in result.candidates:
        for e in stabilize(c.graph).unstable:
            pick = c.pick_of(c.graph.ops[e.launch])
            if pick is not None:
                found[id(pick)] = pick
    return list(found.values())


def alternatives(reference: KernelGraph, result: SearchResult) -> Alternatives:
    """A program beside what the search found for it."""
    programs = (reference, *(c.graph for c in result.candidates))
    costs = (None, *(c.cost.time for c in result.candidates))
    holds = tuple(_holds(c, result) for c in result.candidates)
    return Alternatives(reference.inputs, reference.outputs, programs, None, costs, holds)


def _holds(candidate: Candidate, result: SearchResult) -> Holds:
    """What the candidate's tensors hold, by the numbers of values."""
    values = () if result.program is None else result_values(result.program)
    numbers = {v: i for i, v in enumerate(values)}
    ops = enumerate(candidate.graph.ops)
    places = {v: (i, r) for i, op in ops for r, v in enumerate(op.results)}
    return Holds(
        result.stable, tuple((numbers[v], *places[c]) for v, c in candidate.stored if v in numbers)
    )


def result_values(graph: KernelGraph) -> list[Value]:
    """The results of all ops, in order."""
    return [v for op in graph.ops for v in op.results]


# ---- stabilize


def stabilize_candidates(
    graph: KernelGraph,
) -> tuple[KernelGraph, tuple[tuple[Exponential, ...], ...]]:
    """Every candidate (or the graph itself, where its kernels are chosen) safe from overflow where
    algebra allows it.

    The second result has the exponentials of each. Verdicts speak about what was verified:
    alternatives that have them are refused with :class:`StageError`."""
    exponentials: list[tuple[Exponential, ...]] = []

    def stable(program: KernelGraph) -> KernelGraph:
        done = stabilize(program)
        exponentials.append(done.exponentials)
        return done.graph

    if not any(isinstance(op, Alternatives) for op in graph.ops):
        return stable(graph), tuple(exponentials)
    ops: list[Op] = []
    for op in graph.ops:
        if isinstance(op, Alternatives):
            if op.verdicts is not None:
                raise StageError(
                    "stabilize: expected candidates without verdicts, got verified ones; it "
                    "comes before verify"
                )
            op = replace(op, programs=(op.programs[0], *map(stable, op.programs[1:])))
        ops.append(op)
    return KernelGraph(graph.name, graph.inputs, tuple(ops), graph.outputs), tuple(exponentials)


# ---- shortlist


def shortlist(
    graph: KernelGraph,
    exponentials: Sequence[Sequence[Exponential]],
    target: Target,
    count: int,
) -> tuple[KernelGraph, tuple[tuple[int, ...], ...]]:
    """Form ``candidates``: of each part the ``count`` candidates that are most worth verifying, and
    their positions before.

    The predicted time of what is stable counts, and variety: of those with the same grids, loops
    and schedules (they differ in the order of a few ops) the first two come before others only.
    """
    ops: list[Op] = []
    kept: list[tuple[int, ...]] = []
    entries = iter(exponentials)
    for op in graph.ops:
        if isinstance(op, Alternatives):
            ranked: list[tuple[bool, float, int]] = []
            for number, program in enumerate(op.programs[1:]):
                cost = predict(program, target)
                unstable = any(not e.stable for e in next(entries, ()))
                ranked.append((unstable, math.inf if cost is None else cost.time, number))
            ranked.sort()
            seen: Counter[tuple[object, ...]] = Counter()
            repeated: list[tuple[bool, bool, float, int]] = []
            for unstable, time, number in ranked:
                shape = _shape_of(op.programs[number + 1])
                seen[shape] += 1
                repeated.append((unstable or time == math.inf, seen[shape] > 2, time, number))
            picked = sorted(sorted(repeated)[:count], key=lambda r: (r[0], r[2], r[3]))
            places = tuple(number for *_, number in picked)
            kept.append(places)
            op = kept_of(op, [p + 1 for p in places])
        ops.append(op)
    return KernelGraph(graph.name, graph.inputs, tuple(ops), graph.outputs), tuple(kept)


def _shape_of(program: KernelGraph) -> tuple[object, ...]:
    return tuple(
        (
            tuple(a.extent for a in op.grid),
            tuple(x.axis.extent for x in walk(op.body.ops) if isinstance(x, Loop)),
            op.schedule,
        )
        for op in program.ops
        if isinstance(op, Launch)
    )


# ---- verify


@dataclass(frozen=True)
class Checked:
    """What verification said about one candidate. ``index`` counts the candidates of its part,
    from 0.
    """

    part: int
    index: int
    verdict: Verdict

    @property
    def kept(self) -> bool:
        """Whether the candidate goes on: equivalent with a stated bound, rounding errors in order.

        Tests that passed without a bound are evidence, and not enough.
        """
        return self.verdict.accepted and not self.unbounded

    @property
    def unbounded(self) -> bool:
        """Whether only tests speak for the candidate whose error nobody can state."""
        return self.verdict.kind is Kind.PROBABLE and self.verdict.bound_log2 is None


def verify_candidates(
    graph: KernelGraph,
    options: VerifyOptions | None = None,
    watch: Callable[[Checked], None] | None = None,
    executor: Executor | None = None,
    ledger: Ledger | None = None,
    deadline: float = math.inf,
) -> tuple[KernelGraph, tuple[Checked, ...]]:
    """Form ``verified``: only candidates that are equivalent to their reference, each with its
    verdict.

    ``watch`` is called as verdicts come in. With an ``executor`` its workers verify; the verdicts
    are the same. ``ledger`` has what is known of kernels that several candidates share; what is not
    decided at the ``deadline`` (seconds since the epoch) is dropped. Raises :class:`StageError` for
    graphs that cannot be compared at all."""
    ops: list[Op] = []
    checked: list[Checked] = []
    part = 0
    terms = Terms(options or VerifyOptions(), ledger or Ledger(), deadline)
    for op in graph.ops:
        if not isinstance(op, Alternatives):
            ops.append(op)
            continue
        reference, *candidates = op.programs
        claims = claims_of(op)
        mine: list[Checked] = []
        verdicts = verify_all(reference, claims, terms, executor)
        for index in range(len(candidates)):
            try:
                verdict = next(verdicts)
            except (SignatureMismatch, InvalidGraph) as error:
                raise StageError(f"verify: candidate {index}: {error}") from error
            mine.append(Checked(part, index, verdict))
            if watch is not None:
                watch(mine[-1])
        kept = [c for c in mine if c.kept]
        notes = tuple(note_of(c.verdict) for c in kept)
        ops.append(replace(kept_of(op, [c.index + 1 for c in kept]), verdicts=notes))
        checked.extend(mine)
        part += 1
    return KernelGraph(graph.name, graph.inputs, tuple(ops), graph.outputs), tuple(checked)


def claims_of(op: Alternatives) -> list[Claim]:
    """The candidates, with what their tensors are said to hold."""
    reference, *candidates = op.programs
    if op.holds is None:
        return [Claim(c) for c in candidates]
    programs = {s: searched(reference, stable=s) for s in {h.stable for h in op.holds}}
    claims: list[Claim] = []
    for candidate, holds in zip(candidates, op.holds, strict=True):
        source, program = programs[holds.stable]
        values, pairs = result_values(program), list[tuple[Value, Value]]()
        for number, place, result in holds.places:
            known = number < len(values) and place < len(candidate.ops)
            if known and result < len(candidate.ops[place].results):
                pairs.append((values[number], candidate.ops[place].results[result]))
        claims.append(Claim(candidate, Hint(source, program, tuple(pairs))))
    return claims


def kept_of(op: Alternatives, places: Sequence[int]) -> Alternatives:
    """``op`` with its reference and the programs at ``places`` (from 1), in that order."""
    return replace(
        op,
        programs=(op.programs[0], *(op.programs[p] for p in places)),
        verdicts=None if op.verdicts is None else tuple(op.verdicts[p - 1] for p in places),
        costs=None if op.costs is None else (op.costs[0], *(op.costs[p] for p in places)),
        holds=None if op.holds is None else tuple(op.holds[p - 1] for p in places),
    )


def note_of(verdict: Verdict) -> VerdictNote:
    """A verdict as the IR keeps it: the bound rounded up, the evidence in one line."""
    bound = 0
    if verdict.kind is Kind.PROBABLE and verdict.bound_log2 is not None:
        bound = min(0, math.ceil(verdict.bound_log2))
    evidence = "; ".join(f"{e.name}: {e.text}" for e in verdict.evidence)
    return VerdictNote(verdict.kind.value, bound, evidence or None)


# ---- select


def ranking(op: Alternatives, target: Target) -> list[tuple[float, int]]:
    """``(predicted µs, position)`` of the candidates that can be compiled, cheapest first."""
    ranked: list[tuple[float, int]] = []
    for position, program in enumerate(op.programs[1:], start=1):
        cost = predict(program, target)
        if cost is not None:
            ranked.append((cost.time, position))
    return sorted(ranked)


def select_cheapest(graph: KernelGraph, target: Target, skip: int = 0) -> tuple[KernelGraph, int]:
    """Form ``selected``: of each part the candidate that the cost model likes best (after the
    first ``skip``).

    A part without a candidate keeps its reference; the second result counts such parts.
    """
    without = 0

    def choose(op: Alternatives) -> int:
        nonlocal without
        if op.verdicts is None:
            raise StageError(
                "select: expected verified candidates, got candidates without verdicts"
            )
        ranked = ranking(op, target)
        without += not ranked
        return ranked[min(skip, len(ranked) - 1)][1] if ranked else 0

    return _inline(graph, choose), without


def keep_cheapest(graph: KernelGraph, target: Target, count: int) -> tuple[KernelGraph, int]:
    """Form ``verified`` still, with the ``count`` candidates of each part that the cost model likes
    best, in that order, so that measurements can choose among them.

    The second result counts parts that have no candidate.
    """
    without = 0
    ops: list[Op] = []
    for op in graph.ops:
        if isinstance(op, Alternatives):
            if op.verdicts is None:
                raise StageError(
                    "select: expected verified candidates, got candidates without verdicts"
                )
            ranked = ranking(op, target)[:count]
            without += not ranked
            op = kept_of(op, [position for _, position in ranked])
            op = replace(op, costs=(None, *(time for time, _ in ranked)))
        ops.append(op)
    return KernelGraph(graph.name, graph.inputs, tuple(ops), graph.outputs), without


def _inline(graph: KernelGraph, choose: Callable[[Alternatives], int]) -> KernelGraph:
    """Alternatives replaced by the chosen program's ops."""
    ops: list[Op] = []
    names: dict[Value, Value] = {}
    for op in graph.ops:
        if not isinstance(op, Alternatives):
            ops.append(op)
            continue
        program = op.programs[choose(op)]
        mapping = dict(zip(program.inputs, op.operands, strict=True))
        renamed = rename_graph(program, mapping)
        ops.extend(renamed.ops)
        names.update(zip(op.results, renamed.outputs, strict=True))
    whole = KernelGraph(graph.name, graph.inputs, tuple(ops), graph.outputs)
    changed = {old: new for old, new in names.items() if old is not new}
    return rename_graph(whole, changed) if changed else whole


# ---- cost


def features_in(
    graph: KernelGraph, target: Target, compiled: Sequence[Resources] = ()
) -> list[KernelFeatures]:
    """What each kernel of a graph does. What an earlier one has just written is read from L2.

    ``compiled`` has what the compiler made of each launch, in order.
    """
    found: list[KernelFeatures] = []
    written: set[Value] = set()
    for op in graph.ops:
        if isinstance(op, Launch):
            hot = {v for v in op.operands if v in written and v.type.bytes < target.l2_size / 2}
            resources = compiled[len(found)] if compiled else None
            found.append(features_of(op, hot, resources))
        written.update(op.results)
    return found


def predict(
    graph: KernelGraph, target: Target, compiled: Sequence[Resources] = ()
) -> CostReport | None:
    """The predicted cost of a graph's kernels, those of single ops included; None where one of them
    breaks a limit of ``target``. ``compiled`` has what the compiler made of each launch, where that
    is known.
    """
    try:
        for op in graph.ops:
            if isinstance(op, Launch) and not compiled:
                check_launch(op, target)
    except CheckError:
        return None
    parts = tuple(report(f, target) for f in features_in(graph, target, compiled))
    if not all(math.isfinite(p.time) for p in parts):
        return None
    others = (unfused_report(op, target) for op in graph.ops if is_unfused(op, graph.outputs))
    return CostReport.sequence((*parts, *others), target)


def resources_of(manifest: Manifest) -> list[Resources]:
    """What the kernels of an artifact need, in the order of their launches."""
    found: list[Resources] = []
    for kernel in manifest.kernels:
        said = manifest.resources.get(kernel.entry)
        found.append(
            Resources(
                prod(kernel.block),
                kernel.shared_bytes,
                None if said is None else said["registers"],
                0 if said is None else said["spill_stores"] + said["spill_loads"],
            )
        )
    return found
