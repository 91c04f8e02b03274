"""The kinds of ops.

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

Composites, which have a decomposition, belong to no kind: they are decomposed first."""

from __future__ import annotations

import enum
from abc import abstractmethod
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, TypeGuard

from mirage.semantics.indexing.indices import Region, aligned
from mirage.semantics.indexing.relations import Relation
from mirage.semantics.ops.op import Op, Value, unknown
from mirage.semantics.ops.part_counts import Parts

if TYPE_CHECKING:
    from typing_extensions import Self


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

    def with_cuts(self, cuts: tuple[tuple[str, ...], ...]) -> Op:
        """Return the load with other axes that cut each dimension. Raises :class:`UnknownOp` where
        an op does not say."""
        raise unknown(self, "other axes that cut a tensor")

    @property
    def tiled(self) -> tuple[Tiled, ...]:
        """How the op cuts the tensors from which it loads."""
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

    @property
    def converts(self) -> bool:
        """Whether the op only converts its operand to another type, exactly or not."""
        return self.identity or self.cuts

    scalar: ClassVar[bool] = False
    """Whether analyses of exact arithmetic know the function; other functions are written out in
    terms of these (``mirage.verify.normal_form.traced``)."""

    unknown: ClassVar[bool] = False
    """Whether nothing is known of the function except that equal arguments give equal results."""

    def needs(self, region: Region) -> tuple[Region, ...]:
        return tuple([aligned(region, v.shape) for v in self.operands])


def is_cast(op: Op | None) -> TypeGuard[Elementwise]:
    """Return whether an op only converts the element type. Narrowing conversions count too: over
    the real numbers casts are the identity, and the measurement of rounding errors sees what they
    round."""
    return isinstance(op, Elementwise) and op.identity and not op.cuts


@dataclass(frozen=True, eq=False)
class Movement(Op):
    """An op that moves elements of its operands to other places; it computes nothing."""

    def relations(self) -> Sequence[Relation] | None:
        """Return the source of the indices of each dimension of the result, completely: along
        dimensions that no relation names, elements are repeated. None if that cannot be expressed;
        the verifier then refuses the op."""
        return None


def relations_of(op: Movement, analysis: str) -> Sequence[Relation]:
    """Return the source of a result's indices. Raises :class:`UnknownOp` if the op does not declare
    it."""
    found = op.relations()
    if found is None:
        raise unknown(op, analysis)
    return found


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
class Cumulation(Op, kind=True):
    """An op whose result depends on the order of its operand's elements along a dimension, such as
    on those so far."""

    @property
    @abstractmethod
    def along(self) -> int:
        """The dimension along which elements follow each other."""

    @property
    def rounds(self) -> int:
        """How often each element is compared with another one, if that is not done once."""
        return 0


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

    def with_each_once(self, inside: tuple[Op, ...], known: dict[Value, Value]) -> Self:
        """Return the op with each inner value replaced by an equal one of ``known``, if there is
        one. Results that are then equal are left out, and become known."""
        return self.rebuilt(inside, lambda v: known.get(v, v))

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

    def says(self, xs: str) -> str:
        """Return a text for the op applied to ``xs``: ops with the same text give equal results for
        equal operands."""
        return f"{type(self).__name__.lower()}({xs})"

    @property
    def only_reads(self) -> bool:
        """Whether it certainly stores nothing into its operands, however it is computed."""
        return False


@dataclass(frozen=True, eq=False)
class Lookup(Boundary, kind=True):
    """A tensor of the kernel level whose elements are determined where they are loaded."""

    in_block: ClassVar[bool] = False

    @property
    def only_reads(self) -> bool:
        return True

    @property
    @abstractmethod
    def in_tiles(self) -> bool:
        """Whether kernels can determine the elements of a tile that they load."""

    @abstractmethod
    def tile(
        self,
        result: Value,
        cuts: tuple[tuple[str, ...], ...],
        param: Callable[[Value], Value],
        lines: Container[Value],
    ) -> Source:
        """Return the op of a block that determines a tile, ``result``, which is cut from the tensor
        along ``cuts``; ``param`` gives the block's parameter for an operand, and ``lines`` are
        tensors of positions along one dimension."""

    @property
    def picks_from(self) -> tuple[Value, ...]:
        """The operands of which an element may need elements anywhere, other than rows by index."""
        return ()

    @property
    def counts_along(self) -> int | None:
        """The dimension along which each element equals its own index, if that describes all
        elements."""
        return None
