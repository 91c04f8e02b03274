#!/usr/bin/env python3
"""Attacks the verifier with programs that are wrong on purpose.

    python benchmarks/attack.py prepare --candidates build/attack
    python benchmarks/attack.py run --candidates build/attack --seed 0 --out part-0.json
    python benchmarks/attack.py merge part-*.json --out benchmarks/results/attack.json

Mutants have one or two faults: of structure, of rounding (a cast that is moved, a value that is
kept in 16 bits, factors in another order, an epsilon that is moved, a maximum that is left out), or
of positions. Half of them are made from the catalogue's programs, from the candidates that the
search finds for these at their real sizes, and from the gallery's layers; the other half from small
graphs. The oracle (test/python/support/oracle) shares nothing with the verifier: it defines the
meaning of ops independently in PyTorch, and runs launches block by block.

It is a failure if the verifier accepts a mutant that computes something else, or one whose rounding
errors are four times what the verifier promises, or if it refutes a mutant that is equal. Variants
that are equal and numerically fine should be accepted.

``prepare`` needs all of mirage; ``run`` needs only Python, NumPy and ml_dtypes, and uses PyTorch if
it is installed. A run ends after ``--seconds``; if it is started again with the same ``--out`` and
``--seed``, it continues where it stopped. Different seeds give different mutants, and ``merge``
combines them.

A mutant that takes too long is noted as late, and a task whose process dies as an error; the run
goes on without them.

With ``--positions``, all mutants have faults of positions: off by one, ``<`` for ``<=``, another
axis, a shifted window, a head in place of a batch, another row or page, a lost clamp, another
segment, a length that is off by one, or steps that are left out. Each fault comes alone first, then
several at once.

The exit code is 1 if there is a failure.
"""

# ruff: noqa: E402  (threads of matrix products are limited before NumPy loads)

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # one process for each core instead

import argparse
import gc
import gzip
import json
import random
import resource
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "python"), str(HERE.parent / "test" / "python" / "support")]

from attack_pool import results
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
from attack_summary import failed, merged, table
from attack_verdicts import attack, is_accepted
from faults.program_mutants import misplaced
from layer_attack import attack_layer, kept_layers
from oracle.evaluator import TooMuchWork, Unsupported
from oracle.judge import Judge

CHUNK, LAYER_CHUNK = 36, 6  # mutants that are judged as one task
VARIANTS = 8  # variants, taken from one subject after the other
SECONDS = {False: 4.0, True: 12.0}
"""Processor time for the mutants (variants) of one task: slow subjects get fewer of them."""
JUDGED_SECONDS = 3.0  # for one answer of the oracle
SHARE, VARIANT_SHARE = 0.5, 0.3  # of the catalogue's programs
LAYER = "layer"
WORKS = (3e6, 1.5e7)  # elements that the oracle computes in a run if fewer are not enough
COMMIT_FILE = "COMMIT"
"""Written when the tree is copied to a place without git."""
KEEP_SECONDS = 30.0  # after which a run writes its results so far
COLLECTED = 20_000
"""Objects after which garbage is looked for: verdicts make many that live on, and looking for it
each few hundred takes a tenth of the time."""
TASK_SECONDS = 240.0
"""After which a process that is stuck ends; a mutant has less (``attack_verdicts.LONGEST``)."""
GRACE = 20.0  # its least time, and that at the end of a run


@dataclass(frozen=True)
class Task:
    """Some mutants (or variants) of a subject, by its number in the lists of :func:`_subjects`.
    ``sizes`` chooses the sizes of small ones."""

    kind: str  # "small", "catalogue", "positions" (with faults of positions only) or "layer"
    number: int
    sizes: int
    seed: int
    count: int
    variants: bool
    first: int | None = None
    """The number of the first mutant, if mutants are numbered."""


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


def _judge(subject: Subject, seed: int) -> Judge | None:
    """Return the oracle for a subject; None if even one element of the reference is too much
    work."""
    key = subject.name.partition("/")[0], seed
    if key not in _JUDGES:
        if len(_JUDGES) > 1:
            _JUDGES.pop(next(iter(_JUDGES)))
        _JUDGES[key] = None
        for work in WORKS:
            try:
                _JUDGES[key] = Judge(subject.reference, seed, work, JUDGED_SECONDS)
                break
            except (TooMuchWork, Unsupported):
                continue
    return _JUDGES[key]


def work(
    task: Task, folder: Path | None, deadline: float
) -> tuple[Task, list[dict[str, Any]] | None]:
    """Return the outcomes of a task; None if there was not enough time for it."""
    if time.time() > deadline:
        return task, None
    found = _outcomes(task, folder, deadline)
    return task, None if time.time() > deadline else found


def _outcomes(task: Task, folder: Path | None, deadline: float) -> list[dict[str, Any]]:
    subject = _subjects(task.kind, task.sizes, folder)[task.number]
    if task.kind == LAYER:
        return [asdict(o) for o in attack_layer(subject, task.count, task.seed, deadline)]
    judge = _judge(subject, task.seed)
    if judge is None or (task.variants and not is_accepted(subject)):
        return []
    own: dict[str, Any] = {"first": task.first}
    if task.kind == POSITIONS:
        own |= {"faults": misplaced, "twice": 0.0}
    found: list[dict[str, Any]] = []
    until = time.process_time() + SECONDS[task.variants]
    for outcome in attack(
        subject, judge, task.seed, task.count, variants=task.variants, deadline=deadline, **own
    ):
        found.append(asdict(outcome))
        if time.process_time() > until:
            break
    return found


# ---- all of them


def tasks(seed: int, count: int, variants: int, layers: int, folder: Path | None) -> list[Task]:
    """Return the tasks of a run, in an order in which every prefix has some of each kind."""
    found: list[Task] = []
    there = {kind: len(_subjects(kind, 0, folder)) for kind in (CATALOGUE, SMALL, LAYER)}
    for wanted, equal, share in ((count, False, SHARE), (variants, True, VARIANT_SHARE)):
        some = share if there[CATALOGUE] else 0.0
        found += _of_all(CATALOGUE, there[CATALOGUE], seed, wanted * some, equal)
        found += _of_all(SMALL, there[SMALL], seed, wanted * (1.0 - some), equal)
    for number in range(there[LAYER]):
        found += _split(LAYER, number, seed, ceil(layers / there[LAYER]), False)
    random.Random(seed).shuffle(found)
    return found


OTHERS = 1_000_000
"""Mutants of a subject for one seed; only those of the first seed have a single fault."""


def position_tasks(seed: int, count: int, folder: Path | None) -> list[Task]:
    """Mutants with faults of positions only, in the order of their numbers."""
    subjects = len(_subjects(POSITIONS, 0, folder))
    found: list[Task] = []
    for first in range(0, ceil(count / subjects), CHUNK):
        number = seed * OTHERS + first
        some = [Task(POSITIONS, n, 0, number, CHUNK, False, number) for n in range(subjects)]
        random.Random(number).shuffle(some)
        found += some
    return found


def _of_all(kind: str, there: int, seed: int, count: float, equal: bool) -> Iterator[Task]:
    """Yield mutants (or variants) of all subjects, or of some if fewer are requested than there are
    subjects."""
    if not there or not count:
        return
    each = ceil(count / there)
    numbers = list(range(there))
    if equal and each < VARIANTS:  # a subject is to be examined before
        each = VARIANTS
        numbers = random.Random(seed).sample(numbers, min(there, ceil(count / each)))
    for number in numbers:
        yield from _split(kind, number, seed, each, equal)


def _split(kind: str, number: int, seed: int, count: int, equal: bool) -> Iterator[Task]:
    """Yield tasks of one subject, each with different random numbers, and for small subjects with
    different sizes. Tasks of an unchanged program have different mutants."""
    most = LAYER_CHUNK if kind == LAYER else CHUNK
    for chunk, first in enumerate(range(0, count, most)):
        own = 10_000 * seed + chunk
        which = first if kind == CATALOGUE and not equal else None
        some, sizes = min(most, count - first), own if kind == SMALL else 0
        yield Task(kind, number, sizes, own, some, equal, which)


def _label(task: Task) -> str:
    """Return a name that distinguishes a task of a run from the others."""
    return f"{task.kind} {task.number} {task.seed} {task.count} {task.variants} {task.first}"


def begun(path: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an earlier run with the same settings has left in a file, or an empty run."""
    if path.exists():
        found = _read(path)
        if found.get("settings") != settings:
            raise SystemExit(
                f"{path}: expected a file of a run with {dict(settings)}, got one with "
                f"{found.get('settings')}: name another file with --out"
            )
        return found
    return {
        "command": shlex.join(["python", *sys.argv]),
        "commit": commit(),
        "settings": dict(settings),
        "seconds": 0.0,
        "processor_seconds": 0.0,
        "tasks": 0,
        "done": [],
        "outcomes": [],
        "layers": [],
        "errors": [],
    }


def commit() -> str:
    """Return the commit of the tree, from a file next to a copy of it or from git; otherwise an
    empty string."""
    root = HERE.parent
    copied = root / COMMIT_FILE
    if copied.exists():
        return copied.read_text().strip()
    git = ["git", "-C", str(root), "rev-parse", "--short=12", "HEAD"]
    with suppress(OSError, subprocess.CalledProcessError):
        return subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()
    return ""


def run(
    todo: Sequence[Task],
    folder: Path | None,
    processes: int,
    seconds: float,
    result: dict[str, Any],
    keep: Callable[[], None] = lambda: None,
) -> None:
    """Add to ``result`` the outcomes of all tasks that it lacks and for which there is time;
    ``keep`` is called now and then."""
    start = last = time.time()
    before = result["seconds"], result["processor_seconds"] - _processor_seconds()
    deadline = start + seconds
    result["tasks"] = len(todo)
    done = set(result["done"])
    left = [t for t in todo if _label(t) not in done]

    def counted() -> None:
        result["seconds"] = round(before[0] + time.time() - start, 1)
        result["processor_seconds"] = round(before[1] + _processor_seconds(), 1)
        keep()

    def longest(_: Task) -> float:
        return max(GRACE, min(TASK_SECONDS, deadline + GRACE - time.time()))

    job = partial(work, folder=folder, deadline=deadline)
    for task, future in results(job, left, processes, longest):
        error = future.exception()
        if error is not None:  # an error of one task does not affect the others, and occurs once
            result["errors"].append(f"{_label(task)}: {type(error).__name__}: {error}")
            result["done"].append(_label(task))
            continue
        _, found = future.result()
        if found is None:
            continue
        result["done"].append(_label(task))
        result["layers" if task.kind == LAYER else "outcomes"].extend(found)
        if time.time() - last > KEEP_SECONDS:
            last = time.time()
            counted()
            made = len(result["outcomes"]) + len(result["layers"])
            told = f"{len(result['done'])}/{len(todo)} tasks, {made} mutants"
            print(f"{told}, {last - start:.0f} s", file=sys.stderr)
    counted()


def _processor_seconds() -> float:
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(u.ru_utime + u.ru_stime for u in (resource.getrusage(w) for w in who))


# ---- the command


def write(path: Path, data: object, indent: int | None) -> None:
    """Write data as JSON, compressed if the file's name says so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    text = (json.dumps(data, indent=indent) + "\n").encode()
    temporary.write_bytes(gzip.compress(text, 3) if path.suffix == ".gz" else text)
    os.replace(temporary, path)


def _read(path: Path) -> dict[str, Any]:
    """Read a file that :func:`write` has written, compressed if its name says so."""
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)


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
    second.add_argument(
        "--out", type=Path, required=True, help="JSON file to write (.json.gz: packed)"
    )
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
        gc.set_threshold(COLLECTED, 20, 50)
        todo = (
            position_tasks(a.seed, a.count, a.candidates)
            if a.positions
            else tasks(a.seed, a.count, a.variants, a.layers, a.candidates)
        )
        names = ("seed", "count", "positions", "variants", "layers")
        settings = {name: getattr(a, name) for name in names} | {"candidates": bool(a.candidates)}
        result = begun(a.out, settings)
        run(todo, a.candidates, a.processes, a.seconds, result, lambda: write(a.out, result, None))
        parts = [result]
    else:
        parts = [_read(path) for path in arguments.parts]
    total = merged(parts)
    if arguments.way == "merge" and arguments.out:
        write(arguments.out, total, 1)
    print(json.dumps(total, indent=1))
    print(table(total), file=sys.stderr)
    return int(failed(total))


if __name__ == "__main__":
    sys.exit(main())
