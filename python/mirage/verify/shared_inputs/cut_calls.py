"""Programs around calls that stay with the framework.

A call has no meaning here beyond being a function of its operands. So both programs are cut at
their calls: what a call gets becomes an output, what it returns becomes an input. If the programs
make the same calls in the same order and agree on all outputs of the cut form, they agree (by
induction over the calls). Rows that are gathered by index are such a call too: of which rows they
are, nothing but that equal indices name equal rows of equal tables is used.
"""

from __future__ import annotations

from dataclasses import dataclass

from mirage.semantics.ops.op import Lookup
from mirage.semantics.ugraph import External, KernelGraph, Op, Value


@dataclass(frozen=True)
class CutGraph:
    """A graph without calls, and a description of the calls in order."""

    graph: KernelGraph
    calls: tuple[str, ...]


def cut_calls(graph: KernelGraph, *, rows: bool = True) -> CutGraph:
    """``graph`` with results of calls as inputs and operands of calls as outputs; without ``rows``
    those that are gathered stay."""
    inputs: list[Value] = list(graph.inputs)
    outputs: list[Value] = list(graph.outputs)
    ops: list[Op] = []
    calls: list[str] = []
    for op in graph.ops:
        row = rows and isinstance(op, Lookup) and bool(op.operands)
        if not row and not isinstance(op, External):
            ops.append(op)
            continue
        inputs.extend(op.results)
        outputs.extend(op.operands)
        taken, given = (", ".join(str(v.type) for v in vs) for vs in (op.operands, op.results))
        name, with_what = "gather", ""
        if isinstance(op, External):
            name, with_what = op.target, f"; {dict(op.arguments)}"
            with_what += f" as {op.seen_as}" if op.seen_as else ""
        calls.append(f"{name}({taken}{with_what}) -> {given}")
    return CutGraph(
        KernelGraph(graph.name, tuple(inputs), tuple(ops), tuple(outputs)), tuple(calls)
    )
