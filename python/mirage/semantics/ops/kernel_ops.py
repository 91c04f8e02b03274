"""The ops of kernel graphs only: those with a decomposition, and calls of the framework. (A
:class:`mirage.semantics.ugraph.Launch` is one too; it is defined next to its block graph.)
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING, ClassVar

from mirage.semantics.ops.kinds import Boundary
from mirage.semantics.ops.op import Op, TensorType, Value, called
from mirage.semantics.scalar import BinaryFn, ReduceFn, UnaryFn

if TYPE_CHECKING:
    from mirage.semantics.builder import Builder


@dataclass(frozen=True, eq=False)
class Composite(Op, kind=True):
    """An op that decomposes into ops of both levels (``mirage.semantics.decompose``)."""

    in_block: ClassVar[bool] = False

    @abstractmethod
    def decomposed(self, b: Builder, xs: Sequence[Value], *, stable: bool) -> Value:
        """Return the result, which ``b`` builds from primitive ops on ``xs``. The operands are f32
        (f64 if the result is), and the result may have this type as well.

        The ``stable`` form is the one that a reference evaluation in floating point needs: no
        intermediate result overflows unless the result does.
        """


@dataclass(frozen=True, eq=False)
class Softmax(Composite):
    """``exp(x - max) / sum(exp(x - max))`` along ``dim``."""

    dim: int

    def result_type(self, b: Builder) -> TensorType:
        (x,) = self.operands
        if not 0 <= self.dim < len(x.shape):
            raise ValueError(f"expected a dimension of {x.type}, got {self.dim}")
        return x.type

    def decomposed(self, b: Builder, xs: Sequence[Value], *, stable: bool) -> Value:
        (x,) = xs
        if stable:
            x = b.binary(BinaryFn.SUB, x, b.reduce(ReduceFn.MAX, x, (self.dim,)))
        e = b.unary(UnaryFn.EXP, x)
        return b.binary(BinaryFn.DIV, e, b.reduce(ReduceFn.SUM, e, (self.dim,)))


@dataclass(frozen=True, eq=False)
class RmsNorm(Composite):
    """``x * rsqrt(mean(x^2) + eps) [* gain]`` over the last ``dims`` dimensions; operands ``(x[,
    gain])``.
    """

    eps: float
    dims: int = 1

    arity: ClassVar[tuple[int, int]] = (1, 2)

    def result_type(self, b: Builder) -> TensorType:
        return _norm_type(self.operands, self.dims)

    def decomposed(self, b: Builder, xs: Sequence[Value], *, stable: bool) -> Value:
        x = xs[0]
        scale = _inverse_root(b, _mean(b, b.unary(UnaryFn.SQUARE, x), self.dims), self.eps)
        return _gained(b, b.binary(BinaryFn.MUL, x, scale), xs[1:])


@dataclass(frozen=True, eq=False)
class LayerNorm(Composite):
    """``(x - mean) * rsqrt(var + eps) [* gain [+ bias]]`` over the last ``dims`` dimensions."""

    eps: float
    dims: int = 1

    arity: ClassVar[tuple[int, int]] = (1, 3)

    def result_type(self, b: Builder) -> TensorType:
        return _norm_type(self.operands, self.dims)

    def decomposed(self, b: Builder, xs: Sequence[Value], *, stable: bool) -> Value:
        x = xs[0]
        centred = b.binary(BinaryFn.SUB, x, _mean(b, x, self.dims))
        variance = _mean(b, b.unary(UnaryFn.SQUARE, centred), self.dims)
        y = b.binary(BinaryFn.MUL, centred, _inverse_root(b, variance, self.eps))
        return _gained(b, y, xs[1:])


def _norm_type(operands: Sequence[Value], dims: int) -> TensorType:
    x = operands[0]
    if not 1 <= dims <= len(x.shape):
        raise ValueError(f"expected 1 to {len(x.shape)} dimensions, got {dims}")
    for v in operands[1:]:
        dims_alike = zip(reversed(v.shape), reversed(x.shape), strict=False)
        if len(v.shape) > len(x.shape) or any(n not in (1, m) for n, m in dims_alike):
            raise ValueError(f"expected a gain that broadcasts to {x.shape}, got {v.shape}")
    return x.type


def _gained(b: Builder, y: Value, gains: Sequence[Value]) -> Value:
    """Multiply by the first of ``gains`` and add the second."""
    for fn, v in zip((BinaryFn.MUL, BinaryFn.ADD), gains, strict=False):
        y = b.binary(fn, y, v)
    return y


def _mean(b: Builder, x: Value, dims: int) -> Value:
    last = tuple(range(len(x.shape) - dims, len(x.shape)))
    size = max(prod(x.shape[d] for d in last), 1)
    return b.binary(
        BinaryFn.MUL,
        b.reduce(ReduceFn.SUM, x, last),
        b.constant(Fraction(1, size), x.dtype),
    )


def _inverse_root(b: Builder, x: Value, eps: float) -> Value:
    return b.unary(UnaryFn.RSQRT, b.binary(BinaryFn.ADD, x, b.constant(eps, x.dtype)))


VIEWS = frozenset(f"aten.{name}.default" for name in ("reshape", "narrow", "permute", "expand"))
"""The calls that only view their operand, or copy it."""


@dataclass(frozen=True, eq=False)
class External(Boundary):
    """A call of the framework, for an op that has no meaning here; ``target`` names it
    (``aten.cumsum``).

    ``arguments`` are its arguments other than tensors, by name; the tensors are the operands, in
    order. ``seen_as`` gives, for each operand of a type that kernels do not have, the type in which
    the call sees it (PyTorch's name; otherwise empty). Such tensors are carried by others
    (:mod:`mirage.runtime.dispatch.carriers`), and so are results.
    """

    target: str
    arguments: tuple[tuple[str, object], ...] = ()
    seen_as: tuple[str, ...] = ()

    calls: ClassVar[bool] = True
    in_block: ClassVar[bool] = False

    @property
    def only_reads(self) -> bool:
        return self.target in VIEWS

    def says(self, xs: str) -> str:
        seen = f" as {self.seen_as}" if self.seen_as else ""
        return f"{self.target}({xs}; {dict(self.arguments)}{seen})"

    def written(self, xs: Sequence[str]) -> str:
        return called(f"torch {self.target}", xs)
