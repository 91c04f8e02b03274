"""Values that f16 may hold, and kernels that keep their digits."""

from __future__ import annotations

import numpy as np
import pytest
from mirage.cost import TARGETS
from mirage.search import SearchLimits, superoptimize
from mirage.search.algebra.atoms import InAtom
from mirage.search.algebra.axes import AxisTable
from mirage.search.algebra.normal_form import NormalForms
from mirage.search.kernel.problems.growth import growth_of
from mirage.search.kernel.problems.narrowing import narrowing_of
from mirage.search.kernel.problems.problem import KernelProblem
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import (
    Binary,
    Cast,
    KernelGraph,
    Launch,
    Matmul,
    TensorType,
    Value,
    all_ops,
)
from mirage.verify import VerifyOptions, verify
from thorough import some_of


def norm_linear(layer: bool, dtype: DType = DType.F16) -> KernelGraph:
    x, w = Value(TensorType((8, 512), dtype)), Value(TensorType((512, 256), dtype))
    gain = Value(TensorType((512,), dtype))
    b = Builder()
    y = b.layer_norm(x, gain, eps=1e-5) if layer else b.rms_norm(x, gain, eps=1e-6)
    z = b.matmul(y, w)
    return KernelGraph("norm_linear", (x, gain, w), tuple(b.ops), (z,))


@pytest.mark.parametrize("layer", [False, True])
def test_candidates_keep_their_digits(layer: bool) -> None:
    graph = norm_linear(layer)
    found = superoptimize(graph, TARGETS["h200"], SearchLimits(candidates=3)).candidates
    assert found
    for candidate in found:
        verdict = verify(graph, candidate.graph, VerifyOptions(seed=1))
        assert verdict.accepted, verdict


def test_products_of_inputs_are_not_rounded_to_f16() -> None:
    for dtype, allowed in ((DType.F16, False), (DType.BF16, True)):
        graph = norm_linear(False, dtype)
        rounded = False
        for candidate in superoptimize(graph, TARGETS["h200"]).candidates:
            for op in candidate.graph.ops:
                if not isinstance(op, Launch):
                    continue
                loads = {v for o in all_ops(op.body.ops) if not o.operands[1:] for v in o.results}
                products = {
                    o.result
                    for o in all_ops(op.body.ops)
                    if isinstance(o, Binary) and set(o.operands) <= loads
                }
                casts = (o for o in all_ops(op.body.ops) if isinstance(o, Cast))
                rounded |= any(o.result.dtype.is_half and o.operands[0] in products for o in casts)
        assert allowed or not rounded


def residual_norm(b: Builder, dtype: DType = DType.F16) -> tuple[list[Value], list[Value]]:
    """``x``, ``r``, ``gain``; and ``x``, ``x + r``, ``(x + r) * rsqrt(mean((x + r)^2))``, its
    product with the gain, and ``(x + r) * gain``."""
    x, r = (Value(TensorType((8, 64), dtype)) for _ in range(2))
    gain = Value(TensorType((64,), dtype))
    t = b.binary(BinaryFn.ADD, b.cast(x, DType.F32), b.cast(r, DType.F32))
    mean = b.reduce(ReduceFn.SUM, b.unary(UnaryFn.SQUARE, t), (1,))
    eps = b.constant(1e-6, DType.F32)
    root = b.unary(UnaryFn.RSQRT, b.binary(BinaryFn.ADD, mean, eps))
    normal = b.binary(BinaryFn.MUL, t, root)
    g = b.cast(gain, DType.F32)
    done, early = (b.binary(BinaryFn.MUL, v, g) for v in (normal, t))
    return [x, r, gain], [x, t, normal, done, early]


def test_sizes_of_sums_and_norms() -> None:
    b = Builder()
    inputs, values = residual_norm(b)
    growth = growth_of(KernelGraph("norm", tuple(inputs), tuple(b.ops), (values[-1],)))
    fits = [bool(np.all(growth.values[v] <= growth.kept + 1e-9)) for v in values]
    # x + r is as large as one of them; a norm is bounded for any argument
    assert fits == [True, True, True, True, False]


def attention() -> KernelGraph:
    """Softmax in f32, its result rounded before it is multiplied."""
    q, k, v = (Value(TensorType((64, 64), DType.F16)) for _ in range(3))
    b = Builder()
    scores = b.cast(b.matmul(q, b.transpose(k, (1, 0))), DType.F32)
    shares = b.cast(b.softmax(scores, 1), DType.F16)
    mixed = b.matmul(shares, v)
    return KernelGraph("attention", (q, k, v), tuple(b.ops), (mixed,))


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16])
def test_what_is_stored_in_f32_is_rounded_as_what_stays_inside(dtype: DType) -> None:
    x, gain, w = (Value(TensorType(shape, dtype)) for shape in ((8, 64), (64,), (64, 32)))
    wide = Value(TensorType((8, 64), DType.F32))
    b = Builder()
    scaled = b.binary(BinaryFn.MUL, b.cast(x, DType.F32), b.cast(gain, DType.F32))
    bounded = b.unary(UnaryFn.EXP, scaled)
    outputs = [b.matmul(v, b.cast(w, DType.F32)) for v in (scaled, bounded, wide)]
    graph = KernelGraph("stored", (x, gain, w, wide), tuple(b.ops), tuple(outputs))
    growth = growth_of(graph)
    rounded: list[bool] = []
    for leaf in (scaled, bounded, wide):
        algebra = NormalForms(lambda _: (), {})
        leaves = (leaf, w)
        problem = KernelProblem((), leaves, {}, AxisTable.of(graph), scales=growth.scales(leaves))
        poly = algebra.poly([(((algebra.atom(InAtom(0, ())),), ()), 1)])
        rounded.append(narrowing_of(problem, dtype).may_round(algebra, poly))
    # a product of two inputs may exceed f16, an exponential does not, and inputs in f32 stay f32
    assert rounded == [False, True, False]


def test_a_kernel_that_reads_exponentials_multiplies_as_one_that_computes_them() -> None:
    graph = attention()
    found = superoptimize(graph, TARGETS["h200"], SearchLimits(candidates=12)).candidates
    products = {
        tuple(v.dtype for v in op.operands)
        for c in found
        for launch in c.graph.ops
        if isinstance(launch, Launch)
        for op in all_ops(launch.body.ops)
        if isinstance(op, Matmul)
    }
    assert products == {(DType.F16, DType.F16)}


@pytest.mark.parametrize("dtype", some_of([DType.F16, DType.BF16], every=2))
def test_parts_of_a_sum_are_not_rounded_before_they_are_added(dtype: DType) -> None:
    """A low-rank product, whose partial sums may be multiplied before they are added: the total may
    be much smaller than its parts."""
    x, a, b = (Value(TensorType(shape, dtype)) for shape in ((16, 4096), (4096, 8), (8, 2048)))
    build = Builder()
    product = build.matmul(build.matmul(x, a), b)
    graph = KernelGraph("low_rank", (x, a, b), tuple(build.ops), (product,))
    found = superoptimize(graph, TARGETS["h200"], SearchLimits(candidates=6)).candidates
    assert any([len(op.operands) for op in c.graph.ops] == [3, 1] for c in found)
    for candidate in found:
        verdict = verify(graph, candidate.graph, VerifyOptions(seed=1))
        assert verdict.accepted, verdict


def test_numbers_of_an_algebra_that_is_gone_mean_nothing() -> None:
    """Each type of frame has a separate algebra, often at the address of an earlier one."""
    x, y = (Value(TensorType((8, 8), DType.F16)) for _ in range(2))
    b = Builder()
    square = b.binary(BinaryFn.MUL, b.cast(x, DType.F32), b.cast(x, DType.F32))
    graph = KernelGraph("two", (x, y), tuple(b.ops), (b.matmul(square, b.cast(y, DType.F32)),))
    leaves = (square, y)
    problem = KernelProblem(
        (), leaves, {}, AxisTable.of(graph), scales=growth_of(graph).scales(leaves)
    )
    narrowing = narrowing_of(problem, DType.F16)
    found: set[tuple[int, bool]] = set()
    for number in range(20):
        leaf = number % 2
        algebra = NormalForms(lambda _: (), {})
        poly = algebra.poly([(((algebra.atom(InAtom(leaf, ())),), ()), 1)])
        found.add((leaf, narrowing.may_round(algebra, poly)))
        del algebra
    assert found == {(0, False), (1, True)}
