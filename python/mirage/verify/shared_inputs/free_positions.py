"""Positions as inputs that both programs share.

A kernel computes the same function of its positions as of any numbers in their place, unless it
relies on their order. So the positions along each dimension become an input: a proof for all
contents of that input holds for the positions. If there is no proof, the programs are compared with
the positions themselves, and only a difference there counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from mirage.semantics.decompose import decompose
from mirage.semantics.evaluation.tile_lookups import loaded
from mirage.semantics.ops.op import Op, TensorType, Value
from mirage.semantics.positions import Gather, Iota, with_indices_from_start
from mirage.semantics.scalar import Array
from mirage.semantics.substitute import rename_graph
from mirage.semantics.ugraph import KernelGraph
from mirage.verify.evidence.samples.floats import Difference
from mirage.verify.evidence.samples.held import held_differences
from mirage.verify.normal_form.rows import rows_first
from mirage.verify.normal_form.table_indices import looked_up_with, within_tables
from mirage.verify.shared_inputs.cut_calls import cut_calls
from mirage.verify.shared_inputs.loop_bounds import bounding_inputs, bounds_in_place
from mirage.verify.verdict import Evidence, Kind, Verdict, Witness

IN_PLACE = "float64 with the positions as they are"


@dataclass(frozen=True)
class Freed:
    """Two programs without positions of their own. ``positions`` has the contents of the inputs
    that replace them, and ``known`` maps these inputs to their ops (both programs have the same
    values as inputs)."""

    reference: KernelGraph
    candidate: KernelGraph
    positions: Mapping[int, Array] = field(default_factory=dict[int, Array])
    known: Mapping[Value, Iota] = field(default_factory=dict[Value, Iota])


def free_positions(reference: KernelGraph, candidate: KernelGraph) -> Freed:
    """Replace the positions in both programs by further inputs, the same in both, and merge equal
    gathers."""
    pair = [with_indices_from_start(loaded(g)) for g in (reference, candidate)]
    named = looked_up_with(pair[0])
    given = (within_tables(g, named) for g in pair)
    graphs = [_once(rows_first(g)) for g in given]
    made = [[op for op in g.ops if isinstance(op, Iota)] for g in graphs]
    shared: dict[tuple[TensorType, int], Value] = {}
    for op in (*made[0], *made[1]):
        shared.setdefault((op.result.type, op.dim), Value(op.result.type, "positions"))
    if not shared:
        return Freed(graphs[0], graphs[1])
    first = len(reference.inputs)
    positions = {first + i: numbers_of(t.shape, dim) for i, (t, dim) in enumerate(shared)}
    freed: list[KernelGraph] = []
    for graph, own in zip(graphs, made, strict=True):
        names = {op.result: shared[op.result.type, op.dim] for op in own}
        kept = replace(graph, ops=tuple(op for op in graph.ops if not isinstance(op, Iota)))
        renamed = rename_graph(kept, names)
        freed.append(replace(renamed, inputs=(*renamed.inputs, *shared.values())))
    known = {value: Iota((), (value,), dim) for (_, dim), value in shared.items()}
    return Freed(freed[0], freed[1], positions, known)


def numbers_of(shape: tuple[int, ...], dim: int) -> Array:
    """Return the positions along a dimension."""
    where = tuple(-1 if d == dim else 1 for d in range(len(shape)))
    return np.broadcast_to(np.arange(shape[dim]).reshape(where), shape).astype(np.float64)


def _once(graph: KernelGraph) -> KernelGraph:
    """Merge gathers of the same rows in ``graph``."""
    seen: dict[tuple[Value, ...], Value] = {}
    names: dict[Value, Value] = {}
    ops: list[Op] = []
    for op in graph.ops:
        if isinstance(op, Gather):
            found = seen.setdefault(op.operands, op.result)
            if found is not op.result:
                names[op.result] = found
                continue
        ops.append(op)
    if not names:
        return graph
    return rename_graph(replace(graph, ops=tuple(ops)), names)


def with_positions(
    freed: Freed,
    verdict: Verdict,
    contents: Mapping[int, Array],
    work: float,
) -> Verdict:
    """Return the verdict on programs with positions, given the verdict for arbitrary numbers in
    their place. If that is not equality, the programs are compared with the positions themselves.
    """
    if verdict.equivalent:
        return verdict
    found = held_apart(freed, contents, work, verdict.seed)
    if found is None:
        return verdict
    if isinstance(found, Verdict):
        return found
    text = f"no difference on {found} random inputs; that the programs are equal is not shown"
    evidence = (*verdict.evidence, Evidence(IN_PLACE, None, text))
    return replace(verdict, kind=Kind.UNKNOWN, evidence=evidence, witness=None)


def held_apart(
    freed: Freed, contents: Mapping[int, Array], work: float, seed: int
) -> Verdict | int | None:
    """Compare in float64 with ``contents`` in place. Return a refutation, or the number of inputs
    that show no difference; None if calls differ."""
    (found,) = all_held_apart(freed.reference, (freed.candidate,), contents, work, seed)
    return found


def all_held_apart(
    reference: KernelGraph,
    candidates: Sequence[KernelGraph],
    contents: Mapping[int, Array],
    work: float,
    seed: int,
) -> list[Verdict | int | None]:
    """Compare several candidates of a program like :func:`held_apart`, on the same inputs."""
    first = cut_calls(reference, rows=False)
    source = decompose(first.graph, stable=True)
    found: list[Verdict | int | None] = [None] * len(candidates)
    groups: dict[tuple[tuple[int, tuple[int, int]], ...], dict[int, KernelGraph]] = {}
    for n, candidate in enumerate(candidates):
        second = cut_calls(candidate, rows=False)
        if first.calls == second.calls:
            ends = tuple(sorted(bounding_inputs(candidate).items()))
            groups.setdefault(ends, {})[n] = decompose(second.graph, stable=True)
    for graphs in groups.values():
        counts = dict.fromkeys(graphs, 0)
        for held in bounds_in_place(candidates[next(iter(graphs))], contents, seed):
            left = [n for n in graphs if not isinstance(found[n], Verdict)]
            pairs = [graphs[n] for n in left]
            for n, (d, tried) in zip(
                left, held_differences(source, pairs, held, work, seed), strict=True
            ):
                counts[n] += tried
                found[n] = counts[n] if d is None else _apart(d, counts[n], seed)
    return found


def _apart(d: Difference, count: int, seed: int) -> Verdict:
    where = f"float64, inputs {d.scale:g} times standard normal, positions as they are"
    witness = Witness(seed, d.output, d.element, d.expected, d.actual, where)
    evidence = Evidence(IN_PLACE, False, f"{count} random inputs")
    return Verdict(Kind.REFUTED, None, (evidence,), seed, witness)
