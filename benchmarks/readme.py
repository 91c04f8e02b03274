#!/usr/bin/env python3
"""Writes the README's tables of times from the results that are committed.

    python benchmarks/readme.py            # writes README.md
    python benchmarks/readme.py --check    # exit code 1 if README.md would change

A table is between ``<!-- times: FILE NAME... -->`` and ``<!-- end -->``.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
TABLE = re.compile(r"<!-- times: (\S+) ([^>]*?) ?-->\n.*?<!-- end -->", re.DOTALL)
HEAD = (
    "| program | ours, µs | first choice | eager | torch.compile | best other | speed-up "
    "| error, ours / PyTorch |\n|---|---|---|---|---|---|---|---|"
)


def row_of(row: dict[str, Any]) -> str:
    """One program: medians in µs with cold L2, and errors relative to float64."""
    times = {side: t["median"] for side, t in row["cold"].items()}
    ours = {side: t for side, t in times.items() if side.startswith("mirage")}
    others = {side: t for side, t in times.items() if side not in ours}
    best, peer = min(ours, key=ours.__getitem__), min(others, key=others.__getitem__)
    compiled = f"{times['compile']:.2f}" if "compile" in times else "-"
    errors = (row["errors"][side]["l2"] for side in (best, "eager"))
    cells = (
        row["name"],
        f"**{ours[best]:.2f}**",
        f"{ours['mirage']:.2f}",
        f"{times['eager']:.2f}",
        compiled,
        f"{others[peer]:.2f} ({peer})",
        f"{others[peer] / ours[best]:.2f}",
        " / ".join(f"{e:.1e}" for e in errors),
    )
    return "| " + " | ".join(cells) + " |"


def table(file: str, names: list[str]) -> Iterator[str]:
    """Return the lines of a table: the named rows, or all."""
    rows = json.loads((RESULTS / f"{file}.json").read_text())["results"]
    known = {row["name"]: row for row in rows}
    missing = [name for name in names if name not in known]
    if missing:
        raise SystemExit(f"error: {file}.json has no row {', '.join(missing)}")
    yield HEAD
    for name in names or known:
        yield row_of(known[name])


def written(text: str) -> str:
    """Return the text with tables made from the results."""

    def block(found: re.Match[str]) -> str:
        names = found[2].split()
        mark = " ".join(("times:", found[1], *names))
        return "\n".join((f"<!-- {mark} -->", *table(found[1], names), "<!-- end -->"))

    return TABLE.sub(block, text)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    path = ROOT / "README.md"
    text = path.read_text()
    new = written(text)
    if parser.parse_args().check:
        return int(new != text)
    path.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
