"""Differences in operands of calls, or that depend on their results, refute nothing."""

from __future__ import annotations

import pytest
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import DType, UnaryFn
from mirage.semantics.ugraph import External, KernelGraph, TensorType, Value
from mirage.verify import Kind, VerifyOptions, verify
from mirage.verify.needed import needed


def program(before: bool = False, after: bool = False, beside: bool = False) -> KernelGraph:
    """A call of an even function that is never negative, and a product beside it; numbers are
    negated before or their absolute values are taken after the call, or others negated beside."""
    x, y = (Value(TensorType((4, 6), DType.F32)) for _ in range(2))
    b = Builder()
    given = b.unary(UnaryFn.NEG, x) if before else x
    result = Value(given.type)
    b.ops.append(External((given,), (result,), "aten.special_i0", ()))
    out = b.unary(UnaryFn.ABS, result) if after else result
    other = b.unary(UnaryFn.NEG, y) if beside else b.unary(UnaryFn.ABS, y)
    return KernelGraph("call", (x, y), tuple(b.ops), (out, other))


@pytest.mark.parametrize("permute", [False, True])
@pytest.mark.parametrize("changed", [{"before": True}, {"after": True}])
def test_equal_programs_are_not_refuted(changed: dict[str, bool], permute: bool) -> None:
    verdict = verify(program(), program(**changed), VerifyOptions(seed=0, permute=permute))
    assert verdict.kind is Kind.UNKNOWN
    assert verdict.witness is None
    assert any("calls with equal operands" in text for text in needed(verdict))


def test_an_output_that_reads_no_call_is_refuted() -> None:
    verdict = verify(program(), program(beside=True), VerifyOptions(seed=0))
    assert verdict.kind is Kind.REFUTED
