"""Differences in operands of calls, or that depend on their results, refute only if they are there
with the results that PyTorch computes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from mirage.frontend.torch_import import from_torch
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import DType, UnaryFn
from mirage.semantics.ugraph import External, KernelGraph, TensorType, Value
from mirage.verify import Kind, VerifyOptions, verify
from mirage.verify.needed import needed

Program = Callable[[torch.Tensor], torch.Tensor]


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


def graph_of(first: Program) -> KernelGraph:
    return from_torch(first, torch.ones(6, 6), allow_fallback=True).graph


EQUAL: dict[str, tuple[Program, Program]] = {
    "transposed": (torch.det, lambda x: torch.det(x.T)),
    "of even numbers": (torch.special.i0, lambda x: torch.special.i0(-x)),
    "signs of vectors": (lambda x: torch.linalg.svd(x).U, lambda x: torch.linalg.svd(2 * x).U),
    "values of vectors": (
        lambda x: torch.linalg.eigh(x @ x.T).eigenvalues,
        lambda x: torch.linalg.eigh((x @ x.T).T).eigenvalues,
    ),
    "a decomposition": (
        lambda x: x @ x.T,
        lambda x: (lambda e: (e[1] * e[0]) @ e[1].T)(torch.linalg.eigh(x @ x.T)),
    ),
    "inverses of matrices that have none": (
        lambda x: torch.inverse(x[:, :3] @ x[:, :3].T).T,
        lambda x: torch.inverse((x[:, :3] @ x[:, :3].T).T),
    ),
    "frequencies": (
        lambda x: torch.fft.rfft(2 * x).real,
        lambda x: 2 * torch.fft.rfft(x).real,
    ),
}

DIFFERENT: dict[str, tuple[Program, Program]] = {
    "a factor": (lambda x: torch.det(2 * x), lambda x: 2 * torch.det(x)),
    "an odd function": (torch.special.i1, lambda x: torch.special.i1(-x)),
    "another call": (torch.inverse, lambda x: torch.linalg.solve(x, x)),
    "other values": (
        lambda x: torch.linalg.eigh(x @ x.T).eigenvalues,
        lambda x: torch.linalg.eigh(x.T @ x + 1).eigenvalues,
    ),
    "other frequencies": (
        lambda x: torch.fft.rfft(x).real,
        lambda x: torch.fft.rfft(x).imag,
    ),
}


@pytest.mark.parametrize("name", EQUAL)
def test_programs_that_are_equal_with_their_calls_are_not_refuted(name: str) -> None:
    first, second = map(graph_of, EQUAL[name])
    for seed in range(3):
        assert verify(first, second, VerifyOptions(seed=seed)).kind is not Kind.REFUTED


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_difference_with_the_calls_results_refutes(name: str) -> None:
    first, second = map(graph_of, DIFFERENT[name])
    verdict = verify(first, second, VerifyOptions(seed=0))
    assert verdict.kind is Kind.REFUTED, verdict
    assert verdict.witness is not None
