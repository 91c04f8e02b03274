"""The registers of warpgroups that the search counts for many sizes are those of the launches that
it emits."""

from __future__ import annotations

import pytest
from example_programs.search_programs import graph, tensor
from mirage.cost import H200, features_of
from mirage.cost.registers import estimator_of
from mirage.search import SearchLimits, SearchReport
from mirage.search.kernel.emission.picks import Pick
from mirage.search.kernel.estimates.derivation_costs import Stored
from mirage.search.kernel.solver import KernelSolver
from mirage.search.program.parts import Program
from mirage.semantics.builder import Builder
from mirage.semantics.decompose import decompose
from mirage.semantics.scalar import BinaryFn
from mirage.semantics.ugraph import KernelGraph, launches


def attention(rows: int, keys: int, head: int) -> KernelGraph:
    q, k, v = (tensor(name, 8, n, head) for name, n in (("q", rows), ("k", keys), ("v", keys)))
    b = Builder()
    scores = b.binary(BinaryFn.MUL, b.matmul(q, b.transpose(k, (0, 2, 1))), b.constant(0.125))
    return graph("attention", (q, k, v), b, b.matmul(b.softmax(scores, -1), v))


def ways(program: KernelGraph) -> tuple[KernelSolver, list[Pick]]:
    """Return ways to compute a whole program in one kernel by warpgroups."""
    solver = KernelSolver(H200, SearchLimits(), SearchReport())
    whole = Program(decompose(program), H200, SearchReport())
    picks = solver.solve(whole.region(whole.graph.outputs, ()).problem(), 8)
    drafts = [(p, p.draft) for p in picks if p.draft is not None and p.draft.kind.split is None]
    return solver, [p for p, d in drafts if d.measure.columns.warpgroups[d.column]]


@pytest.mark.parametrize(("rows", "keys", "head"), [(4096, 4096, 128), (4096, 4096, 64)])
def test_what_is_picked_has_its_registers_and_takes_turns_as_foreseen(
    rows: int, keys: int, head: int
) -> None:
    solver, picks = ways(attention(rows, keys, head))
    assert picks
    for pick in picks:
        written, draft = solver.write(pick), pick.draft
        assert written is not None
        assert draft is not None
        (launch,) = launches(written.ops)
        outputs = zip(draft.analysis.problem.outputs, draft.analysis.dims, strict=True)
        stored = [Stored(value.type, dims) for value, dims in outputs]
        foreseen = draft.measure.features(draft.edges, stored)[0]
        assert foreseen.serial[draft.column] == features_of(launch).serial
        assert estimator_of(launch).chained() <= 240
    assert not all(features_of(next(launches(p.written.ops))).serial for p in picks if p.written)


def test_sizes_without_registers_do_not_take_the_places_of_those_that_have_them() -> None:
    """Tiles of 256 rows by 128 keys would be the fastest, but cannot be emitted."""
    solver, picks = ways(attention(16384, 16384, 128))
    assert picks
    assert all(solver.write(pick) is not None for pick in picks)
    assert not any("registers of warpgroups" in note for note in solver.report.notes)
