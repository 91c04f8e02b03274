"""The first kernel of a candidate whose rounding errors are too large.

The tensors that a candidate stores are claimed to hold values that the reference computes too. In a
situation in which the outputs' errors are too large, those tensors are compared with the claimed
values, in the order of the candidate, in the same way as outputs
(:mod:`mirage.verify.evidence.roundings.rounding`). The answer affects only which kernels the search
leaves out.
"""

from __future__ import annotations

from collections.abc import Sequence

from mirage.semantics.builder import Builder
from mirage.semantics.domain import Domain, TypedFloat
from mirage.semantics.evaluation.evaluate import EvaluationError, Sampled, evaluate_sampled
from mirage.semantics.region import Demand, Region, demand
from mirage.semantics.scalar import Array
from mirage.semantics.substitute import without_dead_ops
from mirage.semantics.ugraph import KernelGraph, Value
from mirage.verify.evidence.roundings.activations import Situation
from mirage.verify.evidence.roundings.row_errors import compare_rows
from mirage.verify.evidence.samples.floats import Yardstick
from mirage.verify.evidence.samples.real_sizes import restrict
from mirage.verify.evidence.samples.sampled_outputs import Sample
from mirage.verify.pieces.kernel_by_kernel import Pairs


def first_rough(
    program: KernelGraph,
    candidate: KernelGraph,
    stored: Pairs,
    number: int,
    situation: Situation,
    sample: Sample,
) -> Value | None:
    """Return the first tensor that the candidate stores with errors that are too large in a
    situation; None if there is none, or if it cannot be determined.

    ``number`` is the place of the candidate in the sample, and ``stored`` pairs values of
    ``program`` with the tensors that are claimed to hold them. Integers and truth values are not
    rounded themselves; only the values that they are computed from are."""
    wanted = sample.demands[number].regions
    order = {v: i for i, op in enumerate(candidate.ops) for v in op.results}
    known = {*program.inputs, *(v for op in program.ops for v in op.results)}
    pairs = sorted(
        (
            (p, c)
            for p, c in stored
            if not (p.dtype.is_integer or c.dtype.is_integer)
            if p in known and c in order and p.type.size == c.type.size and _any(wanted.get(c))
        ),
        key=lambda pair: order[pair[1]],
    )
    if not pairs:
        return None
    regions = [wanted[c] for _, c in pairs]
    b = Builder()
    values = [p if p.shape == c.shape else b.reshape(p, c.shape) for p, c in pairs]
    first = without_dead_ops(
        KernelGraph("values", program.inputs, (*program.ops, *b.ops), tuple(values))
    )
    second = KernelGraph("tensors", candidate.inputs, candidate.ops, tuple(c for _, c in pairs))
    try:
        exact = _run(first, Yardstick(), situation.inputs, regions)
        reference = _run(first, TypedFloat(), situation.inputs, regions)
        ours = _run(second, TypedFloat(), situation.inputs, regions)
    except EvaluationError:  # the values and the outputs need different parts of the inputs
        return None
    # a tensor with fewer digits than the value is not at fault as long as another one is worse
    for of_value in (False, True):
        for (p, c), x, r, y in zip(pairs, exact, reference, ours, strict=True):
            dtype = p.dtype if of_value else c.dtype
            if not compare_rows(x, r, y, dtype, situation.name, "tensor").holds:
                return c
    return None


def _any(region: Region | None) -> bool:
    """Return whether any element of the region is wanted."""
    return region is not None and all(r is None or len(r) for r in region)


def _run(
    graph: KernelGraph, domain: Domain, inputs: Sequence[Sampled], regions: Sequence[Region]
) -> list[Array]:
    wanted: Demand = demand(graph, regions)
    found = evaluate_sampled(graph, domain, inputs, wanted)
    outputs: Sequence[Value] = graph.outputs
    return [restrict(x, r, v)[0] for x, r, v in zip(found, regions, outputs, strict=True)]
