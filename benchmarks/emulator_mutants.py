"""Breaks every barrier, wait, fence, parity, count, swizzle and mask of small compiled kernels, one
at a time, and counts how each is noticed.

    python benchmarks/emulator_mutants.py --out benchmarks/results

Writes `emulator_mutants.json`: for each kernel and kind, the number of sites, what caught them, and
the mutants that change nothing at all (no check fires, and the outputs are the same bit for bit),
with their line and text. The exit code is 1 if a mutant changes the outputs and is not caught.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, get_args

ROOT = Path(__file__).resolve().parent.parent
for folder in ("python", "test/python", "test/python/support", "test/python/emulator"):
    sys.path.insert(0, str(ROOT / folder))

import conftest  # noqa: E402, F401 - one thread each
from faults.ptx_mutants import Kind, mutants  # noqa: E402
from test_compiled import KERNELS, WARPGROUPS, compiled, fate, outputs  # noqa: E402

ORDER: tuple[Kind, ...] = ("barrier", "wait", "fence", "parity", "count")
"""The kinds of instructions that are broken in kernels of warpgroups."""


def sweep(name: str) -> list[dict[str, Any]]:
    """Try all mutants of one kernel; return a row for each kind."""
    right = outputs(name)
    rows: list[dict[str, Any]] = []
    for kind in ORDER if name in WARPGROUPS else get_args(Kind):
        found = list(mutants(compiled(name).ptx(), kind))
        fates = [fate(name, m, right) for m in found]
        count = Counter(fates)
        rows.append(
            {
                "kernel": name,
                "kind": kind,
                "sites": len(found),
                "caught": len(found) - count["harmless"] - count["escapes"],
                "harmless": count.pop("harmless", 0),
                "escapes": count.pop("escapes", 0),
                "by": dict(sorted(count.items())),
                "not_caught": [
                    f"{f}: line {m.line}: {' '.join(m.original.split())}"
                    for f, m in zip(fates, found, strict=True)
                    if f in ("harmless", "escapes")
                ],
            }
        )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for emulator_mutants.json")
    options = parser.parse_args()
    rows = [row for name in (*KERNELS, *WARPGROUPS) for row in sweep(name)]
    print(f"{'kernel':<24} {'kind':<8} {'sites':>5} {'caught':>6} {'harmless':>8} escapes  by")
    for row in rows:
        if row["sites"]:
            by = ", ".join(f"{n} {k}" for k, n in row["by"].items())
            print(
                f"{row['kernel']:<24} {row['kind']:<8} {row['sites']:>5} {row['caught']:>6} "
                f"{row['harmless']:>8} {row['escapes']:>7}  {by}"
            )
    options.out.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=options.out, suffix=".tmp")
    with os.fdopen(handle, "w") as file:
        json.dump({"command": sys.argv, "rows": rows}, file, indent=1)
        file.write("\n")
    os.replace(name, options.out / "emulator_mutants.json")
    return 1 if any(row["escapes"] for row in rows) else 0


if __name__ == "__main__":
    raise SystemExit(main())
