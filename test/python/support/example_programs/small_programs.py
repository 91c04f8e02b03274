"""The verifier's small programs, compared with the real ones that they stand for."""

from __future__ import annotations

import numpy as np
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.verify.compression.digits import Structure
from mirage.verify.compression.small_program import Cells, compress


def small_index(cells, slot):
    """Return for each real index of a slot the small one that stands for it."""
    index = np.zeros(1, dtype=np.int64)
    for d in cells.structure.digits_of(slot):
        cell = np.repeat(np.arange(len(cells.cells[d])), cells.cells[d])
        index = np.add.outer(index * len(cells.cells[d]), cell).ravel()
    return index[: cells.structure.size(slot)]


def expand(x, cells, value):
    """A small array at the real size of ``value``, constant within cells."""
    for d in range(len(value.shape)):
        x = np.take(x, small_index(cells, cells.structure.slot(value, d)), axis=d)
    return x


def assert_exact(case, singles, structure=None):
    """In float64: expand the inputs, run the real programs, compare everywhere."""
    structure = structure or Structure(case)
    cells = Cells.with_singles(structure, dict.fromkeys(structure.digits, singles))
    rng = np.random.default_rng(0)
    for graph in case:
        small = compress(graph, cells)
        sizes = [
            [cells.size(structure.slot(v, d)) for d in range(len(v.shape))] for v in graph.inputs
        ]
        xs = [rng.standard_normal(s) for s in sizes]
        extra = [np.array(w, dtype=float) for w in small.weights]
        ys = evaluate_floats(small.graph, [*xs, *extra])
        real = [expand(x, cells, v) for x, v in zip(xs, graph.inputs)]
        for y, want, v in zip(ys, evaluate_floats(graph, real), graph.outputs):
            scale = np.abs(want).max()
            np.testing.assert_allclose(expand(y, cells, v), want, rtol=1e-8, atol=1e-9 * scale)
