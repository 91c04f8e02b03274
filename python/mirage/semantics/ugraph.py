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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from mirage.semantics.domain import Domain, Planes, map_planes, pad_rank, shape_of
from mirage.semantics.indices import (
    Indices,
    Region,
    aligned,
    equal_dims,
    inside,
    reshape_groups,
    simplify,
    unit_free_dims,
)
from mirage.semantics.numbers import Number, as_number
from mirage.semantics.op import Contraction as Contraction
from mirage.semantics.op import Elementwise as Elementwise
from mirage.semantics.op import Movement as Movement
from mirage.semantics.op import Op as Op
from mirage.semantics.op import Rearrangement as Rearrangement
from mirage.semantics.op import Scan as Scan
from mirage.semantics.op import Source as Source
from mirage.semantics.op import Structure as Structure
from mirage.semantics.op import TensorType as TensorType
from mirage.semantics.op import UnknownOp as UnknownOp
from mirage.semantics.op import Value as Value
from mirage.semantics.op import View as View
from mirage.semantics.op import Zeros as Zeros
from mirage.semantics.op import no_rule as no_rule
from mirage.semantics.op import unknown as unknown
from mirage.semantics.scalar import BINARY, UNARY, BinaryFn, ReduceFn, UnaryFn

if TYPE_CHECKING:
    from mirage.semantics.builder import Builder

TileMap = tuple[tuple[str, ...], ...]
"""For each tensor dimension, the names of the axes that split it, outermost first."""


# ---- ops of both levels ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Constant(Source):
    """A scalar (rank-0) constant, an exact number; it broadcasts where it is used. A float is read
    as the number that it is written for (:func:`mirage.semantics.numbers.read`).
    """

    value: Number

    arity: ClassVar[tuple[int, int]] = (0, 0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", as_number(self.value))

    def result_type(self, b: Builder) -> TensorType:
        return TensorType((), self.result.dtype)

    def compute(
        self, domain: Domain, xs: Sequence[Planes], lead: int, shape: tuple[int, ...]
    ) -> Planes:
        constant = domain.constant(self.value, self.result.dtype)
        return map_planes(lambda p: p.reshape((1,) * lead), constant)


@dataclass(frozen=True, eq=False)
class Unary(Elementwise):
    """A scalar function applied to each element."""

    fn: UnaryFn

    def result_type(self, b: Builder) -> TensorType:
        return b.unary(self.fn, self.operands[0]).type

    @property
    def work(self) -> tuple[float, float]:
        return UNARY[self.fn].flops, UNARY[self.fn].special

    @property
    def zeros(self) -> Zeros:
        return Zeros.ALL if UNARY[self.fn].zero_at_zero else Zeros.NEVER

    def compute(
        self, domain: Domain, xs: Sequence[Planes], lead: int, shape: tuple[int, ...]
    ) -> Planes:
        return domain.unary(self.fn, xs[0], self.result.dtype)


@dataclass(frozen=True, eq=False)
class Binary(Elementwise):
    """A function of two scalars applied element by element, with NumPy broadcasting."""

    fn: BinaryFn

    arity: ClassVar[tuple[int, int]] = (2, 2)

    def result_type(self, b: Builder) -> TensorType:
        return b.binary(self.fn, self.operands[0], self.operands[1]).type

    @property
    def work(self) -> tuple[float, float]:
        return BINARY[self.fn].flops, BINARY[self.fn].special

    @property
    def zeros(self) -> Zeros:
        if BINARY[self.fn].zero_at_either:
            return Zeros.ANY
        return Zeros.ALL if BINARY[self.fn].zero_at_zero else Zeros.NEVER

    def compute(
        self, domain: Domain, xs: Sequence[Planes], lead: int, shape: tuple[int, ...]
    ) -> Planes:
        a, b = (pad_rank(x, lead, len(shape)) for x in xs)
        return domain.binary(self.fn, a, b, self.result.dtype)


@dataclass(frozen=True, eq=False)
class Cast(Elementwise):
    """Conversion to the element type of the result; the identity on real numbers."""

    def result_type(self, b: Builder) -> TensorType:
        return b.cast(self.operands[0], self.result.dtype).type

    @property
    def work(self) -> tuple[float, float]:
        return 0.0, 0.0

    @property
    def zeros(self) -> Zeros:
        return Zeros.ALL

    def compute(
        self, domain: Domain, xs: Sequence[Planes], lead: int, shape: tuple[int, ...]
    ) -> Planes:
        return domain.cast(xs[0], self.result.dtype)


@dataclass(frozen=True, eq=False)
class Matmul(Contraction):
    """``[..., m, k] x [..., k, n] -> [..., m, n]``, leading dimensions broadcast."""

    arity: ClassVar[tuple[int, int]] = (2, 2)

    def result_type(self, b: Builder) -> TensorType:
        return b.matmul(self.operands[0], self.operands[1]).type

    def compute(
        self, domain: Domain, xs: Sequence[Planes], lead: int, shape: tuple[int, ...]
    ) -> Planes:
        a, b = (pad_rank(x, lead, len(shape)) for x in xs)
        return domain.matmul(a, b, self.result.dtype)

    def needs(self, region: Region) -> tuple[Region, ...]:
        a, b = self.operands
        front = region[:-2]
        return (
            (*aligned(front, a.shape[:-2]), region[-2], None),
            (*aligned(front, b.shape[:-2]), None, region[-1]),
        )


@dataclass(frozen=True, eq=False)
class Reduce(Contraction):
    """Reduction over ``dims`` (non-negative, sorted); reduced dimensions keep size 1."""

    fn: ReduceFn
    dims: tuple[int, ...]

    def result_type(self, b: Builder) -> TensorType:
        if tuple(sorted(set(self.dims))) != self.dims or not self.dims:
            raise ValueError(f"expected sorted distinct dimensions to reduce, got {self.dims}")
        return b.reduce(self.fn, self.operands[0], self.dims).type

    def compute(
        self, domain: Domain, xs: Sequence[Planes], lead: int, shape: tuple[int, ...]
    ) -> Planes:
        dims = tuple(d + lead for d in self.dims)
        return domain.reduce(self.fn, xs[0], dims, self.result.dtype)

    def needs(self, region: Region) -> tuple[Region, ...]:
        return (tuple(None if d in self.dims else r for d, r in enumerate(region)),)


@dataclass(frozen=True, eq=False)
class Transpose(Rearrangement):
    """``result.shape[i] == operand.shape[permutation[i]]``."""

    permutation: tuple[int, ...]

    def result_type(self, b: Builder) -> TensorType:
        return b.transpose(self.operands[0], self.permutation).type

    def compute(
        self, domain: Domain, xs: Sequence[Planes], lead: int, shape: tuple[int, ...]
    ) -> Planes:
        order = (*range(lead), *(lead + d for d in self.permutation))
        return map_planes(lambda p: p.transpose(order), xs[0])

    def source_dims(self) -> Mapping[int, int] | None:
        return dict(enumerate(self.permutation))

    def needs(self, region: Region) -> tuple[Region, ...]:
        source: list[Indices] = [None] * len(self.permutation)
        for i, d in enumerate(self.permutation):
            source[d] = region[i]
        return (tuple(source),)


@dataclass(frozen=True, eq=False)
class Reshape(Rearrangement):
    """Same elements in row-major order, the shape of the result."""

    def result_type(self, b: Builder) -> TensorType:
        return b.reshape(self.operands[0], self.result.shape).type

    def compute(
        self, domain: Domain, xs: Sequence[Planes], lead: int, shape: tuple[int, ...]
    ) -> Planes:
        return map_planes(lambda p: p.reshape(p.shape[:lead] + shape), xs[0])

    def source_dims(self) -> Mapping[int, int] | None:
        return unit_free_dims(self.operands[0].shape, self.result.shape)

    def needs(self, region: Region) -> tuple[Region, ...]:
        (x,) = self.operands
        source: list[Indices] = [None] * len(x.shape)
        for group in reshape_groups(x.shape, self.result.shape):
            if group.kept:
                source[group.operand[0]] = region[group.result[0]]
        return (tuple(source),)


@dataclass(frozen=True, eq=False)
class Broadcast(View):
    """Size-1 (or missing leading) dimensions repeated to the shape of the result."""

    def result_type(self, b: Builder) -> TensorType:
        return b.broadcast(self.operands[0], self.result.shape).type

    def compute(
        self, domain: Domain, xs: Sequence[Planes], lead: int, shape: tuple[int, ...]
    ) -> Planes:
        x = pad_rank(xs[0], lead, len(shape))
        return map_planes(lambda p: np.broadcast_to(p, p.shape[:lead] + shape), x)

    def source_dims(self) -> Mapping[int, int] | None:
        return equal_dims(self.operands[0].shape, self.result.shape)

    def needs(self, region: Region) -> tuple[Region, ...]:
        return (aligned(region, self.operands[0].shape),)


@dataclass(frozen=True, eq=False)
class Concat(Movement):
    """Operands joined along ``dim``."""

    dim: int

    arity: ClassVar[tuple[int, int]] = (1, 1 << 30)

    def result_type(self, b: Builder) -> TensorType:
        return b.concat(self.operands, self.dim).type

    def compute(
        self, domain: Domain, xs: Sequence[Planes], lead: int, shape: tuple[int, ...]
    ) -> Planes:
        common = np.broadcast_shapes(*(shape_of(x)[:lead] for x in xs))
        wide = [map_planes(lambda p: np.broadcast_to(p, common + p.shape[lead:]), x) for x in xs]
        return domain.concat(wide, lead + self.dim)

    def needs(self, region: Region) -> tuple[Region, ...]:
        regions: list[Region] = []
        start = 0
        for v in self.operands:
            size = v.shape[self.dim]
            part = inside(region[self.dim], start, size)
            regions.append((*region[: self.dim], part, *region[self.dim + 1 :]))
            start += size
        return tuple(regions)


@dataclass(frozen=True, eq=False)
class Slice(View):
    """The block of the result's shape that starts at ``offsets``."""

    offsets: tuple[int, ...]

    def result_type(self, b: Builder) -> TensorType:
        return b.slice(self.operands[0], self.offsets, self.result.shape).type

    def compute(
        self, domain: Domain, xs: Sequence[Planes], lead: int, shape: tuple[int, ...]
    ) -> Planes:
        key = (slice(None),) * lead + tuple(
            slice(o, o + n) for o, n in zip(self.offsets, shape, strict=True)
        )
        return map_planes(lambda p: p[key], xs[0])

    def source_dims(self) -> Mapping[int, int] | None:
        return equal_dims(self.operands[0].shape, self.result.shape)

    def needs(self, region: Region) -> tuple[Region, ...]:
        (x,) = self.operands
        sizes = zip(self.offsets, region, x.shape, self.result.shape, strict=True)
        return (
            tuple(
                simplify(o + (np.arange(size) if r is None else r), n) for o, r, n, size in sizes
            ),
        )


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
class Launch(Structure):
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
class Load(Source):
    """This block's tile of a device tensor (a param of the block graph), at the current step of the
    loops around it.
    """

    map: TileMap


@dataclass(frozen=True, eq=False)
class Mask(Elementwise):
    """Overwrites with ``fill`` what lies outside the tensor along ``dim``.

    Element ``i`` along ``dim`` is kept where ``part(axes) * tile + i < extent``, ``tile`` being the
    operand's size there.
    """

    dim: int
    axes: tuple[str, ...]
    extent: int
    fill: float

    @property
    def work(self) -> tuple[float, float]:
        return 1.0, 0.0

    @property
    def zeros(self) -> Zeros:
        """Of what is kept; what is overwritten is ``fill``."""
        return Zeros.ALL


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
class RunningMax(Scan):
    """Inside a loop: the maximum of the operand over all steps up to and including this one."""


@dataclass(frozen=True, eq=False)
class Loop(Structure):
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
