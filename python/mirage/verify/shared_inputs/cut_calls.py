"""Programs around calls that remain in the framework.

Nothing is known about a call except that it is a function of its operands. So both programs are cut
at their calls: the arguments of a call become outputs, and its results become inputs. If the
programs make the same calls in the same order and agree on all outputs of the cut form, they agree
(by induction over the calls). A gather of rows by index is such a call too: the only property used
is that equal indices select equal rows of equal tables.
"""

from __future__ import annotations

from dataclasses import dataclass

from mirage.semantics.ops.kinds import Lookup
from mirage.semantics.ugraph import Boundary, KernelGraph, Op, Value


@dataclass(frozen=True)
class CutGraph:
    """A graph without calls, and a description of the calls in order."""

    graph: KernelGraph
    calls: tuple[str, ...]


def cut_calls(graph: KernelGraph, *, rows: bool = True) -> CutGraph:
    """Cut ``graph`` at its calls: their results become inputs and their operands outputs. Without
    ``rows``, gathers of rows are not cut."""
    inputs: list[Value] = list(graph.inputs)
    outputs: list[Value] = list(graph.outputs)
    ops: list[Op] = []
    calls: list[str] = []
    for op in graph.ops:
        found = isinstance(op, Lookup) and (not op.operands or bool(op.names_rows and not rows))
        if found or op.updates or not isinstance(op, Boundary):
            ops.append(op)
            continue
        inputs.extend(op.results)
        outputs.extend(op.operands)
        taken, given = (", ".join(str(v.type) for v in vs) for vs in (op.operands, op.results))
        calls.append(f"{op.says(taken)} -> {given}")
    return CutGraph(
        KernelGraph(graph.name, tuple(inputs), tuple(ops), tuple(outputs)), tuple(calls)
    )
