"""Rows of all kinds reach what is compared: where a candidate reads tiles of many rows of which few
are compared, and where a program takes several rows together."""

from __future__ import annotations

import random

import graphs
import pytest
from mirage.semantics.ugraph import KernelGraph
from mirage.verify import Kind, VerifyOptions, verify
from mirage.workloads import get
from program_mutants import mutants
from rounding_faults import rounding_faults

OPTIONS = VerifyOptions(seed=3, work=5e5)


def rough(graph: KernelGraph, description: str) -> KernelGraph:
    """``graph`` with the fault of rounding of that description."""
    made = mutants(graph, random.Random(0), 200, rounding_faults)
    return next(m.graph for m in made if m.description == description)


def test_rows_that_are_compared_are_of_all_kinds() -> None:
    """A maximum that is 0 at least, where all scores of some rows are far below: 16 rows in each
    tile, of which one or two are compared."""
    pair = graphs.softmax(4096, 1024, row_blocks=256, steps=4)
    right = pair.candidates["online"]
    assert verify(pair.reference, right, OPTIONS).accepted
    verdict = verify(pair.reference, rough(right, "at least 0"), OPTIONS)
    assert verdict.equivalent
    assert not verdict.accepted, verdict


@pytest.mark.parametrize("name", ["group_norm"])
def test_rows_that_meet_are_of_one_kind_too(name: str) -> None:
    """A variance of 16 rows in one pass, where the mean of all of them is far from 0."""
    reference = get(name).graph()
    assert verify(reference, reference, OPTIONS).accepted
    verdict = verify(reference, rough(reference, "layer norm"), OPTIONS)
    assert verdict.kind is Kind.PROVED
    assert not verdict.accepted, verdict
