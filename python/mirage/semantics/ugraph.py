"""µGraphs as plain data: kernel graphs over device tensors, block graphs over tiles.

This is the form in which the search, the verifier, the interpreter and the cost model see a
program. It mirrors the `kernel` and `block` dialects one to one (``mirage.mlir_io``
converts both ways) and imports nothing of MLIR.

A program is SSA: a :class:`Value` is identified by the object itself, every :class:`Op` lists its
operands and owns its results, and a graph lists its ops in an order in which every value is
defined before it is used. The same op classes serve both levels: in a kernel graph a value is a
device tensor, in a block graph it is the tile that one thread block holds.

**Shapes.** Reductions keep the reduced dimension with size 1. Binary ops broadcast as NumPy does.
Matmul contracts ``[..., m, k] x [..., k, n]``, leading dimensions broadcast.

**Launches.** A :class:`Launch` is a kernel defined by a block graph. Its grid axes have names and
extents; loops inside the block graph have an axis name too. A :data:`TileMap` gives for each
tensor dimension the axes that split it, outermost first: ``((), ("k",))`` keeps dimension 0 whole
and cuts dimension 1 into as many parts as axis ``k`` has steps. With parts ``p = prod(extents)``
and tile size ``t``, part number ``i`` (mixed radix over the axes) covers the indices ``[i*t,
(i+1)*t)`` that lie inside the tensor; ``t * p >= size`` must hold. Loads fill what lies outside
with zeros, stores drop it, and :class:`Mask` overwrites it with a value of choice before a
reduction. An axis that a tensor's map does not name leaves the tensor whole along it (a load is
replicated; for stores every grid axis must be named).

**Types in block graphs.** Loads have the tensor's element type; elementwise ops, reductions,
accumulators and matmuls produce f32 (f64 if an operand is); :class:`Cast` converts explicitly;
stores convert to the result tensor's type.

Source of the model: Wu et al., "Mirage: A Multi-Level Superoptimizer for Tensor Programs",
OSDI'25, section 2 (imap, omap, fmap are one :data:`TileMap` here).
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from mirage.semantics.numbers import Number, as_number
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn

TileMap = tuple[tuple[str, ...], ...]
"""For each tensor dimension, the names of the axes that split it, outermost first."""


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


# ---- ops of both levels ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Constant(Op):
    """A scalar (rank-0) constant, an exact number; it broadcasts where it is used. A float is read
    as the number that it is written for (:func:`mirage.semantics.numbers.read`).
    """

    value: Number

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", as_number(self.value))


@dataclass(frozen=True, eq=False)
class Unary(Op):
    """A scalar function applied to each element."""

    fn: UnaryFn


@dataclass(frozen=True, eq=False)
class Binary(Op):
    """A function of two scalars applied element by element, with NumPy broadcasting."""

    fn: BinaryFn


@dataclass(frozen=True, eq=False)
class Cast(Op):
    """Conversion to the element type of the result; the identity on real numbers."""


@dataclass(frozen=True, eq=False)
class Matmul(Op):
    """``[..., m, k] x [..., k, n] -> [..., m, n]``, leading dimensions broadcast."""


@dataclass(frozen=True, eq=False)
class Reduce(Op):
    """Reduction over ``dims`` (non-negative, sorted); reduced dimensions keep size 1."""

    fn: ReduceFn
    dims: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Transpose(Op):
    """``result.shape[i] == operand.shape[permutation[i]]``."""

    permutation: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Reshape(Op):
    """Same elements in row-major order, the shape of the result."""


@dataclass(frozen=True, eq=False)
class Broadcast(Op):
    """Size-1 (or missing leading) dimensions repeated to the shape of the result."""


@dataclass(frozen=True, eq=False)
class Concat(Op):
    """Operands joined along ``dim``."""

    dim: int


@dataclass(frozen=True, eq=False)
class Slice(Op):
    """The block of the result's shape that starts at ``offsets``."""

    offsets: tuple[int, ...]


# ---- kernel level ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Composite(Op):
    """An op with a decomposition into the ops above (``mirage.semantics.decompose``)."""


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


@dataclass(frozen=True)
class Axis:
    """A grid or loop axis: a name that is unique in its launch, and how many steps it has."""

    name: str
    extent: int


@dataclass(frozen=True)
class Schedule:
    """How a block executes its graph: warps that compute, stages of the copy pipeline.

    ``warpgroups``: four warps together multiply tiles in shared memory that one more warp keeps
    filled by the tensor memory accelerator; else each warp multiplies what is in its registers.
    """

    warps: int = 4
    stages: int = 2
    warpgroups: bool = False

    @property
    def block_warps(self) -> int:
        """Warps of a block, the one that only copies included."""
        return self.warps + (1 if self.warpgroups else 0)


@dataclass(frozen=True, eq=False)
class BlockGraph:
    """What one thread block does: ``params`` are the launch's operands (device tensors),
    ``outputs`` are stored tiles.
    """

    params: tuple[Value, ...]
    ops: tuple[Op, ...]
    outputs: tuple[Output, ...]


@dataclass(frozen=True, eq=False)
class Output:
    """A tile and where it goes in the launch's result of the same position."""

    value: Value
    map: TileMap


@dataclass(frozen=True, eq=False)
class Launch(Op):
    """A kernel defined by a block graph, run once for each point of the grid."""

    grid: tuple[Axis, ...]
    body: BlockGraph
    schedule: Schedule = Schedule()


@dataclass(frozen=True, eq=False)
class KernelGraph:
    """A tensor program."""

    name: str
    inputs: tuple[Value, ...]
    ops: tuple[Op, ...]
    outputs: tuple[Value, ...]


# ---- block level -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Load(Op):
    """This block's tile of a device tensor (a param of the block graph), at the current step of the
    loops around it.
    """

    map: TileMap


@dataclass(frozen=True, eq=False)
class Mask(Op):
    """Overwrites with ``fill`` what lies outside the tensor along ``dim``.

    Element ``i`` along ``dim`` is kept where ``part(axes) * tile + i < extent``, ``tile`` being the
    operand's size there.
    """

    dim: int
    axes: tuple[str, ...]
    extent: int
    fill: float


class AccumulateFn(enum.Enum):
    """How a loop combines the values of its steps."""

    SUM = "sum"
    MAX = "max"
    LAST = "last"


@dataclass(frozen=True, eq=False)
class Accumulator:
    """One result of a loop.

    ``rescale`` (with SUM only) is a :class:`RunningMax` result ``m`` of the same loop: before each
    step's value is added, the sum so far is multiplied by ``exp(m_previous - m_now)``. With values
    that carry a factor ``exp(-m_now)`` the result is the sum with the factor ``exp(-m_final)``: the
    online form of Milakov & Gimelshein (arXiv 1805.02867).
    """

    fn: AccumulateFn
    value: Value
    rescale: Value | None = None


@dataclass(frozen=True, eq=False)
class RunningMax(Op):
    """Inside a loop: the maximum of the operand over all steps up to and including this one."""


@dataclass(frozen=True, eq=False)
class Loop(Op):
    """``axis.extent`` steps of ``body``; results are the accumulators' final values. Operands are
    empty: values defined before the loop are used directly. Loops may follow one another and nest.
    """

    axis: Axis
    body: tuple[Op, ...]
    accumulators: tuple[Accumulator, ...]


# ---- helpers -----------------------------------------------------------------------------------


def walk(ops: tuple[Op, ...]) -> Iterator[Op]:
    """All ops in order, the bodies of loops included (not those of launches)."""
    for op in ops:
        yield op
        if isinstance(op, Loop):
            yield from walk(op.body)


def axis_extents(launch: Launch) -> dict[str, int]:
    """Extent of every grid and loop axis of a launch."""
    extents = {axis.name: axis.extent for axis in launch.grid}
    for op in walk(launch.body.ops):
        if isinstance(op, Loop):
            extents[op.axis.name] = op.axis.extent
    return extents


def part_index(
    axes: tuple[str, ...], extents: Mapping[str, int], position: Mapping[str, int]
) -> int:
    """Mixed-radix number of the part that ``position`` selects, the first axis being the most
    significant.
    """
    index = 0
    for name in axes:
        index = index * extents[name] + position[name]
    return index
