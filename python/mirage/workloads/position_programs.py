"""Programs that depend on positions, lengths and indices: attention under masks that are computed,
decoding of sequences with different lengths, with caches in pages, and losses by target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from mirage.frontend.handles import Tensor
from mirage.frontend.kernel_graph import GraphBuilder
from mirage.semantics.scalar import BinaryFn, DType
from mirage.workloads.expert_layers import experts
from mirage.workloads.native import Native
from mirage.workloads.ragged_peers import flexible_lengths, folded_lengths, packed
from mirage.workloads.workload import InputSpec, Workload

if TYPE_CHECKING:
    import torch

_EPS = 1e-5
_HEADS, _KV_HEADS, _WIDTH = 32, 8, 128


def positions() -> Iterator[Workload]:
    """Yield all programs of positions."""
    yield masked_prompt(
        "window_s16384", _HEADS, _KV_HEADS, 16384, _WIDTH, window(1024), "windowed_attention 1024"
    )
    yield masked_prompt(
        "prefix_s4096", _HEADS, _KV_HEADS, 4096, _WIDTH, prefix(1024), "prefix_attention 1024"
    )
    yield alibi_prompt("alibi_s4096", _HEADS, _KV_HEADS, 4096, _WIDTH)
    yield decode_lengths("decode_lengths_b32", 32, 64, 8, _WIDTH, 8192)
    for page in (16, 64):
        yield decode_lengths(f"decode_pages{page}_b32", 32, 64, 8, _WIDTH, 8192, page)
    for tokens in (16, 2048):
        yield embedding_norm(f"embedding_rms_m{tokens}", tokens, 128256, 4096)
    yield target_loss("cross_entropy_targets_v128256", 512, 128256)
    yield from experts()


# ---- masks


class Mask:
    """The tokens that a row sees, written with the builder and with PyTorch."""

    def __init__(
        self,
        text: str,
        built: Callable[[GraphBuilder, Tensor, Tensor], Tensor],
        seen: Callable[[Any, Any], Any],
    ) -> None:
        self.text, self.built, self.seen = text, built, seen


def window(keys: int) -> Mask:
    """Each token sees itself and the last ``keys - 1`` before it."""

    def built(g: GraphBuilder, rows: Tensor, at: Tensor) -> Tensor:
        near = g.binary(BinaryFn.LT, rows - at, keys)
        return g.binary(BinaryFn.AND, g.binary(BinaryFn.LE, at, rows), near)

    return Mask(f"a window of {keys}", built, lambda i, j: (j <= i) & (i - j < keys))


def prefix(keys: int) -> Mask:
    """All tokens see the first ``keys`` tokens; other tokens are seen only by later ones."""

    def built(g: GraphBuilder, rows: Tensor, at: Tensor) -> Tensor:
        first = g.binary(BinaryFn.LT, at, keys)
        return g.binary(BinaryFn.OR, g.binary(BinaryFn.LE, at, rows), first)

    return Mask(f"a prefix of {keys}", built, lambda i, j: (j <= i) | (j < keys))


def _causal(g: GraphBuilder, rows: Tensor, at: Tensor) -> Tensor:
    return g.binary(BinaryFn.LE, at, rows)


def _shared(g: GraphBuilder, x: Tensor, group: int) -> Tensor:
    """``(batch, kv_heads, keys, d)`` for each of a group of heads."""
    batch, heads, keys, d = x.shape
    x = g.reshape(x, (batch, heads, 1, keys, d))
    return g.broadcast(x, (batch, heads, group, keys, d))


def _grid(g: GraphBuilder, tokens: int) -> tuple[Tensor, Tensor]:
    position = g.iota(tokens)
    return g.reshape(position, (tokens, 1)), g.reshape(position, (1, tokens))


def _visible(x: torch.Tensor, seen: Callable[[Any, Any], Any]) -> torch.Tensor:
    import torch

    at = torch.arange(x.shape[-2], device=x.device)
    return seen(at[:, None], at[None, :])


def _by_head(module: Callable[..., Any], group: int, *own: int) -> Callable[..., Any]:
    """Compute ``module`` with less memory, one head of the keys after the other; inputs ``own``
    have one row for each head."""

    def exact(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *rest: Any) -> torch.Tensor:
        import torch

        parts = [
            module(q[:, h * group : (h + 1) * group], k[:, h : h + 1], v[:, h : h + 1],
                   *(r[h * group : (h + 1) * group] if i in own else r
                     for i, r in enumerate(rest)))
            for h in range(k.shape[1])
        ]  # fmt: skip
        return torch.cat(parts, 1)

    return exact


def _flexible(
    seen: Callable[[Any, Any], Any], score: Callable[..., Callable[..., Any]] | None = None
) -> Native:
    """FlexAttention, compiled on a GPU, without the tiles that ``seen`` empties, and with scores
    that ``score`` changes by the additional inputs."""
    made: list[tuple[Any, Any]] = []

    def program(q: Any, k: Any, v: Any, *rest: Any) -> torch.Tensor:
        import torch
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        if not made:
            mask = create_block_mask(
                lambda _b, _h, i, j: seen(i, j), None, None, q.shape[-2], k.shape[-2],
                device=q.device.type,
            )  # fmt: skip
            compiled = torch.compile(flex_attention, dynamic=False) if q.is_cuda else flex_attention
            made.append((compiled, mask))
        attention, mask = made[0]
        change = None if score is None else score(*rest)
        return attention(q, k, v, score_mod=change, block_mask=mask, enable_gqa=True)

    return Native("flex", program, attention=False)


def _prompt_inputs(heads: int, kv_heads: int, tokens: int, d: int) -> tuple[InputSpec, ...]:
    kv = (1, kv_heads, tokens, d)
    return InputSpec("q", (1, heads, tokens, d)), InputSpec("k", kv), InputSpec("v", kv)


def masked_prompt(
    name: str, heads: int, kv_heads: int, tokens: int, d: int, mask: Mask, family: str = ""
) -> Workload:
    """Attention of a whole prompt under a mask of positions."""
    group = heads // kv_heads

    def build(g: GraphBuilder, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q = g.reshape(q, (1, kv_heads, group, tokens, d))
        scores = (q @ g.transpose(_shared(g, k, group))) * d**-0.5
        scores = scores + g.bias(g.cast(mask.built(g, *_grid(g, tokens)), q.dtype))
        return g.reshape(g.softmax(scores) @ _shared(g, v, group), (1, heads, tokens, d))

    def module(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        import torch

        fused = torch.nn.functional.scaled_dot_product_attention
        return fused(q, k, v, attn_mask=_visible(q, mask.seen), enable_gqa=True)

    text = f"attention of {tokens} tokens with {mask.text}, {heads} heads of {d} on {kv_heads}"
    natives = (Native("", module), _flexible(mask.seen))
    inputs = _prompt_inputs(heads, kv_heads, tokens, d)
    exact = _by_head(module, group)
    return Workload(name, text, inputs, build, module, natives=natives, exact=exact, family=family)


def alibi_prompt(name: str, heads: int, kv_heads: int, tokens: int, d: int) -> Workload:
    """Causal attention with linear biases: distant keys count less, by a slope for each head."""
    group, scale = heads // kv_heads, d**-0.5

    def build(g: GraphBuilder, q: Tensor, k: Tensor, v: Tensor, slopes: Tensor) -> Tensor:
        q = g.reshape(q, (1, kv_heads, group, tokens, d))
        rows, keys = _grid(g, tokens)
        distance = g.cast(keys - rows, "float32")
        scores = g.cast(q @ g.transpose(_shared(g, k, group)), "float32") * scale
        scores = scores + g.reshape(slopes, (1, kv_heads, group, 1, 1)) * distance
        scores = scores + g.bias(g.cast(_causal(g, rows, keys), "float32"))
        y = g.cast(g.softmax(scores), q.dtype) @ _shared(g, v, group)
        return g.reshape(y, (1, heads, tokens, d))

    def seen(i: Any, j: Any) -> Any:
        return j <= i

    def module(q: Any, k: Any, v: Any, slopes: torch.Tensor) -> torch.Tensor:
        import torch

        at = torch.arange(tokens, device=q.device)
        bias = slopes[:, None, None] * (at[None, :] - at[:, None])
        bias = bias.masked_fill(~_visible(q, seen), -torch.inf).to(q.dtype)
        fused = torch.nn.functional.scaled_dot_product_attention
        return fused(q, k, v, attn_mask=bias, enable_gqa=True)

    def score(slopes: Any) -> Callable[..., Any]:
        return lambda s, _b, h, i, j: s + slopes[h] * (j - i)

    slope = InputSpec("slopes", (heads,), std=0.02, mean=0.1, dtype=DType.F32)
    text = f"causal attention with linear biases of {tokens} tokens, {heads} heads of {d}"
    natives = (Native("", module), _flexible(seen, score))
    inputs = (*_prompt_inputs(heads, kv_heads, tokens, d), slope)
    exact, family = _by_head(module, group, 0), "sloped_attention"
    return Workload(name, text, inputs, build, module, natives=natives, exact=exact, family=family)


# ---- lengths and pages


def decode_lengths(
    name: str, batch: int, heads: int, kv_heads: int, d: int, most: int, page: int = 0
) -> Workload:
    """One token of each of ``batch`` sequences, which see as many keys as their lengths say. With
    ``page`` rows in a page, the cache is a pool of which each sequence owns some pages."""
    group, scale = heads // kv_heads, d**-0.5

    def attended(g: GraphBuilder, q: Tensor, k: Tensor, v: Tensor, lengths: Tensor) -> Tensor:
        q = g.reshape(q, (batch, kv_heads, group, d))
        seen = g.binary(BinaryFn.LT, g.iota(most), g.reshape(lengths, (batch, 1, 1, 1)))
        scores = (q @ g.transpose(k)) * scale + g.bias(g.cast(seen, q.dtype))
        return g.reshape(g.softmax(scores) @ v, (batch, heads, 1, d))

    def build(g: GraphBuilder, q: Tensor, k: Tensor, v: Tensor, *rest: Tensor) -> Tensor:
        if page:
            k, v = (g.transpose(g.gather(x, rest[0]), 0, 2, 1, 3) for x in (k, v))
        return attended(g, q, k, v, rest[-1])

    def masked(q: Any, k: Any, v: Any, lengths: Any) -> torch.Tensor:
        import torch

        mask = torch.arange(most, device=q.device) < lengths[:, None, None, None]
        fused = torch.nn.functional.scaled_dot_product_attention
        return fused(q, k, v, attn_mask=mask, enable_gqa=True)

    def module(q: Any, k: Any, v: Any, *rest: Any) -> torch.Tensor:
        if page:
            k, v = (x[rest[0]].transpose(1, 2) for x in (k, v))
        return masked(q, k, v, rest[-1])

    def exact(q: Any, k: Any, v: Any, *rest: Any) -> torch.Tensor:
        import torch

        own = [r.split(1) for r in ((q, *rest) if page else (q, k, v, *rest))]
        pool = (k, v) if page else ()
        return torch.cat([module(q, *pool, *r) for q, *r in zip(*own, strict=True)])

    kv = (batch * most, kv_heads, d) if page else (batch, kv_heads, most, d)
    rows = InputSpec("rows", (batch, most), dtype=DType.I64, below=batch * most, page=page)
    lengths = InputSpec("lengths", (batch,), dtype=DType.I64, below=most + 1, least=1)
    cache = (InputSpec("q", (batch, heads, 1, d)), InputSpec("k", kv), InputSpec("v", kv))
    where = f", rows in pages of {page}" if page else ""
    text = f"decoding of {batch} sequences of 1 to {most} keys{where}, {heads} heads on {kv_heads}"
    natives = (
        *(() if page else (Native("gqa", masked), packed(), folded_lengths(group))),
        flexible_lengths(most, page),
    )
    inputs = (*cache, *((rows,) if page else ()), lengths)
    family = "paged_attention" if page else "attention_of_lengths"
    return Workload(name, text, inputs, build, module, natives=natives, exact=exact, family=family)


# ---- lookups


def embedding_norm(name: str, tokens: int, words: int, width: int) -> Workload:
    """Rows of a table by token, and the norm before the first layer; both are results."""

    def build(g: GraphBuilder, table: Tensor, ids: Tensor, gain: Tensor) -> tuple[Tensor, Tensor]:
        x = g.gather(table, ids)
        return g.cast(x * 1.0, table.dtype), g.rms_norm(x, gain, eps=_EPS)

    def module(table: Any, ids: Any, gain: Any) -> tuple[torch.Tensor, torch.Tensor]:
        import torch

        x = torch.nn.functional.embedding(ids, table)
        return x, torch.nn.functional.rms_norm(x, (width,), gain, _EPS)

    inputs = (
        InputSpec("table", (words, width), weight=True),
        InputSpec("ids", (tokens,), dtype=DType.I64, below=words),
        InputSpec("g", (width,), std=0.1, mean=1.0, weight=True),
    )
    text = f"embedding of {tokens} tokens among {words}, and rms_norm of {width} with gain"
    return Workload(name, text, inputs, build, module, family="embedding_norm")


def target_loss(name: str, tokens: int, words: int) -> Workload:
    """The cross-entropy of each token with the number of the actual next word."""

    def build(g: GraphBuilder, x: Tensor, targets: Tensor) -> Tensor:
        first = g.binary(BinaryFn.MUL, g.iota(tokens), words)
        place = g.binary(BinaryFn.ADD, first, targets)
        picked = g.reshape(g.gather(g.reshape(x, (tokens * words, 1)), place), (tokens,))
        total = g.reshape(g.sum(g.exp(g.cast(x, "float32")), 1), (tokens,))
        return g.log(total) - g.cast(picked, "float32")

    def module(x: Any, targets: Any) -> torch.Tensor:
        import torch

        wide = x if x.dtype is torch.float64 else x.float()
        return torch.nn.functional.cross_entropy(wide, targets, reduction="none")

    inputs = (
        InputSpec("x", (tokens, words)),
        InputSpec("targets", (tokens,), dtype=DType.I64, below=words),
    )
    text = f"cross-entropy of {tokens} tokens with targets among {words} words"
    return Workload(name, text, inputs, build, module, family="target_loss")
