"""Kernels written in Triton for each family of programs and tuned on the machine at hand: kernels
that an engineer with enough time would write.

Each is one launch (two if keys are split) with everything fused into it. The first call on a
program tries the configurations, cold, and keeps the fastest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

import torch
import triton
import triton.language as tl
import triton_products as products
import triton_rows
from mirage.workloads import Workload, get
from triton.compiler.errors import CompilationError
from triton.runtime.errors import OutOfResources
from triton_attention import Form, latent
from triton_attention import attention as formed
from triton_fused import GAINED, QKV, Layer, adapted_gate, linear, low_rank, two
from triton_tuned import LOG2E, Config, Tensor, Tuned, fitting, grid, how

# ---- attention


@triton.jit
def _steps(
    tile, k, v, most, total, sums, scale, start, end, m, d, skd, skn, ahead,
    D: tl.constexpr, BN: tl.constexpr, SEEN: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """Process keys from ``start`` to ``end``; ``SEEN`` says that all rows attend to all of them."""
    for at in tl.range(start, end, BN):
        n = at + tl.arange(0, BN)
        inside = n < end
        where = k + d[:, None] * skd + n[None, :] * skn
        kt = tl.load(where) if SEEN else tl.load(where, mask=inside[None, :], other=0.0)
        s = tl.dot(tile, kt)
        if not SEEN:
            seen = inside[None, :]
            if CAUSAL:
                seen = seen & (n[None, :] <= m[:, None] + ahead)
            s = tl.where(seen, s, -1.0e30)
        new = tl.maximum(most, tl.max(s, 1) * scale)
        p = tl.exp2(s * scale - new[:, None])
        keep = tl.exp2(most - new)
        total = total * keep + tl.sum(p, 1)
        where = v + n[:, None] * D + d[None, :]
        vt = tl.load(where) if SEEN else tl.load(where, mask=inside[:, None], other=0.0)
        sums = tl.dot(p.to(vt.dtype), vt, sums * keep[:, None])
        most = new
    return most, total, sums


@triton.jit
def _attend(
    q, k, v, out, part, top, low, scale, rows, keys, sqh, skh, skd, skn, svh,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, SPLITS: tl.constexpr,
    CAUSAL: tl.constexpr, EVEN: tl.constexpr,
):  # fmt: skip
    block, split, head = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    if CAUSAL:  # those with the most work first
        block = tl.num_programs(0) - 1 - block
    m = block * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    tile = tl.load(q + head * sqh + m[:, None] * D + d[None, :], mask=m[:, None] < rows, other=0.0)
    each = tl.cdiv(keys, SPLITS)
    start = split * each
    end = tl.minimum(start + each, keys)
    if CAUSAL:
        end = tl.minimum(end, (block + 1) * BM + keys - rows)
    most = tl.full((BM,), -1.0e30, tl.float32)
    total = tl.zeros((BM,), tl.float32)
    sums = tl.zeros((BM, D), tl.float32)
    k += head * skh
    v += head * svh
    # keys to which all rows attend, without masks; then the others
    full = end
    if CAUSAL:
        full = tl.minimum(end, block * BM + keys - rows)
    if not EVEN:
        full = start + (full - start) // BN * BN
    elif CAUSAL:
        full = full // BN * BN
    most, total, sums = _steps(
        tile, k, v, most, total, sums, scale, start, full, m, d, skd, skn, keys - rows,
        D=D, BN=BN, SEEN=True, CAUSAL=CAUSAL,
    )  # fmt: skip
    if CAUSAL or not EVEN:
        most, total, sums = _steps(
            tile, k, v, most, total, sums, scale, full, end, m, d, skd, skn, keys - rows,
            D=D, BN=BN, SEEN=False, CAUSAL=CAUSAL,
        )  # fmt: skip
    inside = m < rows
    if SPLITS == 1:
        result = sums / total[:, None]
        where = out + head * rows * D + m[:, None] * D + d[None, :]
        tl.store(where, result.to(out.dtype.element_ty), mask=inside[:, None])
    else:
        row = (head * SPLITS + split) * rows + m
        tl.store(top + row, most, mask=inside)
        tl.store(low + row, total, mask=inside)
        tl.store(part + row[:, None] * D + d[None, :], sums, mask=inside[:, None])


@triton.jit
def _combine(out, part, top, low, rows, D: tl.constexpr, SPLITS: tl.constexpr):
    row, head = tl.program_id(0), tl.program_id(1)
    s, d = tl.arange(0, SPLITS), tl.arange(0, D)
    at = (head * SPLITS + s) * rows + row
    most = tl.load(top + at)
    weight = tl.exp2(most - tl.max(most, 0))
    total = tl.sum(weight * tl.load(low + at), 0)
    sums = tl.sum(weight[:, None] * tl.load(part + at[:, None] * D + d[None, :]), 0)
    tl.store(out + (head * rows + row) * D + d, (sums / total).to(out.dtype.element_ty))


def attention(scaled: bool, keys_by_row: bool, causal: bool) -> Tuned:
    """Attention of ``(heads, rows, d)``, with keys split if there are few blocks."""

    def launch(inputs: Sequence[Tensor], config: Config) -> Tensor:
        q, k, v = inputs
        heads, rows, d = q.shape
        keys, splits = v.shape[1], config["SPLITS"]
        scale = d**-0.5 if scaled else 1.0
        out = torch.empty_like(q)
        few = {"dtype": torch.float32, "device": q.device}
        part = torch.empty((heads, splits, rows, d) if splits > 1 else (1,), **few)
        top, low = torch.empty((2, heads, splits, rows) if splits > 1 else (2, 1), **few)
        skd, skn = (1, k.stride(1)) if keys_by_row else (k.stride(1), 1)
        blocks = triton.cdiv(rows, config["BM"]), splits, heads
        _attend[blocks](
            q, k, v, out, part, top, low, scale * LOG2E, rows, keys,
            q.stride(0), k.stride(0), skd, skn, v.stride(0), D=d, CAUSAL=causal,
            EVEN=keys % (splits * config["BN"]) == 0, **how(config),
        )  # fmt: skip
        if splits > 1:
            _combine[rows, heads](out, part, top, low, rows, D=d, SPLITS=splits, num_warps=4)
        return out

    def configs(inputs: Sequence[Tensor]) -> Iterator[Config]:
        heads, rows, _ = inputs[0].shape
        tall = [16] if rows <= 16 else [64, 128, 256] if rows > 64 else [16, 32, 64]
        tall = [t for t in tall if t <= max(64, rows)]
        splits = [1] if causal else [1, 2, 4, 8, 16, 32]
        every = grid(BM=tall, BN=[32, 64, 128], SPLITS=splits, warps=[4, 8], stages=[2, 3, 4])
        every = (c for c in every if c["warps"] == 4 or c["BM"] > 64)
        yield from fitting(lambda c: heads * triton.cdiv(rows, c["BM"]) * c["SPLITS"], every)

    return Tuned(configs, launch)


# ---- products of few rows, with the ops before and after them


@triton.jit
def _product(
    x, w1, w2, out, squares, rows, n, k,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLITS: tl.constexpr,
    GATED: tl.constexpr, NORMED: tl.constexpr,
):  # fmt: skip
    """``x @ w1``, and ``x @ w2`` if ``GATED``, with the sums of the rows' squares if ``NORMED``. If
    the summed axis is split, partial sums in f32, for ``_joined``."""
    m, c = tl.arange(0, BM), tl.program_id(0) * BN + tl.arange(0, BN)
    split = tl.program_id(1)
    one = tl.zeros((BM, BN), tl.float32)
    two = tl.zeros((BM, BN), tl.float32)
    square = tl.zeros((BM, BK), tl.float32)
    xs = x + tl.where(m < rows, m, 0)[:, None] * k
    for at in range(split * (k // SPLITS), (split + 1) * (k // SPLITS), BK):
        i = at + tl.arange(0, BK)
        xt = tl.load(xs + i[None, :])
        first = tl.load(w1 + i[:, None] * n + c[None, :], eviction_policy="evict_first")
        one = tl.dot(xt, first, one)
        if GATED:
            second = tl.load(w2 + i[:, None] * n + c[None, :], eviction_policy="evict_first")
            two = tl.dot(xt, second, two)
        if NORMED:
            wide = xt.to(tl.float32)
            square += wide * wide
    inside = m[:, None] < rows
    if SPLITS == 1:
        total = tl.sum(square, 1)
        result = _finished(one, two, total[:, None], k, GATED, NORMED)
        tl.store(out + m[:, None] * n + c[None, :], result.to(out.dtype.element_ty), inside)
    else:
        where = out + (split * rows + m)[:, None] * n + c[None, :]
        tl.store(where, one, inside)
        if GATED:
            tl.store(where + SPLITS * rows * n, two, inside)
        if NORMED:
            mine = (m < rows) & (tl.program_id(0) == 0)
            tl.store(squares + split * rows + m, tl.sum(square, 1), mine)


@triton.jit
def _finished(one, two, square, k, GATED: tl.constexpr, NORMED: tl.constexpr):
    result = one
    if GATED:
        result = one * tl.sigmoid(one) * two
    if NORMED:
        result = result * tl.rsqrt(square / k + 1e-6)
    return result


@triton.jit
def _joined(
    parts, squares, out, rows, n, k,
    BN: tl.constexpr, SPLITS: tl.constexpr, GATED: tl.constexpr, NORMED: tl.constexpr,
):  # fmt: skip
    row, c = tl.program_id(1), tl.program_id(0) * BN + tl.arange(0, BN)
    s = tl.arange(0, SPLITS)
    where = parts + (s * rows + row)[:, None] * n + c[None, :]
    one = tl.sum(tl.load(where), 0)
    two = one
    if GATED:
        two = tl.sum(tl.load(where + SPLITS * rows * n), 0)
    square = 0.0
    if NORMED:
        square = tl.sum(tl.load(squares + s * rows + row), 0)
    result = _finished(one, two, square, k, GATED, NORMED)
    tl.store(out + row * n + c, result.to(out.dtype.element_ty))


@triton.jit
def _lora(
    x, w, a, b, out, rows, n, k,
    R: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    m, c, r = tl.arange(0, BM), tl.program_id(0) * BN + tl.arange(0, BN), tl.arange(0, R)
    sums = tl.zeros((BM, BN), tl.float32)
    inner = tl.zeros((BM, R), tl.float32)
    xs = x + tl.where(m < rows, m, 0)[:, None] * k
    for at in range(0, k, BK):
        i = at + tl.arange(0, BK)
        xt = tl.load(xs + i[None, :])
        sums = tl.dot(xt, tl.load(w + i[:, None] * n + c[None, :]), sums)
        inner = tl.dot(xt, tl.load(a + i[:, None] * R + r[None, :]), inner)
    bt = tl.load(b + r[:, None] * n + c[None, :])
    sums = tl.dot(inner.to(bt.dtype), bt, sums)
    tl.store(out + m[:, None] * n + c[None, :], sums.to(out.dtype.element_ty), m[:, None] < rows)


def few_rows(
    launch: Callable[[Sequence[Tensor], Tensor, tuple[int, int], Config], None],
    splits: Sequence[int] = (1,),
) -> Tuned:
    """All rows in one block; columns and parts of the summed axis are divided among blocks."""

    def run(inputs: Sequence[Tensor], config: Config) -> Tensor:
        x, w = inputs[:2]
        out = torch.empty((x.shape[0], w.shape[1]), dtype=x.dtype, device=x.device)
        launch(inputs, out, (triton.cdiv(w.shape[1], config["BN"]), config["SPLITS"]), config)
        return out

    def configs(inputs: Sequence[Tensor]) -> Iterator[Config]:
        rows = max(16, triton.next_power_of_2(inputs[0].shape[0]))
        k, n = inputs[1].shape
        deep = [b for b in (32, 64, 128, 256, 512) if b <= k]
        every = grid(
            BM=[rows],
            BN=[16, 32, 64, 128],
            BK=deep,
            SPLITS=splits,
            warps=[2, 4, 8],
            stages=[3, 4, 6],
        )
        # bytes of weights that are in flight at a time
        every = (c for c in every if 32e3 <= 2 * c["BN"] * c["BK"] * c["stages"] <= 120e3)
        yield from fitting(lambda c: n // c["BN"] * c["SPLITS"], every)

    return Tuned(configs, run)


def streamed(gated: bool, normed: bool) -> Tuned:
    """Weights are read once; if there are few columns the summed axis is split."""

    def launch(
        inputs: Sequence[Tensor], out: Tensor, blocks: tuple[int, int], config: Config
    ) -> None:
        x, w = inputs[:2]
        (rows, k), n, splits = x.shape, w.shape[1], config["SPLITS"]
        which = {"GATED": gated, "NORMED": normed}
        wide = {"dtype": torch.float32, "device": x.device}
        parts = torch.empty((2, splits, rows, n), **wide) if splits > 1 else out
        squares = torch.empty((splits, rows), **wide) if splits > 1 else out
        _product[blocks](x, w, inputs[-1], parts, squares, rows, n, k, **which, **how(config))
        if splits > 1:
            joined = triton.cdiv(n, 256), rows
            _joined[joined](
                parts, squares, out, rows, n, k, BN=256, SPLITS=splits, **which, num_warps=4
            )

    return few_rows(launch, (1, 2, 4, 8))


def _run_lora(
    inputs: Sequence[Tensor], out: Tensor, blocks: tuple[int, int], config: Config
) -> None:
    x, w, a, b = inputs
    k, n = w.shape
    sizes = {key: value for key, value in config.items() if key != "SPLITS"}
    _lora[blocks](x, w, a, b, out, len(x), n, k, R=a.shape[1], **how(sizes))


# ---- softmax


@triton.jit
def _softmax(x, out, rows, n, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    m, c = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, BLOCK)
    at = m[:, None].to(tl.int64) * n + c[None, :]
    inside = (m[:, None] < rows) & (c[None, :] < n)
    v = tl.load(x + at, mask=inside, other=float("-inf")).to(tl.float32)
    e = tl.exp2((v - tl.max(v, 1)[:, None]) * 1.4426950408889634)
    result = e / tl.sum(e, 1)[:, None]
    tl.store(out + at, result.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _softmax_long(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n
    most, total = float("-inf"), 0.0
    for at in range(0, n, BLOCK):
        c = at + tl.arange(0, BLOCK)
        v = tl.load(x + row + c, mask=c < n, other=float("-inf")).to(tl.float32)
        new = tl.maximum(most, tl.max(v, 0))
        e = tl.sum(tl.exp2((v - new) * 1.4426950408889634), 0)
        total = total * tl.exp2((most - new) * 1.4426950408889634) + e
        most = new
    for at in range(0, n, BLOCK):
        c = at + tl.arange(0, BLOCK)
        v = tl.load(x + row + c, mask=c < n, other=float("-inf")).to(tl.float32)
        result = tl.exp2((v - most) * 1.4426950408889634) / total
        tl.store(out + row + c, result.to(out.dtype.element_ty), mask=c < n)


def softmax() -> Tuned:
    def launch(inputs: Sequence[Tensor], config: Config) -> Tensor:
        (x,) = inputs
        rows, n = x.shape
        out = torch.empty_like(x)
        if "ROWS" in config:
            _softmax[(triton.cdiv(rows, config["ROWS"]),)](x, out, rows, n, **how(config))
        else:
            _softmax_long[(rows,)](x, out, n, **how(config))
        return out

    def configs(inputs: Sequence[Tensor]) -> Iterator[Config]:
        n = inputs[0].shape[1]
        size = triton.next_power_of_2(n)
        if size <= 32768:
            high = [r for r in (1, 2, 4, 8) if r * size <= 8192] or [1]
            yield from grid(ROWS=high, BLOCK=[size], warps=[4, 8, 16])
        else:
            yield from grid(BLOCK=[4096, 8192, 16384], warps=[8, 16, 32])

    return Tuned(configs, launch)


FAMILIES: dict[str, Callable[..., Tuned]] = {
    "attention": lambda: attention(False, False, False),
    "scaled_attention": lambda: attention(True, True, False),
    "causal_attention": lambda: attention(True, True, True),
    "normed_attention": lambda: formed(Form(scaled=False, keys_by_row=False, norm=True)),
    "rotary_attention": lambda: formed(Form(rotary=True)),
    "grouped_attention": lambda: formed(Form()),
    "causal_prompt": lambda: formed(Form(causal=True)),
    "masked_attention": lambda: formed(Form(extra=1)),
    "windowed_attention": lambda window: formed(Form(causal=True, window=window)),
    "prefix_attention": lambda prefix: formed(Form(causal=True, prefix=prefix)),
    "sloped_attention": lambda: formed(Form(causal=True, extra=2)),
    "attention_of_lengths": lambda: formed(Form(extra=3)),
    "paged_attention": lambda: formed(Form(extra=3, paged=True)),
    "latent_attention": lambda kept: latent(kept, 192**-0.5),
    "rms_matmul": lambda: streamed(gated=False, normed=True),
    "rms_gain_matmul": lambda: linear(GAINED),
    "rms_qkv": lambda: linear(QKV),
    "rms_silu_linear": lambda: linear(Layer(norm=1, silu=True)),
    "residual_rms_linear": lambda: linear(Layer(norm=1, residual=True)),
    "norm_linear_gelu": lambda: linear(Layer(norm=2, bias=True, after=2, eps=1e-5)),
    "norm_mlp": lambda: two(Layer(norm=2, bias=True, after=2, eps=1e-5), Layer(after=1), 2),
    "rms_swiglu_down": lambda: two(Layer(norm=1, gated=True), Layer(), 1),
    "expert_layer": lambda: two(Layer(after=3), Layer(), 1, batched=True),
    "adapted_gate": adapted_gate,
    "low_rank": low_rank,
    "gated_mlp": lambda: streamed(gated=True, normed=False),
    "lora": lambda: few_rows(_run_lora),
    "product": lambda: products.product(by_row=False),
    "linear": lambda: products.product(by_row=True),
    "linear_residual": products.residual_product,
    "scaled_product": products.scaled_product,
    "gated_product": products.gated_product,
    "norm_products": lambda: products.normed_products(1e-6),
    "softmax": softmax,
    "rms_norm": lambda: triton_rows.norm(False, 1e-6),
    "layer_norm": lambda: triton_rows.norm(True, 1e-6),
    "group_norm": lambda groups: triton_rows.group_norm(groups, 1e-5),
    "normed_mix": triton_rows.normed_mix,
    "embedding_norm": lambda: triton_rows.embedding_norm(1e-5),
    "cross_entropy": lambda: triton_rows.loss(targets=False),
    "target_loss": lambda: triton_rows.loss(targets=True),
}


def compile_part(name: str, part: int, of: int) -> None:
    """Compile each ``of``-th configuration of a program for Triton's cache on disk."""
    workload = get(name)
    tuned = peer(workload)
    if tuned is None:
        return
    inputs = workload.torch_inputs(0, device="cuda")
    for number, config in enumerate(tuned.configs(inputs)):
        if number % of == part and number < tuned.tried:
            with suppress(OutOfResources, CompilationError):
                tuned.launch(inputs, config)
    torch.cuda.synchronize()


def peer(workload: Workload) -> Tuned | None:
    """Return the kernel for a program, if there is one."""
    kind, *numbers = workload.family.split() or [""]
    make = FAMILIES.get(kind)
    return make(*map(int, numbers)) if make else None
