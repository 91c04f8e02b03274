"""Small graphs whose result is a moment or a distance: one number for each row, or for each pair of
rows.
"""

from __future__ import annotations

from collections.abc import Callable

from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import Axis, BlockGraph, KernelGraph, Output, TensorType, Value

from example_programs.graphs import Pair, launch, params_of, tensor

F32 = DType.F32


def moment_pairs(
    rows: int = 18, width: int = 24, others: int = 7, *, blocks: int = 3, dtype: DType = F32
) -> dict[str, Pair]:
    """References, and kernels that compute some rows in each block, of inputs of ``dtype`` and with
    results in f32."""
    x, y = (tensor(rows, width, dtype=dtype) for _ in range(2))
    far = tensor(others, width, dtype=dtype)
    return {
        "variance": _pair("variance", (x,), _variance, blocks),
        "covariance": _pair("covariance", (x, y), _covariance, blocks),
        "squared_error": _pair("squared_error", (x, y), _squared_error, blocks),
        "distances": _pair("distances", (x, far), _distances, blocks),
    }


Compute = Callable[..., Value]
"""Return the result of a function of a builder's values."""


def _centred(b: Builder, x: Value) -> Value:
    return b.binary(BinaryFn.SUB, x, _mean(b, x))


def _mean(b: Builder, x: Value) -> Value:
    last = len(x.shape) - 1
    inverse = b.constant(1.0 / x.shape[last])
    return b.binary(BinaryFn.MUL, b.reduce(ReduceFn.SUM, x, (last,)), inverse)


def _variance(b: Builder, x: Value) -> Value:
    return _mean(b, b.unary(UnaryFn.SQUARE, _centred(b, x)))


def _covariance(b: Builder, x: Value, y: Value) -> Value:
    return _mean(b, b.binary(BinaryFn.MUL, _centred(b, x), _centred(b, y)))


def _squared_error(b: Builder, x: Value, y: Value) -> Value:
    return _mean(b, b.unary(UnaryFn.SQUARE, b.binary(BinaryFn.SUB, x, y)))


def _distances(b: Builder, x: Value, y: Value) -> Value:
    """Distances of all pairs of rows."""
    (m, k), (n, _) = x.shape, y.shape
    difference = b.binary(BinaryFn.SUB, b.reshape(x, (m, 1, k)), b.reshape(y, (1, n, k)))
    return b.reduce(ReduceFn.SUM, b.unary(UnaryFn.SQUARE, difference), (2,))


def _pair(name: str, inputs: tuple[Value, ...], compute: Compute, blocks: int) -> Pair:
    b = Builder()
    out = compute(b, *(b.cast(v, F32) for v in inputs))
    reference = KernelGraph(name, inputs, tuple(b.ops), (out,))
    if name == "distances":  # blocks have no third dimension
        return Pair(reference, {})
    params = params_of(inputs)
    inner = Builder(in_block=True)
    rows, width = inputs[0].shape
    tiles = [inner.load(p, (("m",), ()), (-(-rows // blocks), width)) for p in params]
    result = compute(inner, *(inner.cast(t, F32) for t in tiles))
    body = BlockGraph(params, tuple(inner.ops), (Output(result, (("m",), ())),))
    kernel = launch(inputs, (Axis("m", blocks),), body, (TensorType(out.shape, F32),))
    whole = KernelGraph(f"{name}_whole", inputs, (kernel,), kernel.results)
    return Pair(reference, {"whole": whole})
