"""Differences that depend on what calls of the framework compute.

Programs are compared with any numbers in place of the results of such calls, and with their
operands as outputs. A difference there does not show that the programs differ: a call may give the
same for other operands (``lgamma`` of numbers and ``det`` of a transposed matrix do), and may never
give the numbers at which they differ (``i0(x)`` is positive).
"""

from __future__ import annotations

from dataclasses import replace

from mirage.semantics.ugraph import KernelGraph, Value
from mirage.verify.verdict import Evidence, Kind, Verdict

CALLS_ARE_ANY = (
    "a difference was seen with any numbers as the results of calls, or in their operands; calls "
    "may give the same for these"
)


def unless_calls_decide(
    reference: KernelGraph, candidate: KernelGraph, found: Verdict, permute: bool
) -> Verdict:
    """Return the verdict ``found``; unknown in place of refuted if the difference is in an output
    that reads what a call gives, or in an operand of a call. With ``permute``, outputs are
    compared in any order, so that none may read a call."""
    if found.kind is not Kind.REFUTED or found.witness is None:
        return found
    if not any(op.calls for g in (reference, candidate) for op in g.ops):
        return found
    at = found.witness.output
    for graph in (reference, candidate):
        read = _of_calls(graph)
        outputs = graph.outputs if permute else graph.outputs[at : at + 1]
        if at >= len(graph.outputs) or any(v in read for v in outputs):
            evidence = Evidence("calls to the framework", None, CALLS_ARE_ANY)
            return replace(
                found, kind=Kind.UNKNOWN, evidence=(*found.evidence, evidence), witness=None
            )
    return found


def _of_calls(graph: KernelGraph) -> set[Value]:
    """Return the values that depend on results of calls."""
    found: set[Value] = set()
    for op in graph.ops:
        if op.calls or any(v in found for v in op.operands):
            found.update(op.results)
    return found
