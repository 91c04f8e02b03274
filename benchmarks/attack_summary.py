"""Summaries of attacks on the verifier: the counts that matter, and the cases that are failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attack_verdicts import FAILURES, LATE, Outcome
from layer_attack import WRONG, LayerOutcome, layer_summary

TOLD = 40  # cases of each kind that a summary lists


def summary(outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """Return the counts that decide, and the cases that should not occur. Equal pairs count once,
    by their worst outcome: each time they are tested on different inputs."""
    by_harm = sorted(outcomes, key=lambda o: (bool(o.failure), o.rough))
    every = list({o.key: o for o in by_harm}.values())
    made = [o for o in every if not o.variant]
    variants = [o for o in every if o.variant]
    wrong = [o for o in made if o.wrong]
    failures = {name: [o for o in every if o.failure == name] for name in FAILURES}
    fine = [o for o in variants if o.fine]
    refused = [o for o in fine if not o.accepted]
    fooled = [o for o in every if o.fooled]
    late = [o for o in every if o.verdict == LATE]
    return {
        "mutants": len(made),
        "by_group": dict(Counter(o.group for o in made)),
        "subjects": len({o.subject for o in every}),
        "wrong": len(wrong),
        "wrong_by_finding": dict(Counter(o.finding for o in wrong)),
        "wrong_verdicts": dict(Counter(_told(o) for o in wrong)),
        "rough_verdicts": dict(Counter(_told(o) for o in made if o.finding == "rough")),
        "equal_verdicts": dict(Counter(_told(o) for o in made if not o.finding)),
        **{name: len(some) for name, some in failures.items()},
        "too_large_for_the_oracle": sum(o.finding == "unseen" for o in every),
        "late": len(late),
        "fooled_exact_layers": len(fooled),
        "variants": len(variants),
        "variants_that_are_fine": len(fine),
        "fine_refused_or_unknown": len(refused),
        "fine_refused_percent": round(100.0 * len(refused) / max(1, len(fine)), 3),
        "by_kind": {
            kind: dict(Counter(_told(o) for o in every if o.kind == kind))
            for kind in sorted({o.kind for o in every})
        },
        "cases": {
            **{name: _cases(some) for name, some in failures.items() if some},
            "fooled": _cases(fooled),
            "fine_refused": _cases(refused),
            "late": _cases(late),
        },
    }


def _told(o: Outcome) -> str:
    return (
        "accepted"
        if o.accepted
        else "refused"
        if o.verdict in ("proved", "probable")
        else o.verdict
    )


def _cases(some: Sequence[Outcome]) -> list[list[str]]:
    return [[o.subject, o.kind, o.description, o.text, _told(o), o.why[:200]] for o in some[:TOLD]]


def merged(parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the results of several runs together."""
    outcomes = (Outcome(**o) for part in parts for o in part["outcomes"])
    layers = [LayerOutcome(**o) for part in parts for o in part["layers"]]
    return {
        "commands": [part["command"] for part in parts],
        "commits": [part.get("commit", "") for part in parts],
        "seconds": sum(part["seconds"] for part in parts),
        "processor_seconds": sum(part["processor_seconds"] for part in parts),
        "tasks": sum(part["tasks"] for part in parts),
        "done": sum(len(part["done"]) for part in parts),
        **summary(outcomes),
        "layers": layer_summary(layers),
        "errors": [error for part in parts for error in part["errors"]],
    }


ROWS = (
    ("mutants", "different mutants"),
    ("wrong", "of these compute something else"),
    ("wrong_accepted", "wrong ones accepted"),
    ("rough_accepted", "rough ones accepted"),
    ("refuted_without_a_difference", "refuted in which nobody sees a difference"),
    ("crashed", "crashes"),
    ("too_large_for_the_oracle", "too large for the oracle"),
    ("late", "without a verdict in time"),
    ("variants_that_are_fine", "variants that are equal and fine"),
    ("fine_refused_or_unknown", "of these refused or unknown"),
)
LAYER_ROWS = (
    ("mutants", "different mutants in layers"),
    ("layers", "layers"),
    ("different", "of these compute something else"),
    ("different_accepted", "different ones accepted"),
    ("different_with_all_pieces_shown", "different, all of whose pieces are shown"),
    ("different_whose_fault_is_in_no_piece_that_fails", "different, fault in no piece that fails"),
    ("useless_accepted", "without numbers, accepted"),
    ("equal_refuted", "equal ones refuted"),
)


def table(total: Mapping[str, Any]) -> str:
    """Return the counts that decide, one per line."""
    found = [(name, total[key]) for key, name in ROWS if total["mutants"] or total["variants"]]
    layers = total["layers"]
    found += [(name, layers[key]) for key, name in LAYER_ROWS if layers["mutants"]]
    found += [("tasks done", f"{total['done']} of {total['tasks']}")]
    found += [("errors", len(total["errors"]))]
    return "\n".join(f"{name:44}{count!s:>10}" for name, count in found)


def failed(result: dict[str, Any]) -> bool:
    """Return whether there is any failure."""
    wrong = any(result[name] for name in (*FAILURES, "errors"))
    return wrong or any(result["layers"][name] for name in WRONG)
