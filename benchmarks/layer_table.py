"""The measurements of the gallery's layers as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

Row = dict[str, Any]
LATE = 0.5
"""Seconds after which a result is late: a step that has begun is not interrupted when the time is
up."""
HEADER = (
    "layer", "width", "ops", "import s", "search s", "verify s", "compile s", "run s", "total s",
    "kernels", "own ops", "predicted µs", "MiB (before)", "verdicts", "error, ours / PyTorch",
    "by", "",
)  # fmt: skip
LEGEND = """\
*total s*: from the imported program to compiled kernels; *run s*: of it, a few blocks of each
kernel in the emulator, before they are handed out. *own ops*: kernels of one op, as it was written.
*MiB*: of all processes together at most, and before the run, PyTorch and the layer's weights among
it. *error*: the norm of the whole outputs' difference from float64 over the norm of these, of our
program and of PyTorch; *by*: what executed ours, all compiled kernels in the emulator, or the
chosen µGraphs in the interpreter with each op rounded to its type."""


def error_ratio(row: Row) -> float | None:
    """Return the error in units of PyTorch's; None if the layer was not executed, or PyTorch's
    error is zero."""
    if "error_ours" not in row or not row["error_torch"][0]:
        return None
    return row["error_ours"][0] / row["error_torch"][0]


def cells(row: Row) -> list[str]:
    """Return one line of the table."""

    def seconds(key: str) -> str:
        return f"{row[key]:.1f}" if key in row else ""

    predicted = row.get("predicted_us")
    errors, ratio = "", error_ratio(row)
    if "error_ours" in row:
        errors = f"{row['error_ours'][0]:.1e} / {row['error_torch'][0]:.1e}"
        errors += "" if ratio is None else f" = {ratio:.2f}"
    state = row.get("error") or {True: "ok", False: "WRONG", None: "not executed"}[row.get("right")]
    memory = f"{row['peak_mib']:.0f}" if "peak_mib" in row else ""
    memory += f" ({row['before_mib']:.0f})" if "before_mib" in row else ""
    return [
        row["case"], row["width"], str(row.get("ops", "")), seconds("import_s"),
        seconds("search_s"), seconds("verify_s"), seconds("compile_s"), seconds("check_s"),
        seconds("total_s"), str(row.get("kernels", "")), str(row.get("own_ops", "")),
        "" if predicted is None else f"{predicted:.1f}", memory,
        ", ".join(f"{n} {k}" for k, n in row.get("verdicts", {}).items()), errors,
        row.get("by", ""), state.replace("|", "\\|"),
    ]  # fmt: skip


def markdown(rows: Sequence[Row], command: str, machine: str, budget: float) -> str:
    """Return the table, followed by the parts that fell back."""
    lines = [f"Made by `{command}` on {machine}.", "", summary_line(rows, budget) + ".", "", LEGEND]
    lines += ["", "| " + " | ".join(HEADER) + " |", "|---" * len(HEADER) + "|"]
    lines += ["| " + " | ".join(cells(r)) + " |" for r in rows]
    lines += ["", "## What fell back, and what stays with PyTorch", ""]
    notes = [f"- {r['case']}, {r['width']}: {text}." for r in rows for text in _fallbacks(r)]
    return "\n".join(lines + (notes or ["Nothing."])) + "\n"


def _fallbacks(row: Row) -> list[str]:
    found = [str(note) for note in row.get("fell_back", ())]
    if row.get("stays"):
        calls = ", ".join(f"{n} {target}" for target, n in row["stays"].items())
        found.append(f"{calls} stay with PyTorch")
    return found


def summary(rows: Sequence[Row], budget: float) -> Row:
    """Return the counts, and the worst values."""
    total = [(r["total_s"], r["case"], r["width"]) for r in rows if "total_s" in r]
    ratios = [(x, r["case"], r["width"]) for r in rows if (x := error_ratio(r)) is not None]
    return {
        "layers": len(rows),
        "optimized": sum("kernels" in r for r in rows),
        "in_time": sum(seconds <= budget + LATE for seconds, *_ in total),
        "fell_back": sum(bool(r.get("fell_back")) for r in rows),
        "executed": sum("right" in r for r in rows),
        "right": sum(r.get("right") is True for r in rows),
        "wrong": [[r["case"], r["width"]] for r in rows if r.get("right") is False],
        "failed_in": dict(Counter(r["error"].partition(":")[0] for r in rows if "error" in r)),
        "slowest": sorted(total, reverse=True)[:5],
        "largest_errors": sorted(ratios, reverse=True)[:5],
        "largest_mib": max((r["peak_mib"] for r in rows if "peak_mib" in r), default=None),
    }


def summary_line(rows: Sequence[Row], budget: float) -> str:
    """Return the counts as a sentence."""
    s = summary(rows, budget)
    text = (
        f"{s['layers']} layers, {s['optimized']} optimized, {s['in_time']} of them within "
        f"{budget:g} s, {s['fell_back']} with parts that fell back; {s['executed']} executed, "
        f"{s['right']} with errors of at most twice PyTorch's"
    )
    for ratio, name, width in s["largest_errors"][:1]:
        text += f" (the largest, {name} at its {width} width, {ratio:.2f} times)"
    for seconds, name, width in s["slowest"][:1]:
        text += f"; the slowest ({name}, {width}) {seconds:.1f} s"
    if s["largest_mib"] is not None:
        text += f"; at most {s['largest_mib']:.0f} MiB of all processes together"
    return text
