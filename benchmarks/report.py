"""Results of a run as JSON, a table and a plot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def write(out: Path, rows: list[Row], environment: dict[str, Any], stem: str = "h200") -> None:
    """Writes ``<stem>.json``, ``.md`` and ``.png`` into ``out``; called after every program, so a
    run that ends early
    leaves what it has."""
    out.mkdir(parents=True, exist_ok=True)
    _replace(
        out / f"{stem}.json",
        json.dumps({"environment": environment, "results": rows}, indent=1) + "\n",
    )
    _replace(out / f"{stem}.md", markdown(rows, environment))
    plot(out / f"{stem}.png", rows)


def _replace(path: Path, text: str) -> None:
    temporary = path.with_suffix(path.suffix + ".tmp")
    temporary.write_text(text)
    temporary.replace(path)


def best_torch(times: dict[str, Any]) -> tuple[str, float] | None:
    """The fastest PyTorch variant and its time."""
    others = {name: t["median"] for name, t in times.items() if name != "mirage"}
    return min(others.items(), key=lambda item: item[1]) if others else None


def markdown(rows: list[Row], environment: dict[str, Any]) -> str:
    """The table of times, with how they were measured."""
    lines = [
        "# Times on a GPU",
        "",
        f"{environment['gpu']}, driver {environment['driver']}, torch {environment['torch']}, "
        f"{environment['date']}.",
        f"Command: `{environment['command']}`",
        "",
        "Microseconds a call, medians. Cold: CUDA-graph replay, inputs rotate over at least "
        "256 MB. Hot: graph replay on the "
        "same inputs. Plain: calls from Python without a graph. All sides of a row take turns "
        "in one process. Error: "
        "relative L2 error against float64, ours / PyTorch eager; every result was checked, "
        "outputs were NaN before.",
        "",
        "| program | ours cold | eager cold | compile cold | best PyTorch cold | speed-up | "
        "ours hot | best PyTorch hot "
        "| ours plain | eager plain | error | kernels | verdict |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        if "error" in row:
            lines.append(
                f"| {row['name']} | failed: {row['error'].splitlines()[0][:100]} |" + " |" * 11
            )
            continue
        lines.append(_line(row))
    return "\n".join(lines) + "\n"


def _line(row: Row) -> str:
    if not row["correct"]:
        return f"| {row['name']} | **wrong**: {row['complaint']} |" + " |" * 11
    cold, hot, plain = row["cold"], row["hot"], row["plain"]
    best, best_hot = best_torch(cold), best_torch(hot)

    def cell(times: dict[str, Any], side: str) -> str:
        return f"{times[side]['median']:.2f}" if side in times else "-"

    ours = cold["mirage"]["median"]
    cells = [
        row["name"],
        f"**{ours:.2f}**",
        cell(cold, "eager"),
        cell(cold, "compile"),
        "-" if best is None else f"{best[1]:.2f} ({best[0]})",
        "-" if best is None else f"{best[1] / ours:.2f}",
        cell(hot, "mirage"),
        "-" if best_hot is None else f"{best_hot[1]:.2f}",
        cell(plain, "mirage"),
        cell(plain, "eager"),
        f"{row['errors']['mirage']['l2']:.1e} / {row['errors']['eager']['l2']:.1e}",
        str(row["kernels"]),
        str(row.get("verdict", "-")),
    ]
    return "| " + " | ".join(cells) + " |"


def plot(path: Path, rows: list[Row]) -> None:
    """Bars of cold times relative to the best PyTorch variant; none without matplotlib."""
    timed = [r for r in rows if "cold" in r and r.get("correct") and best_torch(r["cold"])]
    if not timed:
        return
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        return
    sides = [
        s
        for s in ("mirage", "eager", "compile", "max-autotune", "sdpa")
        if any(s in r["cold"] for r in timed)
    ]
    figure, axes = plt.subplots(figsize=(max(6.0, 0.8 * len(timed) + 2), 4.5))
    width = 0.8 / len(sides)
    for i, side in enumerate(sides):
        places = [
            n + (i - (len(sides) - 1) / 2) * width for n, r in enumerate(timed) if side in r["cold"]
        ]
        heights = []
        for r in timed:
            if side in r["cold"]:
                best = best_torch(r["cold"])
                assert best is not None
                heights.append(best[1] / r["cold"][side]["median"])
        axes.bar(places, heights, width, label=side)
    axes.axhline(1.0, color="black", linewidth=0.8)
    axes.set_xticks(range(len(timed)), [r["name"] for r in timed], rotation=45, ha="right")
    axes.set_ylabel("speed relative to the best PyTorch variant (cold L2)")
    axes.legend()
    figure.tight_layout()
    temporary = path.with_name(path.stem + ".tmp.png")
    figure.savefig(temporary, dpi=150)
    plt.close(figure)
    temporary.replace(path)
