"""The compared part of the outputs: sorted, distinct indices, including both ends."""

from __future__ import annotations

import mirage as mi
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from mirage.semantics.builder import Builder
from mirage.semantics.region import whole_demand
from mirage.semantics.scalar import CumulateFn, DType, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.verify.evidence.samples.sampled_outputs import choose_sample, graph_work


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 300), st.integers(1, 300), st.integers(0, 2**32 - 1))
def test_indices_are_sorted_and_there_once(rows: int, work: int, seed: int) -> None:
    x = Value(TensorType((rows, 70), DType.F32), "x")
    b = Builder()
    y = b.unary(UnaryFn.RELU, x)
    graph = KernelGraph("sampled", (x,), tuple(b.ops), (y,))
    sample = choose_sample([graph], 64.0 * work, np.random.default_rng(seed))
    for index, size in zip(sample.outputs[0], y.shape, strict=True):
        if index is None:
            continue
        assert index[0] >= 0
        assert index[-1] < size
        assert (np.diff(index) > 0).all()
        assert len(index) == 1 or (index[0], index[-1]) == (0, size - 1)


def test_sums_so_far_are_work() -> None:
    """They take as long as several other ops."""
    x = Value(TensorType((64, 4096), DType.F32), "x")
    work: list[float] = []
    for scan in (False, True):
        b = Builder()
        y = b.cumulate(CumulateFn.SUM, x, 1) if scan else b.unary(UnaryFn.RELU, x)
        graph = KernelGraph("sampled", (x,), tuple(b.ops), (y,))
        work.append(graph_work(graph, whole_demand(graph)))
    assert work[1] > 2 * work[0]


def test_what_needs_too_much_work_touches_few_tiles() -> None:
    """A part of each column needs the tiles of 64 columns that contain it: three tiles with indices
    at both ends and in between, and one tile with consecutive indices."""
    g = mi.new_kernel_graph()
    x = g.new_input((512, 4096))
    block = mi.new_threadblock_graph({"n": 64})
    block.new_output(block.sum(block.new_input(x, {"n": 1}), 0), {"n": 1})
    g.mark_output(*g.customized([x], block))
    graph = g.build()
    some = choose_sample([graph], 32.0 * 4096, np.random.default_rng(0), columns=32)
    few = choose_sample([graph], 100.0, np.random.default_rng(0), columns=32)
    assert few.outputs[0][1] is not None
    assert few.read == 512 * 64 < some.read
    assert few.elements == some.elements
