"""Truth values that are added as truth values, whole numbers that become floats with few bits,
shifts out of 64 bits, and numbers that become infinite where others stay NaN.
"""

from __future__ import annotations

from typing import Any

import torch

from written.pairs import Pair

ROWS, TRUTHS, NUMBERS, SHORT, WIDE = "6x12", "6x12:b", "6x12:i32", "6x12:i16", "6x12:i64"
ROTATED = "6x12 6:i64 12"


def anyone(p: Any) -> Any:
    return p.sum(-1, dtype=torch.bool)


def positive(x: Any) -> Any:
    return torch.where(x > 0, x, 0.0)


def positive_or_not_a_number(x: Any) -> Any:
    return torch.where(x <= 0, 0.0, x)


def turned(x: Any, p: Any, f: Any) -> Any:
    return x * (p.float()[:, None] * f).cos()


def turned_in_bf16(x: Any, p: Any, f: Any) -> Any:
    return x * (p.bfloat16().float()[:, None] * f).cos()


SAME_CONVERSIONS: list[Pair] = [
    Pair("one of a row is true", TRUTHS, anyone, lambda p: p.any(-1)),
    Pair("the logarithm of a positive part", ROWS, lambda x: x.relu().log(),
         lambda x: positive_or_not_a_number(x).log()),
    Pair("twice a threshold", "4x64 4x64", lambda a, b: torch.where(a * b * 0.5 > 0.1, a, 0.0),
         lambda a, b: torch.where(b * a > 0.2, a, 0.0)),
    Pair("bytes in half precision", "6x12 6x12:i8", lambda x, p: x * p.half(),
         lambda x, p: x * p.float()),
    Pair("truth values in half precision", "6x12 6x12:b", lambda x, p: x * p,
         lambda x, p: x * p.half()),
    Pair("angles of rounded positions", ROTATED, turned_in_bf16,
         lambda x, p, f: (f * p.bfloat16().float()[:, None]).cos() * x),
    Pair("a shift that leaves 44 bits", WIDE, lambda n: (n << 20) >> 20, lambda n: n),
    Pair("a count of truth values in 32 bits", TRUTHS, lambda p: p.sum(-1),
         lambda p: p.int().sum(-1, dtype=torch.int32).long()),
    Pair("sums of 32 bits", "4x8:i32 4x8:i32", lambda a, b: a + b + a, lambda a, b: a + (a + b)),
    Pair("truth values in the upper bits", TRUTHS, lambda p: (p.long() << 40) >> 40,
         lambda p: p.long()),
]  # fmt: skip
OTHER_CONVERSIONS: list[Pair] = [
    Pair("a count of truth values", TRUTHS, lambda p: anyone(p).float(),
         lambda p: p.sum(-1).float()),
    Pair("a logarithm that loses a NaN", ROWS, lambda x: x.relu().log(),
         lambda x: positive(x).log()),
    Pair("a divisor that loses a NaN", "6x12 6x12", lambda x, y: x / y.relu(),
         lambda x, y: x / positive(y)),
    Pair("numbers beyond f16", NUMBERS, lambda n: n.float(), lambda n: n.half().float()),
    Pair("short numbers in bf16", SHORT, lambda n: n.float(), lambda n: n.bfloat16().float()),
    Pair("a sum that stays in 32 bits", "4x8:i32", lambda a: a.sum(-1),
         lambda a: a.sum(-1, dtype=torch.int32).long()),
    Pair("the sign of a sum of 32 bits", "4x8:i32 4x8:i32",
         lambda a, b: (a.long() + b > 0).float(), lambda a, b: (a + b > 0).float()),
    Pair("products of bytes in half precision", "4x8:i8 8x6:i8", lambda a, b: a.float() @ b.float(),
         lambda a, b: (a.half() @ b.half()).float()),
    Pair("a sum of squares of bytes in half precision", "4x8:i8",
         lambda a: (a.float() ** 2).sum(-1), lambda a: (a.half() ** 2).sum(-1).float()),
    Pair("a threshold of rounded products", "4x64 4x64",
         lambda a, b: torch.where(a * b > 0.1, a, 0.0),
         lambda a, b: torch.where((a * b).half() > 0.1, a, 0.0)),
    Pair("a threshold of rounded variances", "4x64",
         lambda a: torch.where(a.var(-1, keepdim=True) > 0.3, a, 0.0),
         lambda a: torch.where(a.var(-1, keepdim=True).half() > 0.3, a, 0.0)),
    Pair("averages of bytes in half precision", "4x64:i8", lambda a: a.float().mean(-1),
         lambda a: (a.half().sum(-1) / 64).float()),
    Pair("averages in half precision", NUMBERS, lambda n: n.float().mean(-1),
         lambda n: n.half().mean(-1).float()),
    Pair("angles of positions", ROTATED, turned, turned_in_bf16),
    Pair("shifted out of 64 bits", WIDE, lambda n: (n << 60) >> 60, lambda n: n),
    Pair("shifted into the upper 24 bits and back", WIDE, lambda n: (n << 40) >> 40, lambda n: n),
]  # fmt: skip
