"""Ops that are not in the package: each has only its definition and its meaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from mirage.semantics.builder import Builder
from mirage.semantics.domain import Domain, Planes, map_planes
from mirage.semantics.indexing.relations import Relation, Same
from mirage.semantics.scalar import BinaryFn, UnaryFn
from mirage.semantics.ugraph import (
    Composite,
    Elementwise,
    Op,
    Rearrangement,
    TensorType,
    Value,
    View,
    Zeros,
)


class Typed(Op):
    """The result has the type of the operand."""

    def result_type(self, b: Builder) -> TensorType:
        return self.operands[0].type


@dataclass(frozen=True, eq=False)
class Clamp(Typed, Elementwise):
    """``x``, or the nearest number between ``low`` and ``high``."""

    low: float
    high: float

    @property
    def work(self) -> tuple[float, float]:
        return 2.0, 0.0

    @property
    def zeros(self) -> Zeros:
        return Zeros.ALL if self.low <= 0.0 <= self.high else Zeros.NEVER

    def compute(
        self, domain: Domain, xs: Sequence[Planes], lead: int, shape: tuple[int, ...]
    ) -> Planes:
        dtype = self.result.dtype
        low, high = (domain.constant(Fraction(n), dtype) for n in (self.low, self.high))
        raised = domain.binary(BinaryFn.MAX, xs[0], low, dtype)
        return domain.binary(BinaryFn.MIN, raised, high, dtype)


@dataclass(frozen=True, eq=False)
class Flip(Typed, Rearrangement):
    """The last dimension in reverse order."""

    def compute(
        self, domain: Domain, xs: Sequence[Planes], lead: int, shape: tuple[int, ...]
    ) -> Planes:
        return map_planes(lambda p: p[..., ::-1], xs[0])

    def source_dims(self) -> Mapping[int, int] | None:
        return {d: d for d in range(len(self.result.shape) - 1)}


@dataclass(frozen=True, eq=False)
class Affine(Typed, Elementwise):
    """``scale * x + 1``."""

    scale: int = 3

    @property
    def work(self) -> tuple[float, float]:
        return 2.0, 0.0

    @property
    def zeros(self) -> Zeros:
        return Zeros.NEVER

    def compute(
        self, domain: Domain, xs: Sequence[Planes], lead: int, shape: tuple[int, ...]
    ) -> Planes:
        dtype = self.result.dtype
        scale, one = (domain.constant(Fraction(n), dtype) for n in (self.scale, 1))
        scaled = domain.binary(BinaryFn.MUL, xs[0], scale, dtype)
        return domain.binary(BinaryFn.ADD, scaled, one, dtype)


@dataclass(frozen=True, eq=False)
class Odd(Affine):
    """Uses the numbers themselves, which only floats have."""

    def compute(
        self, domain: Domain, xs: Sequence[Planes], lead: int, shape: tuple[int, ...]
    ) -> Planes:
        return map_planes(lambda p: p % 2, xs[0])


@dataclass(frozen=True, eq=False)
class Twice(View):
    """The whole operand, twice, along a new leading dimension."""

    def result_type(self, b: Builder) -> TensorType:
        x = self.operands[0].type
        return TensorType((2, *x.shape), x.dtype)

    def compute(
        self, domain: Domain, xs: Sequence[Planes], lead: int, shape: tuple[int, ...]
    ) -> Planes:
        return map_planes(
            lambda p: np.broadcast_to(np.expand_dims(p, lead), p.shape[:lead] + shape), xs[0]
        )

    def source_dims(self) -> Mapping[int, int] | None:
        return {d + 1: d for d in range(len(self.operands[0].shape))}

    def relations(self) -> Sequence[Relation]:
        return [Same(0, d, d + 1) for d in range(len(self.operands[0].shape))]


@dataclass(frozen=True, eq=False)
class SiluTwice(Typed, Composite):
    """``silu(2 x)``."""

    def decomposed(self, b: Builder, xs: Sequence[Value], *, stable: bool) -> Value:
        return b.unary(UnaryFn.SILU, b.binary(BinaryFn.ADD, xs[0], xs[0]))
