"""Partitions by dynamic programming against brute force over all of them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mirage.search.program.cheapest_partitions import DOUBTS, Partitions, search
from mirage.search.program.cuts import LEAST_WIDTH, Cuts
from mirage.search.program.dag import Dag, Part

WIDE = 10**6


@dataclass(frozen=True)
class Problem:
    """A graph and the cost of each part: multiples of an eighth, so that totals are exact."""

    dag: Dag
    seed: int
    results: int

    def cost(self, part: Part) -> float:
        rng = random.Random(f"{self.seed} {part}")
        return inf if rng.random() < 0.2 else rng.randrange(8, 80) / 8

    def bound(self, part: Part) -> float:
        """A lower bound of the cost; any number for a part without a kernel."""
        rng = random.Random(f"bound {self.seed} {part}")
        cost = self.cost(part)
        least = rng.choice([0.0, 0.5, 1.0]) * (8.0 if cost == inf else cost)
        return inf if cost == inf and rng.random() < 0.2 else least

    def partitions(self, width: int = WIDE) -> Partitions:
        return Partitions(Cuts(self.dag, lambda _: True, self.bound, width, self.results))


@st.composite
def problems(draw: st.DrawFn, nodes: int = 6, results: int = 3) -> Problem:
    count = draw(st.integers(1, nodes))
    reads = [
        tuple(sorted(draw(st.sets(st.integers(0, v - 1), max_size=3)))) if v else ()
        for v in range(count)
    ]
    read = {u for before in reads for u in before}
    required = tuple(v not in read or draw(st.integers(0, 4)) == 0 for v in range(count))
    pairs = [(u, v) for v in range(count) for u in range(v)]
    alike = (
        draw(st.sets(st.sampled_from(pairs))) if pairs and results > 1 else set[tuple[int, int]]()
    )
    dag = Dag(tuple(reads), required, frozenset(alike))
    return Problem(dag, draw(st.integers(0, 10**6)), draw(st.integers(1, results)))


# ---- brute force


def stored_sets(dag: Dag) -> Iterator[set[int]]:
    free = [v for v, must in enumerate(dag.required) if not must]
    for bits in range(1 << len(free)):
        yield {v for v, must in enumerate(dag.required) if must} | {
            v for i, v in enumerate(free) if bits >> i & 1
        }


def groupings(nodes: list[int], results: int) -> Iterator[list[list[int]]]:
    if not nodes:
        yield []
        return
    *rest, last = nodes
    for groups in groupings(rest, results):
        yield [*groups, [last]]
        for i, group in enumerate(groups):
            if len(group) < results:
                yield [*groups[:i], [*group, last], *groups[i + 1 :]]


def leaves_of(dag: Dag, node: int, stored: set[int]) -> set[int]:
    found: set[int] = set()
    for u in dag.reads[node]:
        found |= {u} if u in stored else leaves_of(dag, u, stored)
    return found


def allowed(dag: Dag, groups: list[list[int]], stored: set[int]) -> bool:
    for group in groups:
        pairs = [(u, v) for i, v in enumerate(group) for u in group[:i]]
        if not all(pair in dag.alike for pair in pairs):
            return False
        for v in stored.difference(group):
            if leaves_of(dag, v, stored) & {*group} and v < group[-1]:
                return False
    return True


def brute_force(problem: Problem) -> list[tuple[float, frozenset[Part]]]:
    """Return all partitions with a finite cost, the cheapest first."""
    dag, found = problem.dag, list[tuple[float, frozenset[Part]]]()
    for stored in stored_sets(dag):
        for groups in groupings(sorted(stored), problem.results):
            if not allowed(dag, groups, stored):
                continue
            parts: list[Part] = []
            for group in groups:
                leaves = set[int]().union(*(leaves_of(dag, v, stored) for v in group))
                parts.append(Part(tuple(group), sum(1 << u for u in leaves - {*group})))
            total = sum(problem.cost(p) for p in parts)
            if total < inf:
                found.append((total, frozenset(parts)))
    return sorted(found, key=lambda item: item[0])


# ---- tests


def run(
    problem: Problem, partitions: Partitions, stop: int = WIDE, enough: float = 0.0
) -> tuple[float, int]:
    """Solve one part at a time; a plan that is the best one at a doubt of ``enough`` is taken."""

    def advance(unsolved: list[Part], cost: float) -> None:
        partitions.settle(unsolved[0], problem.cost(unsolved[0]))

    return search(
        partitions, advance, lambda count, _: count >= stop, lambda doubt: doubt <= enough
    )


@settings(max_examples=150, deadline=None)
@given(problems())
def test_the_cheapest_partition_is_found(problem: Problem) -> None:
    every = brute_force(problem)
    partitions = problem.partitions()
    bound, _ = run(problem, partitions)
    total, parts = partitions.cheapest(known=True)
    assert total == (every[0][0] if every else inf)
    if every:
        assert bound == total
        assert (total, frozenset(parts)) in every


@settings(max_examples=60, deadline=None)
@given(problems())
def test_all_partitions_are_ranked(problem: Problem) -> None:
    every = brute_force(problem)
    partitions = problem.partitions()
    for part in partitions.cuts.parts:
        partitions.settle(part, problem.cost(part))
    ranked = list(partitions.ranked(1000.0))
    assert [total for total, _ in ranked] == [total for total, _ in every]
    assert {frozenset(parts) for _, parts in ranked} == {parts for _, parts in every}
    few = list(partitions.ranked(every[0][0] * 1.25)) if every else []
    assert len(few) == sum(total <= every[0][0] * 1.25 for total, _ in every)


@settings(max_examples=60, deadline=None)
@given(problems())
def test_parts_come_after_what_they_read(problem: Problem) -> None:
    for _, parts in brute_force(problem):
        have = 0
        for part in sorted(parts, key=lambda p: p.nodes[-1]):
            assert part.leaves & ~have == 0
            have |= sum(1 << v for v in part.nodes)
    partitions = problem.partitions()
    run(problem, partitions)
    _, parts = partitions.cheapest(known=True)
    assert parts == sorted(parts, key=lambda p: p.nodes[-1])


@settings(max_examples=60, deadline=None)
@given(problems(), st.integers(1, 6))
def test_a_search_that_is_stopped_knows_how_good_it_is(problem: Problem, stop: int) -> None:
    every = brute_force(problem)
    partitions = problem.partitions()
    bound, proposals = run(problem, partitions, stop)
    assert proposals <= stop
    assert bound <= (every[0][0] if every else inf)
    total, parts = partitions.cheapest(known=True)
    assert total == inf or (total, frozenset(parts)) in every


@settings(max_examples=60, deadline=None)
@given(problems(), st.sampled_from(DOUBTS))
def test_what_is_best_at_a_doubt_is_so_much_worse_at_most(problem: Problem, doubt: float) -> None:
    every = brute_force(problem)
    partitions = problem.partitions()
    bound, _ = run(problem, partitions, enough=doubt)
    total, parts = partitions.cheapest(known=True)
    if every:
        assert bound <= every[0][0] <= total <= doubt * every[0][0] + 1e-6
        assert (total, frozenset(parts)) in every
    else:
        assert total == inf


@settings(max_examples=60, deadline=None)
@given(problems(), st.integers(1, 4))
def test_few_states_give_a_partition_that_is_no_better(problem: Problem, width: int) -> None:
    every = brute_force(problem)
    partitions = problem.partitions(width)
    run(problem, partitions)
    total, parts = partitions.cheapest(known=True)
    assert total == inf or (total, frozenset(parts)) in every
    if not partitions.cuts.cut_off:
        assert total == (every[0][0] if every else inf)


def test_states_of_a_chain_grow_with_its_length_only() -> None:
    """A chain whose parts have at most three inner nodes, which the node after the next one reads,
    too."""

    def states(count: int) -> int:
        reads = tuple(tuple(u for u in (v - 2, v - 1) if u >= 0) for v in range(count))
        dag = Dag(reads, tuple(v == count - 1 for v in range(count)))
        return Cuts(dag, lambda p: len(dag.inside(p)) <= 3, lambda _: 1.0, WIDE).states

    assert states(160) - states(80) == 2 * (states(80) - states(40))


def long_program(count: int) -> Dag:
    """Each node is read by the four after it, so that cuts have many states."""
    reads = tuple(tuple(u for u in range(v - 4, v) if u >= 0) for v in range(count))
    return Dag(reads, tuple(v == count - 1 for v in range(count)))


@pytest.mark.parametrize("width", [1, 3, 20])
def test_all_stored_is_always_a_way(width: int) -> None:
    """Larger parts promise more; if there is no kernel for them, only single values are left."""
    dag = long_program(24)
    cuts = Cuts(dag, lambda _: True, lambda p: 1.0 if dag.inside(p) else 5.0, width)
    assert cuts.cut_off
    partitions = Partitions(cuts)
    for part in cuts.parts:
        partitions.settle(part, inf if dag.inside(part) else 5.0)
    assert partitions.cheapest(known=True)[0] == 24 * 5.0


def test_cuts_of_a_program_end_in_time() -> None:
    """When the time is up, few states are kept; without a limit all that are allowed."""
    dag = long_program(40)

    def cuts(deadline: float) -> Cuts:
        return Cuts(dag, lambda p: len(dag.inside(p)) <= 8, lambda _: 1.0, 2000, 1, deadline)

    late, free = cuts(0.0), cuts(inf)
    assert (late.hurried, free.hurried) == (True, False)
    assert late.states <= 40 * LEAST_WIDTH < free.states
    assert Partitions(late).cheapest()[0] < inf


def test_bounds_of_larger_parts_are_raised() -> None:
    dag = Dag(((), (0,), (1,), (2,)), (False, False, False, True))
    partitions = Partitions(Cuts(dag, lambda _: True, lambda _: 1.0, WIDE))
    small, larger, largest = Part((3,), 0b100), Part((3,), 0b010), Part((3,), 0b001)
    partitions.settle(larger, inf)
    partitions.raise_larger(larger, lambda _: inf)
    assert not partitions.unsolved(largest)
    assert partitions.cost(largest) == inf
    assert partitions.unsolved(small)
    partitions.settle(small, 5.0)
    partitions.raise_larger(small, lambda _: 4.0)
    assert partitions.cost(larger) == inf
    assert partitions.cost(Part((2,), 0b010)) == 1.0


def test_what_nothing_reads_must_be_stored() -> None:
    with pytest.raises(ValueError, match="expected node 1 to be stored"):
        Cuts(Dag(((), ()), (True, False)), lambda _: True, lambda _: 1.0, WIDE)
