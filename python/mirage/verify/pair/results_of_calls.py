"""Differences that depend on what calls of the framework compute.

Programs are compared with any numbers in place of the results of such calls, and with their
operands as outputs. A difference there does not show that the programs differ: a call may give the
same for other operands (``lgamma`` of numbers and ``det`` of a transposed matrix do), and may never
give the numbers at which they differ (``i0(x)`` is positive). So both programs are run with the
real results of their calls, where PyTorch is installed, and only a difference there refutes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mirage.semantics.decompose import decompose
from mirage.semantics.scalar import Array
from mirage.semantics.ugraph import KernelGraph, Value
from mirage.verify.evidence.samples.called import difference_with_calls
from mirage.verify.verdict import Evidence, Kind, Verdict, Witness

NAME = "calls to the framework"
CALLS_ARE_ANY = (
    "a difference was seen with any numbers as the results of calls, or in their operands; calls "
    "may give the same for these"
)
CALLS_DIFFER = "a difference was seen in float64 with the results of calls as PyTorch computes them"


def unless_calls_decide(
    reference: KernelGraph,
    candidate: KernelGraph,
    found: Verdict,
    contents: Mapping[int, Array],
    permute: bool,
) -> Verdict:
    """Return the verdict ``found``, or a refutation by the real results of calls if the programs
    are not shown to be equal. Without one, a verdict of refuted becomes unknown if the difference
    is in an output that reads what a call gives, or in an operand of a call. With ``permute``,
    outputs are compared in any order, so that none may read a call. Some inputs are known
    (``contents``)."""
    if found.equivalent or not any(op.calls for g in (reference, candidate) for op in g.ops):
        return found
    found = _unless_any_numbers(reference, candidate, found, permute)
    if found.kind is Kind.REFUTED or permute:
        return found
    pair = decompose(reference, stable=True), decompose(candidate, stable=True)
    d = difference_with_calls(*pair, contents, found.seed)
    if d is None:
        return found
    witness = Witness(
        found.seed, d.output, d.element, d.expected, d.actual, "float64, inputs standard normal"
    )
    evidence = (*found.evidence, Evidence(NAME, False, CALLS_DIFFER))
    return replace(found, kind=Kind.REFUTED, evidence=evidence, witness=witness)


def _unless_any_numbers(
    reference: KernelGraph, candidate: KernelGraph, found: Verdict, permute: bool
) -> Verdict:
    """Return the verdict, unknown in place of refuted if a call may decide."""
    if found.kind is not Kind.REFUTED or found.witness is None:
        return found
    at = found.witness.output
    for graph in (reference, candidate):
        read = _of_calls(graph)
        outputs = graph.outputs if permute else graph.outputs[at : at + 1]
        if at >= len(graph.outputs) or any(v in read for v in outputs):
            evidence = Evidence(NAME, None, CALLS_ARE_ANY)
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
