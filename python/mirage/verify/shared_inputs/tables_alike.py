"""Held tensors that two programs computed in different ways, with different roundings.

The frequencies of a rotary embedding are ``10000 ** (-i / d)`` in one program and an exponential of
a logarithm in another one. Both become a table in f32, and the tables differ in their last digits.
As functions, the programs are compared with one table for both; the effect of the roundings is
measured with each program's own table.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mirage.semantics.scalar import Array, DType
from mirage.semantics.substitute import rename_graph
from mirage.semantics.ugraph import KernelGraph
from mirage.verify.shared_inputs.bound_tensors import Aligned

ROUNDED = 2.0**-22
"""The relative error of a few roundings to f32."""
MOST_ELEMENTS = 1 << 14
"""The most elements, or different numbers, of a tensor whose elements are searched for."""


def with_one_table(given: Aligned) -> Aligned | None:
    """Return the programs with the reference's tables in place of tables of the candidate that
    are the same up to a few roundings; None if there are none."""
    first, second = (_read(g, given) for g in (given.reference, given.candidate))
    instead: dict[int, int] = {}
    for j in sorted(second - first):
        alike = (i for i in sorted(first - second) if _are_alike(given, i, j))
        if (i := next(alike, None)) is not None:
            instead[j] = i
    if not instead:
        return None
    inputs = given.candidate.inputs
    names = {inputs[j]: inputs[i] for j, i in instead.items()}
    graph = given.candidate
    body = rename_graph(KernelGraph(graph.name, (), graph.ops, graph.outputs), names)
    candidate = KernelGraph(graph.name, inputs, body.ops, body.outputs)
    both = {*instead, *instead.values()}
    return replace(given, candidate=candidate, foreign=given.foreign - both)


def with_shared_elements(given: Aligned) -> Aligned | None:
    """Return the programs with tables of the candidate whose elements are those of the reference's
    tables, or their negatives, where they differ from these by a few roundings: half of each row,
    both halves, in another shape. None if there are none."""
    first, second = (_read(g, given) for g in (given.reference, given.candidate))
    tables = [given.contents[i].ravel() for i in sorted(first - second)]
    known = np.concatenate([*tables, np.zeros(0, np.float32)]).astype(np.float64)
    known = np.unique(known[np.isfinite(known)])
    if not 0 < known.size <= MOST_ELEMENTS:
        return None
    known = np.unique(np.concatenate([known, -known]))
    read = {j: nearest_of(given.contents[j], known) for j in second - first}
    changed = {j: x for j, x in read.items() if not np.array_equal(x, given.contents[j])}
    return replace(given, contents={**given.contents, **changed}) if changed else None


def nearest_of(x: Array, known: Array) -> Array:
    """Return the nearest of several numbers, which are sorted, for each element of a tensor, if
    this changes no element by more than a few roundings; otherwise the tensor."""
    wide = np.asarray(x, np.float64)
    if wide.size > MOST_ELEMENTS or not np.isfinite(wide).all() or known.size < 2:
        return x
    at = np.searchsorted(known, wide).clip(1, len(known) - 1)
    near = np.where(wide - known[at - 1] < known[at] - wide, known[at - 1], known[at])
    return near if is_rounding(wide, near) else x


def _read(graph: KernelGraph, given: Aligned) -> set[int]:
    """Return the tables of f32 that a program reads, by number."""
    read = {*graph.outputs, *(v for op in graph.ops for v in op.operands)}
    values = ((i, graph.inputs[i]) for i in given.contents)
    return {i for i, v in values if v in read and v.dtype is DType.F32}


def _are_alike(given: Aligned, i: int, j: int) -> bool:
    x, y = given.contents[i], given.contents[j]
    return x.shape == y.shape and is_rounding(x, y)


def is_rounding(x: Array, y: Array) -> bool:
    """Return whether two tensors differ by no more than a few roundings of numbers as large as
    their largest one; elements that are whole numbers or infinite must be equal."""
    if x.size == 0 or not np.array_equal(np.isfinite(x), np.isfinite(y)):
        return False
    known = np.isfinite(x)
    if not np.array_equal(x[~known], y[~known], equal_nan=True):
        return False
    x, y = x[known], y[known]
    whole = (x == np.trunc(x)) & (y == np.trunc(y))
    size = np.abs(x).max(initial=0.0)
    return bool((x == y)[whole].all() and (np.abs(x - y) <= ROUNDED * size).all())
