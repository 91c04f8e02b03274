"""Programs of which not even one output element can be computed in the available time."""

from __future__ import annotations

import numpy as np
import pytest
from example_programs import graphs
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph
from mirage.verify import Kind, VerifyOptions, verify
from mirage.verify.evidence.samples.instance import TooMuchWork, make_instance

OPTIONS = VerifyOptions(seed=3, work=3e4)


def two_layers(scale_first: bool, factor: float = 0.5) -> KernelGraph:
    """``gelu(x) W1 W2`` with a scale before or after: every output needs all of ``W1``."""
    x = graphs.tensor(4, 1024)
    w1, w2 = graphs.tensor(1024, 2048), graphs.tensor(2048, 512)
    b = Builder()
    y = b.unary(UnaryFn.GELU_TANH, x)
    if scale_first:
        y = b.binary(BinaryFn.MUL, y, b.constant(factor))
    y = b.matmul(b.matmul(y, w1), w2)
    if not scale_first:
        y = b.binary(BinaryFn.MUL, y, b.constant(factor))
    return KernelGraph("two_layers", (x, w1, w2), tuple(b.ops), (y,))


def test_inputs_constant_within_cells_take_the_place_of_samples():
    verdict = verify(two_layers(True), two_layers(False), OPTIONS)
    assert verdict.kind is Kind.PROVED
    assert verdict.numerics_hold is not None
    field = verdict.evidence[0]
    assert field.figures["cells"] is not None
    assert "constant within at most" in field.text


def test_differences_show_there_too():
    verdict = verify(two_layers(True), two_layers(False, 0.501), OPTIONS)
    assert verdict.kind is Kind.REFUTED
    assert verdict.witness is not None
    assert "constant within cells" in verdict.witness.inputs
    assert verdict.evidence[0].holds is False


def test_without_common_digits_there_is_no_way():
    def summed(tile: int, parts: int) -> KernelGraph:
        x = graphs.tensor(97 * 96, 64, dtype=DType.F32)
        b = Builder()
        cut = b.reshape(x, (parts, tile, 64))
        most = b.reduce(ReduceFn.MAX, cut, (1,))  # keeps parts and tile apart
        y = b.reshape(b.unary(UnaryFn.EXP, b.binary(BinaryFn.SUB, cut, most)), x.shape)
        z = b.matmul(b.reshape(y, (1, x.type.size)), b.reshape(x, (x.type.size, 1)))
        return KernelGraph("summed", (x,), tuple(b.ops), (z,))

    pair = (summed(96, 97), summed(97, 96))
    with pytest.raises(TooMuchWork, match="elements to compute, limit"):
        make_instance(pair, pair, 1e3, np.random.default_rng(0))
    verdict = verify(*pair, VerifyOptions(work=1e3))
    assert verdict.kind is Kind.UNKNOWN
    assert "elements to compute" in str(verdict)
