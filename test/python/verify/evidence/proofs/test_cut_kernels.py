"""Kernels that are cut inside compute the same as before."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from example_programs import graphs
from example_programs import search_programs as programs
from example_programs.graphs import small_pairs
from example_programs.random_graphs import random_graph
from mirage.cost import TARGETS
from mirage.search import SearchLimits, superoptimize
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Axis,
    BlockGraph,
    KernelGraph,
    Output,
    TensorType,
    TileMap,
    Value,
)
from mirage.transforms import stabilize
from mirage.verify.evidence.proofs.cut_kernels import Site, cut_at, sites, with_stores
from mirage.verify.evidence.proofs.tile_places import Places
from thorough import some_of

SEARCHED = {
    "layer_norm": programs.layer_norm_linear_gelu(16, 32, 32),
    "qk_norm": programs.qk_norm_attention(2, 16, 32, 16),
    "swiglu_down": programs.rms_swiglu_down(16, 32, 32),
    "self_attention": programs.self_attention(16, 32, 16),
}


def inputs_of(graph: KernelGraph, seed: int = 0) -> list[np.ndarray]:
    source = np.random.default_rng(seed)
    return [source.standard_normal(v.shape) for v in graph.inputs]


def check(graph: KernelGraph, chosen: list[Site]) -> None:
    """The outputs are unchanged, and each stored tensor consists of the tiles that were computed
    there."""
    inputs = inputs_of(graph)
    want = evaluate_floats(graph, inputs)
    cut = cut_at(graph, chosen)
    check_graph(cut)
    for x, y in zip(want, evaluate_floats(cut, inputs), strict=True):
        np.testing.assert_allclose(y, x, rtol=1e-12, atol=1e-12)
    stored = with_stores(graph, chosen)
    tensors = tuple(s.tensor for s in chosen)
    both = [KernelGraph(g.name, g.inputs, g.ops, (*g.outputs, *tensors)) for g in (stored, cut)]
    check_graph(both[0])
    for x, y in zip(*(evaluate_floats(g, inputs) for g in both), strict=True):
        np.testing.assert_allclose(y, x, rtol=1e-12, atol=1e-12)


def some(found: list[Site], rng: random.Random) -> list[list[Site]]:
    """Return all sites, each alone, and a few combinations."""
    return [found, *([s] for s in found), *([s for s in found if rng.random() < 0.4] for _ in "12")]


@pytest.mark.parametrize("name", some_of(SEARCHED, every=4))
def test_kernels_of_the_search(name: str) -> None:
    rng = random.Random(name)
    limits = SearchLimits(candidates=4, plans=20, columns=500)
    found = superoptimize(SEARCHED[name], TARGETS["sm_90a"], limits).candidates
    cuts = 0
    for candidate in found:
        graph = stabilize(candidate.graph).graph
        places = sites(graph)
        cuts += len(places)
        for chosen in some(places, rng):
            check(graph, chosen)
    assert cuts > 4


@pytest.mark.parametrize("name", some_of(small_pairs(), every=2))
def test_kernels_by_hand(name: str) -> None:
    rng = random.Random(name)
    for graph in small_pairs()[name].candidates.values():
        for chosen in some(sites(graph), rng):
            check(graph, chosen)


@pytest.mark.parametrize("seed", range(40))
def test_random_kernels(seed: int) -> None:
    rng = random.Random(seed)
    graph = random_graph(rng)
    for chosen in some(sites(graph), rng):
        check(graph, chosen)


# ---- tiles that extend beyond their tensor ----

ROWS, TILE = 17, 16


def over_rows(make: Callable[[Builder, Value], tuple[Value, TileMap, tuple[int, ...]]]):
    """A kernel with a tile of 16 of 17 rows in each of two blocks, which stores the result of
    ``make`` for it."""
    x = graphs.tensor(ROWS, 3, dtype=DType.F32)
    params = graphs.params_of((x,))
    b = Builder(in_block=True)
    y, store, shape = make(b, b.load(params[0], (("m",), ()), (TILE, 3)))
    body = BlockGraph(params, tuple(b.ops), (Output(y, store),))
    kernel = graphs.launch((x,), (Axis("m", 2),), body, (TensorType(shape, DType.F32),))
    graph = KernelGraph("rows", (x,), (kernel,), kernel.results)
    check_graph(graph)
    return graph


def rows_apart(b: Builder, x: Value):
    """Rows are independent; each is scaled by its sum."""
    e = b.unary(UnaryFn.EXP, x)
    return b.binary(BinaryFn.DIV, e, b.reduce(ReduceFn.SUM, e, (1,))), (("m",), ()), (ROWS, 3)


def columns_summed(b: Builder, x: Value):
    """A sum over the rows of each tile, with those that are past the end (ones, not zeros)."""
    e = b.binary(BinaryFn.ADD, b.unary(UnaryFn.EXP, x), b.constant(1.0))
    return b.reduce(ReduceFn.SUM, e, (0,)), (("m",), ()), (2, 3)


def columns_masked(b: Builder, x: Value):
    """The same without them."""
    e = b.unary(UnaryFn.EXP, b.unary(UnaryFn.SQUARE, x))
    return b.reduce(ReduceFn.SUM, b.mask(e, 0, ("m",), ROWS, 0.0), (0,)), (("m",), ()), (2, 3)


def masked_late(b: Builder, x: Value):
    """A mask that leaves a row past the end."""
    e = b.unary(UnaryFn.EXP, b.unary(UnaryFn.SQUARE, x))
    return b.reduce(ReduceFn.SUM, b.mask(e, 0, ("m",), ROWS + 1, 0.0), (0,)), (("m",), ()), (2, 3)


def rows_multiplied(b: Builder, x: Value):
    """Rows of a tile are combined in a product, as rows and as the summed dimension."""
    e = b.unary(UnaryFn.EXP, x)
    square = b.matmul(e, b.transpose(e, (1, 0)))
    return b.matmul(square, e), (("m",), ()), (ROWS, 3)


def all_stored(b: Builder, x: Value):
    """Elements past the end are stored too."""
    return b.unary(UnaryFn.EXP, b.unary(UnaryFn.EXP, x)), (("m",), ()), (2 * TILE, 3)


def steps_summed(b: Builder, x: Value):
    """A loop adds tiles of all rows, those past the end among them."""
    inner = Builder(in_block=True)
    e = inner.unary(UnaryFn.EXP, inner.load(b.ops[0].operands[0], (("k",), ()), (TILE, 3)))
    (y,) = b.loop(Axis("k", 2), tuple(inner.ops), (Accumulator(AccumulateFn.SUM, e),))
    return b.binary(BinaryFn.ADD, b.unary(UnaryFn.TANH, x), y), (("m",), ()), (ROWS, 3)


MATTERS = {
    rows_apart: False, columns_summed: True, columns_masked: False, masked_late: True,
    rows_multiplied: True, all_stored: True, steps_summed: True,
}  # fmt: skip


def _check_each(graph: KernelGraph, chosen: list[Site]) -> None:
    for site in chosen:
        check(graph, [site])


@pytest.mark.parametrize("make", MATTERS, ids=lambda make: make.__name__)
def test_what_is_past_the_end(make, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are dropped only if this does not matter; if they were dropped otherwise, it would be
    noticed."""
    graph = over_rows(make)
    for chosen in some(sites(graph), random.Random(0)):
        check(graph, chosen)
    monkeypatch.setattr(Places, "may_end", lambda self, value: True)
    losing = [s for s in sites(graph) if ROWS in s.tensor.shape]
    if not MATTERS[make]:
        return
    with pytest.raises(AssertionError):
        _check_each(graph, losing)


def test_tiles_of_rows_that_stay_apart_are_tensors_of_these_rows() -> None:
    shapes = {s.tensor.shape for s in sites(over_rows(rows_apart))}
    assert shapes == {(ROWS, 3), (ROWS, 1)}
    shapes = {s.tensor.shape for s in sites(over_rows(columns_masked))}
    assert {(ROWS, 3), (2, TILE, 3)} <= shapes  # before the mask, and after


def parts_of_a_batch() -> KernelGraph:
    """Two rows of blocks that do the same with tiles of 16 of 17 rows of each of two matrices, and
    store the results as parts, in a shape with ones before the rows; and parts that are read one
    after another."""
    x, y = graphs.tensor(2, ROWS, 3, dtype=DType.F32), graphs.tensor(4, 2, dtype=DType.F32)
    params = graphs.params_of((x, y))
    b = Builder(in_block=True)
    tile = b.unary(UnaryFn.EXP, b.load(params[0], (("b",), ("m",), ()), (1, TILE, 3)))
    tile = b.binary(BinaryFn.DIV, tile, b.reduce(ReduceFn.SUM, tile, (2,)))
    column = b.reshape(b.load(params[1], ((), ("b",)), (4, 1)), (1, 4))
    total = b.reduce(ReduceFn.SUM, b.unary(UnaryFn.EXP, column), (1,))
    scaled = b.reshape(b.binary(BinaryFn.MUL, tile, total), (1, 1, TILE, 3))
    body = BlockGraph(params, tuple(b.ops), (Output(scaled, (("p",), ("b",), ("m",), ())),))
    grid = (Axis("p", 2), Axis("b", 2), Axis("m", 2))
    stored = TensorType((2, 2, ROWS, 3), DType.F32)
    kernel = graphs.launch((x, y), grid, body, (stored,))
    return KernelGraph("parts", (x, y), (kernel,), kernel.results)


def test_tiles_of_rows_that_are_stored_in_another_shape_are_tensors_of_these_rows() -> None:
    graph = parts_of_a_batch()
    check_graph(graph)
    found = sites(graph)
    for chosen in some(found, random.Random(0)):
        check(graph, chosen)
    shapes = [s.tensor.shape for s in found]
    assert shapes[:3] == [(2, ROWS, 3), (2, ROWS, 1), (2, ROWS, 3)]
    assert (2, 1, 4) in shapes  # a column for each matrix, by whose number the tiles are counted


@pytest.mark.parametrize("rows", some_of([17, 20], every=2))
def test_kernels_of_the_search_for_rows_that_do_not_divide(rows: int) -> None:
    limits = SearchLimits(candidates=3, plans=20, columns=500)
    program = programs.self_attention(rows, 32, 16)
    ends = 0
    for candidate in superoptimize(program, TARGETS["sm_90a"], limits).candidates:
        graph = stabilize(candidate.graph).graph
        places = sites(graph)
        ends += sum(Places(s.launch).labels[s.value] is not None for s in places)
        for chosen in some(places, random.Random(rows)):
            check(graph, chosen)
    assert ends
