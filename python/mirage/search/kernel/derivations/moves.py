"""The moves of a derivation: each computes a goal from other goals by one op.

A move is a class that defines three things: its work in a block (:meth:`Edge.account`, for many
sizes at once), its ops in a launch (:meth:`Edge.emit`), and its ops in the combine kernel, above
sums over the grid (:meth:`Edge.combine`). A class without one of them cannot be instantiated. A new
move is a class in a file, and a line in :mod:`mirage.search.kernel.derivations.derive` that yields
it.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias

from mirage.cost.accountant import Accountant
from mirage.search.algebra.normal_form import Coefficient
from mirage.semantics.builder import Builder
from mirage.semantics.ops.op import complete
from mirage.semantics.scalar import BINARY, UNARY, BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import Value

Goal: TypeAlias = tuple[int, int]
"""A polynomial and a stage."""

Num: TypeAlias = Any


class EmitError(ValueError):
    """A derivation cannot be written down for these sizes."""


class Accounts(Protocol):
    """The facts about a block that are needed to count the work of a move."""

    def labels(self, goal: Goal) -> tuple[str, ...]: ...
    def elements(self, labels: tuple[str, ...]) -> Num: ...
    def fits(self, labels: tuple[str, ...]) -> Num: ...
    def is_last(self, axis: str) -> bool: ...
    def of_product(self, goal: Goal) -> bool: ...
    def load(self, account: Accountant, edge: Load, size: Num, inside: bool) -> Num: ...
    def matmul(self, account: Accountant, edge: Product, inside: bool) -> Num: ...
    def accumulate(self, account: Accountant, edge: Accumulate, of_matmul: bool) -> None: ...


class Body(Protocol):
    """The launch that moves are written into; tiles have ``row`` and ``col`` as dimensions."""

    def get(self, goal: Goal, row: str | None, col: str | None) -> Value: ...
    def builder(self, goal: Goal) -> Builder: ...
    def load(self, edge: Load, row: str | None, col: str | None) -> Value: ...
    def matmul(self, edge: Product, row: str | None, col: str | None) -> Value: ...
    def add(self, edge: Edge, row: str | None, col: str | None) -> Value: ...
    def reduce(self, edge: Reduction, row: str | None, col: str | None) -> Value: ...
    def accumulate(self, edge: Accumulate, row: str | None, col: str | None) -> Value: ...


class Above(Protocol):
    """The combine kernel: a value has a dimension for the parts, and one for each of ``axes``."""

    build: Builder
    axes: list[str]

    def get(self, goal: Goal) -> Value: ...
    def load(self, edge: Load) -> Value: ...
    def partial(self, goal: Goal) -> Value: ...


@dataclass(frozen=True)
class Edge:
    """One op that computes ``goal`` from ``children``."""

    goal: Goal
    children: tuple[Goal, ...]

    reads: ClassVar[bool] = False
    """Whether loaded operands are read into registers for the move."""
    in_rings: ClassVar[bool] = False
    """Whether the move may occur in a loop of warpgroups that only multiplies loaded tiles."""

    def __init_subclass__(cls, partial: bool = False) -> None:
        complete(cls, partial=partial)

    @property
    def sort(self) -> tuple[object, ...]:
        """The key of the work: moves of one class and sort do the same work on different values."""
        return ()

    @property
    def terms(self) -> tuple[Goal, ...]:
        """The summands, if the move is a sum."""
        return ()

    @abstractmethod
    def account(self, at: Accounts, account: Accountant, size: Num, inside: bool) -> Num:
        """Add the work on a tile of ``size`` elements, ``inside`` of the innermost loop or not;
        return where the sizes permit it."""

    @abstractmethod
    def emit(self, body: Body, row: str | None, col: str | None) -> Value:
        """Return the tile in a launch. Raises :class:`EmitError`."""

    @abstractmethod
    def combine(self, above: Above) -> Value:
        """Return the value in a combine kernel. Raises :class:`EmitError`."""

    def not_above(self) -> EmitError:
        """Return the error for a move that combine kernels do not have."""
        return EmitError(f"expected an op of a combine kernel, got {type(self).__name__.lower()}")


@dataclass(frozen=True)
class Load(Edge):
    """A tile of an input, given by atom ``atom`` of the normal form."""

    atom: int
    in_rings: ClassVar[bool] = True

    @property
    def sort(self) -> tuple[object, ...]:
        return (self.atom,)

    def account(self, at: Accounts, account: Accountant, size: Num, inside: bool) -> Num:
        return at.load(account, self, size, inside)

    def emit(self, body: Body, row: str | None, col: str | None) -> Value:
        return body.load(self, row, col)

    def combine(self, above: Above) -> Value:
        return above.load(self)


@dataclass(frozen=True)
class Number(Edge):
    """A constant."""

    value: Coefficient

    def account(self, at: Accounts, account: Accountant, size: Num, inside: bool) -> Num:
        return True

    def emit(self, body: Body, row: str | None, col: str | None) -> Value:
        return body.builder(self.goal).constant(self.value)

    def combine(self, above: Above) -> Value:
        return above.build.constant(self.value)


@dataclass(frozen=True)
class Scale(Edge):
    """Another value times a constant."""

    value: Coefficient
    reads: ClassVar[bool] = True

    def account(self, at: Accounts, account: Accountant, size: Num, inside: bool) -> Num:
        account.elementwise(size, 1.0, 0.0, inside)
        return True

    def emit(self, body: Body, row: str | None, col: str | None) -> Value:
        build = body.builder(self.goal)
        x = body.get(self.children[0], row, col)
        if self.value == -1:
            return build.unary(UnaryFn.NEG, x)
        return build.binary(BinaryFn.MUL, x, build.constant(self.value))

    def combine(self, above: Above) -> Value:
        x = above.get(self.children[0])
        return above.build.binary(BinaryFn.MUL, x, above.build.constant(self.value))


@dataclass(frozen=True)
class Apply(Edge):
    """A function of one value."""

    fn: UnaryFn
    reads: ClassVar[bool] = True

    @property
    def sort(self) -> tuple[object, ...]:
        return (self.fn,)

    def account(self, at: Accounts, account: Accountant, size: Num, inside: bool) -> Num:
        account.elementwise(size, UNARY[self.fn].flops, UNARY[self.fn].special, inside)
        return True

    def emit(self, body: Body, row: str | None, col: str | None) -> Value:
        build = body.builder(self.goal)
        return build.unary(self.fn, body.get(self.children[0], row, col))

    def combine(self, above: Above) -> Value:
        return above.build.unary(self.fn, above.get(self.children[0]))


@dataclass(frozen=True)
class Rounded(Edge):
    """A value that is rounded to a type of 16 bits, as the program rounds it."""

    dtype: DType
    reads: ClassVar[bool] = True

    @property
    def sort(self) -> tuple[object, ...]:
        return (self.dtype,)

    def account(self, at: Accounts, account: Accountant, size: Num, inside: bool) -> Num:
        account.elementwise(size, 2.0, 0.0, inside)  # there and back
        return True

    def emit(self, body: Body, row: str | None, col: str | None) -> Value:
        build = body.builder(self.goal)
        return build.cast(build.cast(body.get(self.children[0], row, col), self.dtype), DType.F32)

    def combine(self, above: Above) -> Value:
        build = above.build
        return build.cast(build.cast(above.get(self.children[0]), self.dtype), DType.F32)


@dataclass(frozen=True)
class Pair(Edge):
    """A function of two values."""

    fn: BinaryFn
    reads: ClassVar[bool] = True

    @property
    def sort(self) -> tuple[object, ...]:
        return (self.fn,)

    @property
    def terms(self) -> tuple[Goal, ...]:
        return self.children if self.fn is BinaryFn.ADD else ()

    def account(self, at: Accounts, account: Accountant, size: Num, inside: bool) -> Num:
        account.elementwise(size, BINARY[self.fn].flops, BINARY[self.fn].special, inside)
        return True

    def emit(self, body: Body, row: str | None, col: str | None) -> Value:
        build = body.builder(self.goal)
        if self.terms:
            return body.add(self, row, col)
        a, b = (body.get(c, row, col) for c in self.children)
        if self.fn is BinaryFn.MUL and self.children[0] == self.children[1]:
            return build.unary(UnaryFn.SQUARE, a)
        return build.binary(self.fn, a, b)

    def combine(self, above: Above) -> Value:
        a, b = self.children
        return above.build.binary(self.fn, above.get(a), above.get(b))


@dataclass(frozen=True)
class Product(Edge):
    """A matrix product, summed over the tile's part of ``axis``; ``wide`` if 16 bits do not suffice
    for its operands."""

    axis: str
    wide: bool = False
    in_rings: ClassVar[bool] = True

    @property
    def sort(self) -> tuple[object, ...]:
        return (self.axis, self.wide)

    def account(self, at: Accounts, account: Accountant, size: Num, inside: bool) -> Num:
        return at.matmul(account, self, inside)

    def emit(self, body: Body, row: str | None, col: str | None) -> Value:
        return body.matmul(self, row, col)

    def combine(self, above: Above) -> Value:
        raise self.not_above()


@dataclass(frozen=True)
class Reduction(Edge, partial=True):
    """A sum or maximum over one level of ``axis``."""

    axis: str
    fn: ReduceFn

    @property
    def sort(self) -> tuple[object, ...]:
        return (self.axis, self.fn)


@dataclass(frozen=True)
class ReduceTile(Reduction):
    """A sum or maximum over the tile's part of the axis."""

    reads: ClassVar[bool] = True

    def account(self, at: Accounts, account: Accountant, size: Num, inside: bool) -> Num:
        operand = at.labels(self.children[0])
        across = at.is_last(self.axis)
        rows = across or at.of_product(self.children[0])
        account.reduce(at.elements(operand), size, inside, across, rows)
        return at.fits(operand)

    def emit(self, body: Body, row: str | None, col: str | None) -> Value:
        return body.reduce(self, row, col)

    def combine(self, above: Above) -> Value:
        if self.axis not in above.axes:
            raise self.not_above()
        x = above.get(self.children[0])
        return above.build.reduce(self.fn, x, (1 + above.axes.index(self.axis),))


@dataclass(frozen=True)
class Accumulate(Reduction):
    """A sum or maximum over the steps of a loop."""

    in_rings: ClassVar[bool] = True

    def account(self, at: Accounts, account: Accountant, size: Num, inside: bool) -> Num:
        at.accumulate(account, self, False)
        return True

    def emit(self, body: Body, row: str | None, col: str | None) -> Value:
        return body.accumulate(self, row, col)

    def combine(self, above: Above) -> Value:
        raise self.not_above()


@dataclass(frozen=True)
class Gather(Reduction):
    """A sum over the parts of the grid: a combine kernel adds the results that the blocks have
    stored."""

    def account(self, at: Accounts, account: Accountant, size: Num, inside: bool) -> Num:
        return True

    def emit(self, body: Body, row: str | None, col: str | None) -> Value:
        raise EmitError("expected an op of a block, got a sum over the grid")

    def combine(self, above: Above) -> Value:
        return above.build.reduce(self.fn, above.partial(self.children[0]), (0,))


SUMS: dict[str, type[ReduceTile] | type[Accumulate] | type[Gather]] = {
    "L": ReduceTile,
    "T": Accumulate,
    "G": Gather,
}
"""The move that sums over a sub-axis, by its level."""
