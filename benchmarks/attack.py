#!/usr/bin/env python3
"""Attacks the verifier with programs that are wrong on purpose.

    python benchmarks/attack.py prepare --candidates build/attack
    python benchmarks/attack.py run --candidates build/attack --seed 0 --out part-0.json
    python benchmarks/attack.py merge part-*.json --out benchmarks/results/attack.json

Mutants have one or two faults: of structure, of rounding (a cast moved, a value kept in 16 bits,
factors in another order, an epsilon moved, a maximum left out), of positions. Half of them are made
of the catalogue's programs and of what the search finds for these at their real sizes, and of the
gallery's layers, half of small graphs. The oracle (test/python/support/oracle.py) shares nothing
with the verifier: what ops mean is said again in PyTorch, and launches run block by block.

Accepting a mutant that computes something else is a failure, and so is accepting one whose rounding
errors are four times what the verifier promises; refuting one that is equal, too. Variants that are
equal and numerically fine should be accepted.

``prepare`` needs all of mirage; ``run`` needs Python, NumPy and PyTorch only. A run ends after
``--seconds`` and says how far it came; each seed has other mutants, and ``merge`` adds them up.

With ``--positions`` all mutants have faults of positions: off by one, ``<`` for ``<=``, another
axis, a shifted window, a head for a batch, another row or page, a lost clamp, another segment, a
length by one, steps left out. Each fault alone comes first, then several at once.

Exit code 1 if there is a failure.
"""

# ruff: noqa: E402  (threads of matrix products are limited before NumPy loads)

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # one process for each core instead

import argparse
import json
import random
import resource
import shlex
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from math import ceil
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "python"), str(HERE.parent / "test" / "python" / "support")]

from attack_subjects import (
    CATALOGUE,
    POSITIONS,
    SMALL,
    Subject,
    catalogue_subjects,
    position_subjects,
    prepare,
    prepare_layers,
    small_subjects,
)
from attack_verdicts import FAILURES, Outcome, attack, is_accepted
from layer_attack import WRONG, LayerOutcome, attack_layer, kept_layers, layer_summary
from oracle import TooMuchWork, Unsupported
from oracle_judge import Judge
from program_mutants import misplaced

CHUNK = 12  # mutants that a process judges at a time
LAYER = "layer"
WORKS = (3e6, 1.5e7)  # elements that the oracle computes in a run, where fewer do not do
TOLD = 40  # cases of each kind that a summary lists


@dataclass(frozen=True)
class Task:
    """Some mutants (or variants) of a subject, by its number in the lists of :func:`_subjects`.
    ``sizes`` chooses the sizes of small ones."""

    kind: str  # "small", "catalogue", "positions" (and faults of those alone) or "layer"
    number: int
    sizes: int
    seed: int
    count: int
    variants: bool
    first: int | None = None
    """The number of the first mutant, where they are numbered."""


# ---- one process of many

_LISTS: dict[tuple[str, int], list[Any]] = {}
_JUDGES: dict[tuple[str, int], Judge | None] = {}


def _subjects(kind: str, sizes: int, folder: Path | None) -> list[Any]:
    key = kind, sizes
    if key not in _LISTS:
        if kind == SMALL:
            _LISTS[key] = list(small_subjects(sizes))
        elif kind == POSITIONS:
            _LISTS[key] = list(position_subjects(folder))
        elif folder is None:
            _LISTS[key] = []
        elif kind == CATALOGUE:
            _LISTS[key] = list(catalogue_subjects(folder))
        else:
            _LISTS[key] = list(kept_layers(folder))
    return _LISTS[key]


def _judge(subject: Subject, sizes: int) -> Judge | None:
    """The oracle for a subject; None where even one element of the reference is too much work."""
    key = subject.name.partition("/")[0], sizes
    if key not in _JUDGES:
        if len(_JUDGES) > 8:
            _JUDGES.pop(next(iter(_JUDGES)))
        _JUDGES[key] = None
        for work in WORKS:
            try:
                _JUDGES[key] = Judge(subject.reference, sizes, work)
                break
            except (TooMuchWork, Unsupported):
                continue
    return _JUDGES[key]


def work(task: Task, folder: Path | None, deadline: float) -> tuple[Task, list[dict[str, Any]]]:
    """The outcomes of a task, as far as there was time."""
    if time.time() > deadline:
        return task, []
    subject = _subjects(task.kind, task.sizes, folder)[task.number]
    if task.kind == LAYER:
        left = attack_layer(subject, task.count, task.seed, deadline)
        return task, [asdict(o) for o in left]
    judge = _judge(subject, task.sizes)
    if judge is None or (task.variants and not is_accepted(subject)):
        return task, []
    own: dict[str, Any] = {}
    if task.kind == POSITIONS:
        own = {"faults": misplaced, "first": task.first}
    found = attack(
        subject, judge, task.seed, task.count, variants=task.variants, deadline=deadline, **own
    )
    return task, [asdict(o) for o in found]


# ---- all of them


def tasks(seed: int, count: int, variants: int, layers: int, folder: Path | None) -> list[Task]:
    """What a run consists of, in an order in which any beginning has some of everything."""
    found: list[Task] = []
    there = {kind: len(_subjects(kind, 0, folder)) for kind in (CATALOGUE, SMALL, LAYER)}
    share = 0.5 if there[CATALOGUE] else 0.0
    for kind, some in ((CATALOGUE, share), (SMALL, 1.0 - share)):
        for number in range(there[kind]):
            for wanted, equal in ((count, False), (variants, True)):
                each = ceil(wanted * some / there[kind])
                found += _split(kind, number, seed, each, equal)
    for number in range(there[LAYER]):
        found += _split(LAYER, number, seed, ceil(layers / there[LAYER]), False)
    random.Random(seed).shuffle(found)
    return found


OTHERS = 1_000_000
"""Mutants of a subject that one seed may have; only those of the first have one fault alone."""


def position_tasks(seed: int, count: int, folder: Path | None) -> list[Task]:
    """Mutants with faults of positions alone, those of low numbers first."""
    subjects = len(_subjects(POSITIONS, 0, folder))
    found: list[Task] = []
    for first in range(0, ceil(count / subjects), CHUNK):
        number = seed * OTHERS + first
        some = [Task(POSITIONS, n, 0, number, CHUNK, False, number) for n in range(subjects)]
        random.Random(number).shuffle(some)
        found += some
    return found


def _split(kind: str, number: int, seed: int, count: int, equal: bool) -> Iterator[Task]:
    """Chunks of one subject: each with random numbers, and small ones with sizes, of its own."""
    for chunk, first in enumerate(range(0, count, CHUNK)):
        own = 10_000 * seed + chunk
        yield Task(kind, number, own if kind == SMALL else 0, own, min(CHUNK, count - first), equal)


def run(
    todo: Sequence[Task], folder: Path | None, processes: int, seconds: float
) -> dict[str, Any]:
    """The outcomes of all tasks that there is time for."""
    start = time.time()
    deadline = start + seconds
    outcomes: list[dict[str, Any]] = []
    layers: list[dict[str, Any]] = []
    errors: list[str] = []
    with ProcessPoolExecutor(processes) as pool:
        jobs = [pool.submit(work, task, folder, deadline) for task in todo]
        for number, job in enumerate(as_completed(jobs)):
            try:
                task, found = job.result()
            except Exception as error:  # that of one task costs the others nothing
                errors.append(f"{type(error).__name__}: {error}")
                continue
            (layers if task.kind == LAYER else outcomes).extend(found)
            if number % 50 == 0:
                done = f"{number + 1}/{len(jobs)} tasks, {len(outcomes) + len(layers)} mutants"
                print(f"{done}, {time.time() - start:.0f} s", file=sys.stderr)
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    used = (resource.getrusage(w) for w in who)
    return {
        "command": shlex.join(["python", *sys.argv]),
        "seconds": round(time.time() - start, 1),
        "processor_seconds": round(sum(u.ru_utime + u.ru_stime for u in used), 1),
        "outcomes": outcomes,
        "layers": layers,
        "errors": errors,
    }


# ---- what it comes to


def summary(outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """Counts that decide, and the cases of what should not be. Equal pairs count once."""
    every = list({o.key: o for o in outcomes}.values())
    made = [o for o in every if not o.variant]
    variants = [o for o in every if o.variant]
    wrong = [o for o in made if o.wrong]
    failures = {name: [o for o in every if o.failure == name] for name in FAILURES}
    fine = [o for o in variants if o.fine]
    refused = [o for o in fine if not o.accepted]
    fooled = [o for o in every if o.fooled]
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
    """What several runs found together."""
    outcomes = (Outcome(**o) for part in parts for o in part["outcomes"])
    layers = [LayerOutcome(**o) for part in parts for o in part["layers"]]
    return {
        "commands": [part["command"] for part in parts],
        "seconds": sum(part["seconds"] for part in parts),
        "processor_seconds": sum(part["processor_seconds"] for part in parts),
        **summary(outcomes),
        "layers": layer_summary(layers),
        "errors": [error for part in parts for error in part["errors"]],
    }


def failed(result: dict[str, Any]) -> bool:
    """Whether something is that must not be."""
    wrong = any(result[name] for name in (*FAILURES, "errors"))
    return wrong or any(result["layers"][name] for name in WRONG)


def _write(path: Path, data: object, indent: int | None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(data, indent=indent) + "\n")
    os.replace(temporary, path)


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description="Attacks the verifier.")
    ways = parser.add_subparsers(dest="way", required=True)
    first = ways.add_parser("prepare", help="search candidates and keep them")
    first.add_argument("names", nargs="*", help="built-in programs (default: all)")
    first.add_argument("--candidates", type=Path, required=True, help="folder to keep them in")
    first.add_argument("--only-layers", action="store_true", help="the gallery's layers alone")
    second = ways.add_parser("run", help="make mutants and judge them")
    second.add_argument(
        "--candidates", type=Path, help="folder of `prepare`; none: small graphs only"
    )
    second.add_argument("--seed", type=int, default=0, help="each seed makes other mutants")
    second.add_argument("--count", type=int, default=10000, help="mutants")
    second.add_argument("--positions", action="store_true", help="faults of positions alone")
    second.add_argument("--variants", type=int, default=500, help="equal variants, besides")
    second.add_argument("--layers", type=int, default=500, help="mutants of layers, besides")
    second.add_argument("--processes", type=int, default=2)
    second.add_argument("--seconds", type=float, default=500.0, help="when to stop")
    second.add_argument("--out", type=Path, required=True, help="JSON file to write")
    third = ways.add_parser("merge", help="add up what runs found")
    third.add_argument("parts", nargs="+", type=Path, help="files of `run`")
    third.add_argument("--out", type=Path, help="JSON file to write")
    arguments = parser.parse_args()
    if arguments.way == "prepare":
        from mirage.workloads import names

        if not arguments.only_layers:
            prepare(arguments.names or list(names()), arguments.candidates)
        prepare_layers(arguments.candidates)
        return 0
    if arguments.way == "run":
        a = arguments
        todo = (
            position_tasks(a.seed, a.count, a.candidates)
            if a.positions
            else tasks(a.seed, a.count, a.variants, a.layers, a.candidates)
        )
        result = run(todo, a.candidates, a.processes, a.seconds)
        _write(a.out, result, None)
        parts = [result]
    else:
        parts = [json.loads(path.read_text()) for path in arguments.parts]
    total = merged(parts)
    if arguments.way == "merge" and arguments.out:
        _write(arguments.out, total, 1)
    print(json.dumps(total, indent=1))
    return int(failed(total))


if __name__ == "__main__":
    sys.exit(main())
