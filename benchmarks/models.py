#!/usr/bin/env python3
"""Imports popular models whole, and reports what remains with PyTorch.

    python benchmarks/models.py --out benchmarks/results --docs docs/models.md
    python benchmarks/models.py llama3 'gemma*'

The models (test/python/support/whole_models) are small, with random weights. Each runs under
``torch.compile(backend="mirage")`` without a search: the imported program is computed op by op and
compared with eager PyTorch, on a prompt and, if the model generates text, on greedy tokens after
it. The exit code is 1 if a result differs.
"""

# ruff: noqa: E402  (threads of matrix products are limited before NumPy loads)

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import logging
import platform
import shlex
import sys
import time
import warnings
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "python"), str(HERE.parent / "test" / "python" / "support")]
sys.path.insert(0, str(HERE))

import kept
import torch
from whole_models import MODELS, Model, measured
from whole_models.measuring import ALLOWED, TOKENS, right, whole

Row = dict[str, Any]
RESULT = "models.json"


def attempted(given: Model) -> Row:
    """Return the row of a model, or the reason why there is none."""
    try:
        return measured(given)
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return {"model": given.name, "error_text": f"{type(error).__name__}: {lines[:1]}"}


def rounded(value: Any) -> Any:
    """Round numbers to three digits, to keep the file small."""
    if isinstance(value, float):
        return float(f"{value:.3g}")
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    return [rounded(v) for v in value] if isinstance(value, list) else value


def state(row: Row) -> str:
    """Return the state in one word."""
    if "error_text" in row:
        return "failed"
    return "WRONG" if not right(row) else "whole" if whole(row) else "in parts"


def counted(ops: dict[str, int]) -> str:
    """Return ops with the number of their occurrences."""
    return ", ".join(f"`{op}`" + (f" ({n})" if n > 1 else "") for op, n in sorted(ops.items()))


def line(row: Row) -> str:
    """Return the line that a terminal shows for a row."""
    if "error_text" in row:
        return f"{row['model']:12} failed: {row['error_text']}"
    parts = [f"{row['model']:12} {state(row):8} {row['seconds']:5.1f} s, error {row['error']:.1e}"]
    for name, p in row["phases"].items():
        kept_ops = ", ".join(f"{op} {n}" for op, n in p["stays"].items()) or "nothing"
        parts.append(
            f"   {name}: {p['graphs']} graphs, {p['ops']} -> {p['imported']} ops, stays {kept_ops}"
            + (f"; eager: {p['eager']}" if p["eager"] else "")
            + f"; {p['parts']} parts, calls {sum(p['calls'].values())}"
        )
        parts += [f"      {op}: {why}" for op, why in p["why"].items()]
    parts += [f"   FAILED: {x}" for x in row["failures"]]
    return "\n".join(parts)


HEADER = ("model", "", "first call", "later calls", "ops", "calls beside kernels", "difference")


def cells(row: Row, title: str) -> list[str]:
    """Return one line of the table of models."""
    if "error_text" in row:
        return [title, row["error_text"].replace("|", "\\|"), *([""] * (len(HEADER) - 2))]
    phases = row["phases"]

    def stays(some: list[Row]) -> str:
        """Return the ops that remain with PyTorch in any of the calls."""
        if not some:
            return "-"
        eager = [reason for p in some for reason in p["eager"]]
        if eager:
            return f"eager: {eager[0]}"
        most: dict[str, int] = {}
        for p in some:
            most.update({op: max(n, most.get(op, 0)) for op, n in p["stays"].items()})
        return counted(most) or "nothing stays"

    first, *later = phases.values()
    sizes = ", ".join(f"{p['ops']} → {p['imported']}" for p in phases.values())
    outside = ", ".join(str(sum(p["calls"].values())) for p in phases.values())
    return [
        title, state(row), stays([first]), stays(later), sizes, outside, f"{row['error']:.0e}",
    ]  # fmt: skip


def blockers(rows: list[Row]) -> list[tuple[str, int, str]]:
    """Return the ops that stay with PyTorch, with the number of models and the reasons."""
    models: dict[str, set[str]] = {}
    reasons: dict[str, Counter[str]] = {}
    for row in rows:
        for p in row.get("phases", {}).values():
            for op, why in p["why"].items():
                models.setdefault(op, set()).add(row["model"])
                reasons.setdefault(op, Counter())[why] += 1
    table = [(op, len(names), "; ".join(reasons[op])) for op, names in models.items()]
    return sorted(table, key=lambda entry: (-entry[1], entry[0]))


ABOUT = """\
# Popular models

Generated by `{command}` ({date}, {versions}).

Each model is built from its configuration at a small size (one or two layers, random weights in
f32) and runs under `torch.compile(backend="mirage")` without a search: what is imported is computed
op by op in the reference semantics and compared with eager. Models that generate take a prompt of
12 tokens with an attention mask, then {steps} decoding steps with a cache of fixed size where the
model has one; greedy tokens are compared too. T5 and Whisper run as a whole first, then generation
calls their decoders. Only calls that TorchDynamo makes new graphs for are listed, unless an earlier
call has graphs like them. *Whole* means that each call is one graph, of which no op stays with
PyTorch but {allowed}. {summary}

*Ops* are those of TorchDynamo's graph, and those of the program that is searched. *Calls beside
kernels* are all calls of PyTorch once the program is cut into parts: besides the ops that stay,
integers that kernels do not compute ([frontend](frontend.md#integers-masks-and-lookups)), and
views that leave the program.
"""


def document(rows: list[Row], data: Row) -> str:
    """Return the text of docs/models.md."""
    titles = {m.name: m.title for m in MODELS}
    about = ABOUT.format(
        steps=TOKENS - 1, command=data["command"], date=data["date"],
        versions=data["versions"],
        allowed=", ".join(f"`{op}`" for op in sorted(ALLOWED)), summary=sentence(rows),
    )  # fmt: skip
    lines = [about, "| " + " | ".join(HEADER) + " |", "|---" * len(HEADER) + "|"]
    lines += ["| " + " | ".join(cells(r, titles[r["model"]])) + " |" for r in rows]
    lines += ["", "## What stays with PyTorch", "", "| op | models | why |", "|---|---|---|"]
    lines += [f"| `{op}` | {n} | {why} |" for op, n, why in blockers(rows)]
    return "\n".join(lines) + "\n"


def sentence(rows: list[Row]) -> str:
    """Return the counts."""
    found = Counter(map(state, rows))
    several = sum(any(p["graphs"] > 1 for p in row.get("phases", {}).values()) for row in rows)
    return (
        f"{found['whole']} of {len(rows)} models are whole, {found['in parts']} in parts, "
        f"{found['failed']} failed, {found['WRONG']} wrong; {several} are handed over as more than "
        "one graph."
    )


def arguments_of() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("models", nargs="*", help="names or patterns; all by default")
    parser.add_argument("--out", type=Path, help="folder for models.json")
    parser.add_argument("--docs", type=Path, help="the page to write")
    parser.add_argument("--list", action="store_true", help="print the names")
    return parser.parse_args()


def main() -> int:
    """Command line."""
    arguments = arguments_of()
    patterns = arguments.models or ["*"]
    chosen = [m for m in MODELS if any(fnmatch(m.name, p) for p in patterns)]
    if arguments.list:
        for m in chosen:
            print(f"{m.name:12} {m.title:12} {m.use:7} {m.package}.{m.kind}")
        return 0
    import diffusers
    import transformers

    warnings.simplefilter("ignore")
    logging.getLogger("mirage.torch").setLevel(logging.ERROR)
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    start = time.perf_counter()
    rows: list[Row] = []
    for each in chosen:
        rows.append(rounded(attempted(each)))
        print(line(rows[-1]), flush=True)
    print(sentence(rows))
    data: Row = {
        "command": shlex.join(["python", *sys.argv]),
        "date": time.strftime("%Y-%m-%d"),
        "versions": f"torch {torch.__version__}, Transformers {transformers.__version__}, "
        f"diffusers {diffusers.__version__}",
        "machine": f"{platform.processor() or platform.machine()}, {os.cpu_count()} CPU cores",
        "seconds": round(time.perf_counter() - start, 1),
        "rows": rows,
    }
    if arguments.out:
        kept.write(arguments.out / RESULT, data, "rows")
    if arguments.docs:
        arguments.docs.write_text(document(rows, data))
    return int(any(state(row) in ("WRONG", "failed") for row in rows))


if __name__ == "__main__":
    sys.exit(main())
