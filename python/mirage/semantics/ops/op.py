"""Values, and the kinds of ops.

Every op class is of one kind, and says there what analyses need to know of it: what it computes,
which parts of its operands a part of its result needs, where it is zero, what it costs. An analysis
asks for the kind, or the op, and names a class only where that class is what it is about; so an op
of a kind that is there already needs no line in any of them.

| kind | ops |
|---|---|
| :class:`Source` | a value from none of the others: constants, loads |
| :class:`Elementwise` | functions of the elements at one index |
| :class:`Movement` | elements elsewhere; :class:`View`: of one operand; \
  :class:`Rearrangement`: each of them once |
| :class:`Contraction` | sums and maxima over axes |
| :class:`Scan` | over the steps of a loop so far |
| :class:`Structure` | ops made of ops: loops, launches |
| :class:`Boundary` | ends a part of a program: calls of the framework; :class:`Lookup`: tensors \
  whose elements are found where they are loaded |

Composites, which have a decomposition, are of no kind: they are decomposed first.
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
    """Raises :class:`TypeError` where a class leaves out an abstract method of its bases, unless it
    is ``partial`` itself. (Without ``ABCMeta``, which makes ``isinstance`` slow.)
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
    """Shape and element type of a tensor or tile."""

    shape: tuple[int, ...]
    dtype: DType

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def bytes(self) -> int:
        """Size in bytes when stored densely."""
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
        """Shape of the tensor or tile."""
        return self.type.shape

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.type.dtype


@dataclass(frozen=True, eq=False)
class Op:
    """Base of all ops: operands, and the results that the op defines."""

    operands: tuple[Value, ...]
    results: tuple[Value, ...]

    @property
    def result(self) -> Value:
        """The only result."""
        (value,) = self.results
        return value

    def __init_subclass__(cls, kind: bool = False) -> None:
        complete(cls, partial=kind)

    arity: ClassVar[tuple[int, int]] = (1, 1)
    """The least and the largest number of operands."""

    in_kernel: ClassVar[bool] = True
    """Whether it may stand in a kernel graph."""

    in_block: ClassVar[bool] = True
    """Whether it may stand in a block graph."""

    renames: ClassVar[bool] = False
    """Whether the result is the operand's memory, in another shape."""

    updates: ClassVar[bool] = False
    """Whether the result is the first operand with something stored to it."""

    @property
    def cut_at(self) -> tuple[int, ...] | None:
        """Where the result begins in the operand, if it is a block of that."""
        return None

    @property
    def joined_along(self) -> int | None:
        """The dimension along which the result holds the operands side by side, if it does."""
        return None

    @property
    def names_rows(self) -> tuple[Value, int] | None:
        """The operand that names rows by index, and how many rows there are, if one does."""
        return None

    def result_type(self, b: Builder) -> TensorType:
        """The type that the result has by the operands, as a builder of this level makes it.

        Raises :class:`ValueError` where they do not fit, :class:`UnknownOp` for ops that mean
        something at one level only.
        """
        raise UnknownOp(f"expected an op with a meaning at this level, got {type(self).__name__}")

    def compute(
        self, domain: Domain, xs: Sequence[Planes], lead: int, shape: tuple[int, ...]
    ) -> Planes:
        """The result of an op of both levels on ``xs``, all of which carry ``lead`` leading
        dimensions that broadcast; ``shape`` is the shape of the result without those.

        Raises :class:`UnknownOp` for ops that mean something at one level only.
        """
        raise UnknownOp(f"expected an op with a meaning at this level, got {type(self).__name__}")

    def needs(self, region: Region) -> tuple[Region, ...]:
        """The region of each operand that a region of the result needs, at kernel level; all of
        them where an op does not say."""
        return tuple(whole(len(v.shape)) for v in self.operands)

    @property
    def number(self) -> Number | None:
        """The number that all elements of the result are, where the op alone says so."""
        return None

    @property
    def function(self) -> UnaryFn | BinaryFn | ReduceFn | None:
        """The function of scalars that it applies, to elements or along dimensions; None where that
        is not all that it does."""
        return None

    @property
    def reads_axes(self) -> frozenset[str]:
        """The axes of its launch on whose steps the result depends, other than by its operands."""
        return frozenset()

    def with_parts(self, parts: Parts) -> Op:
        """The same op in a launch whose axes have other numbers of parts, and whose tensors have
        other sizes. Raises :class:`UnknownOp` where an op does not say, and
        :class:`mirage.semantics.ops.part_counts.NothingLeftError`."""
        if self.reads_axes:
            raise unknown(self, "other numbers of parts")
        return self

    def written(self, xs: Sequence[str]) -> str:
        """The op for people to read, of operands that are written ``xs``."""
        return called(type(self).__name__.lower(), xs)


def called(name: str, xs: Sequence[str]) -> str:
    """A function of ``xs`` for people to read."""
    return f"{name}({', '.join(map(bare, xs))})"


def bare(text: str) -> str:
    """``text`` without parentheses around all of it."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0 and i < len(text) - 1:
            return text
    return text[1:-1]


def unknown(op: Op, analysis: str) -> UnknownOp:
    """The error of an analysis on which soundness rests, for an op that it has no rule for."""
    return UnknownOp(f"{analysis}: no rule for {type(op).__name__}")


def relations_of(op: Movement, analysis: str) -> Sequence[Relation]:
    """Where the indices of a result come from. Raises :class:`UnknownOp` where the op does not
    say."""
    found = op.relations()
    if found is None:
        raise unknown(op, analysis)
    return found


def no_rule(op: Op, analysis: str) -> None:
    """Notes that an analysis has no rule for an op and goes on with what is safe.

    With ``MIRAGE_STRICT=1`` in the environment, as in tests, that is an error: raises
    :class:`UnknownOp`. Otherwise it is a line in the log ``mirage``.
    """
    message = f"{analysis} has no rule for {type(op).__name__}"
    if os.environ.get("MIRAGE_STRICT") == "1":
        raise UnknownOp(
            f"{message}; give the op a kind (mirage.semantics.ops.op) or the analysis a rule"
        )
    logging.getLogger("mirage").warning("%s: it takes the safe default", message)


# ---- kinds -------------------------------------------------------------------------------------


class Zeros(enum.Enum):
    """Where an elementwise op is zero, whatever finite numbers its other operands are."""

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
    """Makes a value that depends on no other value of its graph."""

    @property
    def cuts(self) -> tuple[tuple[str, ...], ...]:
        """Of what it loads of a tensor, the axes that cut each dimension."""
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
    """Each element of the result is a function of the operands' elements at its index; dimensions
    of size 1 or missing in front are repeated."""

    @property
    @abstractmethod
    def work(self) -> tuple[float, float]:
        """Operations of an element on the floating-point pipe and on the special-function unit."""

    @property
    @abstractmethod
    def zeros(self) -> Zeros:
        """Where the result is zero."""

    @property
    def identity(self) -> bool:
        """Whether on real numbers it gives its operand: only the element type changes."""
        return False

    @property
    def cuts(self) -> bool:
        """Whether it is a conversion that may change numbers, which no kernel does."""
        return False

    scalar: ClassVar[bool] = False
    """Whether it is one of the functions that analyses of exact arithmetic know; others are written
    out in them (``mirage.verify.normal_form.traced``)."""

    def needs(self, region: Region) -> tuple[Region, ...]:
        return tuple(aligned(region, v.shape) for v in self.operands)


@dataclass(frozen=True, eq=False)
class Movement(Op):
    """Elements of the operands in other places; nothing is computed."""

    def relations(self) -> Sequence[Relation] | None:
        """Where the indices of each dimension of the result come from, all of it: along what no
        relation names elements are repeated. None where that cannot be said so: then the verifier
        refuses the op."""
        return None


@dataclass(frozen=True, eq=False)
class View(Movement, kind=True):
    """Elements of one operand in other places."""

    whole: ClassVar[bool] = False
    """Whether each element of the operand is in the result."""

    @abstractmethod
    def source_dims(self) -> Mapping[int, int] | None:
        """For dimensions of the result the operand's dimension whose index they have; the others
        repeat, or are cut. None where dimensions are merged or split.
        """


@dataclass(frozen=True, eq=False)
class Rearrangement(View, kind=True):
    """All elements of one operand, each once."""

    whole: ClassVar[bool] = True


@dataclass(frozen=True, eq=False)
class Contraction(Op, kind=True):
    """Sums or maxima over axes of the operands."""

    @property
    @abstractmethod
    def over(self) -> tuple[tuple[int, ...], ...]:
        """The dimensions of each operand that it contracts; those of one operand run over the same
        indices as those of another, in this order."""

    @property
    @abstractmethod
    def sums(self) -> bool:
        """Whether it adds up the products of its operands' elements; else it takes a maximum."""


@dataclass(frozen=True, eq=False)
class Scan(Op):
    """Depends on the steps of a loop so far."""


@dataclass(frozen=True, eq=False)
class Structure(Op, kind=True):
    """Made of other ops."""

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
        """Loads of those of its operands that it reads itself."""
        return ()

    @property
    @abstractmethod
    def ends(self) -> tuple[Value, ...]:
        """The values inside of which its results are made."""

    @abstractmethod
    def rebuilt(self, inside: tuple[Op, ...], new: Callable[[Value], Value]) -> Self:
        """The same structure made of the ops ``inside``; of what it ``defines`` and where it
        ``ends``, each value is ``new`` of the one that it is here."""

    def with_parts(self, parts: Parts) -> Op:
        raise unknown(self, "other numbers of parts")


def all_ops(ops: Iterable[Op]) -> Iterator[Op]:
    """All ops in order, each before those that it is made of."""
    for op in ops:
        yield op
        if isinstance(op, Structure):
            yield from all_ops(op.inside)


def values_in(ops: Iterable[Op]) -> Iterator[Value]:
    """Every value that ops, or those that they are made of, define."""
    for op in all_ops(ops):
        yield from op.results
        if isinstance(op, Structure):
            yield from op.defines


@dataclass(frozen=True, eq=False)
class Boundary(Op):
    """Between the parts of a program: no search and no proof looks inside, and to what reads its
    results they are inputs with any elements."""


@dataclass(frozen=True, eq=False)
class Lookup(Boundary):
    """A tensor of the kernel level whose elements are found where they are loaded."""

    in_block: ClassVar[bool] = False

    @property
    def counts_along(self) -> int | None:
        """The dimension along which each element is its own index, where that is all it is."""
        return None
