"""The ops of kernel graphs only: those with a decomposition, and calls of the framework. (A
:class:`mirage.semantics.ugraph.Launch` is one too, and stands with the graph that it is made of.)
"""

from __future__ import annotations

from dataclasses import dataclass

from mirage.semantics.op import Op


@dataclass(frozen=True, eq=False)
class Composite(Op):
    """An op with a decomposition into those of both levels (``mirage.semantics.decompose``)."""


@dataclass(frozen=True, eq=False)
class Softmax(Composite):
    """``exp(x - max) / sum(exp(x - max))`` along ``dim``."""

    dim: int


@dataclass(frozen=True, eq=False)
class RmsNorm(Composite):
    """``x * rsqrt(mean(x^2) + eps) [* gain]`` over the last ``dims`` dimensions; operands ``(x[,
    gain])``.
    """

    eps: float
    dims: int = 1


@dataclass(frozen=True, eq=False)
class LayerNorm(Composite):
    """``(x - mean) * rsqrt(var + eps) [* gain [+ bias]]`` over the last ``dims`` dimensions."""

    eps: float
    dims: int = 1


@dataclass(frozen=True, eq=False)
class External(Op):
    """A call back to the framework, for an op that has no meaning here; ``target`` names it
    (``aten.cumsum``).

    ``arguments`` are those of its arguments that are not tensors, by name; the others are the
    operands, in order.
    """

    target: str
    arguments: tuple[tuple[str, object], ...] = ()
