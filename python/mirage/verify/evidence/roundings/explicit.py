"""Roundings that are part of a program.

Over the real numbers ``x - x.half().float()`` is 0, ``x.to(bfloat16).float()`` is ``x``, and so are
``(x + 12582912.) - 12582912.`` and Kahan's corrections. People write such programs because of the
rounding. Norms, on the other hand, cast down at their end, and a kernel that continues in f32 is
better for it. Two measurements distinguish the two:

*Casts.* The reference runs in float64 twice, with the casts to 16 bits that it writes and without
them. A cast does not count if the computation continues in its type, since such a program is
rounded at every step there. If the two results differ by no more than a few times the other
roundings (those of the reference's operations, of its output, or of its inputs to their types), the
casts are noise like these and may be left out. If they differ by more, the result depends on the
casts, and the candidate must be near the result with them.

*Arithmetic.* On ordinary inputs the reference as it is computed is near its value over the real
numbers: within a sixteenth, and within the error that its types' digits or the rounding of the
inputs explain. If it is not, the result depends on the rounding of its operations, and the
candidate must be nearer to the computed reference than the value over the real numbers is.

Both conditions apply to the output as a whole and to its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mirage.semantics.domain import Domain, Planes
from mirage.semantics.evaluation.evaluate import Sampled
from mirage.semantics.half import rounded_to_digits
from mirage.semantics.numbers import nearest
from mirage.semantics.ops.kinds import Movement, Zeros
from mirage.semantics.scalar import BINARY, Array, BinaryFn, DType
from mirage.semantics.ugraph import (
    Elementwise,
    KernelGraph,
    Op,
    Structure,
    Value,
    all_ops,
)
from mirage.verify.evidence.roundings.output_parts import OutputParts
from mirage.verify.evidence.samples.floats import Yardstick

_NOISE = 4.0
"""Casts count as part of the result's meaning if their effect exceeds that of the other roundings
by this factor."""
_ORDINARY = 1.0 / 16.0
_ORDINARY_F32, _ORDINARY_HALF = 2.0**-10, 2.0**-7
"""The relative error of operations above which the result depends on their rounding, if something
suggests it: in f32, and in 16 bits if there are constants that cancel."""
_AMPLIFIED = 5.0
"""The factor over the effect of the inputs' roundings that the error of operations may reach."""
HALF_ULP = dict.fromkeys(DType, 2.0**-50) | {
    DType.F16: 2.0**-11,
    DType.BF16: 2.0**-8,
    DType.F32: 2.0**-22,
    DType.F8E4M3: 2.0**-4,
    DType.F8E5M2: 2.0**-3,
}
"""The relative error that rounding to each type may cause (for f32 with some slack)."""


class WithCasts(Yardstick):
    """float64 in which casts to 16 bits round.

    Underflow in a cast counts on ``ordinary`` inputs only: a program may depend on the grid of its
    small numbers, but that a product of inputs of 2^-14 vanishes is not part of its meaning. The
    result of an overflow in a cast is unknown (NaN), since a candidate may avoid the infinity,
    unless the program ``asks`` whether a value is infinite."""

    def __init__(self, ordinary: bool = True, asks: bool = False) -> None:
        super().__init__()
        self.ordinary, self.asks = ordinary, asks

    def cast(self, x: Planes, dtype: DType) -> Planes:
        if not dtype.is_half:
            return x
        rounded = dtype.round(x[0]) if self.ordinary else without_underflow(x[0], dtype)
        if self.asks:
            return (rounded,)
        return (np.where(np.isinf(rounded) & np.isfinite(x[0]), np.nan, rounded),)


def without_underflow(x: Array, dtype: DType) -> Array:
    """Round to the digits of a 16-bit type, without underflow."""
    digits, end = (11, 16) if dtype is DType.F16 else (8, 128)
    with np.errstate(over="ignore"):
        return rounded_to_digits(np.asarray(x, np.float64), digits, end)


def written_casts(graph: KernelGraph, strict: bool = False) -> frozenset[Op]:
    """Return the casts to 16 bits that a program may depend on: those whose result is used in a
    computation in another type, wider or with other digits.

    If the computation continues in the same type, to results of 16 bits, then it is rounded at
    every step, by PyTorch's operations as well, and a cast is one of these roundings. If there are
    wider results, or with ``strict``, all casts whose result is used in any computation are
    returned."""
    strict = strict or not all(v.dtype.is_half for v in graph.outputs)
    readers: dict[Value, list[Op]] = {}
    casts: list[Op] = []
    for op in all_ops(graph.ops):
        if isinstance(op, Structure):
            continue  # loads of 16-bit tensors are not casts: the tensor's type rounds
        if isinstance(op, Elementwise) and op.identity and op.result.dtype.is_half:
            casts.append(op)
        for v in op.operands:
            readers.setdefault(v, []).append(op)

    def is_widened(value: Value) -> bool:
        for op in readers.get(value, ()):
            if strict or op.result.dtype is not value.dtype:
                return True
            if isinstance(op, Movement) and is_widened(op.result):
                return True
        return False

    return frozenset(op for op in casts if is_widened(op.result))


def asks_of_infinity(graph: KernelGraph) -> bool:
    """Return whether the program compares a value with infinity."""
    numbers = {op.results[0]: op.number for op in all_ops(graph.ops) if op.number is not None}
    return any(
        isinstance(op.function, BinaryFn)
        and BINARY[op.function].truth
        and any(np.isinf(nearest(numbers.get(v, 0.0))) for v in op.operands)
        for op in all_ops(graph.ops)
    )


def usual_cost(graph: KernelGraph, cancels: bool) -> float:
    """Return the usual relative error of the program's operations on ordinary inputs; ``cancels``
    says whether some constants cancel out."""
    values = [*graph.inputs, *(v for op in all_ops(graph.ops) for v in op.results)]
    if not any(v.dtype.is_half for v in values):
        return _ORDINARY_F32
    return _ORDINARY_HALF if cancels else _ORDINARY


@dataclass(frozen=True, eq=False)
class _Wide(Elementwise):
    """A cast that is left out; its result is its operand."""

    @property
    def work(self) -> tuple[float, float]:
        return 0.0, 0.0

    @property
    def zeros(self) -> Zeros:
        return Zeros.ALL

    def compute(
        self, domain: Domain, xs: Sequence[Planes], lead: int, shape: tuple[int, ...]
    ) -> Planes:
        return xs[0]


def with_written_casts(graph: KernelGraph, kept: frozenset[Op]) -> KernelGraph:
    """Keep only the casts in ``kept`` among the casts to 16 bits of ``graph`` (tensor ops)."""
    ops = tuple(
        _Wide(op.operands, op.results)
        if isinstance(op, Elementwise) and op.identity and op not in kept
        else op
        for op in graph.ops
    )
    return replace(graph, ops=ops)


def keeps_casts(
    exact: Array,
    rounded: Array,
    reference: Array,
    candidate: Array,
    known: Array,
    floor: Array,
    strict: bool,
    of_inputs: Callable[[], Array],
) -> bool:
    """Return whether the candidate is near ``rounded`` (float64 with the casts) wherever that
    differs from ``exact`` by more than noise (with ``strict``: wherever it differs), in all parts
    of the output. Only ``known`` elements count; ``floor`` is the error that rounding the output
    may cause, ``of_inputs`` the one that rounding the inputs may cause."""
    parts = OutputParts(known, rounded)
    effect = parts.rms(rounded - exact)
    noise = np.maximum(parts.rms(reference - rounded), parts.rms(floor))
    left = effect > (0.0 if strict else _NOISE * parts.slack * noise)
    if not strict:
        left &= parts.decides
    if not left.any():
        return True
    limit = 2.0 * noise if strict else np.maximum(2.0 * noise, effect / 4.0)
    left &= parts.rms(candidate - rounded) > limit
    if strict or not left.any():
        return not left.any()
    return bool((effect <= _NOISE * parts.slack * parts.rms(of_inputs()))[left].all())


def nearby(inputs: Sequence[Sampled], types: Sequence[DType], seed: Sequence[int]) -> list[Sampled]:
    """Return inputs that are the same once they are rounded to their types. Integers do not change:
    there is no other position near a position."""
    rng = np.random.default_rng(seed)
    result: list[Sampled] = []
    for x, dtype in zip(inputs, types, strict=True):
        if dtype.is_integer:
            result.append(x)
            continue
        (plane,) = x.planes
        change = HALF_ULP[dtype] * rng.uniform(-1.0, 1.0, plane.shape)
        result.append(Sampled((plane * (1.0 + change),), x.region))
    return result


def beside(inputs: Sequence[Sampled], types: Sequence[DType], seed: int) -> list[Sampled]:
    """Return inputs, in their types, that differ by a few roundings; integers do not change."""
    rng = np.random.default_rng(seed)
    result: list[Sampled] = []
    for x, dtype in zip(inputs, types, strict=True):
        if dtype.is_integer:
            result.append(x)
            continue
        (plane,) = x.planes
        change = 8.0 * HALF_ULP[dtype] * rng.uniform(-1.0, 1.0, plane.shape)
        with np.errstate(over="ignore"):
            moved = dtype.round(plane * (1.0 + change))
        result.append(Sampled((np.where(np.isfinite(moved), moved, plane),), x.region))
    return result


def keeps_arithmetic(
    exact: Array,
    reference: Array,
    candidate: Array,
    known: Array,
    usual: float,
    of_inputs: Callable[[], Array],
) -> bool:
    """Return whether the candidate is near the computed reference wherever that differs, on
    ordinary inputs, from its value over the real numbers, in all parts of the output. ``usual`` is
    the usual relative error of the operations."""
    parts = OutputParts(known)
    effect, size = parts.rms(reference - exact), parts.rms(exact)
    fine = parts.slack * size
    far = effect > _ORDINARY * fine
    if (near := effect > usual * fine).any():
        far |= near & (effect > _AMPLIFIED * parts.slack * parts.rms(of_inputs()))
    far[0] |= effect[0] > _ORDINARY * size[0]
    far &= parts.decides
    return bool((parts.rms(candidate - reference) <= effect / 2.0)[far].all())
