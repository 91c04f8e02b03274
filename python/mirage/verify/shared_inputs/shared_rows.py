"""Rows of tables by index, in two programs.

The only property of lookups that is used is that equal indices select equal rows of equal tables.
Lookups of both programs that get the same operands (in float64, on random inputs) form a class.
Each class is one further input of both programs, in place of the rows. It remains to show that all
lookups of a class do get the same operands, with any numbers in place of all rows.

This is sufficient, whatever the order of the lookups: let ``r = G(f(r))`` be the rows of one
program and ``c = G(g(c))`` those of the other, where ``f(x) = g(x)`` for all ``x``. Then ``r``
solves the equations of the other program too, and those have one solution, as no lookup needs its
own result.

It is not necessary, so a difference counts only if it occurs with the rows that are actually looked
up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from mirage.semantics.builder import Builder
from mirage.semantics.decompose import decompose
from mirage.semantics.ops.kinds import Lookup
from mirage.semantics.ops.op import Op, TensorType, Value
from mirage.semantics.scalar import Array
from mirage.semantics.substitute import rename_graph, without_dead_ops
from mirage.semantics.ugraph import Boundary, KernelGraph
from mirage.verify.evidence.samples.held import held_difference
from mirage.verify.shared_inputs.cut_calls import CutGraph
from mirage.verify.verdict import Evidence, Kind, Verdict, Witness

MOST = 8
"""The most lookups of a program that are matched with those of the other; if there are more, their
order counts."""
IN_PLACE = "float64 with the rows that are looked up"
CALL = "rows that are looked up"
_WORK = 2e4
_DRAWS = 4
"""The number of draws of indices: a few may miss the rows in which programs differ."""


@dataclass
class _Class:
    """Lookups of the reference and of the candidate that get the same operands."""

    members: tuple[list[Lookup], list[Lookup]]

    def apart(self) -> list[_Class]:
        """Split a class whose lookups all belong to one program into single lookups."""
        one, other = self.members
        if one and other:
            return [self]
        return [*(_Class(([op], [])) for op in one), *(_Class(([], [op])) for op in other)]

    @property
    def first(self) -> tuple[int, Lookup]:
        side = 0 if self.members[0] else 1
        return side, self.members[side][0]


def _rows(graph: KernelGraph) -> list[Lookup]:
    """Return the lookups that have operands: a table and indices."""
    return [op for op in graph.ops if isinstance(op, Lookup) and op.names_rows]


def has_rows(*graphs: KernelGraph) -> bool:
    """Return whether one of the programs looks rows up."""
    return any(_rows(graph) for graph in graphs)


def with_lines_of_indices(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` with indices in one dimension, in the same order: then lookups with the same
    indices get the same operands, whatever the shape of the indices."""
    ops: list[Op] = []
    names: dict[Value, Value] = {}
    looked_up = _rows(graph)
    for op in graph.ops:
        if op not in looked_up or len(op.operands[1].shape) == 1:
            ops.append(op)
            continue
        table, index = op.operands
        before, after = Builder(), Builder()
        line = before.reshape(index, (index.type.size,))
        rows = Value(TensorType((index.type.size, *table.shape[1:]), op.results[0].dtype))
        names[op.results[0]] = after.reshape(rows, op.results[0].shape)
        looked = replace(op, operands=(table, line), results=(rows,))
        ops += [*before.ops, looked, *after.ops]
    return rename_graph(replace(graph, ops=tuple(ops)), names)


def _calls(*graphs: KernelGraph) -> bool:
    """Return whether one of the programs has calls other than lookups."""
    ops = (op for graph in graphs for op in graph.ops if isinstance(op, Boundary))
    return any(not isinstance(op, Lookup) or (op.operands and not op.names_rows) for op in ops)


def cut_rows(
    reference: KernelGraph, candidate: KernelGraph, contents: Mapping[int, Array], seed: int
) -> tuple[CutGraph, CutGraph] | None:
    """Replace the looked-up rows in both programs by inputs; None if there are other calls, or too
    many lookups to match."""
    graphs = reference, candidate
    rows = [_rows(graph) for graph in graphs]
    if not has_rows(*graphs) or any(len(some) > MOST for some in rows):
        return None
    if _calls(*graphs):
        return None
    classes: list[_Class] = []
    for side, some in enumerate(rows):
        for op in some:
            for each in classes:
                if _alike(graphs, each.first, (side, op), contents, seed):
                    each.members[side].append(op)
                    break
            else:
                classes.append(_Class(([op], []) if side == 0 else ([], [op])))
    classes = [each for some in classes for each in some.apart()]
    first, second = (_cut(graph, classes, side) for side, graph in enumerate(graphs))
    calls = (CALL,) * len(classes)
    return CutGraph(first, calls), CutGraph(second, calls)


def _alike(
    graphs: tuple[KernelGraph, KernelGraph],
    first: tuple[int, Lookup],
    second: tuple[int, Lookup],
    contents: Mapping[int, Array],
    seed: int,
) -> bool:
    """Return whether two lookups get the same operands on random inputs."""
    if [v.type for v in first[1].operands] != [v.type for v in second[1].operands]:
        return False
    pair = [replace(graphs[side], outputs=op.operands) for side, op in (first, second)]
    one, other = (decompose(without_dead_ops(graph), stable=True) for graph in pair)
    difference, count = held_difference((one, other), contents, _WORK, seed)
    return difference is None and count > 0


def _cut(graph: KernelGraph, classes: Sequence[_Class], side: int) -> KernelGraph:
    """Return one of the programs with an input for each class; the operands that must be equal are
    further outputs."""
    names: dict[Value, Value] = {}
    inputs: list[Value] = list(graph.inputs)
    outputs: list[Value] = list(graph.outputs)
    for each in classes:
        value = Value(each.first[1].results[0].type, "rows")
        inputs.append(value)
        own, other = each.members[side], each.members[1 - side]
        names.update((v, value) for op in own for v in op.results)
        # compare the reference's first lookup with all of the candidate, then the others with its
        # first
        if not own or not other:
            continue
        beside = [own[0]] * len(other) if side == 0 else own
        rest = own[1:] if side == 0 else own[:1] * (len(other) - 1)
        outputs += [v for op in (*beside, *rest) for v in op.operands]
    rows = _rows(graph)
    kept = tuple(op for op in graph.ops if op not in rows)
    renamed = rename_graph(replace(graph, ops=kept, outputs=tuple(outputs)), names)
    return replace(renamed, inputs=tuple(inputs))


def with_rows(
    reference: KernelGraph,
    candidate: KernelGraph,
    verdict: Verdict,
    contents: Mapping[int, Array],
    work: float,
) -> Verdict:
    """Return the verdict on programs that look rows up, given the verdict for arbitrary numbers in
    their place. If that is not equality, the programs are compared with the rows that are looked
    up."""
    if verdict.equivalent or not has_rows(reference, candidate):
        return verdict
    count = 0
    if not _calls(reference, candidate):
        graphs = decompose(reference, stable=True), decompose(candidate, stable=True)
        for draw in range(_DRAWS):
            d, tried = held_difference(graphs, contents, work, verdict.seed + draw)
            count += tried
            if d is None:
                continue
            where = f"float64, inputs {d.scale:g} times standard normal, rows that are looked up"
            witness = Witness(verdict.seed, d.output, d.element, d.expected, d.actual, where)
            evidence = Evidence(IN_PLACE, False, f"{count} random inputs")
            return Verdict(Kind.REFUTED, None, (evidence,), verdict.seed, witness)
    text = f"no difference on {count} random inputs; that the programs are equal is not shown"
    evidence = (*verdict.evidence, Evidence(IN_PLACE, None, text))
    return replace(verdict, kind=Kind.UNKNOWN, evidence=evidence, witness=None)
