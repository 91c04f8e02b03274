"""The values that two long programs have in common, guessed from numbers.

A user's two programs come without a statement about the contents of their tensors. Both are run
once on the same random inputs, in float64, and values with the same numbers are guessed to be the
same. The guess is a hint like any other (:mod:`mirage.verify.pieces.kernel_by_kernel`): each pair
is proved separately or dropped.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from mirage.semantics.decompose import decompose
from mirage.semantics.domain import Float64, Planes
from mirage.semantics.evaluation.evaluate import EvaluationError, evaluate_floats
from mirage.semantics.ops.op import UnknownOp
from mirage.semantics.region import whole_demand
from mirage.semantics.scalar import Array, DType
from mirage.semantics.ugraph import KernelGraph, Value, View
from mirage.verify.evidence.samples.sampled_outputs import graph_work
from mirage.verify.normal_form.infinite_values import may_be_infinite
from mirage.verify.pieces.kernel_by_kernel import Hint

LONG = 40
"""The number of ops from which on a program is compared by parts first, and as a whole only if that
fails."""
_MOST_WORK = 1e9
"""The most elements of both programs together."""
_WORK_OF_SECOND = 2.5e8
"""The number of elements that are computed in a second or less."""
_COMPARED = 1 << 16
"""The number of elements of each value that are compared: a guess that is wrong elsewhere cannot be
proved."""
_DRAWN = 1048573
"""The numbers that are drawn for a tensor, which are repeated if it has more elements. A prime:
rows of a matrix are different parts of them."""
_SAME = 1e-7
"""The relative difference within which values count as the same: more than float64 loses."""


def is_long(reference: KernelGraph) -> bool:
    """Return whether a program is verified by parts rather than as a whole."""
    return len(decompose(reference).ops) >= LONG


def guessed_hint(
    reference: KernelGraph,
    candidate: KernelGraph,
    contents: Mapping[int, Array],
    seed: int,
    seconds: float = math.inf,
) -> Hint | None:
    """Return a hint of the values that a candidate's tensors hold, found by their numbers; None if
    nothing was found, or not within its share of the time."""
    source = decompose(reference)
    graphs = (source, decompose(candidate))
    try:
        if sum(graph_work(g, whole_demand(g)) for g in graphs) > min(
            _MOST_WORK, seconds * _WORK_OF_SECOND
        ):
            return None
        rng = np.random.default_rng(seed)
        inputs = [
            np.asarray(contents[i], np.float64) if i in contents else _drawn(v, rng)
            for i, v in enumerate(reference.inputs)
        ]
        theirs = _by_kind(source, inputs, contents)
        ours = _by_kind(candidate, inputs, contents)
    except (EvaluationError, UnknownOp):
        return None
    pairs = [
        (found, v)
        for kind, values in ours.items()
        for v, numbers in values
        if v not in candidate.outputs
        and (found := _same(numbers, theirs.get(kind, []))) is not None
    ]
    pairs = _without_views(source, candidate, pairs)
    return Hint(source, source, tuple(pairs)) if pairs else None


def _without_views(
    source: KernelGraph, candidate: KernelGraph, pairs: Sequence[tuple[Value, Value]]
) -> list[tuple[Value, Value]]:
    """Leave out the views of other values in common: a piece that gets both a value and its
    transpose does not know that they are the same elements."""
    first, second = ({v: op for op in g.ops for v in op.results} for g in (source, candidate))
    common = {*pairs, *zip(source.inputs, candidate.inputs, strict=True)}

    def of_common(a: Value, b: Value) -> bool:
        one, other = first.get(a), second.get(b)
        if not isinstance(one, View) or not isinstance(other, View):
            return False
        return (one.operands[0], other.operands[0]) in common

    return [pair for pair in pairs if not of_common(*pair)]


def _drawn(v: Value, rng: np.random.Generator) -> Array:
    if v.dtype.is_integer:
        return rng.integers(0, 2, v.shape).astype(np.float64)
    # sums of products are about 1, so that no exponential of theirs is lost
    scale = v.shape[-1] ** -0.5 if len(v.shape) > 1 and v.shape[-1] else 1.0
    return np.resize(rng.standard_normal(min(v.type.size, _DRAWN)) * scale, v.shape)


class _RowsTogether(Float64):
    """Multiplies all rows by a matrix at once: a stack of few rows each takes many times as long.
    Sums are in another order then, which is as good for a guess."""

    def matmul(self, a: Planes, b: Planes, dtype: DType) -> Planes:
        (x,), (y,) = a, b
        k, n = y.shape[-2:]
        if y.size != k * n or x.ndim < y.ndim:
            return super().matmul(a, b, dtype)
        rows = x.reshape(-1, k) @ y.reshape(k, n)
        return (rows.reshape(*x.shape[:-1], n),)


_Numbers = list[tuple[Value, Array]]


def _compared(x: Array) -> Array:
    """Return some elements in row-major order, at the same places in all arrays of one size."""
    if x.size <= _COMPARED:
        return x.ravel()
    places = np.random.default_rng(x.size).integers(0, x.size, _COMPARED)
    return x[np.unravel_index(places, x.shape)]


def _by_kind(
    graph: KernelGraph, inputs: list[Array], contents: Mapping[int, Array]
) -> dict[tuple[int, bool], _Numbers]:
    """Group the intermediate values that consist of numbers by their size and by whether they are
    integers (a float may have lost digits of an integer), with some of the numbers in row-major
    order. Positions, and masks that are computed from them, are left out, because they are whole
    numbers that every piece can compute: as inputs of pieces, a mask and its opposite have nothing
    in common. So are values that may be infinite, since inputs of pieces are numbers."""
    known = _known(graph, contents)
    infinite = may_be_infinite(graph)
    values = tuple(
        v for op in graph.ops if op.number is None for v in op.results if v not in infinite
    )
    every = KernelGraph(graph.name, graph.inputs, graph.ops, values)
    found: dict[tuple[int, bool], _Numbers] = {}
    with np.errstate(all="ignore"):
        found_numbers = evaluate_floats(every, inputs, _RowsTogether())
        for v, x in zip(values, found_numbers, strict=True):
            if np.isfinite(x).all() and not (v in known and (x == np.trunc(x)).all()):
                found.setdefault((v.type.size, v.dtype.is_integer), []).append(
                    (v, _compared(np.asarray(x)))
                )
    return found


def _known(graph: KernelGraph, contents: Mapping[int, Array]) -> set[Value]:
    """Return the values that depend on known inputs alone."""
    known = {graph.inputs[i] for i in contents}
    for op in graph.ops:
        if known.issuperset(op.operands):
            known.update(op.results)
    return known


def _same(numbers: Array, among: _Numbers) -> Value | None:
    size = float(np.abs(numbers).max(initial=0.0))
    for v, other in among:
        if float(np.abs(numbers - other).max(initial=0.0)) <= _SAME * size:
            return v
    return None
