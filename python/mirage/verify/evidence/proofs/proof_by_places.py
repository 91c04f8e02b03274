"""Programs that move elements and compute element by element: slices, joins, reshapes, transposes,
tiles that are copied, and functions of elements at the same place.

Each element of an output is a formula of a few elements of inputs, or of zero where a tile goes
past the end of its tensor, and which formula of which elements depends on the place alone. So one
run that writes formulas out gives all of them, and two programs are equal if their formulas agree.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mirage.semantics.evaluation.evaluate import evaluate
from mirage.semantics.ops.kinds import Elementwise, Movement
from mirage.semantics.region import whole_demand
from mirage.semantics.ugraph import KernelGraph, Launch, Load, Op, all_ops
from mirage.verify.arithmetic.element_formulas import Formulas, NoFormulaError
from mirage.verify.evidence.samples.sampled_outputs import graph_work
from mirage.verify.verdict import Evidence

_MOST_MOVED, _MOST = 5e7, 2e8
"""The most elements of all values of both programs: for the comparison that is tried before all
others, and for the one that is tried when there is no small model."""


def compare_movements(first: KernelGraph, second: KernelGraph) -> Evidence | None:
    """Compare two programs that only move elements. The result is a proof either way; it is None if
    the programs do more than that or are too large."""
    if not all(map(_moves, _ops(first, second))) or _work(first, second) > _MOST_MOVED:
        return None
    same = _same(first, second)
    text = "each output element is the same input element" if same else "other elements are moved"
    return Evidence("movements", same, text)


def compare_places(first: KernelGraph, second: KernelGraph) -> Evidence | None:
    """Return a proof if both programs have the same formula of the same elements at each place;
    None if they do not, if they do more than that, or if they are too large."""
    computed = all(_moves(op) or _computes(op) for op in _ops(first, second))
    if not computed or _work(first, second) > _MOST or not _same(first, second):
        return None
    return Evidence("places", True, "each output element is the same formula of input elements")


def _same(first: KernelGraph, second: KernelGraph) -> bool:
    domain = Formulas()
    inputs = [domain.elements(v.shape) for v in first.inputs]
    try:
        ours, theirs = (evaluate(graph, domain, inputs) for graph in (first, second))
    except NoFormulaError:
        return False
    return all(bool(np.all(domain.equal(x, y))) for x, y in zip(ours, theirs, strict=True))


def _work(*graphs: KernelGraph) -> float:
    return sum(graph_work(g, whole_demand(g)) for g in graphs)


def _ops(*graphs: KernelGraph) -> Iterator[Op]:
    return (op for graph in graphs for op in all_ops(graph.ops))


def _moves(op: Op) -> bool:
    return isinstance(op, Movement | Load | Launch) or (isinstance(op, Elementwise) and op.identity)


def _computes(op: Op) -> bool:
    return isinstance(op, Elementwise) or op.number is not None
