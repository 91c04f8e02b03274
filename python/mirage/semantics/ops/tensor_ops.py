"""The ops of both levels that compute: on device tensors in a kernel graph, on tiles in a block
graph. Those that move elements are in ``movements``.

Each class declares its kind (:mod:`mirage.semantics.ops.kinds`), its meaning in any arithmetic, and
the part of its operands that a part of its result needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from mirage.semantics.domain import Domain, Planes, map_planes, pad_rank
from mirage.semantics.indexing.indices import (
    Region,
    aligned,
)
from mirage.semantics.numbers import Number, as_number, nearest
from mirage.semantics.ops.kinds import Contraction, Elementwise, Source, Zeros
from mirage.semantics.ops.op import TensorType, UnknownOp, called
from mirage.semantics.scalar import BINARY, UNARY, BinaryFn, ReduceFn, UnaryFn

if TYPE_CHECKING:
    from mirage.semantics.builder import Builder


@dataclass(frozen=True, eq=False)
class Constant(Source):
    """A scalar (rank-0) constant, an exact number; it broadcasts where it is used. A float is read
    as the number that it was written for (:func:`mirage.semantics.numbers.read`).
    """

    value: Number

    arity: ClassVar[tuple[int, int]] = (0, 0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", as_number(self.value))

    def result_type(self, b: Builder) -> TensorType:
        return TensorType((), self.result.dtype)

    @property
    def number(self) -> Number:
        return self.value

    def written(self, xs: Sequence[str]) -> str:
        return f"{nearest(self.value):g}"

    def compute(
        self, domain: Domain, xs: Sequence[Planes], lead: int, shape: tuple[int, ...]
    ) -> Planes:
        constant = domain.constant(self.value, self.result.dtype)
        return map_planes(lambda p: p.reshape((1,) * lead), constant)


@dataclass(frozen=True, eq=False)
class Unary(Elementwise):
    """A scalar function applied to each element."""

    fn: UnaryFn

    scalar: ClassVar[bool] = True

    @property
    def function(self) -> UnaryFn:
        return self.fn

    def result_type(self, b: Builder) -> TensorType:
        return b.unary(self.fn, self.operands[0]).type

    @property
    def work(self) -> tuple[float, float]:
        return UNARY[self.fn].flops, UNARY[self.fn].special

    @property
    def zeros(self) -> Zeros:
        return Zeros.ALL if UNARY[self.fn].zero_at_zero else Zeros.NEVER

    def compute(
        self, domain: Domain, xs: Sequence[Planes], lead: int, shape: tuple[int, ...]
    ) -> Planes:
        return domain.unary(self.fn, xs[0], self.result.dtype)

    def written(self, xs: Sequence[str]) -> str:
        return called(self.fn.value, xs)


@dataclass(frozen=True, eq=False)
class Binary(Elementwise):
    """A function of two scalars applied element by element, with NumPy broadcasting."""

    fn: BinaryFn

    scalar: ClassVar[bool] = True

    arity: ClassVar[tuple[int, int]] = (2, 2)

    @property
    def function(self) -> BinaryFn:
        return self.fn

    def result_type(self, b: Builder) -> TensorType:
        return b.binary(self.fn, self.operands[0], self.operands[1]).type

    @property
    def work(self) -> tuple[float, float]:
        return BINARY[self.fn].flops, BINARY[self.fn].special

    @property
    def zeros(self) -> Zeros:
        if BINARY[self.fn].zero_at_either:
            return Zeros.ANY
        return Zeros.ALL if BINARY[self.fn].zero_at_zero else Zeros.NEVER

    def compute(
        self, domain: Domain, xs: Sequence[Planes], lead: int, shape: tuple[int, ...]
    ) -> Planes:
        rank = len(shape)
        a, b = pad_rank(xs[0], lead, rank), pad_rank(xs[1], lead, rank)
        return domain.binary(self.fn, a, b, self.result.dtype)

    def written(self, xs: Sequence[str]) -> str:
        sign = BINARY[self.fn].infix
        return f"({xs[0]} {sign} {xs[1]})" if sign else f"{self.fn.value}({xs[0]}, {xs[1]})"


@dataclass(frozen=True, eq=False)
class Cast(Elementwise):
    """Conversion to the element type of the result: the identity on real numbers, unless it
    ``cuts`` numbers that an integer type cannot represent. If ``whole``, all numbers are
    known to be whole numbers of that type."""

    whole: bool = False

    scalar: ClassVar[bool] = True

    @property
    def cuts(self) -> bool:
        """Whether numbers may change: fractions are truncated, and integers that are too large for
        a narrower type wrap around. Kernels have no such conversion."""
        return not self.whole and self.result.dtype.cuts(self.operands[0].dtype)

    @property
    def identity(self) -> bool:
        return not self.cuts

    def result_type(self, b: Builder) -> TensorType:
        return b.cast(self.operands[0], self.result.dtype, whole=self.whole).type

    @property
    def work(self) -> tuple[float, float]:
        return 0.0, 0.0

    @property
    def zeros(self) -> Zeros:
        return Zeros.ALL

    def compute(
        self, domain: Domain, xs: Sequence[Planes], lead: int, shape: tuple[int, ...]
    ) -> Planes:
        if not self.cuts:
            return domain.cast(xs[0], self.result.dtype)
        cut = domain.cut(xs[0], self.operands[0].dtype, self.result.dtype)
        if cut is None:
            raise UnknownOp("expected a conversion that keeps each number, got residues to cut")
        return cut

    def written(self, xs: Sequence[str]) -> str:
        return xs[0]


@dataclass(frozen=True, eq=False)
class Matmul(Contraction):
    """``[..., m, k] x [..., k, n] -> [..., m, n]``, leading dimensions broadcast. With ``tf32``,
    factors of f32 are rounded to TF32 first, which has 11 significant bits."""

    tf32: bool = False

    arity: ClassVar[tuple[int, int]] = (2, 2)

    def result_type(self, b: Builder) -> TensorType:
        return b.matmul(self.operands[0], self.operands[1], tf32=self.tf32).type

    def compute(
        self, domain: Domain, xs: Sequence[Planes], lead: int, shape: tuple[int, ...]
    ) -> Planes:
        a, b = (pad_rank(x, lead, len(shape)) for x in xs)
        if self.tf32:
            a, b = domain.as_tf32(a), domain.as_tf32(b)
        return domain.matmul(a, b, self.result.dtype)

    def needs(self, region: Region) -> tuple[Region, ...]:
        a, b = self.operands
        front = region[:-2]
        return (
            (*aligned(front, a.shape[:-2]), region[-2], None),
            (*aligned(front, b.shape[:-2]), None, region[-1]),
        )

    @property
    def over(self) -> tuple[tuple[int, ...], ...]:
        a, b = self.operands
        return (len(a.shape) - 1,), (len(b.shape) - 2,)

    @property
    def sums(self) -> bool:
        return True

    @property
    def rounds_factors(self) -> bool:
        return self.tf32

    def written(self, xs: Sequence[str]) -> str:
        return f"({xs[0]} @{'tf32' if self.tf32 else ''} {xs[1]})"


@dataclass(frozen=True, eq=False)
class Reduce(Contraction):
    """Reduction over ``dims`` (non-negative, sorted); reduced dimensions keep size 1."""

    fn: ReduceFn
    dims: tuple[int, ...]

    of_integers: ClassVar[bool] = True

    @property
    def function(self) -> ReduceFn:
        return self.fn

    def result_type(self, b: Builder) -> TensorType:
        if tuple(sorted(set(self.dims))) != self.dims or not self.dims:
            raise ValueError(f"expected sorted distinct dimensions to reduce, got {self.dims}")
        return b.reduce(self.fn, self.operands[0], self.dims).type

    def compute(
        self, domain: Domain, xs: Sequence[Planes], lead: int, shape: tuple[int, ...]
    ) -> Planes:
        dims = tuple(d + lead for d in self.dims)
        return domain.reduce(self.fn, xs[0], dims, self.result.dtype)

    def needs(self, region: Region) -> tuple[Region, ...]:
        return (tuple(None if d in self.dims else r for d, r in enumerate(region)),)

    @property
    def over(self) -> tuple[tuple[int, ...], ...]:
        return (self.dims,)

    @property
    def sums(self) -> bool:
        return self.fn is ReduceFn.SUM

    def written(self, xs: Sequence[str]) -> str:
        return called(f"{self.fn.value}{','.join(map(str, self.dims))}", xs)
