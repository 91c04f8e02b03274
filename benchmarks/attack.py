#!/usr/bin/env python3
"""Attacks the verifier with programs that are wrong on purpose.

    python benchmarks/attack.py --count 10000 --out benchmarks/results/attack.json
    python benchmarks/attack.py --count 0 --layers 2000 --out benchmarks/results/attack_layers.json

Mutants (single faults of twelve kinds) are made of hand-written optimised graphs at small and odd
sizes, and of what the search finds for the built-in workloads at their real sizes. For each one
float64 says whether it computes another function, apart from the verifier and on inputs of its own.
A mutant that differs must be refuted; one that does not must not be; one that gives no numbers at
all (an overflow at every magnitude) must not be accepted. The verifier's exact layers
(finite fields, small models, proof) are judged apart from its float64 layer too.

With ``--layers`` faults are put into the candidates of whole layers too, which are verified kernel
by kernel (layer_attack.py).

Exit code 1 if one of these is violated.
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
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "python"), str(HERE.parent / "test" / "python" / "support")]

import graphs  # pyright: ignore[reportMissingImports]
from found import found_candidates
from layer_attack import (
    LAYERS,
    WRONG,
    Judged,
    LayerOutcome,
    attack_layer,
    layer_subjects,
    layer_summary,
)
from mirage.semantics.check import InvalidGraph, check_graph
from mirage.semantics.decompose import decompose
from mirage.semantics.ugraph import KernelGraph, Launch
from mirage.verify import Kind, VerifyOptions, verify
from mirage.verify.evidence.floats import find_difference
from mirage.verify.evidence.sampling import choose_sample
from mirage.workloads import names
from program_mutants import mutants

# Elements for one output sample; programs that need more are left to the small sizes.
MOST_WORK = 4e6
DIFFERENCE_WORK = (3e5, 3e6)
HARD_WORK = (2e7, 2e7)  # where the verdict is not what a short look suggests
CHUNK = 10  # mutants of a layer's candidate that a process judges at a time


@dataclass(frozen=True)
class Subject:
    """A reference and a correct candidate to put faults into."""

    name: str
    reference: KernelGraph
    candidate: KernelGraph


@dataclass(frozen=True)
class Outcome(Judged):
    """One mutant, and what each kind of evidence says."""

    exact_layers: str  # "fooled", "differ", "agree" or "open"
    seconds: float
    why: str  # of an unknown verdict


def small_subjects() -> Iterator[Subject]:
    """Hand-written pairs at small sizes, tiles that divide and tiles that do not."""
    families = graphs.small_pairs()
    families["attention_tail"] = graphs.attention(2, 5, 13, 4, splits=2, steps=3, row_blocks=2)
    families["rms_linear_tail"] = graphs.rms_linear(5, 23, 11, blocks=3, steps=4)
    families["softmax_square"] = graphs.softmax(8, 8, row_blocks=2, steps=2)
    families["lora_square"] = graphs.lora(8, 8, 8, 8, blocks=2, steps=2)
    for name, pair in families.items():
        for other, candidate in pair.candidates.items():
            yield Subject(f"{name}/{other}", pair.reference, candidate)


def workload_subjects(folder: Path | None) -> Iterator[Subject]:
    """The best candidate of the search for each built-in workload at its real size, and the best
    one with another number of kernels (split reductions and what combines them).
    """
    rng = np.random.default_rng(0)
    for name, reference, candidates in found_candidates(names(), folder):
        kernels: dict[int, KernelGraph] = {}
        for candidate in candidates:
            count = sum(isinstance(op, Launch) for op in candidate.ops)
            try:
                check_graph(candidate)
            except InvalidGraph as error:
                print(f"{name}: left out: {error}", file=sys.stderr)
                continue
            kernels.setdefault(count, candidate)
        for count, candidate in list(kernels.items())[:2]:
            pair = (decompose(reference, stable=True), decompose(candidate, stable=True))
            if choose_sample(pair, 1e5, rng).work <= MOST_WORK:
                yield Subject(f"{name}/{count} kernels", reference, candidate)


def differs(
    first: KernelGraph, second: KernelGraph, seed: int, works: Sequence[float] = DIFFERENCE_WORK
) -> tuple[bool, bool]:
    """Whether float64 shows a difference, on inputs that the verifier does not know, and whether
    the second program gives no numbers at all. Each of ``works`` is that of another sample."""
    pair = (decompose(first, stable=True), decompose(second, stable=True))
    order = range(len(first.outputs))
    for attempt, work in enumerate(works):
        rng = np.random.default_rng((seed, attempt))
        sample = choose_sample(pair, work, rng)
        difference = find_difference(pair, sample, rng, order)
        if difference is not None:
            return bool(np.isfinite(difference.actual)), not np.isfinite(difference.actual)
    return False, False


def attack(subject: Subject, count: int, seed: int) -> list[Outcome]:
    """Verdicts on mutants of one candidate."""
    rng = random.Random(f"{subject.name} {seed}")
    outcomes: list[Outcome] = []
    for mutant in mutants(subject.candidate, rng, count):
        different, useless = differs(subject.reference, mutant.graph, rng.getrandbits(64))
        start = time.perf_counter()
        options = VerifyOptions(seed=rng.getrandbits(128), numerics=False, work=5e5)
        verdict = verify(subject.reference, mutant.graph, options)
        seconds = time.perf_counter() - start
        expected = Kind.REFUTED if different else Kind.PROVED
        if verdict.kind is not expected and not different and not useless:
            hard = differs(subject.reference, mutant.graph, rng.getrandbits(64), HARD_WORK)
            different, useless = hard
        exact = [e for e in verdict.evidence if not e.name.startswith("float64")]
        # Tests of samples at the real sizes may miss a difference; models and proofs must not.
        decisive = [e.holds for e in exact if not e.name.startswith("finite field")]
        differ = any(e.holds is False for e in exact)
        layers = "differ" if differ else "agree" if True in decisive else "open"
        if different and layers == "agree":
            layers = "fooled"
        outcomes.append(
            Outcome(
                subject.name,
                mutant.kind,
                mutant.description,
                different,
                useless,
                verdict.kind.value,
                verdict.accepted,
                layers,
                seconds,
                "; ".join(f"{e.name}: {e.text}" for e in verdict.evidence if e.holds is not True)
                if verdict.kind is Kind.UNKNOWN
                else "",
            )
        )
    return outcomes


def run(subjects: list[Subject], count: int, seed: int, processes: int) -> list[Outcome]:
    """``count`` mutants spread over the subjects."""
    share = -(-count // len(subjects))
    outcomes: list[Outcome] = []
    with ProcessPoolExecutor(processes) as pool:
        jobs = [pool.submit(attack, s, share, seed) for s in subjects]
        for number, job in enumerate(jobs):
            outcomes.extend(job.result())
            print(f"{number + 1}/{len(jobs)} {len(outcomes)} mutants", file=sys.stderr)
    return outcomes


def run_layers(count: int, seed: int, processes: int, folder: Path | None) -> list[LayerOutcome]:
    """``count`` mutants spread over candidates of layers."""
    outcomes: list[LayerOutcome] = []
    with ProcessPoolExecutor(processes) as pool:
        found = pool.map(partial(layer_subjects, folder=folder), LAYERS)
        subjects = [subject for some in found for subject in some]
        share = -(-count // len(subjects))
        jobs = [
            (subject, pool.submit(attack_layer, subject, min(CHUNK, share - first), seed + first))
            for first in range(0, share, CHUNK)
            for subject in subjects
        ]
        for subject, job in jobs:
            outcomes.extend(job.result())
            print(f"{subject.name}: {len(outcomes)} mutants in all", file=sys.stderr)
    return outcomes


def summary(outcomes: list[Outcome]) -> dict[str, object]:
    """Counts that decide."""
    different = [o for o in outcomes if o.different]
    useless = [o for o in outcomes if o.useless]
    equal = [o for o in outcomes if not o.different and not o.useless]
    return {
        "mutants": len(outcomes),
        "different": len(different),
        "different_accepted": sum(o.accepted for o in different),
        "different_refuted": sum(o.verdict == Kind.REFUTED.value for o in different),
        "different_unknown": sum(o.verdict == Kind.UNKNOWN.value for o in different),
        "different_that_fooled_the_exact_layers": sum(
            o.exact_layers == "fooled" for o in different
        ),
        "useless": len(useless),
        "useless_accepted": sum(o.accepted for o in useless),
        "equal": len(equal),
        "equal_refuted": sum(o.verdict == Kind.REFUTED.value for o in equal),
        "equal_verdicts": dict(Counter(o.verdict for o in equal)),
        "by_kind": {
            kind: dict(Counter(o.verdict for o in outcomes if o.kind == kind))
            for kind in sorted({o.kind for o in outcomes})
        },
        "subjects": dict(Counter(o.subject for o in outcomes)),
        "unknown": [
            [o.subject, o.kind, o.description, o.different, o.why]
            for o in outcomes
            if o.verdict == Kind.UNKNOWN.value
        ],
        "median_seconds": float(np.median([o.seconds for o in outcomes])),
        "suspicious": [
            [o.subject, o.kind, o.description, o.different, o.verdict, o.exact_layers]
            for o in outcomes
            if (o.different and (o.verdict != Kind.REFUTED.value or o.exact_layers == "fooled"))
            or (not o.different and not o.useless and o.verdict == Kind.REFUTED.value)
            or (o.useless and o.accepted)
        ],
    }


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description="Attacks the verifier.")
    parser.add_argument("--count", type=int, default=10000, help="mutants in all")
    parser.add_argument(
        "--real", type=float, default=0.2, help="share of them at the workloads' real sizes"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--candidates", type=Path, help="folder that keeps what the search finds, for other runs"
    )
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--layers", type=int, default=0, help="mutants of layers, besides")
    arguments = parser.parse_args()
    processes, folder = arguments.processes, arguments.candidates
    real = round(arguments.count * arguments.real)
    start = time.perf_counter()
    result: dict[str, object] = {}
    wrong = 0
    if arguments.count:
        small = arguments.count - real
        outcomes = run(list(small_subjects()), small, arguments.seed, processes)
        if real:
            subjects = list(workload_subjects(folder))
            outcomes += run(subjects, real, arguments.seed, processes)
        result |= summary(outcomes)
        names_of_wrong = ("different_accepted", "useless_accepted", "equal_refuted")
        wrong += any(result[name] for name in names_of_wrong)
    if arguments.layers:
        layers = layer_summary(run_layers(arguments.layers, arguments.seed, processes, folder))
        result["layers"] = layers
        wrong += any(layers[name] for name in WRONG)
    result["seconds"] = time.perf_counter() - start
    usage = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    result["processor_seconds"] = sum(u.ru_utime + u.ru_stime for u in usage)
    result["command"] = shlex.join(["python", *sys.argv])
    text = json.dumps(result, indent=1)
    if arguments.out:
        temporary = arguments.out.with_suffix(".tmp")
        temporary.write_text(text + "\n")
        os.replace(temporary, arguments.out)
    print(text)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
