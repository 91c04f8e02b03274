"""Results of a run as JSON, a table and a plot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kept

Row = dict[str, Any]


def write(out: Path, rows: list[Row], environment: dict[str, Any], stem: str) -> None:
    """Writes ``<stem>.json``, ``.raw.json``, ``.md`` and ``.png`` into ``out``; called after every
    program, so that a run that ends early leaves its results so far."""
    data = {"environment": environment, "results": rows}
    kept.write(out / f"{stem}.json", data, "results", ("candidates",))
    _replace(out / f"{stem}.md", markdown(rows, environment))
    plot(out / f"{stem}.png", rows)


def _replace(path: Path, text: str) -> None:
    temporary = path.with_suffix(path.suffix + ".tmp")
    temporary.write_text(text)
    temporary.replace(path)


def best_torch(times: dict[str, Any]) -> tuple[str, float] | None:
    """Return the fastest PyTorch variant and its time."""
    others = {name: t["median"] for name, t in times.items() if not name.startswith("mirage")}
    return min(others.items(), key=lambda item: item[1]) if others else None


def markdown(rows: list[Row], environment: dict[str, Any]) -> str:
    """Return the table of times, and how they were measured."""
    lines = [
        "# Times on a GPU",
        "",
        f"{environment['gpu']}, driver {environment['driver']}, torch {environment['torch']}, "
        f"{environment['date']}.",
        f"Command: `{environment['command']}`",
        "",
        "Microseconds a call, medians. Cold: CUDA-graph replay, inputs rotate over at least "
        "256 MB. Hot: graph replay on the same inputs. Plain: calls from Python without a graph. "
        "All sides of a row take turns in one process; of several candidates the one that is best "
        "when cold is shown. PyTorch: eager, compile, and SDPA (flash, cuDNN, "
        "efficient; in its own form: K stored as it likes, causal, no key repeated) for attention, "
        "also compiled where there is more than attention. Error: relative L2 error against "
        "float64, ours / PyTorch eager; every result was checked, outputs were NaN before.",
        "",
        "| program | ours cold | eager cold | compile cold | best PyTorch cold | speed-up | "
        "ours hot | best PyTorch hot "
        "| ours plain | eager plain | error | kernels | verdict | candidates, best |",
        "|" + "---|" * 14,
    ]
    for row in rows:
        if "error" in row:
            lines.append(
                f"| {row['name']} | failed: {row['error'].splitlines()[0][:100]} |" + " |" * 12
            )
            continue
        lines.append(_line(row))
    return "\n".join(lines) + "\n"


def _line(row: Row) -> str:
    if not row["correct"]:
        return f"| {row['name']} | **wrong**: {row['complaint']} |" + " |" * 12
    cold, hot, plain = row["cold"], row["hot"], row["plain"]
    best, best_hot = best_torch(cold), best_torch(hot)

    def cell(times: dict[str, Any], side: str) -> str:
        return f"{times[side]['median']:.2f}" if side in times else "-"

    label = row["best"]
    ours = cold[label]["median"]
    candidate = row["candidates"][label]
    cells = [
        row["name"],
        f"**{ours:.2f}**",
        cell(cold, "eager"),
        cell(cold, "compile"),
        "-" if best is None else f"{best[1]:.2f} ({best[0]})",
        "-" if best is None else f"{best[1] / ours:.2f}",
        cell(hot, label),
        "-" if best_hot is None else f"{best_hot[1]:.2f}",
        cell(plain, label),
        cell(plain, "eager"),
        f"{row['errors'][label]['l2']:.1e} / {row['errors']['eager']['l2']:.1e}",
        str(len(candidate["launches"])),
        str(candidate["verdict"]),
        f"{len(row['candidates'])}, {label}",
    ]
    return "| " + " | ".join(cells) + " |"


def plot(path: Path, rows: list[Row]) -> None:
    """Draw bars of cold times relative to the best PyTorch variant; nothing without matplotlib."""
    timed = [r for r in rows if "cold" in r and r.get("correct") and best_torch(r["cold"])]
    if not timed:
        return
    try:
        import matplotlib

        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        return
    sides = ["mirage", *dict.fromkeys(s for r in timed for s in r["cold"] if s[:6] != "mirage")]
    figure, axes = plt.subplots(figsize=(max(6.0, 0.8 * len(timed) + 2), 4.5))
    width = 0.8 / len(sides)
    for i, side in enumerate(sides):
        places: list[float] = []
        heights: list[float] = []
        for n, r in enumerate(timed):
            label = r["best"] if side == "mirage" else side
            best = best_torch(r["cold"])
            if label in r["cold"] and best is not None:
                places.append(n + (i - (len(sides) - 1) / 2) * width)
                heights.append(best[1] / r["cold"][label]["median"])
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
