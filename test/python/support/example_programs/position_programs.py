"""Attention with masks computed from positions, and the candidates that are found for it."""

from __future__ import annotations

from functools import cache

from mirage.cost.target import target_for
from mirage.pipeline.search import search_part
from mirage.search import SearchLimits
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.positions import Lookup, iota
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.substitute import rename_graph
from mirage.semantics.ugraph import KernelGraph, Op, Value
from mirage.transforms import stabilize
from mirage.transforms.lookups import fused
from mirage.transforms.partition.partition import Part, partition

from example_programs.position_masks import Mask, blocks, causal, prefix, value, window

N, D = 16, 8


def attention(mask: Mask, n: int = N, heads: int = 2) -> KernelGraph:
    """Attention with a mask made of positions."""
    q, k, v = (value(heads, n, D) for _ in range(3))
    b = Builder()
    i = iota(b, (n,), 0)
    rows, cols = b.reshape(i, (n, 1)), b.reshape(i, (1, n))
    scores = b.matmul(q, b.transpose(k, (0, 2, 1)))
    scores = b.binary(BinaryFn.MUL, scores, b.constant(D**-0.5, DType.F16))
    bias = b.unary(UnaryFn.BIAS, b.cast(mask(b, rows, cols), DType.F16))
    y = b.matmul(b.softmax(b.binary(BinaryFn.ADD, scores, bias), 2), v)
    g = KernelGraph("attention", (q, k, v), tuple(b.ops), (y,))
    check_graph(g)
    return g


MASKS: dict[str, Mask] = {
    "causal": causal,
    "window": window(4),
    "blocks": blocks(4),
    "prefix": prefix(5),
}


@cache
def candidates(name: str) -> tuple[KernelGraph, ...]:
    """Return the results of the search for attention with a mask."""
    return searched(attention(MASKS[name]))


def searched(reference: KernelGraph, *, stable: bool = False) -> tuple[KernelGraph, ...]:
    """Return the results of the search (with running maxima if ``stable``), with kernels that
    compute positions and lookups."""
    (part,) = (s.graph for s in partition(reference) if isinstance(s, Part))
    _, result = search_part(part, target_for("h200"), SearchLimits(budget=20))
    found: list[KernelGraph] = []
    for candidate in result.candidates[:2]:
        names = dict(zip(candidate.graph.inputs, part.inputs, strict=True))
        found_graph = stabilize(candidate.graph).graph if stable else candidate.graph
        graph = rename_graph(found_graph, names)
        ops = (*_lookups(reference), *graph.ops)
        whole = KernelGraph("c", reference.inputs, ops, graph.outputs)
        found.append(fused(whole))
    return tuple(found)


def _lookups(graph: KernelGraph) -> tuple[Op, ...]:
    """Return the lookups of a program, and the ops that compute their indices."""
    wanted: set[Value] = set()
    found: list[Op] = []
    for op in reversed(graph.ops):
        if isinstance(op, Lookup) or not wanted.isdisjoint(op.results):
            found.append(op)
            wanted.update(op.operands)
    return tuple(reversed(found))
