"""Proofs with the actual positions and tensors that programs hold. Small models put arbitrary
numbers in place of positions, masks and bound tensors, so they cannot show statements that hold
only for the actual ones: that a window is the difference of two triangles, or that rows that are
rotated twice are back in their places. Programs that are small enough are compared directly, in
symbolic arithmetic that knows those numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

from mirage.semantics.decompose import decompose
from mirage.semantics.domain import Planes
from mirage.semantics.evaluation.evaluate import EvaluationError, Sampled, evaluate_sampled
from mirage.semantics.ops.kinds import Lookup
from mirage.semantics.ops.op import UnknownOp
from mirage.semantics.region import demand, whole, whole_demand
from mirage.semantics.scalar import Array, BinaryFn, DType
from mirage.semantics.ugraph import KernelGraph
from mirage.verify.arithmetic.interned_sums import LITTLE_WORK, NoProof
from mirage.verify.arithmetic.known_numbers import KnownNumbers
from mirage.verify.evidence.samples.sampled_outputs import graph_work
from mirage.verify.normal_form.normalize import Depth, has_exponentials, normalize
from mirage.verify.verdict import Evidence

NAME = "proof with positions and bound tensors as they are"
_DIFFERENT = "the normal forms differ"
MOST_WORK = 6e4
"""The most elements of both programs together."""
MOST_IN_TIME = 5e5
"""The most elements of both programs together, for a proof whose time is limited."""


def prove_in_place(
    reference: KernelGraph,
    candidate: KernelGraph,
    contents: Mapping[int, Array],
    most_work: float = MOST_WORK,
) -> Evidence:
    """Compare the programs themselves. ``holds`` is True if the outputs are equal, else None. Both
    programs have the same inputs, of which ``contents`` are known; both may look rows up. If they
    are not found to be equal in this way, conjunctions of truth values are written as products, and
    functions with exponentials."""
    found = _proof(reference, candidate, contents, most_work, Depth.USUAL)
    if found.text == _DIFFERENT and _has_masks(reference, candidate):
        products = _proof(reference, candidate, contents, most_work, Depth.USUAL, products=True)
        if products.holds:
            return products
    if found.text != _DIFFERENT or not has_exponentials(reference, candidate):
        return found
    written = _proof(reference, candidate, contents, most_work, Depth.EXPONENTIALS)
    return written if written.holds else found


def _proof(
    reference: KernelGraph,
    candidate: KernelGraph,
    contents: Mapping[int, Array],
    most_work: float,
    depth: Depth,
    *,
    products: bool = False,
) -> Evidence:
    graphs = [normalize(decompose(g), depth) for g in (reference, candidate)]
    work = sum(graph_work(g, whole_demand(g)) for g in graphs)
    if work > most_work:
        return Evidence(NAME, None, f"{work:.0f} elements of work, limit {most_work:.0f}")
    symbols = depth is Depth.EXPONENTIALS  # many different denominators
    domain = KnownNumbers(reciprocals_as_symbols=symbols, most_work=4 * LITTLE_WORK)
    domain.products = products
    inputs: list[Planes] = []
    for i, v in enumerate(reference.inputs):
        free = domain.whole_numbers if v.dtype.is_integer else domain.inputs
        free = domain.truth_values if v.dtype is DType.I1 else free
        inputs.append(domain.held(contents[i]) if i in contents else free(i, v.shape))
    try:
        if any(isinstance(op, Lookup) for op in reference.ops):
            domain.collecting = True
            _outputs(graphs[0], domain, inputs)
            domain.collecting = False
        first, second = (_outputs(g, domain, inputs) for g in graphs)
        same = all(
            domain.same(a, b)
            for x, y in zip(first, second, strict=True)
            for a, b in zip(x.ravel(), y.ravel(), strict=True)
        )
    except (NoProof, EvaluationError, UnknownOp) as reason:
        return Evidence(NAME, None, str(reason))
    if not same:
        return Evidence(NAME, None, _DIFFERENT)
    count = sum(x.size for x in first)
    return Evidence(NAME, True, f"{count} outputs", {"elements": count})


def _has_masks(*graphs: KernelGraph) -> bool:
    """Return whether programs combine truth values."""
    combined = (BinaryFn.AND, BinaryFn.OR, BinaryFn.KEEP)
    return any(op.function in combined for graph in graphs for op in graph.ops)


def _outputs(graph: KernelGraph, domain: KnownNumbers, inputs: list[Planes]) -> list[Array]:
    regions = tuple(whole(len(v.shape)) for v in graph.outputs)
    values = [Sampled(x, whole(len(v.shape))) for x, v in zip(inputs, graph.inputs, strict=True)]
    found = evaluate_sampled(graph, domain, values, demand(graph, regions))
    return [y.planes[0] for y in found]
