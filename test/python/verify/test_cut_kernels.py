"""Kernels cut inside compute what they did before."""

from __future__ import annotations

import random

import numpy as np
import pytest
import search_programs as programs
from graphs import small_pairs
from mirage.cost import TARGETS
from mirage.search import SearchLimits, superoptimize
from mirage.semantics.check import check_graph
from mirage.semantics.evaluate import evaluate_floats
from mirage.semantics.ugraph import KernelGraph
from mirage.transforms import stabilize
from mirage.verify.evidence.cut_kernels import Site, cut_at, sites, with_stores
from random_graphs import random_graph

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
    """The outputs stay, and each tensor that is stored is made of the tiles that were there."""
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
    """All of them, each alone, and a few choices."""
    return [found, *([s] for s in found), *([s for s in found if rng.random() < 0.4] for _ in "12")]


@pytest.mark.parametrize("name", SEARCHED)
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


@pytest.mark.parametrize("name", small_pairs())
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
