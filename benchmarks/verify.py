#!/usr/bin/env python3
"""Times the verification of the best candidate for each built-in workload, at full size, with the
search's statements about the values that its tensors hold.

    python benchmarks/verify.py --out benchmarks/results/verify.json

Times are the shortest of ``--runs``, because machines that others use have slow moments.
"""

# ruff: noqa: E402  (threads of matrix products are limited before NumPy loads)

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import pickle
import resource
import shlex
import sys
import time
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python")]

import kept
from found import found_claims
from mirage.semantics.check import InvalidGraph
from mirage.semantics.ugraph import KernelGraph, Launch
from mirage.verify import Verdict, VerifyOptions, verify
from mirage.verify.candidates.together import Claim
from mirage.workloads import names


def measure(name: str, reference: KernelGraph, claim: Claim, runs: int) -> dict[str, object]:
    """Return the verdict and time for one candidate."""
    verdicts, walls, cpus = zip(*(timed(reference, claim) for _ in range(runs)), strict=True)
    verdict = verdicts[0]
    return {
        "workload": name,
        "kernels": sum(isinstance(op, Launch) for op in claim.candidate.ops),
        "verdict": verdict.kind.value,
        "holds_for": None if verdict.holds_for is None else verdict.holds_for.to_json(),
        "numerics_hold": verdict.numerics_hold,
        "seconds": min(walls),
        "cpu_seconds": min(cpus),
        "all_seconds": walls,
        "evidence": [e.to_json() for e in verdict.evidence],
    }


def timed(reference: KernelGraph, claim: Claim) -> tuple[Verdict, float, float]:
    """Return the verdict, seconds and processor seconds, with nothing kept from an earlier run."""
    reference, claim = pickle.loads(pickle.dumps((reference, claim)))
    wall, cpu = time.perf_counter(), time.process_time()
    verdict = verify(reference, claim.candidate, VerifyOptions(seed=0), claim.hint)
    return verdict, time.perf_counter() - wall, time.process_time() - cpu


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description="Times the verifier.")
    parser.add_argument("workloads", nargs="*", help="all by default")
    parser.add_argument(
        "--candidates", type=Path, help="folder that keeps what the search finds, for other runs"
    )
    parser.add_argument(
        "--runs", type=int, default=3, help="measurements of each (default: %(default)s)"
    )
    parser.add_argument("--out", type=Path, help="JSON file to write")
    arguments = parser.parse_args()
    rows: list[dict[str, object]] = []
    workloads = arguments.workloads or names()
    for name, reference, claims in found_claims(workloads, arguments.candidates):
        try:
            row = measure(name, reference, claims[0], arguments.runs)
        except InvalidGraph as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        rows.append(row)
        print(
            f"{name:28} {row['verdict']:9} {row['seconds']:6.2f} s wall "
            f"{row['cpu_seconds']:6.2f} s processor, numerics {row['numerics_hold']}",
            flush=True,
        )
    slowest = sorted(rows, key=lambda r: float(str(r["cpu_seconds"])), reverse=True)[:10]
    result = {
        "command": shlex.join(["python", *sys.argv]),
        "peak_memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0,
        "load_average": os.getloadavg()[0],
        "verdicts": dict(Counter(str(r["verdict"]) for r in rows)),
        "for_other_sizes_too": sum(r["holds_for"] is not None for r in rows),
        "within_a_second": sum(float(str(r["cpu_seconds"])) <= 1.0 for r in rows),
        "slowest": [[r["workload"], r["cpu_seconds"]] for r in slowest],
        "rows": rows,
    }
    if arguments.out:
        kept.write(arguments.out, result, "rows", ("evidence",))
    return 0


if __name__ == "__main__":
    sys.exit(main())
