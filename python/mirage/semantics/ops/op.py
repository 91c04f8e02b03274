"""Values, and the kinds of ops.

Every op class belongs to one kind, which declares the facts that analyses need: what the op
computes, which parts of its operands a part of its result needs, where it is zero, and what it
costs. An analysis asks for the kind, or asks the op, and names a class only if it concerns that
class alone; so a new op of an existing kind needs no line in any analysis.

| kind | ops |
|---|---|
| :class:`Source` | a value from none of the others: constants, loads |
| :class:`Elementwise` | functions of the elements at one index |
| :class:`Movement` | elements elsewhere; :class:`View`: of one operand; \
  :class:`Rearrangement`: each of them once |
| :class:`Contraction` | sums and maxima over axes |
| :class:`Scan` | over the steps of a loop so far |
| :class:`Cumulation` | over the indices so far along a dimension |
| :class:`Structure` | ops made of ops: loops, launches |
| :class:`Boundary` | ends a part of a program: calls of the framework; :class:`Lookup`: tensors \
  whose elements are found where they are loaded |

Composites, which have a decomposition, belong to no kind: they are decomposed first.
"""

from __future__ import annotations

import enum
import logging
import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, ClassVar

from mirage.semantics.domain import Domain, Planes
from mirage.semantics.indexing.indices import Region, aligned, whole
from mirage.semantics.indexing.relations import Relation
from mirage.semantics.numbers import Number
from mirage.semantics.ops.part_counts import Parts
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn

if TYPE_CHECKING:
    from typing_extensions import Self

    from mirage.semantics.builder import Builder


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

    renames: ClassVar[bool] = False
    """Whether the result is the operand's memory in another shape."""

    updates: ClassVar[bool] = False
    """Whether the result is the first operand after a store to it."""

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
    def names_rows(self) -> tuple[Value, int] | None:
        """The operand that holds row indices, and the number of rows, if there is such an
        operand."""
        return None

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
    def reads_axes(self) -> frozenset[str]:
        """The axes of its launch on whose steps the result depends, other than through its
        operands."""
        return frozenset()

    def with_parts(self, parts: Parts) -> Op:
        """Return this op for a launch with other numbers of parts along its axes, and tensors of
        other sizes. Raises :class:`UnknownOp` where an op does not say, and
        :class:`mirage.semantics.ops.part_counts.NothingLeftError`."""
        if self.reads_axes:
            raise unknown(self, "other numbers of parts")
        return self

    def written(self, xs: Sequence[str]) -> str:
        """Write the op for people, with operands that are written ``xs``."""
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


def relations_of(op: Movement, analysis: str) -> Sequence[Relation]:
    """Return the source of a result's indices. Raises :class:`UnknownOp` if the op does not declare
    it."""
    found = op.relations()
    if found is None:
        raise unknown(op, analysis)
    return found


def no_rule(op: Op, analysis: str) -> None:
    """Note that an analysis has no rule for an op and uses a safe default.

    With ``MIRAGE_STRICT=1`` in the environment, as in tests, this raises :class:`UnknownOp`.
    Otherwise it writes a line to the log ``mirage``.
    """
    message = f"{analysis} has no rule for {type(op).__name__}"
    if os.environ.get("MIRAGE_STRICT") == "1":
        raise UnknownOp(
            f"{message}; give the op a kind (mirage.semantics.ops.op) or the analysis a rule"
        )
    logging.getLogger("mirage").warning("%s: it takes the safe default", message)


# ---- kinds -------------------------------------------------------------------------------------


class Zeros(enum.Enum):
    """Where an elementwise op is zero, for any finite values of its other operands."""

    NEVER = "never"
    ALL = "where all operands are"
    ANY = "where an operand is"


@dataclass(frozen=True)
class Tiled:
    """Dimension ``dim`` of ``tensor`` is cut along axes into tiles of a size."""

    tensor: Value
    dim: int
    axes: tuple[str, ...]
    tile: int


@dataclass(frozen=True, eq=False)
class Source(Op):
    """An op whose value depends on no other value of its graph."""

    @property
    def cuts(self) -> tuple[tuple[str, ...], ...]:
        """For a load of a tensor, the axes that cut each dimension."""
        return ()

    @property
    def tiled(self) -> tuple[Tiled, ...]:
        """How it cuts the tensors that it loads from."""
        if not self.cuts:
            return ()
        dims = enumerate(zip(self.cuts, self.result.shape, strict=True))
        return tuple(Tiled(self.operands[0], dim, axes, tile) for dim, (axes, tile) in dims)

    def with_parts(self, parts: Parts) -> Op:
        return self if self.tiled else super().with_parts(parts)


@dataclass(frozen=True, eq=False)
class Elementwise(Op, kind=True):
    """An op whose result elements are functions of the operands' elements at the same index;
    dimensions of size 1 or missing leading dimensions are repeated."""

    @property
    @abstractmethod
    def work(self) -> tuple[float, float]:
        """The operations per element on the floating-point pipe and on the special-function
        unit."""

    @property
    @abstractmethod
    def zeros(self) -> Zeros:
        """Where the result is zero."""

    @property
    def identity(self) -> bool:
        """Whether the op is the identity on real numbers, so that it only changes the element
        type."""
        return False

    @property
    def cuts(self) -> bool:
        """Whether the op is a conversion that may change numbers; kernels have no such op."""
        return False

    scalar: ClassVar[bool] = False
    """Whether analyses of exact arithmetic know the function; other functions are written out in
    terms of these (``mirage.verify.normal_form.traced``)."""

    def needs(self, region: Region) -> tuple[Region, ...]:
        return tuple([aligned(region, v.shape) for v in self.operands])


@dataclass(frozen=True, eq=False)
class Movement(Op):
    """An op that moves elements of its operands to other places; it computes nothing."""

    def relations(self) -> Sequence[Relation] | None:
        """Return the source of the indices of each dimension of the result, completely: along
        dimensions that no relation names, elements are repeated. None if that cannot be expressed;
        the verifier then refuses the op."""
        return None


@dataclass(frozen=True, eq=False)
class View(Movement, kind=True):
    """An op that moves elements of one operand to other places."""

    whole: ClassVar[bool] = False
    """Whether each element of the operand occurs in the result."""

    @abstractmethod
    def source_dims(self) -> Mapping[int, int] | None:
        """Map dimensions of the result to the operand's dimensions whose index they have; other
        dimensions are repeated or cut. None if dimensions are merged or split.
        """


@dataclass(frozen=True, eq=False)
class Rearrangement(View, kind=True):
    """An op that moves all elements of one operand, each exactly once."""

    whole: ClassVar[bool] = True


@dataclass(frozen=True, eq=False)
class Contraction(Op, kind=True):
    """An op that takes sums or maxima over axes of its operands."""

    @property
    @abstractmethod
    def over(self) -> tuple[tuple[int, ...], ...]:
        """The dimensions of each operand that the op contracts; those of two operands run over the
        same indices, in this order."""

    @property
    @abstractmethod
    def sums(self) -> bool:
        """Whether the op sums the products of its operands' elements; otherwise it takes a
        maximum."""

    @property
    def rounds_factors(self) -> bool:
        """Whether factors of f32 are rounded to TF32."""
        return False


@dataclass(frozen=True, eq=False)
class Scan(Op):
    """An op whose result depends on the steps of a loop so far."""


@dataclass(frozen=True, eq=False)
class Cumulation(Op):
    """An op whose result depends on the elements of its operand so far along a dimension."""


@dataclass(frozen=True, eq=False)
class Structure(Op, kind=True):
    """An op that is made of other ops."""

    @property
    @abstractmethod
    def inside(self) -> tuple[Op, ...]:
        """The ops that it is made of, in order."""

    @property
    def defines(self) -> tuple[Value, ...]:
        """Values that only the ops inside read, and that none of them defines."""
        return ()

    @cached_property
    def reads(self) -> tuple[Source, ...]:
        """Loads of the operands that the structure itself reads."""
        return ()

    @property
    @abstractmethod
    def ends(self) -> tuple[Value, ...]:
        """The inner values from which its results are made."""

    @property
    def carries(self) -> tuple[tuple[Value, Value], ...]:
        """Pairs of a result and an inner value, if each element of a result is made from the same
        element of such values (which broadcast) and from nothing else."""
        return ()

    @abstractmethod
    def rebuilt(self, inside: tuple[Op, ...], new: Callable[[Value], Value]) -> Self:
        """Return the same structure with the ops ``inside``; ``new`` maps the values that it
        ``defines`` and its ``ends`` to their replacements."""

    def with_parts(self, parts: Parts) -> Op:
        raise unknown(self, "other numbers of parts")


def all_ops(ops: Iterable[Op]) -> Iterator[Op]:
    """Yield all ops in order, each before the ops that it is made of."""
    for op in ops:
        yield op
        if isinstance(op, Structure):
            yield from all_ops(op.inside)


def values_in(ops: Iterable[Op]) -> Iterator[Value]:
    """Yield every value that the ops, or the ops that they are made of, define."""
    for op in all_ops(ops):
        yield from op.results
        if isinstance(op, Structure):
            yield from op.defines


@dataclass(frozen=True, eq=False)
class Boundary(Op):
    """An op between the parts of a program. No search and no proof looks inside; to the readers of
    its results they are inputs with arbitrary elements."""


@dataclass(frozen=True, eq=False)
class Lookup(Boundary):
    """A tensor of the kernel level whose elements are determined where they are loaded."""

    in_block: ClassVar[bool] = False

    @property
    def counts_along(self) -> int | None:
        """The dimension along which each element equals its own index, if that describes all
        elements."""
        return None
