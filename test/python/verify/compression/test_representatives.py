"""Outputs that are compared, and digits that have one cell: less work, the same verdicts."""

from __future__ import annotations

import random

import pytest
from example_programs import graphs
from example_programs.one_liners import function
from faults.program_mutants import mutants
from mirage.semantics.decompose import decompose
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.verify import Kind, VerifyOptions, verify
from mirage.verify.compression.digits import Structure
from mirage.verify.compression.independent_copies import parallel_digits
from mirage.verify.compression.index_relations import Irregular
from mirage.verify.evidence.proofs import small_model as smallmodel
from mirage.verify.evidence.proofs.small_model import run_small_model, small_pair
from mirage.verify.normal_form.normalize import normalize
from thorough import some_of

F32 = DType.F32
QUICK = VerifyOptions(seed=1, numerics=False)
FAMILIES = {
    "rms_linear": graphs.rms_linear(5, 36, 30, blocks=5, steps=4),
    "attention": graphs.attention(2, 6, 37, 4, splits=3, steps=3, row_blocks=2),
    "softmax": graphs.softmax(7, 40, row_blocks=3, steps=6),
    "layer_norm": graphs.layer_norm(6, 24, row_blocks=2, steps=4),
}


def plain(graph):
    return normalize(decompose(graph))


def parallel_sizes(*pair):
    """Return for each dimension of the inputs whether all its digits are parallel."""
    programs = [plain(g) for g in pair]
    structure = Structure(programs)
    found = parallel_digits(programs, structure)
    return [
        [found >= {*structure.digits_of(structure.slot(v, d))} for d in range(len(v.shape))]
        for v in programs[0].inputs
    ]


def test_batches_and_rows_are_parallel_and_sums_are_not():
    pair = FAMILIES["attention"]
    for candidate in pair.candidates.values():
        q, k, v = parallel_sizes(pair.reference, candidate)
        assert q == [True, True, False]
        assert k == [True, False, False] or k == [True, False]
        assert v == [True, False, True]


def test_two_indices_of_one_digit_are_not_parallel():
    """``x_i x_j`` is not ``x_i x_i``: with one cell they could not be distinguished."""
    x = graphs.tensor(24, dtype=F32)

    def outer(b, x):
        column = b.reshape(x, (24, 1))
        return b.binary(BinaryFn.MUL, b.broadcast(column, (24, 24)), x)

    def square(b, x):
        return b.broadcast(b.reshape(b.unary(UnaryFn.SQUARE, x), (24, 1)), (24, 24))

    first, second = function(outer, x), function(square, x)
    assert parallel_sizes(first, second) == [[False]]
    assert run_small_model(small_pair(first, second), random.Random(0), -60.0)[0].holds is False
    assert verify(first, second, QUICK).kind is Kind.REFUTED
    assert verify(first, first, QUICK).kind is Kind.PROVED


def test_maxima_mix_indices():
    x = graphs.tensor(6, 24, dtype=F32)
    rows = function(lambda b, x: b.binary(BinaryFn.SUB, x, b.reduce(ReduceFn.MAX, x, (1,))), x)
    columns = function(lambda b, x: b.binary(BinaryFn.SUB, x, b.reduce(ReduceFn.MAX, x, (0,))), x)
    assert parallel_sizes(rows, rows) == [[True, False]]
    assert parallel_sizes(rows, columns) == [[False, False]]
    assert verify(rows, columns, QUICK).kind is Kind.REFUTED


@pytest.mark.parametrize("offset", [1, 32])
def test_rows_that_change_places_are_seen(offset):
    """The rows are in another order, which would make no difference if all rows held the same."""
    x = graphs.tensor(64, 8, dtype=F32)
    same = function(lambda b, x: b.unary(UnaryFn.EXP, x), x)

    def moved(b, x):
        parts = (b.slice(x, (offset, 0), (64 - offset, 8)), b.slice(x, (0, 0), (offset, 8)))
        return b.unary(UnaryFn.EXP, b.concat(parts, 0))

    assert verify(same, function(moved, x), QUICK).kind is Kind.REFUTED


def test_one_row_of_each_segment_is_compared():
    pair = FAMILIES["attention"]
    small = small_pair(plain(pair.reference), plain(pair.candidates["flash"]))
    assert small.compared is not None
    full = [v.type.size for v in small.reference.graph.outputs]
    assert small.work < 2e4
    assert all(n <= 16 for n in full)


@pytest.mark.parametrize("family", some_of(FAMILIES, every=4))
def test_representatives_decide_as_all_outputs_do(family, monkeypatch):
    """Mutants, with and without compression: all indices single or in a bulk, all outputs
    compared."""
    pair = FAMILIES[family]
    first = plain(pair.reference)
    different = compared = 0
    for name, candidate in pair.candidates.items():
        rng = random.Random(f"{family} {name}")
        for mutant in mutants(candidate, rng, 25):
            second = plain(mutant.graph)
            verdicts = []
            for whole in (False, True):
                with monkeypatch.context() as patch:
                    if whole:
                        patch.setattr(smallmodel, "parallel_digits", lambda *_: frozenset())
                        patch.setattr(smallmodel, "representatives", lambda *_: None)
                    try:
                        small = small_pair(first, second)
                    except Irregular:
                        break
                    evidence, _ = run_small_model(small, random.Random(3), -30.0, 1)
                verdicts.append(evidence.holds)
            if len(verdicts) == 2 and None not in verdicts:
                compared += 1
                different += not verdicts[1]
                assert verdicts[0] == verdicts[1], mutant
    assert compared > 15
    assert different > 10
