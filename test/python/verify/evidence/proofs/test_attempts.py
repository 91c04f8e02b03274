"""The attempts if the small model is too large, one after the other."""

from __future__ import annotations

import random

from example_programs import graphs
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph
from mirage.verify.evidence.proofs.attempts import attempts
from mirage.verify.normal_form.normalize import normalize


def loss(inverse: bool) -> KernelGraph:
    """The sum over all rows of quotients, each row with its own denominator."""
    x, y = (graphs.tensor(16, 24, dtype=DType.F32) for _ in range(2))
    b = Builder()
    powers = b.unary(UnaryFn.EXP, x)
    total = b.reduce(ReduceFn.SUM, powers, (1,))
    weighted = b.binary(BinaryFn.MUL, powers, y)
    if inverse:
        rows = b.binary(
            BinaryFn.MUL, b.reduce(ReduceFn.SUM, weighted, (1,)), b.unary(UnaryFn.RECIPROCAL, total)
        )
    else:
        rows = b.reduce(ReduceFn.SUM, b.binary(BinaryFn.DIV, weighted, total), (1,))
    result = b.reduce(ReduceFn.SUM, rows, (0,))
    return KernelGraph("loss", (x, y), tuple(b.ops), (result,))


def test_where_a_proof_as_it_is_takes_too_much_others_are_tried() -> None:
    first, second = (normalize(loss(inverse)) for inverse in (False, True))
    tried = list(attempts(first, second, random.Random(0)))
    names = [found.name for found in tried if found.holds]
    assert names, tried
    assert any("reciprocals as symbols" in name for name in names)


def test_exponentials_of_logarithms_that_are_cast() -> None:
    """A log softmax of f16, as PyTorch writes it, is cast before its exponential is taken."""
    x = graphs.tensor(4, 8, dtype=DType.F16)
    b = Builder()
    wide = b.cast(x, DType.F32)
    total = b.reduce(ReduceFn.SUM, b.unary(UnaryFn.EXP, wide), (1,))
    narrow = b.cast(b.binary(BinaryFn.SUB, wide, b.unary(UnaryFn.LOG, total)), DType.F16)
    power = b.unary(UnaryFn.EXP, narrow)
    graph = KernelGraph("p", (x,), tuple(b.ops), (power,))
    functions = [op.function for op in normalize(graph).ops]
    assert UnaryFn.RECIPROCAL in functions
