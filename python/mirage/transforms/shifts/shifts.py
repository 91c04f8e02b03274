"""Factors ``exp(m)`` that a program may carry without its results depending on ``m``.

Replace ``exp(x)`` by ``exp(x - m)``: every value that is computed from it is then off by a factor
``exp(-power * m)``, as long as the ops in between are homogeneous. A :class:`Shift` is one such
``m``, a :class:`Term` says with which power and along which dimensions a value depends on it. A
result that does not depend on any shift (all powers zero) is the same for every ``m``, so ``m`` may
be the row maximum, which keeps every exponential within [0, 1].
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from mirage.semantics.ugraph import Loop, TileMap, Unary, Value

Align = tuple["int | None", ...]
"""The dimension of the shift that corresponds to each dimension of a value."""


Seen = Mapping[int, "tuple[int | None, ...]"]
"""The exponentials that a maximum covers: the keys of their arguments and, for each axis of the
argument, the corresponding dimension, or None if the maximum is taken over all indices.
"""


@dataclass(frozen=True, eq=False)
class TensorShift:
    """A shift that a launch stores in addition to its results, for the launches that read them."""

    shape: tuple[int, ...]
    exps: frozenset[Unary]
    seen: Seen = field(default_factory=dict[int, "tuple[int | None, ...]"])


class Origin(enum.Enum):
    """Where a shift inside a launch starts."""

    EXP = "exp"  # at an exponential; the shift is a maximum over its argument
    LOADED = "loaded"  # at the load of a tensor that carries a TensorShift
    LOOPED = "looped"  # at the end of a loop that rescaled its accumulators
    MERGED = "merged"  # where values that carry different shifts are added


@dataclass(eq=False)
class Shift:
    """One shift inside of a launch.

    The analysis fills ``constant`` (dimensions along which values with different indices are
    summed, so that ``m`` must not vary) and ``powers`` (of the sums that its loop accumulates; not
    empty: a running maximum is needed).
    """

    origin: Origin
    tile: tuple[int, ...]  # EXP, LOADED: the shape of the tensor over which the maximum is taken
    exps: frozenset[Unary]
    loop: Loop | None
    axes: frozenset[str]  # grid and loop axes that the shift may vary with
    source: Value | None = None  # EXP: the argument of the exponential
    tensor: TensorShift | None = None  # LOADED
    map: TileMap = ()  # LOADED
    inner: Shift | None = None  # LOOPED: the shift inside the loop
    leaves: Mapping[Shift, Align] = field(default_factory=dict["Shift", Align])
    """For MERGED: the shifts whose maximum it is, with the alignment of its dimensions to
    theirs."""
    steps: dict[int, set[tuple[str, ...]]] = field(default_factory=dict[int, set[tuple[str, ...]]])
    """For LOADED before the loops: the loop axes by which loads cut its dimensions further."""
    constant: set[int] = field(default_factory=set[int])
    powers: set[Fraction] = field(default_factory=set[Fraction])

    @property
    def running(self) -> bool:
        """Whether ``m`` grows from step to step of the loop around."""
        return bool(self.powers)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tensor over which the maximum is taken. (Inside a loop, or in summands,
        the value that stands for ``m`` is complete: nothing outside depends on more of it.)"""
        if self.inner is not None:
            return self.inner.result_shape
        if self.leaves:
            return tuple(
                max(1 if (d := align[i]) is None else s.result_shape[d] for s, align in leaves)
                for leaves in [tuple(self.leaves.items())]
                for i in range(len(leaves[0][1]))
            )
        return self.tile

    @property
    def reduced(self) -> tuple[int, ...]:
        """The dimensions over which the maximum is taken."""
        shape = self.shape
        return tuple(d for d in sorted(self.constant) if shape[d] > 1)

    @property
    def result_shape(self) -> tuple[int, ...]:
        """The shape of ``m``."""
        return tuple(1 if d in self.constant else n for d, n in enumerate(self.shape))

    @property
    def moves(self) -> bool:
        """Whether ``m`` differs from what the values carried before; always for an exponential and
        for summands.
        """
        fixed = self.origin in (Origin.LOADED, Origin.LOOPED)
        return not fixed or self.running or bool(self.reduced)

    def partial(self, dim: int) -> bool:
        """Return whether a value that is aligned with ``dim`` contains only a part of the elements
        that the maximum covers, so that it may vanish relative to it."""
        if dim in self.constant and self.shape[dim] > 1:
            return True
        if self.inner is not None:
            return self.inner.partial(dim)
        return any(
            s.partial(d) for s, align in self.leaves.items() if (d := align[dim]) is not None
        )

    def dims_of(self, part: Shift) -> Align:
        """Return, for each dimension of a merged shift, the dimension of one of its parts: of a
        leaf, or of a merged shift of some of the leaves."""
        if part is self:
            return tuple(range(len(self.shape)))
        if part in self.leaves:
            return self.leaves[part]
        found: list[int | None] = []
        for d in range(len(self.shape)):
            matches = (
                e
                for s, align in part.leaves.items()
                for e, own in enumerate(align)
                if own is not None and own == self.leaves[s][d]
            )
            found.append(next(matches, None))
        return tuple(found)


@dataclass(frozen=True)
class Term:
    """A value is proportional to ``exp(power * m)``, where the value's dimensions index ``m`` as
    ``align`` says.

    The value is a sum over parts of ``m``, along the loops that ``summed`` names. A ``partial``
    value may lack the largest of the exponentials that ``m`` is the maximum of, along dimensions
    with which it is not aligned, so that it may vanish relative to it."""

    power: Fraction
    align: Align
    summed: frozenset[str] = frozenset()
    partial: bool = False

    def aligned(self, align: Align) -> Term:
        """Return the term of the value with other dimensions."""
        return Term(self.power, align, partial=self.partial)

    def times(self, factor: Fraction) -> Term:
        """Return the term of the value raised to a power."""
        return Term(self.power * factor, self.align, partial=self.partial)


Terms = Mapping[Shift, Term]
"""The shifts that a tile depends on; none for most values."""

TensorTerms = Mapping[TensorShift, Term]
"""The shifts that a device tensor depends on; none for most tensors."""


class NotHomogeneous(Exception):
    """The program depends on a shift; ``exps`` are the exponentials that cause it."""

    def __init__(self, exps: frozenset[Unary], reason: str) -> None:
        super().__init__(reason)
        self.exps = exps
        self.reason = reason
