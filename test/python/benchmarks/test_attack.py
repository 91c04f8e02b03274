"""The attack on the verifier: a thousand mutants of small graphs and of the catalogue, judged by
the oracle; and verifiers that are wrong on purpose are caught."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import attack_verdicts
from attack import SECONDS, begun, run, tasks, work, write
from attack_pool import results
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
from attack_summary import failed, merged, summary, table
from attack_verdicts import FAILURES, Effort, Outcome, attack, examine, is_accepted
from example_programs.lookup_programs import LOOKUPS
from faults.program_mutants import misplaced, mutants
from faults.roundings import rounding_faults
from mirage.semantics.ugraph import KernelGraph
from mirage.verify import Kind, Verdict, VerifyOptions, verify
from oracle.judge import Judge
from thorough import some_of

EACH = {SMALL: 26, CATALOGUE: 12, POSITIONS: 12}
"""Mutants of each subject; a few of them are the same."""
FEWEST = {
    "small 0 of 4": 220, "small 1 of 4": 220, "small 2 of 4": 210, "small 3 of 4": 210,
    POSITIONS: 40, "lora_m1": 40, "softmax_n256": 28, "ntrans_bs1": 32,
}  # fmt: skip
"""Different mutants of all subjects of a source."""
FEW = {SMALL: 1, CATALOGUE: 1, POSITIONS: 2}
"""Variants of each subject."""
LIGHT = Effort(special=1, rounding=0.0, work=1e5)


@cache
def subjects(source: str) -> list[Subject]:
    if source == SMALL:
        return list(small_subjects(0))
    if source.startswith(SMALL):
        _, part, _, parts = source.split()
        return subjects(SMALL)[int(part) :: int(parts)]
    if source == POSITIONS:
        return list(masked_subjects("causal"))
    return list(searched(source))


def outcomes(source: str) -> list[Outcome]:
    found: list[Outcome] = []
    for number, subject in enumerate(subjects(source)):
        judge = Judge(subject.reference, work=5e5)
        found += attack(subject, judge, number, EACH[subject.group], effort=LIGHT)
        few = FEW[subject.group]
        varied = list(attack(subject, judge, number, few, variants=True, effort=LIGHT))
        # A refusal only means something if the subject itself is accepted.
        if all(o.accepted for o in varied) or is_accepted(subject):
            found += varied
    return found


@pytest.mark.parametrize("source", FEWEST)
def test_nothing_wrong_is_accepted_and_nothing_right_is_refuted(source: str) -> None:
    """Exact layers are not fooled, either. Most mutants are wrong, and most variants are
    accepted."""
    found = outcomes(source)
    wrong = [o for o in found if o.failure]
    assert not wrong, "\n".join(f"{o.failure}: {o}" for o in wrong)
    assert not [o for o in found if o.fooled]
    made = [o for o in found if not o.variant]
    assert len({o.key for o in made}) >= FEWEST[source]
    assert sum(o.finding != "" for o in made) > len(made) / 2
    fine = [o for o in found if o.variant and o.fine]
    refused = [o for o in fine if not o.accepted]
    assert len(refused) <= 1 + len(fine) / 50, refused


def test_they_are_a_thousand() -> None:
    parts = [s for name in FEWEST if name.startswith(f"{SMALL} ") for s in subjects(name)]
    assert sorted(s.name for s in parts) == sorted(s.name for s in subjects(SMALL))
    assert sum(FEWEST.values()) >= 1000


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


@pytest.mark.parametrize("name", ["variance/whole", "squared_error/itself", "distances/itself"])
def test_moments_that_lose_their_digits_are_seen(name: str) -> None:
    """The oracle detects them if a verifier accepts everything, and so does the verifier."""
    subject = small(name)
    judge = Judge(subject.reference)
    every = mutants(subject.candidate, random.Random(0), 40, rounding_faults)
    kinds = ("multiplied out", "variance in one pass") if "var" in name else ("multiplied out",)
    lossy = {m.description: m for m in every if m.kind in kinds}
    assert len(lossy) == 2
    for mutant in lossy.values():
        for decide, failure in ((believes, "rough_accepted"), (verify, "")):
            rng, effort = random.Random(0), Effort(special=100)
            found = examine(subject, judge, mutant, "", rng, False, effort, decide)
            assert (found.accepted, found.failure) == (bool(failure), failure), found


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


@pytest.mark.parametrize("name", some_of(LOOKUPS, 2))
def test_rows_heads_and_windows_that_are_not_the_right_ones(name: str) -> None:
    """Mutants with faults of positions only."""
    found: list[Outcome] = []
    for number, subject in enumerate(lookup_subjects(name)):
        assert is_accepted(subject)
        judge = Judge(subject.reference, work=5e5)
        found += attack(subject, judge, number, 12, effort=LIGHT, faults=misplaced)
    wrong = [o for o in found if o.failure]
    assert not wrong, "\n".join(f"{o.failure}: {o}" for o in wrong)
    assert len(found) >= 20
    assert sum(o.wrong for o in found) > len(found) / 2


def job(number: int) -> int:
    """Dies, gets stuck or fails at some numbers."""
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 5:
        time.sleep(60.0)
    if number == 7:
        raise ValueError(number)
    return number * number


def test_a_process_that_dies_or_is_stuck_costs_its_task_alone() -> None:
    found = dict(results(job, range(12), 2, lambda number: 1.0))
    assert set(found) == set(range(12))
    assert {n for n, f in found.items() if f.exception()} == {3, 5, 7}
    assert isinstance(found[7].exception(), ValueError)
    assert all(f.result() == n * n for n, f in found.items() if not f.exception())


def test_what_takes_too_long_is_interrupted_and_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = small("lora/one_kernel")
    monkeypatch.setattr(attack_verdicts, "LONGEST", 0.05)

    def slow(*_: object) -> Verdict:
        with suppress(Exception):
            while True:
                sum(range(100))
        raise AssertionError

    (found,) = attack(subject, Judge(subject.reference), 0, 1, decide=slow)
    assert found.verdict == attack_verdicts.LATE
    assert not found.failure
    part = {"command": "a", "seconds": 1.0, "processor_seconds": 1.0, "layers": [], "errors": []}
    total = merged([part | {"tasks": 1, "done": ["a"], "outcomes": [vars(found)]}])
    assert total["late"] == 1
    assert not failed(total)


def test_of_equal_pairs_the_worst_counts() -> None:
    """The same mutant occurs again on other inputs, which may not reveal its fault."""
    harmless = Outcome(
        "a", SMALL, "stored in 16 bits", "sum in bf16", "k", variant=False, finding="rough",
        text="", rough=1.4, verdict="proved", accepted=True, fooled=False, seconds=0.0, why="",
    )  # fmt: skip
    rough = replace(harmless, rough=27.5)
    for outcomes in ([harmless, rough], [rough, harmless]):
        total = summary(outcomes)
        assert (total["mutants"], total["rough_accepted"]) == (1, 1)
