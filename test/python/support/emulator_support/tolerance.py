"""How far the result of a GPU may be from the exact result, according to the PTX manual, and from
that of the emulator.

PTX defines most results bit for bit. It leaves open approximations, for which it states a largest
error, and tensor cores, which "perform the accumulation with an unspecified order and precision".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

MAX_ERROR: dict[str, tuple[float, float]] = {
    "ex2.approx.f32": (0.0, 2**-22),
    "ex2.approx.ftz.f32": (0.0, 2**-22),
    "lg2.approx.f32": (2**-22, 2**-22),  # absolute in (0.5, 2), relative elsewhere
    "rcp.approx.f32": (0.0, 2**-23),
    "rcp.approx.ftz.f32": (0.0, 2**-23),
    "rsqrt.approx.f32": (0.0, 2**-22.9),
    "sqrt.approx.f32": (0.0, 2**-23),
    "sin.approx.f32": (2**-20.5, 0.0),
    "cos.approx.f32": (2**-20.5, 0.0),
    "tanh.approx.f32": (0.0, 2**-11),
    "ex2.approx.f16": (0.0, 2**-9.9),
    "ex2.approx.ftz.bf16": (0.0, 2**-7),
    "tanh.approx.f16": (2**-10.987, 0.0),
    "tanh.approx.bf16": (2**-8, 0.0),
}
"""(absolute, relative) error of an approximation against the real function, PTX ISA 9."""

_FRACTION = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}
# Fraction bits that a tensor core keeps of a sum. PTX does not state them. For f16, bf16 and tf32
# products it keeps at least those of f32; Hopper's sums of 8-bit floats keep 13 (DeepSeek-V3, 2024,
# 3.3.2).
_SUM_BITS = {"f16": 23, "bf16": 23, "tf32": 23, "e4m3": 13, "e5m2": 13, "f64": 52}
_SMALLEST = {"f16": 2.0**-24, "bf16": 2.0**-133, "f32": 2.0**-149, "f64": 2.0**-1074}


@dataclass(frozen=True)
class Tolerance:
    """|gpu - emulator| <= absolute + relative * max(|gpu|, |emulator|), for results of `kind`
    (f16, bf16, f32, f64); `reason` says why they are not bitwise equal."""

    kind: str
    absolute: float
    relative: float
    reason: str


def approximation(name: str) -> Tolerance:
    """The tolerance of one approximate instruction: PTX's largest error, and half a unit in the
    last place for the emulator, which rounds the float64 function to nearest."""
    absolute, relative = MAX_ERROR[name]
    kind = name.rsplit(".", 1)[1]
    return Tolerance(
        kind,
        absolute + _SMALLEST[kind],
        relative + 2.0 ** -(_FRACTION[kind] + 1),
        f"PTX ISA, largest error of {name}: {absolute:.3g} + {relative:.3g} * |result|",
    )


def rounding(kind: str, reason: str) -> Tolerance:
    """One unit in the last place of `kind`: values that differ by less before they are rounded."""
    return Tolerance(kind, _SMALLEST[kind], 2.0 ** -_FRACTION[kind], reason)


def accumulation(
    a: Array, b: Array, c: Array | float, *, element: str, result: str, depth: int
) -> Tolerance:
    """The tolerance of C + A [m, k] B [k, n] by tensor cores in instructions of `depth` products
    each.

    In each of the k / depth instructions, depth products (exact) and the accumulator are aligned to
    the largest of them and cut to `_SUM_BITS` fraction bits: each loses less than one unit there,
    the normalised sum less than one more. No term and no partial sum exceeds S = |C| + |A| |B|, so

        |error| <= (k / depth) * (depth + 2) * 2^-bits * max S

    and half a unit in the last place is the emulator's. Rounding to `result` adds one unit of it.
    """
    k = a.shape[-1]
    steps = -(-k // depth)
    magnitude = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64)) + np.abs(c)
    largest = float(np.max(magnitude, initial=0.0))
    bits = _SUM_BITS[element]
    bound = steps * (depth + 2) * 2.0**-bits * largest
    return Tolerance(
        result,
        bound + _SMALLEST[result],
        2.0 ** -_FRACTION[result],
        f"tensor cores: {steps} sums of {depth} {element} products and an accumulator, each term "
        f"cut to {bits} fraction bits of the largest, below {largest:.3g}; rounded to {result}",
    )
