"""Handles on the values of a graph under construction, with Python's operators."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Generic, TypeVar

from mirage.errors import SourceLocation
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import Value

if TYPE_CHECKING:
    from mirage.frontend.ops import GraphOps

Scalar = int | float | Fraction
H = TypeVar("H", bound="Handle")


class Handle:
    """A value of a graph under construction: the base of :class:`Tensor` and :class:`Tile`.

    ``+ - * / ** @`` and unary minus work between handles of one graph and between a handle and a
    number."""

    __slots__ = ("_graph", "location", "value")

    def __init__(self, graph: GraphOps[H], value: Value, location: SourceLocation | None) -> None:  # pyright: ignore[reportInvalidTypeVarUse]
        self._graph: GraphOps[Handle] = graph  # pyright: ignore[reportAttributeAccessIssue]
        self.value = value
        self.location = location

    @property
    def graph(self) -> object:
        """The graph that the value belongs to."""
        return self._graph

    @property
    def dims(self) -> tuple[int, ...]:
        """The shape of the value."""
        return self.value.shape

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the value."""
        return self.value.shape

    @property
    def dtype(self) -> DType:
        """The element type of the value."""
        return self.value.dtype

    def __repr__(self) -> str:
        name = f" {self.value.name}" if self.value.name else ""
        return f"<{type(self).__name__}{name} {self.value.type}>"


class Operators(Handle, Generic[H]):
    """Python's operators, typed by the concrete handle."""

    __slots__ = ()
    __array_priority__ = 1000  # so that NumPy scalars leave the op to us

    def _binary(self, fn: BinaryFn, a: object, b: object) -> H:
        return self._graph.binary(fn, a, b)  # pyright: ignore

    def __add__(self, other: H | Scalar) -> H:
        return self._binary(BinaryFn.ADD, self, other)

    def __radd__(self, other: Scalar) -> H:
        return self._binary(BinaryFn.ADD, other, self)

    def __sub__(self, other: H | Scalar) -> H:
        return self._binary(BinaryFn.SUB, self, other)

    def __rsub__(self, other: Scalar) -> H:
        return self._binary(BinaryFn.SUB, other, self)

    def __mul__(self, other: H | Scalar) -> H:
        return self._binary(BinaryFn.MUL, self, other)

    def __rmul__(self, other: Scalar) -> H:
        return self._binary(BinaryFn.MUL, other, self)

    def __truediv__(self, other: H | Scalar) -> H:
        return self._binary(BinaryFn.DIV, self, other)

    def __rtruediv__(self, other: Scalar) -> H:
        return self._binary(BinaryFn.DIV, other, self)

    def __pow__(self, other: H | Scalar) -> H:
        return self._graph.pow(self, other)  # pyright: ignore

    def __matmul__(self, other: H) -> H:
        return self._graph.matmul(self, other)  # pyright: ignore

    def __neg__(self) -> H:
        return self._graph.unary(UnaryFn.NEG, self)  # pyright: ignore


class Tensor(Operators["Tensor"]):
    """A tensor in device memory, in a kernel graph."""

    __slots__ = ()


class Tile(Operators["Tile"]):
    """A tile that one thread block holds, in a block graph."""

    __slots__ = ()
