"""The attack on the verifier: five hundred mutants of small graphs and of the catalogue, judged by
the oracle; and verifiers that are wrong on purpose are caught."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

from attack import SECONDS, begun, run, tasks, work, write
from attack_subjects import (
    CATALOGUE,
    POSITIONS,
    SMALL,
    Subject,
    lookup_subjects,
    masked_subjects,
    searched,
    small_subjects,
)
from attack_summary import failed, merged, table
from attack_verdicts import FAILURES, Effort, Outcome, attack, is_accepted
from lookup_programs import LOOKUPS
from mirage.semantics.ugraph import KernelGraph
from mirage.verify import Kind, Verdict, VerifyOptions
from oracle_judge import Judge
from program_mutants import misplaced

CATALOGUE_PROGRAMS = ("lora_m1", "softmax_n256", "ntrans_bs1")
EACH = {SMALL: 9, CATALOGUE: 12, POSITIONS: 12}
"""Mutants of each subject."""
FEW = {SMALL: 1, CATALOGUE: 1, POSITIONS: 2}
"""Variants of each subject."""
LIGHT = Effort(special=1, rounding=0.0, work=1e5)


@cache
def subjects(source: str) -> list[Subject]:
    if source == SMALL:
        return list(small_subjects(0))
    if source == POSITIONS:
        return list(masked_subjects("causal"))
    return list(searched(source))


@cache
def outcomes(source: str) -> list[Outcome]:
    found: list[Outcome] = []
    for number, subject in enumerate(subjects(source)):
        judge = Judge(subject.reference, work=5e5)
        found += attack(subject, judge, number, EACH[subject.group], effort=LIGHT)
        if is_accepted(subject):
            few = FEW[subject.group]
            found += attack(subject, judge, number, few, variants=True, effort=LIGHT)
    return found


SOURCES = (SMALL, POSITIONS, *CATALOGUE_PROGRAMS)


@pytest.mark.parametrize("source", SOURCES)
def test_nothing_wrong_is_accepted_and_nothing_right_is_refuted(source: str) -> None:
    wrong = [o for o in outcomes(source) if o.failure]
    assert not wrong, "\n".join(f"{o.failure}: {o}" for o in wrong)


@pytest.mark.parametrize("source", SOURCES)
def test_exact_layers_are_not_fooled(source: str) -> None:
    assert not [o for o in outcomes(source) if o.fooled]


@pytest.mark.parametrize("source", SOURCES)
def test_most_mutants_are_wrong_and_most_variants_are_accepted(source: str) -> None:
    made = [o for o in outcomes(source) if not o.variant]
    fine = [o for o in outcomes(source) if o.variant and o.fine]
    assert sum(o.finding != "" for o in made) > len(made) / 2
    refused = [o for o in fine if not o.accepted]
    assert len(refused) <= 1 + len(fine) / 50, refused


def small(name: str) -> Subject:
    return next(s for s in subjects(SMALL) if s.name == name)


def believes(first: KernelGraph, second: KernelGraph, options: VerifyOptions) -> Verdict:
    return Verdict(Kind.PROVED, None, (), 0, numerics_hold=True, defined=True)


def refutes(first: KernelGraph, second: KernelGraph, options: VerifyOptions) -> Verdict:
    return Verdict(Kind.REFUTED, None, (), 0)


def crashes(first: KernelGraph, second: KernelGraph, options: VerifyOptions) -> Verdict:
    raise ZeroDivisionError


def test_a_verifier_that_believes_everything_is_caught() -> None:
    found: set[str] = set()
    for name in ("layer_norm/moments", "softmax/itself"):
        subject = small(name)
        attacked = attack(subject, Judge(subject.reference), 0, 25, decide=believes)
        found |= {o.failure for o in attacked}
    assert {"wrong_accepted", "rough_accepted"} <= found


def test_a_verifier_that_refutes_what_is_equal_is_caught() -> None:
    subject = small("lora/one_kernel")
    judge = Judge(subject.reference)
    found = list(attack(subject, judge, 0, 3, variants=True, decide=refutes))
    assert {o.failure for o in found} == {"refuted_without_a_difference"}
    found = list(attack(subject, judge, 0, 3, decide=crashes))
    assert {o.failure for o in found} == {"crashed"}


def test_a_run_has_some_of_everything_and_parts_add_up() -> None:
    todo = tasks(3, 500, 100, 0, None)
    numbers = {t.number for t in todo}
    assert numbers == set(range(len(subjects(SMALL))))
    assert sum(t.count for t in todo if not t.variants) >= 500
    assert len({(t.number, t.seed, t.variants) for t in todo}) == len(todo)
    assert todo == tasks(3, 500, 100, 0, None)
    assert not set(todo) & set(tasks(4, 500, 100, 0, None))


def test_equal_mutants_count_once() -> None:
    subject = small("softmax/online")
    found = list(attack(subject, Judge(subject.reference), 0, 5))
    part = {"command": "a", "seconds": 1.0, "processor_seconds": 1.0, "layers": [], "errors": []}
    part |= {"tasks": 1, "done": ["a"], "outcomes": [vars(o) for o in found]}
    total = merged([part, part])
    assert total["mutants"] == len(found)
    assert total["seconds"] == 2.0
    assert not failed(total)
    assert {name: total[name] for name in FAILURES} == dict.fromkeys(FAILURES, 0)


@pytest.mark.parametrize("name", ["part.json", "part.json.gz"])
def test_a_run_that_was_cut_goes_on(tmp_path: Path, name: str) -> None:
    todo = tasks(6, 40, 0, 0, None)[:8]
    settings = {"seed": 6}
    result = begun(tmp_path / name, settings)
    run(todo, None, 1, -1.0, result)
    assert not result["done"]
    run(todo[:3], None, 1, 60.0, result)
    assert len(result["done"]) == 3
    write(tmp_path / name, result, None)
    again = begun(tmp_path / name, settings)
    first = list(again["outcomes"])
    run(todo, None, 1, 60.0, again)
    assert len(again["done"]) == 8
    assert again["outcomes"][: len(first)] == first
    total = merged([again])
    assert total["mutants"] == len({o["key"] for o in again["outcomes"]})
    assert "tasks done" in table(total)
    with pytest.raises(SystemExit, match="name another file"):
        begun(tmp_path / name, {"seed": 7})


def test_what_takes_long_is_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    task = tasks(6, 400, 0, 0, None)[0]
    every = work(task, None, float("inf"))[1]
    monkeypatch.setitem(SECONDS, False, 0.0)
    first = work(task, None, float("inf"))[1]
    assert every is not None
    assert first is not None
    assert [o["key"] for o in first] == [every[0]["key"]]
    assert len(every) > 1


def test_parts_of_one_candidate_have_different_mutants() -> None:
    """Each fault alone, kinds in turns, before any two."""
    subject = small("lora/one_kernel")
    judge = Judge(subject.reference)
    found = [
        list(attack(subject, judge, 0, 12, effort=LIGHT, first=first, twice=0.0, decide=refutes))
        for first in (0, 12)
    ]
    assert not {o.key for o in found[0]} & {o.key for o in found[1]}
    assert len({o.kind for o in found[0]}) == len(found[0])
    assert not any(";" in o.description for o in found[0])


@pytest.mark.parametrize("name", LOOKUPS)
def test_rows_heads_and_windows_that_are_not_the_right_ones(name: str) -> None:
    """Mutants with faults of positions alone."""
    found: list[Outcome] = []
    for number, subject in enumerate(lookup_subjects(name)):
        assert is_accepted(subject)
        judge = Judge(subject.reference, work=5e5)
        found += attack(subject, judge, number, 12, effort=LIGHT, faults=misplaced)
    wrong = [o for o in found if o.failure]
    assert not wrong, "\n".join(f"{o.failure}: {o}" for o in wrong)
    assert len(found) >= 20
    assert sum(o.wrong for o in found) > len(found) / 2
