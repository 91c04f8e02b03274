"""Functions of the bits of whole numbers, each written in two ways, and others that differ."""

from __future__ import annotations

import torch

from written.pairs import Pair

TWO, ONE, LONG = "6x12:i32 6x12:i32", "6x12:i64", "6x12:i64 6x12:i64"

BITS_RIGHT = (
    Pair("operands exchanged", TWO, lambda a, b: a & b, lambda a, b: b & a),
    Pair("xor by or and and", TWO, lambda a, b: a ^ b, lambda a, b: (a | b) - (a & b)),
    Pair("or by and", TWO, lambda a, b: a | b, lambda a, b: (a ^ b) + (b & a)),
    Pair("complements", TWO, lambda a, b: ~(a & b), lambda a, b: ~b | ~a),
    Pair("without the bits of another", TWO, lambda a, b: a & ~b, lambda a, b: a ^ (a & b)),
    Pair("absorbed", TWO, lambda a, b: a & (b | a), lambda a, b: a | (a & b)),
    Pair("runs of ones", ONE, lambda a: (a & 15) | (a & 240), lambda a: a & 255),
    Pair("a run without ends", ONE, lambda a: a & -16, lambda a: a - a % 16),
    Pair("packed", TWO, lambda a, b: ((a & 15) << 4) | (b & 15), lambda a, b: a % 16 * 16 + b % 16),
    Pair("nothing in common", TWO, lambda a, b: (a & 12) & (b & 3), lambda a, b: (a & 4) & (b & 1)),
    Pair("an involution", TWO, lambda a, b: (a ^ b) ^ b, lambda a, b: a.clone()),
    Pair("chosen bits", TWO, lambda a, b: (b & a) | (~a & b), lambda a, b: b.clone()),
    Pair("distributed", TWO, lambda a, b: a & (b | (a ^ b)), lambda a, b: (a & b) | (a & ~b)),
    Pair("the last bit", ONE, lambda a: a ^ 1, lambda a: torch.where((a & 1) == 1, a - 1, a + 1)),
    Pair("either, but not both", LONG, lambda a, b: ((a > 3) ^ (b > 3)).float(),
         lambda a, b: ((a > 3) != (b > 3)).float()),
    Pair("carried", TWO, lambda a, b: a + b, lambda a, b: (a ^ b) + 2 * (a & b)),
    Pair("borrowed", TWO, lambda a, b: a - b, lambda a, b: (a ^ b) - 2 * (~a & b)),
    Pair("the mean, rounded down", LONG, lambda a, b: (a + b) >> 1,
         lambda a, b: (a & b) + ((a ^ b) >> 1)),
    Pair("a last bit of a sum", LONG, lambda a, b: (a + b) % 2, lambda a, b: (a ^ b) % 2),
)  # fmt: skip

BITS_WRONG = (
    Pair("no bit twice", TWO, lambda a, b: (a | b) % 64, lambda a, b: (a + b) % 64),
    Pair("and added", TWO, lambda a, b: a ^ b, lambda a, b: (a | b) + (a & b)),
    Pair("and of complements", TWO, lambda a, b: ~(a & b), lambda a, b: ~a & ~b),
    Pair("another complement", TWO, lambda a, b: a & ~b, lambda a, b: ~a & b),
    Pair("fewer ones", ONE, lambda a: (a & 15) | (a & 240), lambda a: a & 127),
    Pair("a bit in common", TWO, lambda a, b: ((a & 15) << 4) | (b & 31),
         lambda a, b: a % 16 * 16 + b % 32),
    Pair("negative numbers", ONE, lambda a: a & -16, lambda a: a - (a.abs() % 16)),
    Pair("another bit", ONE, lambda a: a ^ 1, lambda a: torch.where((a & 1) == 1, a + 1, a - 1)),
    Pair("another operand", TWO, lambda a, b: (a ^ b) ^ b, lambda a, b: b.clone()),
    Pair("either, or both", LONG, lambda a, b: ((a > 3) ^ (b > 3)).float(),
         lambda a, b: ((a > 3) | (b > 3)).float()),
    Pair("carried once", TWO, lambda a, b: a + b, lambda a, b: (a ^ b) + (a & b)),
    Pair("bits shifted out", TWO, lambda a, b: a + b,
         lambda a, b: (a ^ b) + 2 * (a & b) + (a & -(1 << 31)) * 3),
    Pair("twice the last bit", "6x12:i32", lambda a: a * 0, lambda a: ((a & 1) << 31) * 2 + 1),
    Pair("a mean of sums that wrap", TWO, lambda a, b: (a + b) >> 1,
         lambda a, b: (a & b) + ((a ^ b) >> 1)),
    Pair("the mean, rounded up", LONG, lambda a, b: (a + b) >> 1,
         lambda a, b: (a | b) - ((a ^ b) >> 1)),
    Pair("two last bits of a sum", LONG, lambda a, b: (a + b) % 4, lambda a, b: (a ^ b) % 4),
    Pair("a multiple that wraps", TWO, lambda a, b: (a * 2).float() + b.float() * 0,
         lambda a, b: a.float() * 2 + b.float() * 0),
    Pair("absorbed by and", TWO, lambda a, b: a & (b | a), lambda a, b: a & b),
)  # fmt: skip
