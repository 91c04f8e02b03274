"""µGraphs as plain data: kernel graphs over device tensors, block graphs over tiles.

This is the form in which the search, the verifier, the interpreter and the cost model see a
program. It mirrors the `kernel` and `block` dialects one to one (``mirage.passes.ugraph_io``
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
from dataclasses import dataclass, field
from math import prod

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
    """A scalar (rank-0) constant; it broadcasts where it is used."""

    value: float


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
    """How a block executes its graph: warps in a block, stages of the copy pipeline."""

    warps: int = 4
    stages: int = 2


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


@dataclass
class Builder:
    """Appends ops to a list, inferring result types as the class docstrings state; raises
    :class:`ShapeError`.

    ``in_block`` selects the block-level typing rule (results in f32, see the module's docstring).
    """

    in_block: bool = False
    ops: list[Op] = field(default_factory=list[Op])

    def _type(self, shape: tuple[int, ...], *operands: Value) -> TensorType:
        dtype = promote(*(v.dtype for v in operands))
        if self.in_block and dtype is not DType.F64:
            dtype = DType.F32
        return TensorType(shape, dtype)

    def _add(self, op: Op) -> Value:
        self.ops.append(op)
        return op.result

    def constant(self, value: float, dtype: DType = DType.F32) -> Value:
        """A rank-0 constant."""
        return self._add(Constant((), (Value(TensorType((), dtype)),), value))

    def unary(self, fn: UnaryFn, x: Value) -> Value:
        """``fn`` of each element."""
        return self._add(Unary((x,), (Value(self._type(x.shape, x)),), fn))

    def binary(self, fn: BinaryFn, a: Value, b: Value) -> Value:
        """``fn`` of each pair of elements; rank-0 constants take the other operand's type."""
        typed = [v for v in (a, b) if v.shape != ()] or [a, b]
        shape = broadcast_shapes(a.shape, b.shape)
        return self._add(Binary((a, b), (Value(self._type(shape, *typed)),), fn))

    def cast(self, x: Value, dtype: DType) -> Value:
        """``x`` converted to ``dtype``."""
        return self._add(Cast((x,), (Value(TensorType(x.shape, dtype)),)))

    def matmul(self, a: Value, b: Value) -> Value:
        """``[..., m, k] x [..., k, n]``."""
        return self._add(Matmul((a, b), (Value(self._type(matmul_shape(a.shape, b.shape), a, b)),)))

    def reduce(self, fn: ReduceFn, x: Value, dims: tuple[int, ...]) -> Value:
        """Reduction over ``dims``, which keep size 1."""
        normal = normalize_dims(dims, len(x.shape))
        shape = tuple(1 if i in normal else n for i, n in enumerate(x.shape))
        return self._add(Reduce((x,), (Value(self._type(shape, x)),), fn, normal))

    def transpose(self, x: Value, permutation: tuple[int, ...]) -> Value:
        """Dimensions reordered."""
        if sorted(permutation) != list(range(len(x.shape))):
            raise ShapeError(
                f"expected a permutation of {len(x.shape)} dimensions, got {permutation}"
            )
        shape = tuple(x.shape[i] for i in permutation)
        return self._add(Transpose((x,), (Value(TensorType(shape, x.dtype)),), permutation))

    def reshape(self, x: Value, shape: tuple[int, ...]) -> Value:
        """Same elements, new shape."""
        if prod(shape) != x.type.size or any(n < 0 for n in shape):
            raise ShapeError(f"expected a shape of {x.type.size} elements, got {shape}")
        return self._add(Reshape((x,), (Value(TensorType(shape, x.dtype)),)))

    def broadcast(self, x: Value, shape: tuple[int, ...]) -> Value:
        """Size-1 and missing leading dimensions repeated."""
        if broadcast_shapes(x.shape, shape) != shape:
            raise ShapeError(f"expected a shape that {x.shape} broadcasts to, got {shape}")
        return self._add(Broadcast((x,), (Value(TensorType(shape, x.dtype)),)))

    def concat(self, xs: tuple[Value, ...], dim: int) -> Value:
        """Operands joined along ``dim``."""
        (dim,) = normalize_dims((dim,), len(xs[0].shape))
        for x in xs:
            rest = [n for i, n in enumerate(x.shape) if i != dim]
            if rest != [n for i, n in enumerate(xs[0].shape) if i != dim]:
                raise ShapeError(
                    f"expected equal shapes outside dimension {dim}, "
                    f"got {xs[0].shape} and {x.shape}"
                )
        shape = list(xs[0].shape)
        shape[dim] = sum(x.shape[dim] for x in xs)
        return self._add(
            Concat(xs, (Value(TensorType(tuple(shape), promote(*(x.dtype for x in xs)))),), dim)
        )

    def slice(self, x: Value, offsets: tuple[int, ...], sizes: tuple[int, ...]) -> Value:
        """The block of ``sizes`` at ``offsets``."""
        if any(o < 0 or o + s > n for o, s, n in zip(offsets, sizes, x.shape, strict=True)):
            raise ShapeError(
                f"expected a block inside {x.shape}, got offsets {offsets} and sizes {sizes}"
            )
        return self._add(Slice((x,), (Value(TensorType(sizes, x.dtype)),), offsets))

    def softmax(self, x: Value, dim: int) -> Value:
        """Softmax along ``dim``."""
        (dim,) = normalize_dims((dim,), len(x.shape))
        return self._add(Softmax((x,), (Value(x.type),), dim))

    def rms_norm(
        self, x: Value, gain: Value | None = None, eps: float = 1e-6, dims: int = 1
    ) -> Value:
        """RMS normalisation over the last ``dims`` dimensions."""
        return self._add(RmsNorm((x,) if gain is None else (x, gain), (Value(x.type),), eps, dims))

    def layer_norm(
        self,
        x: Value,
        gain: Value | None = None,
        bias: Value | None = None,
        eps: float = 1e-5,
        dims: int = 1,
    ) -> Value:
        """Layer normalisation over the last ``dims`` dimensions; a bias needs a gain."""
        if gain is None and bias is not None:
            raise ShapeError("expected a gain together with the bias, got a bias alone")
        operands = tuple(v for v in (x, gain, bias) if v is not None)
        return self._add(LayerNorm(operands, (Value(x.type),), eps, dims))

    # block level

    def load(self, source: Value, tile_map: TileMap, tile: tuple[int, ...]) -> Value:
        """The tile of shape ``tile`` that ``tile_map`` selects."""
        if not len(source.shape) == len(tile_map) == len(tile):
            raise ShapeError(
                f"expected a map and a tile of rank {len(source.shape)}, got {tile_map} and {tile}"
            )
        return self._add(Load((source,), (Value(TensorType(tile, source.dtype)),), tile_map))

    def mask(self, x: Value, dim: int, axes: tuple[str, ...], extent: int, fill: float) -> Value:
        """``fill`` outside ``extent`` along ``dim``."""
        return self._add(Mask((x,), (Value(x.type),), dim, axes, extent, fill))

    def running_max(self, x: Value) -> Value:
        """Maximum over the steps of the loop so far."""
        return self._add(RunningMax((x,), (Value(x.type),)))

    def loop(
        self, axis: Axis, body: tuple[Op, ...], accumulators: tuple[Accumulator, ...]
    ) -> tuple[Value, ...]:
        """A loop; the results have the types of the accumulated values."""
        results = tuple(Value(a.value.type) for a in accumulators)
        self.ops.append(Loop((), results, axis, body, accumulators))
        return results


class ShapeError(ValueError):
    """Shapes of operands do not fit together."""


def promote(*dtypes: DType) -> DType:
    """The smallest type that holds all (f16 with bf16 gives f32)."""
    kinds = set(dtypes)
    for wide in (DType.F64, DType.F32):
        if wide in kinds:
            return wide
    return kinds.pop() if len(kinds) == 1 else DType.F32


def broadcast_shapes(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """NumPy's broadcasting rule; raises :class:`ShapeError`."""
    rank = max(len(a), len(b))
    result: list[int] = []
    for x, y in zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True):
        if x != y and 1 not in (x, y):
            raise ShapeError(f"expected shapes that broadcast, got {a} and {b}")
        result.append(y if x == 1 else x)
    return tuple(result)


def matmul_shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """Shape of ``a @ b`` for ranks of at least 2; raises :class:`ShapeError`."""
    if len(a) < 2 or len(b) < 2 or a[-1] != b[-2]:
        raise ShapeError(f"expected [..., m, k] x [..., k, n], got {a} x {b}")
    return (*broadcast_shapes(a[:-2], b[:-2]), a[-2], b[-1])


def normalize_dims(dims: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Non-negative, sorted, distinct dimensions; raises :class:`ShapeError`."""
    for d in dims:
        if not -rank <= d < rank:
            raise ShapeError(f"expected dimensions in [{-rank}, {rank}), got {d}")
    normal = tuple(sorted({d % rank for d in dims}))
    if len(normal) != len(dims):
        raise ShapeError(f"expected distinct dimensions, got {dims}")
    return normal
