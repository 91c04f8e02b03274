"""Programs around calls that remain in the framework.

Nothing is known of a call except that it is a function of its operands. So both programs are cut at
their calls: the arguments of a call become outputs, and its results become inputs. If the programs
make the same calls in the same order and agree on all outputs of the cut form, they agree (by
induction over the calls). A gather of rows by index is such a call too: the only property used is
that equal indices select equal rows of equal tables.
"""

from __future__ import annotations

from dataclasses import dataclass

from mirage.semantics.integers import Integers
from mirage.semantics.ops.kinds import Lookup
from mirage.semantics.ugraph import External, KernelGraph, Op, Value


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
        row = isinstance(op, Lookup) and bool(op.operands) and (rows or not op.names_rows)
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
        elif isinstance(op, Integers):
            name = f"integers {op.formula}"
        calls.append(f"{name}({taken}{with_what}) -> {given}")
    return CutGraph(
        KernelGraph(graph.name, tuple(inputs), tuple(ops), tuple(outputs)), tuple(calls)
    )
