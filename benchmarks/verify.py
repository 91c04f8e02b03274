#!/usr/bin/env python3
"""Times the verification of the best candidate for each built-in workload, at full size.

python benchmarks/verify.py --out benchmarks/results/verify.json
"""

# ruff: noqa: E402  (threads of matrix products are limited before NumPy loads)

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import json
import resource
import shlex
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "python")]

from mirage.cost import TARGETS
from mirage.search import superoptimize
from mirage.semantics.check import InvalidGraph
from mirage.transforms import stabilize
from mirage.transforms.partition import Part, partition
from mirage.verify import VerifyOptions, verify
from mirage.workloads import get, names


def measure(name: str) -> list[dict[str, object]]:
    """Verdicts and times for the parts of one workload."""
    rows: list[dict[str, object]] = []
    for number, part in enumerate(partition(get(name).program().graph)):
        if not isinstance(part, Part):
            continue
        found = superoptimize(part.graph, TARGETS["sm_90a"]).candidates
        if not found:
            continue
        candidate = stabilize(found[0].graph).graph
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            verdict = verify(part.graph, candidate, VerifyOptions(seed=0))
        except InvalidGraph as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        rows.append(
            {
                "workload": name,
                "part": number,
                "verdict": verdict.kind.value,
                "numerics_hold": verdict.numerics_hold,
                "seconds": time.perf_counter() - wall,
                "cpu_seconds": time.process_time() - cpu,
                "evidence": [e.to_json() for e in verdict.evidence],
            }
        )
    return rows


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("workloads", nargs="*", help="all by default")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    arguments = parser.parse_args()
    rows: list[dict[str, object]] = []
    for name in arguments.workloads or names():
        for row in measure(name):
            rows.append(row)
            print(
                f"{name:22} {row['verdict']:9} {row['seconds']:6.2f} s wall "
                f"{row['cpu_seconds']:6.2f} s processor, numerics {row['numerics_hold']}",
                flush=True,
            )
    result = {
        "command": shlex.join(["python", *sys.argv]),
        "peak_memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0,
        "load_average": os.getloadavg()[0],
        "rows": rows,
    }
    if arguments.out:
        temporary = arguments.out.with_suffix(".tmp")
        temporary.write_text(json.dumps(result, indent=1) + "\n")
        os.replace(temporary, arguments.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
