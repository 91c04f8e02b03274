"""The values that two long programs have in common, guessed from numbers.

Two programs of a user come without a statement about what their tensors hold. Both are run once on
the same random inputs, in float64, and values with the same numbers are guessed to be the same. The
guess is a hint like any other (:mod:`mirage.verify.pieces.kernel_by_kernel`): each pair is proved
by itself or dropped.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mirage.semantics.decompose import decompose
from mirage.semantics.evaluation.evaluate import EvaluationError, evaluate_floats
from mirage.semantics.ops.op import UnknownOp
from mirage.semantics.region import whole_demand
from mirage.semantics.scalar import Array
from mirage.semantics.ugraph import KernelGraph, Value
from mirage.verify.evidence.samples.sampled_outputs import graph_work
from mirage.verify.pieces.kernel_by_kernel import Hint

LONG = 40
"""The number of ops from which on a program is compared by parts first, and as a whole only if that
fails."""
_MOST_WORK = 3e7
"""The most elements of both programs together."""
_SAME = 1e-7
"""The relative difference within which values count as the same: more than float64 loses."""


def is_long(reference: KernelGraph) -> bool:
    """Return whether a program is verified by parts rather than as a whole."""
    return len(decompose(reference).ops) >= LONG


def guessed_hint(
    reference: KernelGraph, candidate: KernelGraph, contents: Mapping[int, Array], seed: int
) -> Hint | None:
    """Guess the values that a candidate's tensors hold from their numbers on random inputs; None if
    nothing can be guessed."""
    source = decompose(reference)
    graphs = (source, decompose(candidate))
    try:
        if sum(graph_work(g, whole_demand(g)) for g in graphs) > _MOST_WORK:
            return None
        rng = np.random.default_rng(seed)
        inputs = [
            np.asarray(contents[i], np.float64) if i in contents else _drawn(v, rng)
            for i, v in enumerate(reference.inputs)
        ]
        theirs = _by_size(source, inputs)
        ours = _by_size(candidate, inputs)
    except (EvaluationError, UnknownOp):
        return None
    pairs = [
        (found, v)
        for size, values in ours.items()
        for v, numbers in values
        if v not in candidate.outputs
        and (found := _same(numbers, theirs.get(size, []))) is not None
    ]
    return Hint(source, source, tuple(pairs)) if pairs else None


def _drawn(v: Value, rng: np.random.Generator) -> Array:
    if v.dtype.is_integer:
        return rng.integers(0, 2, v.shape).astype(np.float64)
    return rng.standard_normal(v.shape)


_Numbers = list[tuple[Value, Array]]


def _by_size(graph: KernelGraph, inputs: list[Array]) -> dict[int, _Numbers]:
    """Return the finite values between inputs and outputs, in row-major order, by size."""
    values = tuple(v for op in graph.ops if op.number is None for v in op.results)
    every = KernelGraph(graph.name, graph.inputs, graph.ops, values)
    found: dict[int, _Numbers] = {}
    with np.errstate(all="ignore"):
        for v, x in zip(values, evaluate_floats(every, inputs), strict=True):
            if np.isfinite(x).all():
                found.setdefault(v.type.size, []).append((v, np.asarray(x).ravel()))
    return found


def _same(numbers: Array, among: _Numbers) -> Value | None:
    size = float(np.abs(numbers).max(initial=0.0))
    for v, other in among:
        if float(np.abs(numbers - other).max(initial=0.0)) <= _SAME * size:
            return v
    return None
