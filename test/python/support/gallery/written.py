"""Layers that are written here from their model's description, as one would write them."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def rotate_half(x: Tensor) -> Tensor:
    """Put the negated second half before the first."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


def rotate_pairs(x: Tensor) -> Tensor:
    """Exchange neighbouring elements, with the odd ones negated."""
    return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)


class PlainEncoderLayer(nn.Module):
    """Pre-norm encoder layer with LayerNorm, written in the simplest way."""

    def __init__(self, size: int, heads: int, inner: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(size)
        self.qkv = nn.Linear(size, 3 * size)
        self.out = nn.Linear(size, size)
        self.norm2 = nn.LayerNorm(size)
        self.up = nn.Linear(size, inner)
        self.down = nn.Linear(inner, size)

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, size = x.shape
        q, k, v = self.qkv(self.norm1(x)).chunk(3, dim=-1)
        q, k, v = (y.view(batch, tokens, self.heads, -1).transpose(1, 2) for y in (q, k, v))
        weights = torch.softmax(q @ k.transpose(-2, -1) / (size // self.heads) ** 0.5, dim=-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, tokens, size))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPTJBlock(nn.Module):
    """GPT-J: attention and MLP in parallel after one norm, rotary embeddings of pairs on a part of
    each head, scores in float32.
    """

    def __init__(self, size: int, heads: int, turned: int) -> None:
        super().__init__()
        self.heads, self.head, self.turned = heads, size // heads, turned
        self.ln_1 = nn.LayerNorm(size)
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (
            nn.Linear(size, size, bias=False) for _ in range(4)
        )
        self.fc_in = nn.Linear(size, 4 * size)
        self.fc_out = nn.Linear(4 * size, size)

    def forward(self, x: Tensor, mask: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, tokens, size = x.shape
        y = self.ln_1(x)
        q, k, v = (
            p(y).view(batch, tokens, self.heads, self.head)
            for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        cos, sin = (t[:, :, None, :].repeat_interleave(2, 3) for t in (cos, sin))
        q, k = (
            torch.cat((part * cos + rotate_pairs(part) * sin, rest), dim=-1)
            for part, rest in ((t[..., : self.turned], t[..., self.turned :]) for t in (q, k))
        )
        q, k, v = (t.permute(0, 2, 1, 3) for t in (q, k, v))
        scores = torch.matmul(q.float(), k.float().transpose(-1, -2)) / self.head**0.5
        weights = torch.softmax(scores + mask, dim=-1).to(v.dtype)
        attended = (weights @ v).permute(0, 2, 1, 3).reshape(batch, tokens, size)
        return self.out_proj(attended) + self.fc_out(F.gelu(self.fc_in(y), approximate="tanh")) + x


class RMSNorm(nn.Module):
    """As in Llama: statistics in float32."""

    def __init__(self, size: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * wide.to(x.dtype)


class InternLM2Layer(nn.Module):
    """InternLM 2: queries, keys and values of a group are adjacent in one projection."""

    def __init__(self, size: int, heads: int, groups: int, inner: int) -> None:
        super().__init__()
        self.heads, self.groups, self.head = heads, groups, size // heads
        self.attention_norm, self.ffn_norm = RMSNorm(size), RMSNorm(size)
        self.wqkv = nn.Linear(size, (heads + 2 * groups) * self.head, bias=False)
        self.wo = nn.Linear(size, size, bias=False)
        self.w1, self.w3 = nn.Linear(size, inner, bias=False), nn.Linear(size, inner, bias=False)
        self.w2 = nn.Linear(inner, size, bias=False)

    def forward(self, x: Tensor, mask: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, tokens, size = x.shape
        each = self.heads // self.groups
        qkv = self.wqkv(self.attention_norm(x)).view(batch, tokens, self.groups, each + 2, -1)
        q = qkv[..., :each, :].reshape(batch, tokens, self.heads, self.head).transpose(1, 2)
        k, v = (qkv[..., each + i, :].transpose(1, 2) for i in (0, 1))
        cos, sin = cos[:, None], sin[:, None]
        q, k = q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin
        k, v = (
            t[:, :, None].expand(-1, -1, each, -1, -1).reshape(batch, self.heads, tokens, -1)
            for t in (k, v)
        )
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.wo(y.transpose(1, 2).reshape(batch, tokens, size))
        y = self.ffn_norm(x)
        return x + self.w2(F.silu(self.w1(y)) * self.w3(y))


class MixerBlock(nn.Module):
    """MLP-Mixer: one MLP over tokens, one over channels."""

    def __init__(self, tokens: int, size: int, token_inner: int, inner: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(size, eps=1e-6), nn.LayerNorm(size, eps=1e-6)
        self.tokens = nn.Sequential(
            nn.Linear(tokens, token_inner), nn.GELU(), nn.Linear(token_inner, tokens)
        )
        self.channels = nn.Sequential(nn.Linear(size, inner), nn.GELU(), nn.Linear(inner, size))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.tokens(self.norm1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norm2(x))


class ConvNeXtTail(nn.Module):
    """The part of a ConvNeXt block after the convolution: norm, pointwise MLP, scale, residual."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size, eps=1e-6)
        self.pwconv1, self.pwconv2 = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)
        self.gamma = nn.Parameter(torch.ones(size))

    def forward(self, convolved: Tensor, x: Tensor) -> Tensor:
        y = self.norm(convolved.permute(0, 2, 3, 1))
        y = self.gamma * self.pwconv2(F.gelu(self.pwconv1(y)))
        return x + y.permute(0, 3, 1, 2)


def modulate(x: Tensor, shift: Tensor, scale: Tensor) -> Tensor:
    """``x`` scaled and shifted by vectors of each sample."""
    return x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


class DiTBlock(nn.Module):
    """DiT: norms whose scale, shift and gate a condition determines (adaLN-Zero)."""

    def __init__(self, size: int, heads: int, inner: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(size, elementwise_affine=False, eps=1e-6)
        self.norm2 = nn.LayerNorm(size, elementwise_affine=False, eps=1e-6)
        self.qkv, self.proj = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.fc1, self.fc2 = nn.Linear(size, inner), nn.Linear(inner, size)
        self.adaLN_modulation = nn.Sequential(nn.SiLU(), nn.Linear(size, 6 * size))

    def forward(self, x: Tensor, c: Tensor) -> Tensor:
        shift1, scale1, gate1, shift2, scale2, gate2 = self.adaLN_modulation(c).chunk(6, dim=1)
        x = x + gate1.unsqueeze(1) * self.attend(modulate(self.norm1(x), shift1, scale1))
        y = self.fc1(modulate(self.norm2(x), shift2, scale2))
        return x + gate2.unsqueeze(1) * self.fc2(F.gelu(y, approximate="tanh"))

    def attend(self, x: Tensor) -> Tensor:
        batch, tokens, size = x.shape
        qkv = self.qkv(x).reshape(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.proj(y.transpose(1, 2).reshape(batch, tokens, size))


class DenseExperts(nn.Module):
    """Experts (SwiGLU), all of which process all tokens; their results are added with given
    weights."""

    def __init__(self, experts: int, size: int, inner: int) -> None:
        super().__init__()
        self.gate_up = nn.Parameter(torch.randn(experts, size, 2 * inner) * size**-0.5)
        self.down = nn.Parameter(torch.randn(experts, inner, size) * inner**-0.5)

    def forward(self, x: Tensor, routing: Tensor) -> Tensor:
        gate, up = torch.matmul(x, self.gate_up).chunk(2, dim=-1)
        y = torch.bmm(F.silu(gate) * up, self.down)
        return (y * routing.transpose(0, 1).unsqueeze(-1)).sum(dim=0)


class SharedExpertMoE(nn.Module):
    """Dense experts and one that is gated by a sigmoid, as in Qwen2-MoE."""

    def __init__(self, experts: int, size: int, inner: int, shared: int) -> None:
        super().__init__()
        self.experts = DenseExperts(experts, size, inner)
        self.shared_gate = nn.Linear(size, 1, bias=False)
        self.gate_proj, self.up_proj = (nn.Linear(size, shared, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(shared, size, bias=False)

    def forward(self, x: Tensor, routing: Tensor) -> Tensor:
        y = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return self.experts(x, routing) + torch.sigmoid(self.shared_gate(x)) * y


class MambaProjections(nn.Module):
    """Mamba without its convolution and scan: the projections that give the scan's inputs, and the
    gate and projection after it.
    """

    def __init__(self, size: int, inner: int, state: int, rank: int) -> None:
        super().__init__()
        self.rank, self.state = rank, state
        self.norm = RMSNorm(size)
        self.in_proj = nn.Linear(size, 2 * inner, bias=False)
        self.x_proj = nn.Linear(inner, rank + 2 * state, bias=False)
        self.dt_proj = nn.Linear(rank, inner)
        self.D = nn.Parameter(torch.ones(inner))
        self.out_proj = nn.Linear(inner, size, bias=False)

    def forward(self, x: Tensor, scanned: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        hidden, gate = self.in_proj(self.norm(x)).chunk(2, dim=-1)
        hidden = F.silu(hidden)
        step, b, c = torch.split(self.x_proj(hidden), [self.rank, self.state, self.state], dim=-1)
        step = F.softplus(self.dt_proj(step))
        out = self.out_proj((scanned + hidden * self.D) * F.silu(gate))
        return x + out, step, b, c


class SwiGLU(nn.Module):
    """Norm, gated MLP and residual: half of a Llama layer."""

    def __init__(self, size: int, inner: int) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(size, eps=1e-6)
        self.gate_proj, self.up_proj = (nn.Linear(size, inner, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(inner, size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(x)
        return x + self.down_proj(F.silu(self.gate_proj(y)) * self.up_proj(y))
