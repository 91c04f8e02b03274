"""Programs shared by the tests of the search, the rewrites and the lowering."""

from __future__ import annotations

from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.workloads.served import grouped_attention


def tensor(name: str, *shape: int, dtype: DType = DType.F16) -> Value:
    """An input."""
    return Value(TensorType(shape, dtype), name)


def graph(name: str, inputs: tuple[Value, ...], b: Builder, *outputs: Value) -> KernelGraph:
    """The program that ``b`` built."""
    return KernelGraph(name, inputs, tuple(b.ops), outputs)


def rms_linear(m: int, k: int, n: int, dtype: DType = DType.F16) -> KernelGraph:
    x, g, w = (
        tensor("x", m, k, dtype=dtype),
        tensor("g", k, dtype=dtype),
        tensor("w", k, n, dtype=dtype),
    )
    b = Builder()
    return graph("rms_linear", (x, g, w), b, b.matmul(b.rms_norm(x, g), w))


def swiglu(m: int, k: int, n: int) -> KernelGraph:
    x, w1, w2 = tensor("x", m, k), tensor("w1", k, n), tensor("w2", k, n)
    b = Builder()
    gate = b.unary(UnaryFn.SILU, b.matmul(x, w1))
    return graph("swiglu", (x, w1, w2), b, b.binary(BinaryFn.MUL, gate, b.matmul(x, w2)))


def lora(m: int, k: int, r: int, n: int) -> KernelGraph:
    x, w, a, c = tensor("x", m, k), tensor("w", k, n), tensor("a", k, r), tensor("c", r, n)
    b = Builder()
    low = b.matmul(b.matmul(x, a), c)
    return graph("lora", (x, w, a, c), b, b.binary(BinaryFn.ADD, b.matmul(x, w), low))


def attention(h: int, s: int, t: int, d: int) -> KernelGraph:
    q, k, v = tensor("q", h, s, d), tensor("k", h, d, t), tensor("v", h, t, d)
    b = Builder()
    return graph("attention", (q, k, v), b, b.matmul(b.softmax(b.matmul(q, k), -1), v))


def qk_norm_attention(h: int, s: int, t: int, d: int) -> KernelGraph:
    q, k, v = tensor("q", h, s, d), tensor("k", h, t, d), tensor("v", h, t, d)
    gq, gk = tensor("gq", d), tensor("gk", d)
    b = Builder()
    scores = b.matmul(b.rms_norm(q, gq), b.transpose(b.rms_norm(k, gk), (0, 2, 1)))
    return graph("qk_norm", (q, k, v, gq, gk), b, b.matmul(b.softmax(scores, -1), v))


def softmax(m: int, n: int) -> KernelGraph:
    x, b = tensor("x", m, n), Builder()
    return graph("softmax", (x,), b, b.softmax(x, -1))


def pairs_of_integers(n: int) -> KernelGraph:
    """Exponentials where the square of one integer is at most another one, of any size; and twice
    these integers."""
    x, ids, b = tensor("x", n, n), tensor("ids", n, dtype=DType.I64), Builder()
    column = b.reshape(ids, (n, 1))
    seen = b.binary(BinaryFn.LE, b.binary(BinaryFn.MUL, column, column), ids)
    y = b.binary(BinaryFn.KEEP, seen, b.unary(UnaryFn.EXP, x))
    return graph("pairs_of_integers", (x, ids), b, y, b.binary(BinaryFn.ADD, ids, ids))


def matmul(m: int, k: int, n: int) -> KernelGraph:
    x, w, b = tensor("x", m, k), tensor("w", k, n), Builder()
    return graph("matmul", (x, w), b, b.matmul(x, w))


def n_transformer(m: int, n: int) -> KernelGraph:
    x, h, a = tensor("x", m, n), tensor("h", m, n), tensor("a", n)
    b = Builder()
    inner = b.binary(BinaryFn.MUL, a, b.binary(BinaryFn.ADD, b.rms_norm(h), x))
    return graph("n_transformer", (x, h, a), b, b.rms_norm(b.binary(BinaryFn.ADD, x, inner)))


def layer_norm_linear_gelu(m: int, k: int, n: int) -> KernelGraph:
    x, g, c = tensor("x", m, k), tensor("g", k), tensor("c", k)
    w, bias = tensor("w", k, n), tensor("bias", n)
    b = Builder()
    y = b.binary(BinaryFn.ADD, b.matmul(b.layer_norm(x, g, c), w), bias)
    return graph("layer_norm_linear_gelu", (x, g, c, w, bias), b, b.unary(UnaryFn.GELU, y))


def residual_rms_linear(m: int, k: int, n: int) -> KernelGraph:
    x, r, g, w = tensor("x", m, k), tensor("r", m, k), tensor("g", k), tensor("w", k, n)
    b = Builder()
    y = b.rms_norm(b.binary(BinaryFn.ADD, x, r), g)
    return graph("residual_rms_linear", (x, r, g, w), b, b.matmul(y, w))


def rms_swiglu_down(m: int, k: int, n: int) -> KernelGraph:
    x, g, w1, w2 = tensor("x", m, k), tensor("g", k), tensor("w1", k, n), tensor("w2", k, n)
    down = tensor("down", n, k)
    b = Builder()
    y = b.rms_norm(x, g)
    gate = b.binary(BinaryFn.MUL, b.unary(UnaryFn.SILU, b.matmul(y, w1)), b.matmul(y, w2))
    return graph("rms_swiglu_down", (x, g, w1, w2, down), b, b.matmul(gate, down))


def self_attention(s: int, k: int, d: int) -> KernelGraph:
    """One head; the same input gives queries, keys and values, so axis names collide."""
    x, wq, wk, wv = tensor("x", s, k), tensor("wq", k, d), tensor("wk", k, d), tensor("wv", k, d)
    b = Builder()
    q, key, v = b.matmul(x, wq), b.matmul(x, wk), b.matmul(x, wv)
    scores = b.matmul(q, b.transpose(key, (1, 0)))
    return graph("self_attention", (x, wq, wk, wv), b, b.matmul(b.softmax(scores, -1), v))


def grouped_heads(s: int, heads: int, d: int, t: int) -> KernelGraph:
    """Heads split from and merged into one dimension by reshapes."""
    q, k, v = tensor("q", s, heads * d), tensor("k", heads, t, d), tensor("v", heads, t, d)
    b = Builder()
    split = b.transpose(b.reshape(q, (s, heads, d)), (1, 0, 2))
    scores = b.softmax(b.matmul(split, b.transpose(k, (0, 2, 1))), -1)
    out = b.transpose(b.matmul(scores, v), (1, 0, 2))
    return graph("grouped_heads", (q, k, v), b, b.reshape(out, (s, heads * d)))


def tokens_linear(b: int, s: int, k: int, n: int) -> KernelGraph:
    """Tokens of several sequences: two axes that are rows of one matmul."""
    x, g, w = tensor("x", b, s, k), tensor("g", k), tensor("w", k, n)
    build = Builder()
    return graph("tokens_linear", (x, g, w), build, build.matmul(build.rms_norm(x, g), w))


def merged_heads_linear(s: int, heads: int, d: int, n: int) -> KernelGraph:
    """Heads and their width, summed together."""
    x, w, b = tensor("x", s, heads, d), tensor("w", heads * d, n), Builder()
    flat = b.reshape(b.unary(UnaryFn.SILU, x), (s, heads * d))
    return graph("merged_heads", (x, w), b, b.matmul(flat, w))


def centred_sums(m: int, n: int) -> KernelGraph:
    """A sum over rows of a function of the elements minus their mean."""
    x, b = tensor("x", m, n), Builder()
    mean = b.binary(BinaryFn.MUL, b.reduce(ReduceFn.SUM, x, (1,)), b.constant(1.0 / n))
    y = b.unary(UnaryFn.SILU, b.binary(BinaryFn.SUB, x, mean))
    return graph("centred_sums", (x,), b, b.reduce(ReduceFn.SUM, y, (1,)))


PROGRAMS = [
    rms_linear(4, 64, 96),
    rms_linear(3, 100, 70),
    rms_linear(1, 7, 1),
    rms_linear(5, 48, 40, DType.F32),
    rms_linear(5, 48, 40, DType.BF16),
    swiglu(5, 96, 80),
    swiglu(130, 33, 17),
    lora(16, 80, 20, 100),
    attention(2, 16, 64, 16),
    attention(2, 20, 101, 24),
    attention(3, 1, 130, 16),
    qk_norm_attention(2, 9, 77, 10),
    softmax(5, 37),
    matmul(1, 1, 1),
    matmul(1, 600, 1),
    matmul(257, 33, 131),
    n_transformer(4, 96),
    layer_norm_linear_gelu(8, 100, 48),
    residual_rms_linear(6, 128, 56),
    rms_swiglu_down(4, 64, 96),
    self_attention(24, 40, 16),
    grouped_heads(12, 4, 16, 50),
    *(
        grouped_attention(name, 2, 6, 2, rows, 16, keys, mask).graph()
        for name, rows, keys, mask in (
            ("shared_heads", 1, 70, ""),
            ("shared_heads_rows", 5, 64, ""),
            ("shared_heads_lengths", 3, 48, "length"),
            ("shared_heads_causal", 3, 48, "causal"),
        )
    ),
    tokens_linear(3, 5, 40, 24),
    merged_heads_linear(3, 4, 6, 24),
    centred_sums(3, 350),
]
"""Every kind of program at sizes that tiles often do not divide, small enough to be executed."""

LARGER = [lora(7, 64, 8, 48), softmax(64, 64)]


def program_id(program: KernelGraph) -> str:
    """Return the name of a program in a test."""
    return f"{program.name}-{program.inputs[0].type}"
