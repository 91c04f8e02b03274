"""Programs with 8-bit floats: scaled products, quantised activations, conversions in both
directions."""

from __future__ import annotations

from typing import Any

import torch

from written.pairs import Pair

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
SCALED = "32x64:e4m3 48x64:e4m3 1 1"
ROWS = "32x64:e4m3 48x64:e4m3 32x1 1x48"
QUANTISED = "32x64:f16 48x64:e4m3 1 1"


def scaled(a: Any, b: Any, s: Any, t: Any) -> Any:
    multiply = getattr(torch, "_scaled_mm")  # noqa: B009 (PyTorch has no other name)
    return multiply(a, b.t(), s, t, out_dtype=torch.bfloat16)


def written_out(a: Any, b: Any, s: Any, t: Any) -> Any:
    return ((a.float() @ b.float().t()) * (s * t)).bfloat16()


def quantised(x: Any, b: Any, s: Any, t: Any) -> Any:
    return scaled((x.float() * t).to(E4M3), b, s, t)


SAME_EIGHT_BITS: list[Pair] = [
    Pair("a scaled product, written out", SCALED, scaled, written_out),
    Pair("scales of rows, one after the other", ROWS, scaled,
         lambda a, b, s, t: (((a.float() @ b.float().t()) * t) * s).bfloat16()),
    Pair("a scaled product, its factors as f16", SCALED, scaled,
         lambda a, b, s, t: ((a.half().float() @ b.half().float().t()) * s * t).bfloat16()),
    Pair("a product with what was quantised", QUANTISED, quantised,
         lambda x, b, s, t: written_out((t * x.float()).to(E4M3), b, s, t)),
    Pair("there and back, twice", "16x16", lambda x: x.to(E4M3).float() * 2.0,
         lambda x: x.to(E4M3).float() + x.to(E4M3).float()),
    Pair("moved before and after", "16x16", lambda x: x.t().to(E5M2).float(),
         lambda x: x.to(E5M2).t().float()),
]  # fmt: skip
OTHER_EIGHT_BITS: list[Pair] = [
    Pair("without the rounding", QUANTISED, quantised,
         lambda x, b, s, t: (((x.float() * t) @ b.float().t()) * s * t).bfloat16()),
    Pair("rounded to the other type", QUANTISED, quantised,
         lambda x, b, s, t: written_out((x.float() * t).to(E5M2), b, s, t)),
    Pair("one scale twice", SCALED, scaled, lambda a, b, s, t: written_out(a, b, s, s)),
    Pair("without a scale", SCALED, scaled,
         lambda a, b, s, t: ((a.float() @ b.float().t()) * s).bfloat16()),
    Pair("scaled by the other's scale", QUANTISED, quantised,
         lambda x, b, s, t: scaled((x.float() * s).to(E4M3), b, s, t)),
    Pair("there and back", "16x16", lambda x: x.to(E4M3).float(), lambda x: x * 1.0),
    Pair("rounded twice", "16x16", lambda x: x.to(E4M3).float(),
         lambda x: x.to(E5M2).to(E4M3).float()),
    Pair("rounded after the sum", "16x16 16x16",
         lambda x, y: x.to(E4M3).float() + y.to(E4M3).float(),
         lambda x, y: (x + y).to(E4M3).float()),
    Pair("scaled before the rounding", "16x16", lambda x: x.to(E4M3).float() * 3.0,
         lambda x: (x * 3.0).to(E4M3).float()),
]  # fmt: skip
