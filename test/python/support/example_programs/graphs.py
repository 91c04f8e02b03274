"""µGraphs written by hand: references and the optimised forms that the literature gives for them.

Sizes are parameters, so that a test can take tiny, odd or real ones. Tiles need not divide sizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, inf

from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Axis,
    BlockGraph,
    KernelGraph,
    Launch,
    Output,
    TensorType,
    Value,
)

F16, F32 = DType.F16, DType.F32
SUM, MAX = AccumulateFn.SUM, AccumulateFn.MAX


@dataclass(frozen=True)
class Pair:
    """A reference and graphs that compute the same, by name."""

    reference: KernelGraph
    candidates: dict[str, KernelGraph]


def tensor(*shape: int, dtype: DType = F16, name: str = "") -> Value:
    """A graph input."""
    return Value(TensorType(shape, dtype), name)


def launch(
    inputs: tuple[Value, ...],
    grid: tuple[Axis, ...],
    body: BlockGraph,
    results: tuple[TensorType, ...],
) -> Launch:
    """A launch that defines tensors of the given types."""
    return Launch(inputs, tuple(Value(t) for t in results), grid, body)


def params_of(inputs: tuple[Value, ...]) -> tuple[Value, ...]:
    """Block params of the inputs' types."""
    return tuple(Value(v.type) for v in inputs)


def cut(size: int, parts: int) -> int:
    """Tile size that cuts ``size`` into ``parts``."""
    return ceil(size / parts)


# ---- RMSNorm (with gain) and a linear layer ------------------------------------------------------


def rms_linear(
    m: int, k: int, n: int, *, blocks: int, steps: int, eps: float = 1e-6, dtype: DType = F16
) -> Pair:
    """``rms_norm(X, g) @ W``; the candidate is one kernel whose loop feeds both the norm and the
    matmul.
    """
    x, g, w = tensor(m, k, dtype=dtype), tensor(k, dtype=dtype), tensor(k, n, dtype=dtype)
    b = Builder()
    y = b.matmul(b.rms_norm(x, g, eps), w)
    reference = KernelGraph("rms_linear", (x, g, w), tuple(b.ops), (y,))

    inputs = (x, g, w)
    px, pg, pw = params = params_of(inputs)
    step, tk, tn = Axis("k", steps), cut(k, steps), cut(n, blocks)
    inner = Builder(in_block=True)
    tx = inner.load(px, ((), ("k",)), (m, tk))
    tg = inner.load(pg, (("k",),), (tk,))
    tw = inner.load(pw, (("k",), ("n",)), (tk, tn))
    product = inner.matmul(inner.cast(inner.binary(BinaryFn.MUL, tx, tg), dtype), tw)
    squares = inner.reduce(ReduceFn.SUM, inner.unary(UnaryFn.SQUARE, tx), (1,))
    outer = Builder(in_block=True)
    total, norm = outer.loop(
        step, tuple(inner.ops), (Accumulator(SUM, product), Accumulator(SUM, squares))
    )
    mean = outer.binary(BinaryFn.MUL, norm, outer.constant(1.0 / k))
    scale = outer.unary(UnaryFn.RSQRT, outer.binary(BinaryFn.ADD, mean, outer.constant(eps)))
    out = outer.binary(BinaryFn.MUL, total, scale)
    body = BlockGraph(params, tuple(outer.ops), (Output(out, ((), ("n",))),))
    kernel = launch(inputs, (Axis("n", blocks),), body, (y.type,))
    one = KernelGraph("rms_linear_one_kernel", inputs, (kernel,), kernel.results)
    return Pair(reference, {"one_kernel": one})


# ---- attention -----------------------------------------------------------------------------------


def attention(
    heads: int,
    s: int,
    t: int,
    d: int,
    *,
    splits: int = 2,
    steps: int = 2,
    row_blocks: int = 1,
    scale: float | None = None,
    dtype: DType = F16,
) -> Pair:
    """``softmax(Q K) V`` with ``Q (h, s, d)``, ``K (h, d, t)``, ``V (h, t, d)``.

    Candidates: ``split`` (partial sums over parts of the keys, then a combine kernel, no maximum),
    ``split_online`` (the same with a running maximum in each part), ``flash`` (one kernel, one loop
    over the keys, running maximum). The part sizes need not divide: elements outside are masked.
    """
    q = tensor(heads, s, d, dtype=dtype)
    k = tensor(heads, d, t, dtype=dtype)
    v = tensor(heads, t, d, dtype=dtype)
    b = Builder()
    a = b.matmul(q, k)
    if scale is not None:
        a = b.binary(BinaryFn.MUL, a, b.constant(scale))
    y = b.matmul(b.softmax(a, -1), v)
    reference = KernelGraph("attention", (q, k, v), tuple(b.ops), (y,))
    options = _Attention(q, k, v, y.type, row_blocks, scale)
    return Pair(
        reference,
        {
            "split": options.split(splits, steps, online=False),
            "split_online": options.split(splits, steps, online=True),
            "flash": options.flash(steps),
        },
    )


@dataclass(frozen=True)
class _Attention:
    q: Value
    k: Value
    v: Value
    result: TensorType
    row_blocks: int
    scale: float | None

    def _loop(
        self,
        params: tuple[Value, ...],
        key_axes: tuple[str, ...],
        parts: int,
        steps: int,
        online: bool,
    ):
        """Loads of Q and the loop over key tiles: the builder and the accumulated values."""
        pq, pk, pv = params
        _, s, d = self.q.shape
        t = self.k.shape[2]
        ts, tt = cut(s, self.row_blocks), cut(t, parts)
        outer = Builder(in_block=True)
        tq = outer.load(pq, (("h",), ("s",), ()), (1, ts, d))
        inner = Builder(in_block=True)
        tk = inner.load(pk, (("h",), (), key_axes), (1, d, tt))
        tv = inner.load(pv, (("h",), key_axes, ()), (1, tt, d))
        scores = inner.matmul(tq, tk)
        if self.scale is not None:
            scores = inner.binary(BinaryFn.MUL, scores, inner.constant(self.scale))
        scores = inner.mask(scores, 2, key_axes, t, -inf)
        rescale: Value | None = None
        accumulators: list[Accumulator] = []
        if online:
            rescale = inner.running_max(inner.reduce(ReduceFn.MAX, scores, (2,)))
            scores = inner.binary(BinaryFn.SUB, scores, rescale)
            accumulators.append(Accumulator(AccumulateFn.LAST, rescale))
        e = inner.unary(UnaryFn.EXP, scores)
        accumulators.append(Accumulator(SUM, inner.reduce(ReduceFn.SUM, e, (2,)), rescale))
        accumulators.append(
            Accumulator(SUM, inner.matmul(inner.cast(e, self.v.dtype), tv), rescale)
        )
        results = outer.loop(Axis("t", steps), tuple(inner.ops), tuple(accumulators))
        return outer, results, ts

    def flash(self, steps: int) -> KernelGraph:
        inputs = (self.q, self.k, self.v)
        params = params_of(inputs)
        b, (_, denominator, numerator), _ = self._loop(params, ("t",), steps, steps, online=True)
        out = b.binary(BinaryFn.DIV, numerator, denominator)
        body = BlockGraph(params, tuple(b.ops), (Output(out, (("h",), ("s",), ())),))
        grid = (Axis("h", self.q.shape[0]), Axis("s", self.row_blocks))
        kernel = launch(inputs, grid, body, (self.result,))
        return KernelGraph("flash", inputs, (kernel,), kernel.results)

    def split(self, splits: int, steps: int, *, online: bool) -> KernelGraph:
        """Partials of shape (splits * h, s, ...) and a combine kernel over them."""
        inputs = (self.q, self.k, self.v)
        heads, s, d = self.q.shape
        params = params_of(inputs)
        b, values, _ = self._loop(params, ("split", "t"), splits * steps, steps, online=online)
        maps = (("split", "h"), ("s",), ())
        body = BlockGraph(params, tuple(b.ops), tuple(Output(v, maps) for v in values))
        grid = (Axis("split", splits), Axis("h", heads), Axis("s", self.row_blocks))
        widths = (1, 1, d) if online else (1, d)
        types = tuple(TensorType((splits * heads, s, w), F32) for w in widths)
        first = launch(inputs, grid, body, types)
        second = self._combine(first.results, splits, online)
        return KernelGraph(
            "split_online" if online else "split", inputs, (first, second), second.results
        )

    def _combine(self, partials: tuple[Value, ...], splits: int, online: bool) -> Launch:
        heads, s, _ = self.q.shape
        ts = cut(s, self.row_blocks)
        params = params_of(partials)
        inner = Builder(in_block=True)
        tiles = [inner.load(p, (("split", "h"), ("s",), ()), (1, ts, p.shape[2])) for p in params]
        rescale: Value | None = None
        if online:
            rescale = inner.running_max(tiles[0])
            factor = inner.unary(UnaryFn.EXP, inner.binary(BinaryFn.SUB, tiles[0], rescale))
            tiles = [inner.binary(BinaryFn.MUL, tile, factor) for tile in tiles[1:]]
        outer = Builder(in_block=True)
        denominator, numerator = outer.loop(
            Axis("split", splits),
            tuple(inner.ops),
            tuple(Accumulator(SUM, tile, rescale) for tile in tiles),
        )
        out = outer.binary(BinaryFn.DIV, numerator, denominator)
        body = BlockGraph(params, tuple(outer.ops), (Output(out, (("h",), ("s",), ())),))
        return launch(
            partials, (Axis("h", heads), Axis("s", self.row_blocks)), body, (self.result,)
        )


# ---- LoRA and gated linear layers ----------------------------------------------------------------


def lora(m: int, k: int, n: int, r: int, *, blocks: int, steps: int, dtype: DType = F16) -> Pair:
    """``X W + (X A) B``; the candidate is one kernel without a concatenation."""
    x, w = tensor(m, k, dtype=dtype), tensor(k, n, dtype=dtype)
    a, bb = tensor(k, r, dtype=dtype), tensor(r, n, dtype=dtype)
    b = Builder()
    y = b.binary(BinaryFn.ADD, b.matmul(x, w), b.matmul(b.matmul(x, a), bb))
    inputs = (x, w, a, bb)
    reference = KernelGraph("lora", inputs, tuple(b.ops), (y,))

    px, pw, pa, pb = params = params_of(inputs)
    tk, tn = cut(k, steps), cut(n, blocks)
    inner = Builder(in_block=True)
    tx = inner.load(px, ((), ("k",)), (m, tk))
    main = inner.matmul(tx, inner.load(pw, (("k",), ("n",)), (tk, tn)))
    down = inner.matmul(tx, inner.load(pa, (("k",), ()), (tk, r)))
    outer = Builder(in_block=True)
    total, low = outer.loop(
        Axis("k", steps), tuple(inner.ops), (Accumulator(SUM, main), Accumulator(SUM, down))
    )
    up = outer.matmul(outer.cast(low, dtype), outer.load(pb, ((), ("n",)), (r, tn)))
    out = outer.binary(BinaryFn.ADD, total, up)
    body = BlockGraph(params, tuple(outer.ops), (Output(out, ((), ("n",))),))
    kernel = launch(inputs, (Axis("n", blocks),), body, (y.type,))
    return Pair(
        reference, {"one_kernel": KernelGraph("lora_one_kernel", inputs, (kernel,), kernel.results)}
    )


def swiglu(m: int, k: int, n: int, *, blocks: int, steps: int, dtype: DType = F16) -> Pair:
    """``silu(X W1) * (X W2)``; the candidate shares each tile of X between both matmuls."""
    x = tensor(m, k, dtype=dtype)
    w1, w2 = tensor(k, n, dtype=dtype), tensor(k, n, dtype=dtype)
    b = Builder()
    y = b.binary(BinaryFn.MUL, b.unary(UnaryFn.SILU, b.matmul(x, w1)), b.matmul(x, w2))
    inputs = (x, w1, w2)
    reference = KernelGraph("swiglu", inputs, tuple(b.ops), (y,))

    px, p1, p2 = params = params_of(inputs)
    tk, tn = cut(k, steps), cut(n, blocks)
    inner = Builder(in_block=True)
    tx = inner.load(px, ((), ("k",)), (m, tk))
    products = [inner.matmul(tx, inner.load(p, (("k",), ("n",)), (tk, tn))) for p in (p1, p2)]
    outer = Builder(in_block=True)
    gate, up = outer.loop(
        Axis("k", steps), tuple(inner.ops), tuple(Accumulator(SUM, p) for p in products)
    )
    out = outer.binary(BinaryFn.MUL, outer.unary(UnaryFn.SILU, gate), up)
    body = BlockGraph(params, tuple(outer.ops), (Output(out, ((), ("n",))),))
    kernel = launch(inputs, (Axis("n", blocks),), body, (y.type,))
    return Pair(
        reference,
        {"one_kernel": KernelGraph("swiglu_one_kernel", inputs, (kernel,), kernel.results)},
    )


# ---- softmax and normalisations ------------------------------------------------------------------


def softmax(m: int, n: int, *, row_blocks: int, steps: int, dtype: DType = F16) -> Pair:
    """Softmax of rows; the candidate reads each row twice: online sum first, then the quotient."""
    x = tensor(m, n, dtype=dtype)
    b = Builder()
    y = b.softmax(x, 1)
    reference = KernelGraph("softmax", (x,), tuple(b.ops), (y,))

    (p,) = params = params_of((x,))
    tm, tn = cut(m, row_blocks), cut(n, steps)
    inner = Builder(in_block=True)
    tile = inner.mask(inner.load(p, (("m",), ("n",)), (tm, tn)), 1, ("n",), n, -inf)
    # Rows may be masked: a maximum of minus infinity would give NaN.
    most = inner.cast(inner.reduce(ReduceFn.MAX, tile, (1,)), F32)
    top = inner.running_max(inner.binary(BinaryFn.MAX, most, inner.constant(-1e30)))
    part = inner.reduce(
        ReduceFn.SUM, inner.unary(UnaryFn.EXP, inner.binary(BinaryFn.SUB, tile, top)), (1,)
    )
    outer = Builder(in_block=True)
    total, maximum = outer.loop(
        Axis("n", steps),
        tuple(inner.ops),
        (Accumulator(SUM, part, top), Accumulator(AccumulateFn.LAST, top)),
    )
    row = outer.load(p, (("m",), ()), (tm, n))
    e = outer.unary(UnaryFn.EXP, outer.binary(BinaryFn.SUB, row, maximum))
    out = outer.binary(BinaryFn.DIV, e, total)
    body = BlockGraph(params, tuple(outer.ops), (Output(out, (("m",), ())),))
    kernel = launch((x,), (Axis("m", row_blocks),), body, (y.type,))
    return Pair(
        reference, {"online": KernelGraph("softmax_online", (x,), (kernel,), kernel.results)}
    )


def layer_norm(
    m: int, n: int, *, row_blocks: int, steps: int, eps: float = 1e-5, dtype: DType = F16
) -> Pair:
    """Layer norm with gain and bias; ``whole`` keeps the row, ``moments`` sums ``x`` and ``x^2`` in
    one loop.
    """
    x, g, c = tensor(m, n, dtype=dtype), tensor(n, dtype=dtype), tensor(n, dtype=dtype)
    b = Builder()
    y = b.layer_norm(x, g, c, eps)
    inputs = (x, g, c)
    reference = KernelGraph("layer_norm", inputs, tuple(b.ops), (y,))
    tm = cut(m, row_blocks)
    candidates: dict[str, KernelGraph] = {}
    for name in ("whole", "moments"):
        px, pg, pc = params = params_of(inputs)
        outer = Builder(in_block=True)
        row = outer.load(px, (("m",), ()), (tm, n))
        inverse = outer.constant(1.0 / n)
        if name == "whole":
            mean = outer.binary(BinaryFn.MUL, outer.reduce(ReduceFn.SUM, row, (1,)), inverse)
            square = outer.unary(UnaryFn.SQUARE, outer.binary(BinaryFn.SUB, row, mean))
            variance = outer.binary(BinaryFn.MUL, outer.reduce(ReduceFn.SUM, square, (1,)), inverse)
        else:
            inner = Builder(in_block=True)
            tile = inner.load(px, (("m",), ("n",)), (tm, cut(n, steps)))
            first = inner.reduce(ReduceFn.SUM, tile, (1,))
            second = inner.reduce(ReduceFn.SUM, inner.unary(UnaryFn.SQUARE, tile), (1,))
            s1, s2 = outer.loop(
                Axis("n", steps),
                tuple(inner.ops),
                (Accumulator(SUM, first), Accumulator(SUM, second)),
            )
            mean = outer.binary(BinaryFn.MUL, s1, inverse)
            variance = outer.binary(
                BinaryFn.SUB,
                outer.binary(BinaryFn.MUL, s2, inverse),
                outer.unary(UnaryFn.SQUARE, mean),
            )
        scale = outer.unary(
            UnaryFn.RSQRT, outer.binary(BinaryFn.ADD, variance, outer.constant(eps))
        )
        normal = outer.binary(BinaryFn.MUL, outer.binary(BinaryFn.SUB, row, mean), scale)
        gained = outer.binary(BinaryFn.MUL, normal, outer.load(pg, ((),), (n,)))
        out = outer.binary(BinaryFn.ADD, gained, outer.load(pc, ((),), (n,)))
        body = BlockGraph(params, tuple(outer.ops), (Output(out, (("m",), ())),))
        kernel = launch(inputs, (Axis("m", row_blocks),), body, (y.type,))
        candidates[name] = KernelGraph(f"layer_norm_{name}", inputs, (kernel,), kernel.results)
    return Pair(reference, candidates)


def small_pairs() -> dict[str, Pair]:
    """Every family at sizes that run in milliseconds, with tiles that do not divide where masks
    allow.
    """
    return {
        "rms_linear": rms_linear(4, 12, 10, blocks=4, steps=3),
        "attention": attention(2, 3, 7, 4, splits=2, steps=2),
        "attention_scaled": attention(2, 5, 8, 4, splits=2, steps=2, row_blocks=2, scale=0.5),
        "lora": lora(3, 8, 9, 2, blocks=2, steps=2),
        "swiglu": swiglu(3, 8, 9, blocks=2, steps=4),
        "softmax": softmax(5, 10, row_blocks=2, steps=3),
        "layer_norm": layer_norm(4, 6, row_blocks=2, steps=2),
    }
