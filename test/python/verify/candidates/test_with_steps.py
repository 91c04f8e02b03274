"""Several candidates that leave out steps, compared unchanged on the same inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from example_programs.position_masks import causal
from example_programs.stepped_loops import loop_of, looped, with_steps
from mirage.semantics.substitute import rename_graph
from mirage.semantics.ugraph import KernelGraph, StepNumber, Steps
from mirage.transforms.steps.skip_steps import skip_steps
from mirage.verify import Kind, Verdict, VerifyOptions
from mirage.verify.candidates import with_steps as module
from mirage.verify.candidates.together import Terms
from mirage.verify.candidates.with_steps import in_their_steps
from mirage.verify.evidence.samples import held
from mirage.verify.pieces.ledger import Ledger
from mirage.verify.shared_inputs.free_positions import free_positions

TERMS = Terms(VerifyOptions(seed=5, numerics=False), Ledger())
PROVED = Verdict(Kind.PROVED, None, (), 5)


def compared(candidates: Sequence[KernelGraph], terms: Terms = TERMS) -> list[Verdict]:
    """Compare programs with the positions as inputs, as in parts of programs."""
    freed = [free_positions(looped(causal), c) for c in candidates]
    verdicts = [PROVED] * len(candidates)
    graphs = [
        rename_graph(f.candidate, dict(zip(f.known, freed[0].known, strict=True))) for f in freed
    ]
    return in_their_steps(freed[0].reference, graphs, verdicts, freed[0].positions, terms)


def right_and_wrong() -> tuple[KernelGraph, KernelGraph]:
    right = skip_steps(looped(causal))
    steps = loop_of(right).steps
    assert steps is not None
    fewer: StepNumber = replace(steps.end, constant=steps.end.constant - steps.end.divisor)
    return right, with_steps(looped(causal), Steps(steps.first, fewer))


def test_each_candidate_has_its_own_verdict() -> None:
    right, wrong = right_and_wrong()
    first, second, third = compared([right, wrong, right])
    assert first == third
    assert first.kind is Kind.PROVED
    assert second.kind is Kind.REFUTED
    assert [first, second] == [compared([c])[0] for c in (right, wrong)]


def test_what_is_too_large_together_is_compared_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit of work that is too small for all of them together is enough for each: none is left
    untested."""
    right, wrong = right_and_wrong()
    alone, chosen = held.choose_sample, list[int]()

    def choose(graphs: Sequence[KernelGraph], *rest: object) -> object:
        chosen.append(len(graphs))
        sample = alone(graphs, *rest)  # pyright: ignore[reportArgumentType]
        return sample if len(graphs) == 2 else replace(sample, work=float("inf"))

    monkeypatch.setattr(held, "choose_sample", choose)
    verdicts = compared([right, wrong])
    assert [v.kind for v in verdicts] == [Kind.PROVED, Kind.REFUTED]
    assert "on 0 random inputs" not in verdicts[0].evidence[-1].text
    assert chosen[0] == 3
    assert set(chosen[1:]) == {2}


def test_what_there_is_no_time_to_compare_is_unknown() -> None:
    verdicts = compared(list(right_and_wrong()), replace(TERMS, deadline=0.0))
    assert [(v.kind, v.late) for v in verdicts] == [(Kind.UNKNOWN, True)] * 2
    assert module.workers(None) == 1
