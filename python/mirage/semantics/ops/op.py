"""Values, and what all ops have: operands, results, and the answers to the questions of analyses,
which most ops take from their kind (:mod:`mirage.semantics.ops.kinds`).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, ClassVar

from mirage.semantics.domain import Domain, Planes
from mirage.semantics.indexing.indices import Region, whole
from mirage.semantics.numbers import Number
from mirage.semantics.ops.part_counts import Parts
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn

if TYPE_CHECKING:
    from mirage.semantics.builder import Builder
    from mirage.semantics.integer_formula import Formula


def complete(cls: type, *, partial: bool) -> None:
    """Raise :class:`TypeError` if a class leaves out an abstract method of its bases, unless it is
    ``partial`` itself. (This replaces ``ABCMeta``, which makes ``isinstance`` slow.)
    """
    missing = [
        name
        for name in dir(cls)
        if getattr(getattr(cls, name, None), "__isabstractmethod__", False)
    ]
    if missing and not partial:
        raise TypeError(
            f"expected {cls.__name__} to define {', '.join(missing)}, which all its kind do"
        )


class UnknownOp(TypeError):
    """An op that the evaluator has no rule for."""


@dataclass(frozen=True)
class TensorType:
    """The shape and element type of a tensor or tile."""

    shape: tuple[int, ...]
    dtype: DType

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        """The size in bytes when stored densely."""
        return self.size * self.dtype.bytes

    def __str__(self) -> str:
        return "x".join([*map(str, self.shape), self.dtype.value])


@dataclass(frozen=True, eq=False)
class Value:
    """One SSA value; compared by identity."""

    type: TensorType
    name: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tensor or tile."""
        return self.type.shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.type.dtype


@dataclass(frozen=True)
class NamedRows:
    """Which rows of a table an op names: by ``index``, of ``count`` rows, from 0 on; ``from_end``,
    negative indices count from the end of the table."""

    index: Value
    count: int
    from_end: bool = False

    def hold(self, low: float, high: float) -> bool:
        """Return whether all indices of a range name rows."""
        return (-self.count if self.from_end else 0) <= low and high < self.count

    def miss(self, low: float, high: float) -> bool:
        """Return whether no index of a range names a row."""
        return high < (-self.count if self.from_end else 0) or low >= self.count


@dataclass(frozen=True, eq=False)
class Op:
    """Base of all ops: operands, and the results that the op defines."""

    operands: tuple[Value, ...]
    results: tuple[Value, ...]

    @property
    def result(self) -> Value:
        """The only result of the op."""
        (value,) = self.results
        return value

    def __init_subclass__(cls, kind: bool = False) -> None:
        complete(cls, partial=kind)

    arity: ClassVar[tuple[int, int]] = (1, 1)
    """The least and the largest number of operands."""

    in_kernel: ClassVar[bool] = True
    """Whether the op may occur in a kernel graph."""

    in_block: ClassVar[bool] = True
    """Whether the op may occur in a block graph."""

    of_integers: ClassVar[bool] = False
    """Whether a block computes the op of tiles of exact integers, too."""

    renames: ClassVar[bool] = False
    """Whether the result is the operand's memory in another shape."""

    calls: ClassVar[bool] = False
    """Whether the framework computes the op, so that its meaning is not known here."""

    updates: ClassVar[bool] = False
    """Whether the result is the first operand after a store to it."""

    @property
    def as_floats(self) -> Op:
        """The op of the same meaning that kernels compute as floats, if this one is exact
        arithmetic."""
        return self

    @property
    def arithmetic(self) -> tuple[Formula, tuple[int, ...]] | None:
        """The formula of exact integers that gives each element, with the shape of the tensor in
        which it counts positions, if the op is one."""
        return None

    @property
    def cut_at(self) -> tuple[int, ...] | None:
        """The place in the operand where the result starts, if the result is a block of the
        operand."""
        return None

    @property
    def joined_along(self) -> int | None:
        """The dimension along which the result concatenates the operands, if it does."""
        return None

    @property
    def names_rows(self) -> NamedRows | None:
        """The operand that holds row indices, and the indices that it may hold, if there is such an
        operand."""
        return None

    @property
    def indices_below(self) -> int | None:
        """The number of elements along the dimension that the result indexes, if its elements are
        indices."""
        return None

    @property
    def named_indices(self) -> tuple[NamedRows, ...]:
        """The rows that all operands with indices name."""
        return () if self.names_rows is None else (self.names_rows,)

    def counting_from_start(self, b: Builder) -> Op:
        """Return the op with indices that count from the start of their table only, emitting what
        computes them."""
        return self

    def result_type(self, b: Builder) -> TensorType:
        """Return the type of the result for these operands, as a builder of this level makes it.

        Raises :class:`ValueError` if the operands are not compatible, and :class:`UnknownOp` for
        ops that have a meaning at one level only.
        """
        raise UnknownOp(f"expected an op with a meaning at this level, got {type(self).__name__}")

    def compute(
        self, domain: Domain, xs: Sequence[Planes], lead: int, shape: tuple[int, ...]
    ) -> Planes:
        """Compute the result of an op of both levels on ``xs``, all of which have ``lead`` leading
        dimensions that broadcast; ``shape`` is the shape of the result without those.

        Raises :class:`UnknownOp` for ops that have a meaning at one level only.
        """
        raise UnknownOp(f"expected an op with a meaning at this level, got {type(self).__name__}")

    def needs(self, region: Region) -> tuple[Region, ...]:
        """Return the region of each operand that a region of the result needs, at kernel level; by
        default all of each operand."""
        return tuple(whole(len(v.shape)) for v in self.operands)

    def made(self, region: Region) -> Region:
        """Return the region of the result that the op computes where ``region`` of it is wanted, at
        kernel level; by default no more than that."""
        return region

    @property
    def number(self) -> Number | None:
        """The number that all elements of the result equal, if that follows from the op alone."""
        return None

    @property
    def function(self) -> UnaryFn | BinaryFn | ReduceFn | None:
        """The scalar function that the op applies, to elements or along dimensions; None if it does
        anything else."""
        return None

    @property
    def reads_along(self) -> tuple[tuple[str, ...], ...]:
        """The axes of its launch on whose steps the result depends, other than through its
        operands: for each dimension those that cut it, outermost first."""
        return ()

    @property
    def reads_axes(self) -> frozenset[str]:
        """The axes of :attr:`reads_along`, of all dimensions together."""
        return frozenset(axis for axes in self.reads_along for axis in axes)

    def with_parts(self, parts: Parts) -> Op:
        """Return this op for a launch with other numbers of parts along its axes, and tensors of
        other sizes. Raises :class:`UnknownOp` where an op does not say, and
        :class:`mirage.semantics.ops.part_counts.NothingLeftError`."""
        if self.reads_axes:
            raise unknown(self, "other numbers of parts")
        return self

    def with_axes(self, names: Mapping[str, str]) -> Op:
        """Return this op with renamed axes. Raises :class:`UnknownOp` where an op does not say."""
        if self.reads_axes:
            raise unknown(self, "other names of axes")
        return self

    def written(self, xs: Sequence[str]) -> str:
        """Write the op for people; ``xs`` are the operands as text."""
        return called(type(self).__name__.lower(), xs)


def called(name: str, xs: Sequence[str]) -> str:
    """Write a function of ``xs`` for people."""
    return f"{name}({', '.join(map(bare, xs))})"


def bare(text: str) -> str:
    """Return ``text`` without parentheses that enclose all of it."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0 and i < len(text) - 1:
            return text
    return text[1:-1]


def unknown(op: Op, analysis: str) -> UnknownOp:
    """Return the error of an analysis on which soundness depends, for an op that it has no rule
    for."""
    return UnknownOp(f"{analysis}: no rule for {type(op).__name__}")


def no_rule(op: Op, analysis: str) -> None:
    """Note that an analysis has no rule for an op and uses a safe default.

    With ``MIRAGE_STRICT=1`` in the environment, as in tests, this raises :class:`UnknownOp`.
    Otherwise it writes a line to the log ``mirage``.
    """
    message = f"{analysis} has no rule for {type(op).__name__}"
    if os.environ.get("MIRAGE_STRICT") == "1":
        raise UnknownOp(
            f"{message}; give the op a kind (mirage.semantics.ops.kinds) or the analysis a rule"
        )
    logging.getLogger("mirage").warning("%s: it takes the safe default", message)
