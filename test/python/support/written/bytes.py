"""Bytes and other whole numbers: halves that are taken apart and joined, remainders and quotients
of both kinds, and numbers that wrap around.
"""

from __future__ import annotations

from typing import Any

import torch

from written.pairs import Pair

WHOLE, BYTES, SIGNED, WIDE = "6x12:i64", "6x12:u8", "6x12:i8", "6x12:i32"
WEIGHTS = "6x32 8x16:u8 8"


def truncated(x: Any, n: int) -> Any:
    return torch.div(x, n, rounding_mode="trunc")


def with_sign(n: Any) -> Any:
    return torch.where(n >= 8, n - 16, n)


def dequantised(x: Any, p: Any, s: Any) -> Any:
    halves = torch.stack([(p & 15).float() - 8, (p >> 4).float() - 8], -1)
    return x @ (halves.flatten(1) * s[:, None]).T


def in_two_products(x: Any, p: Any, s: Any) -> Any:
    return (x[:, ::2] @ ((p % 16).float() - 8).T + x[:, 1::2] @ ((p // 16).float() - 8).T) * s


SAME_BYTES: list[Pair] = [
    Pair("the sign of a remainder", WHOLE, lambda x: torch.fmod(x, 7),
         lambda x: torch.where((x % 7 != 0) & (x < 0), x % 7 - 7, x % 7)),
    Pair("a remainder of the size", WHOLE, lambda x: torch.fmod(x, 5).abs(),
         lambda x: torch.fmod(x.abs(), 5)),
    Pair("rounded towards zero", WHOLE, lambda x: truncated(x, 3),
         lambda x: torch.where(x < 0, -((-x) // 3), x // 3)),
    Pair("the lower half with its sign", SIGNED, lambda p: ((p << 4) >> 4).float(),
         lambda p: with_sign(p & 15).float()),
    Pair("halves of bytes", WEIGHTS, dequantised, in_two_products),
    Pair("the largest byte", BYTES, lambda p: p.float().amax(-1),
         lambda p: torch.maximum(p[:, :5].amax(-1), p[:, 5:].amax(-1)).float()),
    Pair("bytes above a number", BYTES, lambda p: (p > 127).float(), lambda p: (p >> 7).float()),
]  # fmt: skip
OTHER_BYTES: list[Pair] = [
    Pair("the sign of the divisor", WHOLE, lambda x: torch.fmod(x, 7), lambda x: x % 7),
    Pair("rounded down", WHOLE, lambda x: truncated(x, 3), lambda x: x // 3),
    Pair("shifted out and back", SIGNED, lambda p: ((p << 4) >> 4).float(), lambda p: p.float()),
    Pair("shifted out of 32 bits", WIDE, lambda p: ((p << 28) >> 28).float(),
         lambda p: p.float()),
    Pair("a sum of bytes that wraps", SIGNED, lambda p: (p + 100).float(),
         lambda p: p.float() + 100),
    Pair("a product of bytes that wraps", "6x12:i8 6x12:i8", lambda p, q: (p * q).float(),
         lambda p, q: p.float() * q.float()),
    Pair("the size of the least byte", SIGNED, lambda p: p.abs().float(),
         lambda p: p.float().abs()),
    Pair("halves exchanged", WEIGHTS, dequantised,
         lambda x, p, s: in_two_products(x, p // 16 + (p % 16) * 16, s)),
    Pair("bytes above half of a number", BYTES, lambda p: (p > 127).float(),
         lambda p: (p >> 6).float()),
]  # fmt: skip
