"""Programs that look up rows, and whose number of heads equals the batch size, with the candidates
that the search finds for them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.positions import gather, iota
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import KernelGraph, Value

from example_programs.position_masks import causal, moved, value, window
from example_programs.position_programs import searched

ROWS, SIZE, WIDTH = 64, 11, 16
HEADS, KEYS = 2, 8


def _graph(name: str, b: Builder, inputs: tuple[Value, ...], y: Value) -> KernelGraph:
    graph = KernelGraph(name, inputs, tuple(b.ops), (y,))
    check_graph(graph)
    return graph


def embedded() -> KernelGraph:
    """Rows by tokens, normalised and multiplied."""
    table, ids = value(SIZE, WIDTH), value(ROWS, dtype=DType.I64)
    gain, weight = value(WIDTH), value(WIDTH, 12)
    b = Builder()
    y = b.matmul(b.rms_norm(gather(b, table, ids), gain, 1e-5, 1), weight)
    return _graph("embedded", b, (table, ids, gain, weight), y)


def paged() -> KernelGraph:
    """Attention to keys in pages, which a table of pages names: the last four tokens of twelve
    attend to earlier ones, so that the order of pages matters."""
    keys, values, q = value(SIZE, 4, WIDTH), value(SIZE, 4, WIDTH), value(HEADS, 4, WIDTH)
    pages = value(HEADS, 3, dtype=DType.I64)
    b = Builder()
    k, v = (b.reshape(gather(b, pool, pages), (HEADS, 12, WIDTH)) for pool in (keys, values))
    scores = b.matmul(q, b.transpose(k, (0, 2, 1)))
    scores = b.binary(BinaryFn.MUL, scores, b.constant(WIDTH**-0.5, DType.F16))
    rows, cols = b.reshape(iota(b, (4,), 0), (4, 1)), b.reshape(iota(b, (12,), 0), (1, 12))
    mask = moved(8)(b, rows, cols)
    scores = b.binary(BinaryFn.ADD, scores, b.unary(UnaryFn.BIAS, b.cast(mask, DType.F16)))
    return _graph("paged", b, (q, keys, values, pages), b.matmul(b.softmax(scores, 2), v))


def heads(masked: Callable[[Builder, Value, Value], Value]) -> KernelGraph:
    """Attention of as many heads as sequences, stored next to each other."""
    q, k, v = (value(HEADS, KEYS, HEADS, WIDTH) for _ in range(3))
    b = Builder()
    i = iota(b, (KEYS,), 0)
    rows, cols = b.reshape(i, (KEYS, 1)), b.reshape(i, (1, KEYS))
    apart, keys = (b.transpose(x, order) for x, order in ((q, (0, 2, 1, 3)), (k, (0, 2, 3, 1))))
    scores = b.binary(BinaryFn.MUL, b.matmul(apart, keys), b.constant(0.25, DType.F16))
    bias = b.unary(UnaryFn.BIAS, b.cast(masked(b, rows, cols), DType.F16))
    weights = b.softmax(b.binary(BinaryFn.ADD, scores, bias), 3)
    y = b.transpose(b.matmul(weights, b.transpose(v, (0, 2, 1, 3))), (0, 2, 1, 3))
    return _graph("heads", b, (q, k, v), b.reshape(y, (HEADS, KEYS, HEADS * WIDTH)))


LOOKUPS: dict[str, Callable[[], KernelGraph]] = {
    "embedded": embedded,
    "paged": paged,
    "heads": lambda: heads(causal),
    "heads_window": lambda: heads(window(3)),
}


@cache
def lookup_candidates(name: str) -> tuple[KernelGraph, tuple[KernelGraph, ...]]:
    """Return the reference, and the results of the search with running maxima."""
    reference = LOOKUPS[name]()
    return reference, searched(reference, stable=True)
