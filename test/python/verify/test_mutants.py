"""The faults that are made on purpose. (The attack tests whether the verifier sees them,
`test/python/benchmarks/test_attack.py`.)
"""

from __future__ import annotations

import random
from collections import Counter

from example_programs import graphs
from example_programs.index_programs import PROGRAMS
from example_programs.lookup_programs import LOOKUPS
from example_programs.stepped_loops import STEPPED, looped
from faults.equal_variants import equal_variants
from faults.indices import index_faults
from faults.positions import position_faults
from faults.program_mutants import misplaced, mutants, numbered
from faults.roundings import ROUNDING, rounding_faults
from mirage.semantics.signature import signature
from mirage.transforms.steps.skip_steps import skip_steps
from oracle.judge import Judge

PAIRS = graphs.small_pairs()
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
POSITIONS = {
    "head for batch",
    "off-by-one map",
    "position off by one",
    "wrong axis",
    "shifted window",
    "wrong comparison",
    "wrong row",
    "wrong steps",
}
INDICES = {
    "dropped condition",
    "exchanged operands",
    "head for batch",
    "joined in another order",
    "length by one",
    "lost clamp",
    "negated condition",
    "shifted read",
    "wrong base",
    "wrong segment",
}
VARIANTS = {
    "blocks in another order",
    "commuted",
    "factor moved",
    "reassociated",
    "sum cut in two",
    "there and back",
    "transposed product",
    "written out",
}


def test_all_kinds_of_faults_are_made():
    kinds = Counter()
    for pair in PAIRS.values():
        for graph in (pair.reference, *pair.candidates.values()):
            kinds.update(m.kind for m in mutants(graph, random.Random(0), 60))
    assert set(kinds) == KINDS


def test_all_kinds_of_faults_of_rounding_are_made():
    kinds = Counter()
    for pair in PAIRS.values():
        for graph in (pair.reference, *pair.candidates.values()):
            kinds.update(m.kind for m in mutants(graph, random.Random(0), 25, rounding_faults))
    assert set(kinds) == ROUNDING


def test_all_kinds_of_faults_of_positions_are_made():
    kinds = Counter()
    for mask, n, split in STEPPED.values():
        for graph in (looped(mask, n, split), skip_steps(looped(mask, n, split))):
            kinds.update(m.kind for m in mutants(graph, random.Random(0), 20, position_faults))
    for graph in (program() for program in LOOKUPS.values()):
        kinds.update(m.kind for m in mutants(graph, random.Random(0), 40, position_faults))
    assert set(kinds) == POSITIONS


def test_all_kinds_of_faults_of_indices_are_made():
    kinds = Counter()
    for program in PROGRAMS.values():
        graph = program()
        every = len(list(index_faults(graph)))
        kinds.update(m.kind for m in numbered(graph, "", 0, every, lambda g, rng: index_faults(g)))
    assert set(kinds) == INDICES


def test_numbered_mutants_are_each_fault_alone_and_then_several():
    """The same numbers give the same mutants."""
    graph = LOOKUPS["paged"]()
    alone = len(list(misplaced(graph, random.Random(0))))

    def texts(first: int, count: int) -> list[str]:
        made = numbered(graph, "paged", first, count, misplaced)
        return [signature(m.graph) for m in made]

    assert texts(0, alone + 40) == texts(0, 30) + texts(30, alone) + texts(alone + 30, 10)
    descriptions = [m.description for m in numbered(graph, "paged", 0, alone + 40, misplaced)]
    assert not any(";" in text for text in descriptions[: alone // 2])
    assert all(";" in text for text in descriptions[-20:])
    assert len(set(texts(alone, 40))) > 35


def test_variants_that_should_be_equal_are():
    """The oracle decides this."""
    kinds = Counter()
    for name, pair in PAIRS.items():
        judge = Judge(pair.reference)
        for graph in (pair.reference, *pair.candidates.values()):
            for variant in mutants(graph, random.Random(name), 12, equal_variants):
                found = judge.quick(variant.graph)
                assert found is None, (name, variant.kind, variant.description, found)
                kinds[variant.kind] += 1
    assert set(kinds) == VARIANTS


def test_a_mutant_says_where_its_fault_is():
    """The rest of the program is unchanged."""
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
