"""Parts of tiles: kernels without loops compute only the required parts of their tiles."""

from __future__ import annotations

import numpy as np
import pytest
from example_programs import graphs
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.domain import Float64
from mirage.semantics.evaluation.evaluate import Sampled, evaluate_floats, evaluate_sampled
from mirage.semantics.ops.cumulation import CumulateFn
from mirage.semantics.region import Region, demand
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn
from mirage.semantics.ugraph import Axis, BlockGraph, KernelGraph, Output, Value, launches


def kernels() -> KernelGraph:
    """A kernel of wide tiles that adds a row to the sums of another kernel, and masks the
    result."""
    x, row = graphs.tensor(12, 40, dtype=DType.F32), graphs.tensor(1, 40, dtype=DType.F32)
    narrow = Builder()
    (px,) = params = (Value(x.type),)
    tile = narrow.load(px, ((), ("n",)), (12, 4))
    so_far = narrow.cumulate(CumulateFn.SUM, tile, 0)
    body = BlockGraph(params, tuple(narrow.ops), (Output(so_far, ((), ("n",))),))
    first = graphs.launch((x,), (Axis("n", 10),), body, (x.type,))
    wide = Builder()
    py, pr = params = (Value(x.type), Value(row.type))
    total = wide.binary(
        BinaryFn.ADD,
        wide.load(py, (("m",), ("n",)), (3, 16)),
        wide.load(pr, ((), ("n",)), (1, 16)),
    )
    masked = wide.mask(total, 1, ("n",), 37, -1.0)
    turned = wide.transpose(wide.reshape(masked, (3, 4, 4)), (1, 2, 0))
    largest = wide.reduce(ReduceFn.MAX, masked, (1,))
    columns = wide.reshape(turned, (16, 3))
    outputs = (Output(columns, (("n",), ("m",))), Output(largest, (("m",), ("n",))))
    types = tuple(graphs.tensor(*shape, dtype=DType.F32).type for shape in ((40, 12), (12, 3)))
    body = BlockGraph(params, tuple(wide.ops), outputs)
    second = graphs.launch((first.results[0], row), (Axis("m", 4), Axis("n", 3)), body, types)
    graph = KernelGraph("row", (x, row), (first, second), second.results)
    check_graph(graph)
    return graph


@pytest.mark.parametrize("seed", range(40))
def test_parts_are_what_they_are_of_the_whole(seed: int) -> None:
    graph = kernels()
    rng = np.random.default_rng(seed)
    wanted: list[Region] = []
    for v in graph.outputs:
        kept = [np.flatnonzero(rng.random(n) < 0.1 + 0.5 * rng.random()) for n in v.shape]
        wanted.append(tuple(k if len(k) and rng.random() < 0.8 else None for k in kept))
    given = [rng.standard_normal(v.shape) for v in graph.inputs]
    whole = evaluate_floats(graph, given)
    needed = demand(graph, wanted)
    sampled: list[Sampled] = []
    for x, v in zip(given, graph.inputs, strict=True):
        part = needed.regions[v]
        index = [np.arange(n) if r is None else r for r, n in zip(part, v.shape, strict=True)]
        sampled.append(Sampled((x[np.ix_(*index)],), part))
    found = evaluate_sampled(graph, Float64(), sampled, needed)
    for y, all_, asked in zip(found, whole, wanted, strict=True):
        have = [np.arange(n) if r is None else r for r, n in zip(y.region, all_.shape, strict=True)]
        for r, h, n in zip(asked, have, all_.shape, strict=True):
            assert set(range(n) if r is None else r) <= set(h)
        np.testing.assert_allclose(y.planes[0], all_[np.ix_(*have)], rtol=1e-12)


def test_a_kernel_before_computes_the_columns_that_are_wanted() -> None:
    graph = kernels()
    first, second = launches(graph.ops)
    rows = np.array([17, 18])
    needed = demand(graph, [(rows, None), (np.array([0]), np.array([0]))])
    assert needed.positions[first]["n"].tolist() == list(range(8))  # a maximum needs whole tiles
    one = KernelGraph(graph.name, graph.inputs, graph.ops, graph.outputs[:1])
    needed = demand(one, [(rows, None)])
    assert needed.positions[first]["n"].tolist() == [4]
    assert second in needed.parts
