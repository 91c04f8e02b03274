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
import triton_experts
import triton_products as products
import triton_rows
from mirage.workloads import Workload, get
from triton.compiler.errors import CompilationError
from triton.runtime.errors import OutOfResources
from triton_attention import Form, attention, latent
from triton_fused import GAINED, QKV, Layer, adapted_gate, linear, low_rank, two
from triton_tuned import TRIED, Config, Tensor, Tuned, fitting, grid, how

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
    "attention": lambda: attention(Form(scaled=False, keys_by_row=False), TRIED),
    "scaled_attention": lambda: attention(Form(), TRIED),
    "causal_attention": lambda: attention(Form(causal=True), TRIED),
    "normed_attention": lambda: attention(Form(scaled=False, keys_by_row=False, norm=True)),
    "rotary_attention": lambda: attention(Form(rotary=True)),
    "grouped_attention": lambda: attention(Form()),
    "causal_prompt": lambda: attention(Form(causal=True)),
    "masked_attention": lambda: attention(Form(extra=1)),
    "windowed_attention": lambda window: attention(Form(causal=True, window=window)),
    "prefix_attention": lambda prefix: attention(Form(causal=True, prefix=prefix)),
    "sloped_attention": lambda: attention(Form(causal=True, extra=2)),
    "attention_of_lengths": lambda: attention(Form(extra=3)),
    "paged_attention": lambda: attention(Form(extra=3, paged=True)),
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
    "grouped_experts": triton_experts.grouped,
    "routed_experts": triton_experts.routed,
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
