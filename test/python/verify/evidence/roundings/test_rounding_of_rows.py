"""Rows of all kinds reach the compared outputs, if a candidate reads tiles of many rows and few are
compared, and if a program combines several rows."""

from __future__ import annotations

import random

import pytest
from example_programs import graphs
from example_programs.hand_attention import products
from faults.program_mutants import mutants
from faults.roundings import rounding_faults
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.verify import Kind, VerifyOptions, verify
from mirage.verify.evidence.roundings.input_roles import rows_meet
from mirage.workloads import get

OPTIONS = VerifyOptions(seed=3, work=5e5)


def rough(graph: KernelGraph, description: str) -> KernelGraph:
    """Return ``graph`` with the fault of rounding that has this description."""
    made = mutants(graph, random.Random(0), 200, rounding_faults)
    return next(m.graph for m in made if m.description == description)


def test_rows_that_are_compared_are_of_all_kinds() -> None:
    """A maximum that is at least 0, if all scores of some rows are far below: 16 rows in each tile,
    of which one or two are compared."""
    pair = graphs.softmax(4096, 1024, row_blocks=256, steps=4)
    right = pair.candidates["online"]
    assert verify(pair.reference, right, OPTIONS).accepted
    verdict = verify(pair.reference, rough(right, "at least 0"), OPTIONS)
    assert verdict.equivalent
    assert not verdict.accepted, verdict


@pytest.mark.parametrize("name", ["group_norm"])
def test_rows_that_meet_are_of_one_kind_too(name: str) -> None:
    """A variance of 16 rows in one pass, if the mean of all of them is far from 0."""
    reference = get(name).graph()
    assert verify(reference, reference, OPTIONS).accepted
    verdict = verify(reference, rough(reference, "layer norm"), OPTIONS)
    assert verdict.kind is Kind.PROVED
    assert not verdict.accepted, verdict


@pytest.mark.parametrize("turned", [False, True])
def test_keys_meet_in_the_maximum_of_their_scores(turned: bool) -> None:
    """A maximum that is at least 0, if all scores of a row are far below."""
    reference = products(turned)
    assert rows_meet(reference) == {1}
    assert verify(reference, reference, OPTIONS).accepted
    verdict = verify(reference, rough(reference, "at least 0"), OPTIONS)
    assert verdict.equivalent
    assert not verdict.accepted, verdict


def test_weights_meet_in_a_norm_of_what_they_give() -> None:
    x, w, u = (Value(TensorType(s, DType.F32)) for s in ((4, 8), (6, 8), (6, 5)))
    b = Builder()
    y = b.matmul(x, b.transpose(w, (1, 0)))
    total = b.reduce(ReduceFn.SUM, b.unary(UnaryFn.SQUARE, y), (1,))
    z = b.matmul(b.binary(BinaryFn.MUL, y, total), u)
    assert rows_meet(KernelGraph("norm", (x, w, u), tuple(b.ops), (z,))) == {1}


def test_a_single_key_may_be_all_that_counts_where_inputs_are_constant_within_cells() -> None:
    """One over a sum of exponentials, times 2^20 in f16: this is fine if many keys are equal, and
    infinite if a single one has all the weight."""
    reference = products(False, keys=1 << 15, batch=64, rows=1)
    few = VerifyOptions(seed=3, work=2e4)
    verdict = verify(reference, reference, few)
    assert verdict.accepted
    assert any("constant within" in e.text for e in verdict.evidence)
    wrong = products(False, keys=1 << 15, batch=64, rows=1, scaled=True)
    verdict = verify(reference, wrong, few)
    assert verdict.equivalent
    assert not verdict.accepted, verdict
