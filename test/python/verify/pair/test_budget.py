"""Attempts at a proof end in time, and interrupted attempts are reported."""

from __future__ import annotations

import itertools
import math
import time

import pytest
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.verify import Kind, Verdict, VerifyOptions, verify
from mirage.verify.needed import needed
from mirage.verify.pair.budget import SECONDS, Budget, usual_seconds
from mirage.verify.pair.examine import examine
from mirage.verify.shared_inputs.bound_tensors import Aligned
from mirage.verify.verifier import verify_aligned
from mirage.verify.verify_options import BadOptions


def forever() -> str:
    for _ in itertools.count():
        pass
    raise AssertionError


def test_an_attempt_that_ends_gives_what_it_finds() -> None:
    budget = Budget(1.0)
    assert budget.attempt("one", lambda: "found") == "found"
    assert budget.evidence == ()


def test_what_takes_a_known_time_does_not_count() -> None:
    budget = Budget(0.5)

    def long() -> str:
        until = time.process_time() + 0.6
        while time.process_time() < until:
            pass
        return "found"

    assert budget.unlimited(long) == "found"
    assert budget.left > 0.3


def test_attempts_share_the_time() -> None:
    budget = Budget(0.4)
    assert budget.attempt("one", forever) is None
    assert budget.attempt("two", lambda: "found") == "found"
    assert budget.attempt("three", forever, last=True) is None
    assert budget.attempt("four", forever) is None
    (evidence,) = budget.evidence
    assert evidence.text == "no result within 0.4 s of processor time: one, three, four"


def test_without_a_limit_nothing_is_cut() -> None:
    budget = Budget()
    assert math.isinf(budget.left)
    assert budget.attempt("one", lambda: 1) == 1


def roots(count: int) -> tuple[KernelGraph, KernelGraph]:
    """Products of sums of different roots, in another order: many terms."""
    x = Value(TensorType((8, 8), DType.F32), "x")
    found: list[KernelGraph] = []
    for order in (range(count), reversed(range(count))):
        b = Builder()
        y = x
        for i in order:
            row = b.reduce(ReduceFn.SUM, b.unary(UnaryFn.EXP, b.binary(BinaryFn.MUL, x, x)), (1,))
            near = b.binary(BinaryFn.ADD, b.binary(BinaryFn.ADD, x, row), b.constant(i + 1.0))
            y = b.binary(BinaryFn.MUL, y, b.unary(UnaryFn.ABS, near))
        found.append(KernelGraph("roots", (x,), tuple(b.ops), (y,)))
    return found[0], found[1]


def test_what_is_cut_is_named() -> None:
    options = VerifyOptions(seed=1, seconds=1e-3)
    verdict = verify(*roots(4), options)
    assert verdict.kind is Kind.UNKNOWN, verdict
    assert "no result within 0.001 s of processor time" in verdict.evidence[-1].text
    assert any("a larger --seconds" in want for want in needed(verdict))


def test_programs_of_users_have_a_limit_and_others_none() -> None:
    one, other = roots(2)
    assert usual_seconds(one, other) == SECONDS
    assert usual_seconds(*roots(30)) > SECONDS
    options = VerifyOptions(seed=1, seconds=1e-3)
    assert verify_aligned(Aligned(one, other), options).kind is Kind.UNKNOWN


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan])
def test_no_time_at_all_is_a_mistake(seconds: float) -> None:
    with pytest.raises(BadOptions, match="above 0"):
        VerifyOptions(seconds=seconds)


def test_a_difference_of_constants_does_not_refute_if_the_time_is_up() -> None:
    """Both constants compile to the same number, and nothing else differs."""

    x = Value(TensorType((4, 8), DType.F32), "x")

    def scaled(number: float, *, twice: bool) -> KernelGraph:
        b = Builder()
        y, factor = b.unary(UnaryFn.EXP, x), b.constant(number)
        summed = b.binary(BinaryFn.ADD, y, y) if twice else y
        doubled = factor if twice else b.binary(BinaryFn.ADD, factor, factor)
        result = b.binary(BinaryFn.MUL, summed, doubled)
        return KernelGraph("scaled", (x,), tuple(b.ops), (result,))

    pair = scaled(0.03, twice=True), scaled(0.029999999329447746, twice=False)
    verdict = examine(*pair, VerifyOptions(seed=1), postpone=False, budget=Budget(0.0))
    assert isinstance(verdict, Verdict)
    assert verdict.kind is Kind.UNKNOWN
    assert verdict.witness is None
