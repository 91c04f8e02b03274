"""More programs whose results depend on positions: masks of many kinds, lengths, segments,
rotations, windows, and tables that are read at computed places.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.positions import gather, iota
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.signature import signature
from mirage.semantics.ugraph import KernelGraph, Value
from mirage.transforms.partition.partition import Part, partition
from mirage.transforms.steps.skip_steps import skip_steps

from example_programs.position_masks import (
    Mask,
    block_causal,
    blocks,
    causal,
    dilated,
    later,
    moved,
    number,
    prefix,
    sinks,
    two_sided,
    value,
    window,
)
from example_programs.position_programs import searched

ADD, SUB, MUL = BinaryFn.ADD, BinaryFn.SUB, BinaryFn.MUL
LT, LE, EQ, AND, KEEP = BinaryFn.LT, BinaryFn.LE, BinaryFn.EQ, BinaryFn.AND, BinaryFn.KEEP
WIDTH = 8


def finished(name: str, b: Builder, inputs: tuple[Value, ...], *outputs: Value) -> KernelGraph:
    graph = KernelGraph(name, inputs, tuple(b.ops), outputs)
    check_graph(graph)
    return graph


def grid(b: Builder, rows: int, cols: int) -> tuple[Value, Value]:
    """Return positions of rows as a column, and of columns as a row."""
    return b.reshape(iota(b, (rows,), 0), (rows, 1)), b.reshape(iota(b, (cols,), 0), (1, cols))


def attended(b: Builder, q: Value, k: Value, v: Value, mask: Value) -> Value:
    """Attention of heads ``[h, n, d]`` with a mask of truth values."""
    scores = b.matmul(q, b.transpose(k, (0, 2, 1)))
    scores = b.binary(MUL, scores, b.constant(q.shape[-1] ** -0.5, DType.F16))
    bias = b.unary(UnaryFn.BIAS, b.cast(mask, DType.F16))
    return b.matmul(b.softmax(b.binary(ADD, scores, bias), 2), v)


# ---- masks


def masked(name: str, mask: Mask, rows: int, keys: int, heads: int) -> KernelGraph:
    """Attention of the rows to the keys with a mask made of positions."""
    q, k, v = (value(heads, n, WIDTH) for n in (rows, keys, keys))
    b = Builder()
    y = attended(b, q, k, v, mask(b, *grid(b, rows, keys)))
    return finished(name, b, (q, k, v), y)


# ---- masks that depend on inputs


def documents(n: int = 16, *, ordered: bool = True) -> KernelGraph:
    """Each row attends to the rows of its own segment (before it)."""
    q, k, v = (value(2, n, WIDTH) for _ in range(3))
    segments = value(n, dtype=DType.I8)
    b = Builder()
    mask = b.binary(EQ, b.reshape(segments, (n, 1)), b.reshape(segments, (1, n)))
    if ordered:
        mask = b.binary(AND, mask, causal(b, *grid(b, n, n)))
    return finished("documents", b, (q, k, v, segments), attended(b, q, k, v, mask))


def padded(n: int = 12, *, ordered: bool = False) -> KernelGraph:
    """Sequences of different lengths; at least one row is visible."""
    q, k, v = (value(3, n, WIDTH) for _ in range(3))
    lengths = value(3, dtype=DType.I8)
    b = Builder()
    rows, cols = grid(b, n, n)
    mask = b.binary(LE, b.reshape(cols, (1, 1, n)), b.reshape(lengths, (3, 1, 1)))
    if ordered:
        mask = b.binary(AND, mask, causal(b, rows, cols))
    return finished("padded", b, (q, k, v, lengths), attended(b, q, k, v, mask))


def distances(n: int = 16) -> KernelGraph:
    """Scores decrease with the distance, with a different slope for each head."""
    q, k, v, slopes = (*(value(2, n, WIDTH) for _ in range(3)), value(2, 1, 1))
    b = Builder()
    rows, cols = grid(b, n, n)
    scores = b.matmul(q, b.transpose(k, (0, 2, 1)))
    away = b.cast(b.binary(SUB, cols, rows), DType.F16)
    scores = b.binary(ADD, scores, b.binary(MUL, slopes, away))
    bias = b.unary(UnaryFn.BIAS, b.cast(causal(b, rows, cols), DType.F16))
    y = b.matmul(b.softmax(b.binary(ADD, scores, bias), 2), v)
    return finished("distances", b, (q, k, v, slopes), y)


def ragged_mean() -> KernelGraph:
    """Means over the number of elements of each row."""
    x, lengths = value(6, 20), value(6, dtype=DType.I8)
    b = Builder()
    cols = b.reshape(iota(b, (20,), 0), (1, 20))
    count = b.reshape(lengths, (6, 1))
    inside = b.binary(LE, cols, count)
    total = b.reduce(ReduceFn.SUM, b.binary(KEEP, inside, x), (1,))
    size = b.binary(ADD, b.cast(count, DType.F16), b.constant(1, DType.F16))
    return finished("ragged_mean", b, (x, lengths), b.binary(BinaryFn.DIV, total, size))


# ---- caches, rotations, windows


def joined(kept: int = 8, new: int = 4) -> KernelGraph:
    """New keys after those of a cache: rows attend to all earlier ones."""
    n = kept + new
    q = value(2, new, WIDTH)
    olds, news = ([value(2, m, WIDTH) for _ in range(2)] for m in (kept, new))
    b = Builder()
    k, v = (b.concat((old, fresh), 1) for old, fresh in zip(olds, news, strict=True))
    mask = moved(kept)(b, *grid(b, new, n))
    return finished("joined", b, (q, *olds, *news), attended(b, q, k, v, mask))


def rotated(n: int = 8) -> KernelGraph:
    """Halves rotated by tables that are read at the positions of tokens, then scores."""
    q, k = value(2, n, 2 * WIDTH), value(2, n, 2 * WIDTH)
    cos, sin, places = value(11, 2 * WIDTH), value(11, 2 * WIDTH), value(n, dtype=DType.I64)
    b = Builder()
    c, s = (gather(b, table, places) for table in (cos, sin))

    def turned(x: Value) -> Value:
        size = (2, n, WIDTH)
        first, last = b.slice(x, (0, 0, 0), size), b.slice(x, (0, 0, WIDTH), size)
        half = b.concat((b.unary(UnaryFn.NEG, last), first), 2)
        return b.binary(ADD, b.binary(MUL, x, c), b.binary(MUL, half, s))

    y = b.matmul(turned(q), b.transpose(turned(k), (0, 2, 1)))
    return finished("rotated", b, (q, k, cos, sin, places), y)


def rolled(n: int = 12, by: int = 3) -> KernelGraph:
    """Rows that are rolled, times weights."""
    x, w = value(n, 2 * WIDTH), value(2 * WIDTH, WIDTH)
    b = Builder()
    last = b.slice(x, (n - by, 0), (by, 2 * WIDTH))
    first = b.slice(x, (0, 0), (n - by, 2 * WIDTH))
    y = b.matmul(b.rms_norm(b.concat((last, first), 0), None, 1e-5), w)
    return finished("rolled", b, (x, w), y)


def shifted(n: int = 12) -> KernelGraph:
    """Each row mixed with the previous one."""
    x, before, mix, w = value(n, 16), value(1, 16), value(16), value(16, WIDTH)
    b = Builder()
    previous = b.concat((before, b.slice(x, (0, 0), (n - 1, 16))), 0)
    y = b.binary(ADD, b.binary(MUL, x, mix), previous)
    return finished("shifted", b, (x, before, mix, w), b.matmul(y, w))


def parted(side: int = 8, each: int = 4) -> KernelGraph:
    """Windows of an image: attention between the places of each window."""
    count = side // each
    image = value(side, side, WIDTH)
    b = Builder()
    x = b.transpose(b.reshape(image, (count, each, count, each, WIDTH)), (0, 2, 1, 3, 4))
    x = b.reshape(x, (count * count, each * each, WIDTH))
    scores = b.matmul(x, b.transpose(x, (0, 2, 1)))
    y = b.reshape(b.matmul(b.softmax(scores, 2), x), (count, count, each, each, WIDTH))
    y = b.reshape(b.transpose(y, (0, 2, 1, 3, 4)), (side, side, WIDTH))
    return finished("parted", b, (image,), y)


# ---- tables


def relative(n: int = 12, most: int | None = None) -> KernelGraph:
    """A bias from a table for each distance (of at most ``most``)."""
    q, k, v = (value(2, n, WIDTH) for _ in range(3))
    end = n - 1 if most is None else most
    table = value(2 * end + 1, 2)
    b = Builder()
    rows, cols = grid(b, n, n)
    away = b.binary(SUB, rows, cols)
    if most is not None:
        away = b.binary(BinaryFn.MAX, away, number(b, -most))
        away = b.binary(BinaryFn.MIN, away, number(b, most))
    places = b.reshape(b.binary(ADD, away, number(b, end)), (n * n,))
    bias = b.transpose(b.reshape(gather(b, table, places), (n, n, 2)), (2, 0, 1))
    scores = b.binary(ADD, b.matmul(q, b.transpose(k, (0, 2, 1))), bias)
    return finished("relative", b, (q, k, v, table), b.matmul(b.softmax(scores, 2), v))


def summed(n: int = 24) -> KernelGraph:
    """Rows for tokens and for their places, normalised."""
    words, places = value(11, 16), value(n, 16)
    ids, gain = value(n, dtype=DType.I64), value(16)
    b = Builder()
    x = b.binary(ADD, gather(b, words, ids), places)
    return finished("summed", b, (words, places, ids, gain), b.rms_norm(x, gain, 1e-5))


def read_at(name: str, place: Callable[[Builder, Value], Value], size: int, n: int) -> KernelGraph:
    """Rows at computed places, times weights."""
    table, w = value(size, 16), value(16, WIDTH)
    b = Builder()
    rows = gather(b, table, place(b, iota(b, (n,), 0)))
    return finished(name, b, (table, w), b.matmul(b.rms_norm(rows, None, 1e-5), w))


def backwards(b: Builder, i: Value) -> Value:
    return b.binary(SUB, number(b, i.shape[0] - 1), i)


def every(step: int) -> Callable[[Builder, Value], Value]:
    return lambda b, i: b.binary(ADD, b.binary(MUL, i, number(b, step)), number(b, 1))


def repeated(times: int) -> Callable[[Builder, Value], Value]:
    return lambda b, i: b.binary(BinaryFn.FLOOR_DIV, i, number(b, times))


def around(size: int) -> Callable[[Builder, Value], Value]:
    def place(b: Builder, i: Value) -> Value:
        return b.binary(BinaryFn.REMAINDER, b.binary(ADD, i, number(b, 5)), number(b, size))

    return place


def held(low: int, high: int) -> Callable[[Builder, Value], Value]:
    """Places beyond the ends are the ends: a border that is repeated."""

    def place(b: Builder, i: Value) -> Value:
        away = b.binary(BinaryFn.MAX, b.binary(SUB, i, number(b, 2)), number(b, low))
        return b.binary(BinaryFn.MIN, away, number(b, high))

    return place


def picked(rows: int = 10, classes: int = 24) -> KernelGraph:
    """The element that a target names of each row's log-probabilities."""
    x, targets = value(rows, classes, dtype=DType.F32), value(rows, dtype=DType.I8)
    b = Builder()
    most = b.reduce(ReduceFn.MAX, x, (1,))
    less = b.binary(SUB, x, most)
    total = b.reduce(ReduceFn.SUM, b.unary(UnaryFn.EXP, less), (1,))
    cols = b.reshape(iota(b, (classes,), 0), (1, classes))
    chosen = b.binary(EQ, cols, b.reshape(targets, (rows, 1)))
    own = b.reduce(ReduceFn.SUM, b.binary(KEEP, chosen, less), (1,))
    y = b.binary(SUB, b.unary(UnaryFn.LOG, total), own)
    return finished("picked", b, (x, targets), y)


def experts(tokens: int = 6) -> KernelGraph:
    """Each token times the weights of its expert."""
    x, w, which = value(tokens, 1, 16), value(5, 16, WIDTH), value(tokens, dtype=DType.I64)
    b = Builder()
    y = b.matmul(x, gather(b, w, which))
    return finished("experts", b, (x, w, which), b.reshape(y, (tokens, WIDTH)))


def cumulative(n: int = 16) -> KernelGraph:
    """Running sums of rows, as a product."""
    x, w = value(n, 16), value(16, WIDTH)
    b = Builder()
    rows, cols = grid(b, n, n)
    up_to = b.cast(causal(b, rows, cols), DType.F16)
    return finished("cumulative", b, (x, w), b.matmul(b.matmul(up_to, x), w))


def pages_of_pages(n: int = 6) -> KernelGraph:
    """Rows of a pool by pages, which a table names for each sequence."""
    pool, names, which = value(9, 4, 16), value(7, 3, dtype=DType.I64), value(n, dtype=DType.I64)
    b = Builder()
    rows = gather(b, pool, gather(b, names, which))
    y = b.reduce(ReduceFn.SUM, b.unary(UnaryFn.SQUARE, rows), (2,))
    return finished("pages_of_pages", b, (pool, names, which), y)


PROGRAMS: dict[str, Callable[[], KernelGraph]] = {
    "sinks": lambda: masked("sinks", sinks(2, 4), 16, 16, 2),
    "dilated": lambda: masked("dilated", dilated(3), 16, 16, 2),
    "block_causal": lambda: masked("block_causal", block_causal(4), 16, 16, 2),
    "two_sided": lambda: masked("two_sided", two_sided(4), 20, 20, 1),
    "later": lambda: masked("later", later, 16, 16, 2),
    "moved": lambda: masked("moved", moved(8), 8, 16, 2),
    "wide_window": lambda: masked("wide_window", window(7), 24, 24, 1),
    "five_blocks": lambda: masked("five_blocks", blocks(5), 20, 20, 2),
    "long_prefix": lambda: masked("long_prefix", prefix(9), 20, 20, 1),
    "far_window": lambda: masked("far_window", window(6, 8), 8, 16, 3),
    "documents": documents,
    "unordered_documents": lambda: documents(12, ordered=False),
    "padded": padded,
    "padded_causal": lambda: padded(10, ordered=True),
    "distances": distances,
    "ragged_mean": ragged_mean,
    "joined": joined,
    "joined_odd": lambda: joined(9, 3),
    "rotated": rotated,
    "rolled": rolled,
    "shifted": shifted,
    "parted": parted,
    "relative": relative,
    "relative_held": lambda: relative(10, 3),
    "summed": summed,
    "backwards": lambda: read_at("backwards", backwards, 20, 20),
    "every_second": lambda: read_at("every_second", every(2), 24, 11),
    "repeated": lambda: read_at("repeated", repeated(3), 8, 24),
    "around": lambda: read_at("around", around(16), 16, 16),
    "held": lambda: read_at("held", held(0, 12), 13, 16),
    "picked": picked,
    "experts": experts,
    "cumulative": cumulative,
    "pages_of_pages": pages_of_pages,
}


@cache
def index_candidates(name: str) -> tuple[KernelGraph, tuple[KernelGraph, ...]]:
    """Return the reference and, if it is one part, the results of the search: with running maxima,
    and the first one also without the steps that its mask empties."""
    reference = PROGRAMS[name]()
    if sum(isinstance(step, Part) for step in partition(reference)) != 1:
        return reference, ()
    found = searched(reference, stable=True)
    fewer = [skip_steps(graph) for graph in found[:1]]
    different = {signature(graph): graph for graph in (*found, *fewer)}
    return reference, tuple(different.values())
