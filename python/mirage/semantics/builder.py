"""Builds µGraphs op by op: infers result types and checks shapes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod

from mirage.semantics.numbers import Number
from mirage.semantics.scalar import (
    BINARY,
    ROUNDING_TO,
    UNARY,
    BinaryFn,
    CumulateFn,
    DType,
    ReduceFn,
    UnaryFn,
)
from mirage.semantics.ugraph import (
    Accumulator,
    Axis,
    Binary,
    Broadcast,
    Cast,
    Concat,
    Constant,
    Cumulate,
    LayerNorm,
    Load,
    Loop,
    Mask,
    Matmul,
    Op,
    Reduce,
    Reshape,
    RmsNorm,
    RunningMax,
    Slice,
    Softmax,
    TensorType,
    TileMap,
    Transpose,
    Unary,
    Value,
)


@dataclass
class Builder:
    """Appends ops to a list, inferring result types as the class docstrings state; raises
    :class:`ShapeError`.

    ``in_block`` selects the block-level typing rule (results in f32, see the module's docstring).
    """

    in_block: bool = False
    ops: list[Op] = field(default_factory=list[Op])

    def _type(self, shape: tuple[int, ...], *operands: Value) -> TensorType:
        dtype = promote(*(v.dtype for v in operands)).computed
        if self.in_block and not (dtype is DType.F64 or dtype.is_integer):
            dtype = DType.F32
        return TensorType(shape, dtype)

    @staticmethod
    def _computed(x: Value) -> TensorType:
        return TensorType(x.shape, x.dtype.computed)

    def _add(self, op: Op) -> Value:
        self.ops.append(op)
        return op.result

    def define(self, value: Value) -> None:
        """Make ``value``, to which other ops or outputs already refer, the result of the last
        op."""
        self.ops[-1] = replace(self.ops[-1], results=(value,))

    def constant(self, value: Number, dtype: DType = DType.F32) -> Value:
        """Append a rank-0 constant."""
        return self._add(Constant((), (Value(TensorType((), dtype)),), value))

    def unary(self, fn: UnaryFn, x: Value) -> Value:
        """Apply ``fn`` to each element. A function that rounds to 8 bits gives a tensor of that
        type."""
        type_ = self._type(x.shape, x)
        rounded = UNARY[fn].rounds_to
        if rounded is not None and not self.in_block:
            type_ = TensorType(x.shape, rounded)
        return self._add(Unary((x,), (Value(type_),), fn))

    def binary(self, fn: BinaryFn, a: Value, b: Value) -> Value:
        """Apply ``fn`` to each pair of elements; a rank-0 constant takes the other operand's type.
        A comparison or logical function of two tensors gives truth values; a masked value keeps its
        type."""
        typed = [v for v in (a, b) if v.shape != ()] or [a, b]
        typed = [b] if fn is BinaryFn.KEEP else typed
        type_ = self._type(broadcast_shapes(a.shape, b.shape), *typed)
        if BINARY[fn].truth and not self.in_block:
            type_ = TensorType(type_.shape, DType.I1)
        return self._add(Binary((a, b), (Value(type_),), fn))

    def cast(self, x: Value, dtype: DType, *, whole: bool = False) -> Value:
        """Convert ``x`` to ``dtype``. If that is an integer type, fractions are truncated, and
        integers that it cannot represent wrap around, unless the numbers are known to be ``whole``
        numbers of that type. Conversion to types of 8 bits rounds
        (:data:`mirage.semantics.scalar.ROUNDING_TO`)."""
        if whole and not dtype.is_integer:
            raise ShapeError(
                f"expected a conversion to integers that are whole, got {x.dtype.value} to "
                f"{dtype.value}"
            )
        if dtype.is_eight_bits and x.dtype is not dtype:
            raise ShapeError(
                f"expected a conversion that keeps each number, got {x.dtype.value} to "
                f"{dtype.value}; round with unary {ROUNDING_TO[dtype].value}"
            )
        if dtype is DType.I1 and x.dtype is not dtype:
            raise ShapeError(
                f"expected a conversion that keeps each number, got {x.dtype.value} to "
                f"{dtype.value}; compare with binary ne 0"
            )
        return self._add(Cast((x,), (Value(TensorType(x.shape, dtype)),), whole))

    def matmul(self, a: Value, b: Value, *, tf32: bool = False) -> Value:
        """Multiply matrices: ``[..., m, k] x [..., k, n]``. With ``tf32`` both are f32 and are
        rounded to TF32 first."""
        if tf32 and {a.dtype, b.dtype} != {DType.F32}:
            raise ShapeError(
                f"expected factors of f32 to be rounded to TF32, got {a.dtype.value} and "
                f"{b.dtype.value}"
            )
        type_ = self._type(matmul_shape(a.shape, b.shape), a, b)
        return self._add(Matmul((a, b), (Value(type_),), tf32))

    def reduce(self, fn: ReduceFn, x: Value, dims: tuple[int, ...]) -> Value:
        """Reduce over ``dims``, which keep size 1."""
        normal = normalize_dims(dims, len(x.shape))
        shape = tuple(1 if i in normal else n for i, n in enumerate(x.shape))
        return self._add(Reduce((x,), (Value(self._type(shape, x)),), fn, normal))

    def cumulate(
        self, fn: CumulateFn, x: Value, dim: int, *, exclusive: bool = False, reversed: bool = False
    ) -> Value:
        """Combine the elements up to each one along ``dim``; with ``exclusive``, those before it.
        With ``reversed``, the last element is the first."""
        (dim,) = normalize_dims((dim,), len(x.shape))
        result = Value(self._type(x.shape, x))
        return self._add(Cumulate((x,), (result,), fn, dim, exclusive, reversed))

    def transpose(self, x: Value, permutation: tuple[int, ...]) -> Value:
        """Reorder the dimensions."""
        if sorted(permutation) != list(range(len(x.shape))):
            raise ShapeError(
                f"expected a permutation of {len(x.shape)} dimensions, got {permutation}"
            )
        shape = tuple(x.shape[i] for i in permutation)
        return self._add(Transpose((x,), (Value(TensorType(shape, x.dtype)),), permutation))

    def reshape(self, x: Value, shape: tuple[int, ...]) -> Value:
        """Give the same elements a new shape."""
        if prod(shape) != x.type.size or any(n < 0 for n in shape):
            raise ShapeError(f"expected a shape of {x.type.size} elements, got {shape}")
        return self._add(Reshape((x,), (Value(TensorType(shape, x.dtype)),)))

    def broadcast(self, x: Value, shape: tuple[int, ...]) -> Value:
        """Repeat dimensions of size 1 and missing leading dimensions."""
        if broadcast_shapes(x.shape, shape) != shape:
            raise ShapeError(f"expected a shape that {x.shape} broadcasts to, got {shape}")
        return self._add(Broadcast((x,), (Value(TensorType(shape, x.dtype)),)))

    def concat(self, xs: tuple[Value, ...], dim: int) -> Value:
        """Concatenate the operands along ``dim``."""
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
        kinds = {x.dtype for x in xs}
        dtype = kinds.pop() if len(kinds) == 1 else promote(*(x.dtype for x in xs))
        return self._add(Concat(xs, (Value(TensorType(tuple(shape), dtype)),), dim))

    def slice(self, x: Value, offsets: tuple[int, ...], sizes: tuple[int, ...]) -> Value:
        """Take the block of ``sizes`` at ``offsets``."""
        if any(o < 0 or o + s > n for o, s, n in zip(offsets, sizes, x.shape, strict=True)):
            raise ShapeError(
                f"expected a block inside {x.shape}, got offsets {offsets} and sizes {sizes}"
            )
        return self._add(Slice((x,), (Value(TensorType(sizes, x.dtype)),), offsets))

    def softmax(self, x: Value, dim: int) -> Value:
        """Apply softmax along ``dim``."""
        (dim,) = normalize_dims((dim,), len(x.shape))
        return self._add(Softmax((x,), (Value(self._computed(x)),), dim))

    def rms_norm(
        self, x: Value, gain: Value | None = None, eps: float = 1e-6, dims: int = 1
    ) -> Value:
        """Apply RMS normalisation over the last ``dims`` dimensions."""
        operands = (x,) if gain is None else (x, gain)
        return self._add(RmsNorm(operands, (Value(self._computed(x)),), eps, dims))

    def layer_norm(
        self,
        x: Value,
        gain: Value | None = None,
        bias: Value | None = None,
        eps: float = 1e-5,
        dims: int = 1,
    ) -> Value:
        """Apply layer normalisation over the last ``dims`` dimensions; a bias requires a gain."""
        if gain is None and bias is not None:
            raise ShapeError("expected a gain together with the bias, got a bias alone")
        operands = tuple(v for v in (x, gain, bias) if v is not None)
        return self._add(LayerNorm(operands, (Value(self._computed(x)),), eps, dims))

    # block level

    def load(self, source: Value, tile_map: TileMap, tile: tuple[int, ...]) -> Value:
        """Load the tile of shape ``tile`` that ``tile_map`` selects."""
        if not len(source.shape) == len(tile_map) == len(tile):
            raise ShapeError(
                f"expected a map and a tile of rank {len(source.shape)}, got {tile_map} and {tile}"
            )
        type_ = TensorType(tile, source.dtype.in_tile)
        return self._add(Load((source,), (Value(type_),), tile_map))

    def mask(self, x: Value, dim: int, axes: tuple[str, ...], extent: int, fill: float) -> Value:
        """Replace the elements outside ``extent`` along ``dim`` by ``fill``."""
        return self._add(Mask((x,), (Value(x.type),), dim, axes, extent, fill))

    def running_max(self, x: Value) -> Value:
        """Take the maximum over the steps of the loop so far."""
        return self._add(RunningMax((x,), (Value(x.type),)))

    def loop(
        self, axis: Axis, body: tuple[Op, ...], accumulators: tuple[Accumulator, ...]
    ) -> tuple[Value, ...]:
        """Append a loop; its results have the types of the accumulated values."""
        results = tuple(Value(a.value.type) for a in accumulators)
        self.ops.append(Loop((), results, axis, body, accumulators))
        return results


class ShapeError(ValueError):
    """The shapes of operands are not compatible."""


def promote(*dtypes: DType) -> DType:
    """Return the result type of an op on these types: the smallest float type that represents all
    of the floats (f16 with bf16 gives f32, as do floats of 8 bits), or the widest integer type if
    there are no floats."""
    kinds = {d for d in dtypes if not d.is_integer}
    if not kinds:
        return max(dtypes, key=lambda d: (d.bytes, d is not DType.I1))
    for wide in (DType.F64, DType.F32):
        if wide in kinds:
            return wide
    return kinds.pop().computed if len(kinds) == 1 else DType.F32


def broadcast_shapes(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """Return the broadcast shape by NumPy's rule. Raises :class:`ShapeError`."""
    rank = max(len(a), len(b))
    result: list[int] = []
    for x, y in zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True):
        if x != y and 1 not in (x, y):
            raise ShapeError(f"expected shapes that broadcast, got {a} and {b}")
        result.append(y if x == 1 else x)
    return tuple(result)


def matmul_shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of ``a @ b`` for ranks of at least 2. Raises :class:`ShapeError`."""
    if len(a) < 2 or len(b) < 2 or a[-1] != b[-2]:
        raise ShapeError(f"expected [..., m, k] x [..., k, n], got {a} x {b}")
    return (*broadcast_shapes(a[:-2], b[:-2]), a[-2], b[-1])


def normalize_dims(dims: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Return non-negative, sorted, distinct dimensions. Raises :class:`ShapeError`."""
    for d in dims:
        if not -rank <= d < rank:
            raise ShapeError(f"expected dimensions in [{-rank}, {rank}), got {d}")
    normal = tuple(sorted({d % rank for d in dims}))
    if len(normal) != len(dims):
        raise ShapeError(f"expected distinct dimensions, got {dims}")
    return normal
