"""The attack: faults put in on purpose must be refuted, harmless changes must not."""

from __future__ import annotations

import random
from collections import Counter

import graphs
import numpy as np
import pytest
from mirage.semantics.check import check_graph
from mirage.semantics.evaluate import evaluate_floats
from mirage.verify import Kind, VerifyOptions, verify
from mirage.verify.evidence.floats import Yardstick
from program_mutants import mutants

PAIRS = graphs.small_pairs()
CASES = [(p, c) for p, pair in PAIRS.items() for c in pair.candidates]
KINDS = {
    "dropped operand",
    "extra operand",
    "mask off by one",
    "missing accumulate",
    "off-by-one map",
    "swapped operands",
    "wrong axis",
    "wrong function",
    "wrong operand",
    "wrong order",
    "wrong reduction",
    "wrong scale",
}


def differs(first, second, rng) -> bool:
    """Whether float64 shows two graphs to be different."""
    for scale in (1.0, 0.3):
        xs = [rng.standard_normal(v.shape) * scale for v in first.inputs]
        for x, y in zip(
            evaluate_floats(first, xs, Yardstick()),
            evaluate_floats(second, xs, Yardstick()),
            strict=True,
        ):
            if not np.allclose(x, y, rtol=0.0, atol=1e-9 * np.abs(x).max()):
                return True
    return False


@pytest.mark.parametrize(("pair", "candidate"), CASES)
def test_mutants(pair, candidate):
    reference, graph = PAIRS[pair].reference, PAIRS[pair].candidates[candidate]
    rng = random.Random(f"{pair} {candidate}")
    seen = 0
    for mutant in mutants(graph, rng, 25):
        check_graph(mutant.graph)
        seen += 1
        different = differs(reference, mutant.graph, np.random.default_rng(rng.getrandbits(64)))
        verdict = verify(
            reference, mutant.graph, VerifyOptions(seed=rng.getrandbits(64), numerics=False)
        )
        if different:
            assert verdict.kind is Kind.REFUTED, (mutant.kind, mutant.description, str(verdict))
            # The exact layers alone must not have been fooled either.
            exact = [e.holds for e in verdict.evidence if not e.name.startswith("float64")]
            assert not (exact and all(h is True for h in exact)), (
                mutant.kind,
                mutant.description,
                str(verdict),
            )
        else:
            assert verdict.kind is not Kind.REFUTED, (mutant.kind, mutant.description, str(verdict))
    assert seen == 25


def test_all_kinds_of_faults_are_made():
    kinds = Counter()
    for pair in PAIRS.values():
        for graph in (pair.reference, *pair.candidates.values()):
            kinds.update(m.kind for m in mutants(graph, random.Random(0), 60))
    assert set(kinds) == KINDS


def test_mutants_of_references():
    """Faults at the kernel level too."""
    refuted = 0
    for name, pair in PAIRS.items():
        rng = random.Random(name)
        for mutant in mutants(pair.reference, rng, 6):
            different = differs(pair.reference, mutant.graph, np.random.default_rng(0))
            verdict = verify(pair.reference, mutant.graph, VerifyOptions(seed=1, numerics=False))
            assert (verdict.kind is Kind.REFUTED) == different, (mutant, str(verdict))
            refuted += different
    assert refuted > 10


def test_a_mutant_says_where_its_fault_is():
    """What stands elsewhere is what it was."""
    for name, pair in PAIRS.items():
        for graph in (pair.reference, *pair.candidates.values()):
            for mutant in mutants(graph, random.Random(name), 10):
                before = {}
                for op in graph.ops:
                    for v in op.results:
                        before.setdefault(mutant.values.get(v, v), op)
                for place, op in enumerate(mutant.graph.ops):
                    if place not in mutant.wrong:
                        (old,) = {before[v] for v in op.results}
                        assert type(old) is type(op)
                        assert [v.type for v in old.results] == [v.type for v in op.results]
