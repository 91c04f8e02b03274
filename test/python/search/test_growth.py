"""Which values f16 may hold, and kernels that keep their digits."""

from __future__ import annotations

import pytest
from mirage.cost import TARGETS
from mirage.search import SearchLimits, superoptimize
from mirage.search.algebra.axes import AxisTable
from mirage.search.kernel.growth import NOTHING, narrowing_of
from mirage.search.kernel.problem import KernelProblem
from mirage.semantics.builder import Builder
from mirage.semantics.decompose import decompose
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import Binary, Cast, KernelGraph, Launch, TensorType, Value, walk
from mirage.verify import VerifyOptions, verify


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
                loads = {v for o in walk(op.body.ops) if not o.operands[1:] for v in o.results}
                products = {
                    o.result
                    for o in walk(op.body.ops)
                    if isinstance(o, Binary) and set(o.operands) <= loads
                }
                casts = (o for o in walk(op.body.ops) if isinstance(o, Cast))
                rounded |= any(o.result.dtype.is_half and o.operands[0] in products for o in casts)
        assert allowed or not rounded


def test_what_may_be_rounded() -> None:
    plain = decompose(norm_linear(False))
    definitions = {r: op for op in plain.ops for r in op.results}
    problem = KernelProblem(plain.outputs, plain.inputs, definitions, AxisTable.of(plain))
    allowed = narrowing_of(problem, DType.F16).allowed
    assert allowed is not None
    # nothing, each of three inputs; the normalised value grows like the gain
    assert len(allowed) == 4
    assert NOTHING in allowed
    assert narrowing_of(problem, DType.BF16).allowed is None
