"""Fits the cost model's parameters to measured kernels, and reports how well it ranks them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, dataclass, fields, replace
from typing import Any

import numpy as np
from mirage.cost.first_bytes import after_another, from_memory
from mirage.cost.kernel_features import KernelFeatures, Known
from mirage.cost.kernel_time import estimate
from mirage.cost.target import Target, target_for
from mirage.pipeline.options import OptimizeOptions

Array = np.ndarray[Any, np.dtype[Any]]

FITTED = (
    "dram_bytes", "l2_bytes", "sm_bytes", "mma_half", "alu", "sfu", "shared_bytes", "launch",
    "latency", "step", "combine", "block_start", "flight", "exchange", "exchange_warp", "gather",
    "step_warp", "step_latency", "chain", "alone", "spill_bytes",
)  # fmt: skip
"""Parameters that are fitted; the others are facts about the chip."""
PRIOR_VALUES: dict[str, dict[str, float]] = {
    "sm_90a": {
        "dram_bytes": 4.4e6, "l2_bytes": 7.0e6, "sm_bytes": 70e3, "mma_half": 4.0e6,
        "alu": 1.8e5, "sfu": 2.8e4, "shared_bytes": 2.25e5, "launch": 0.76, "latency": 0.9,
        "step": 180.0, "combine": 0.9, "block_start": 0.04, "flight": 32e3, "exchange": 150.0,
        "exchange_warp": 10.0, "gather": 10.0, "step_warp": 8.0, "step_latency": 0.8, "chain": 1.0,
        "spill_bytes": 7e6, "alone": 0.3,
    },
}  # fmt: skip
"""The starting points of fits, by chip: data sheets, and latencies counted by hand. They are not
the table's values, which were fitted to all kernels."""
STEPS = (0.5, 0.7, 0.85, 0.95, 1.05, 1.18, 1.4, 2.0)
PRIOR = 0.003
"""Weight of the distance from the initial parameters, in squared log units."""
WITHIN = 2.0
"""Weight of errors relative to other kernels of the same program, which decide the choice."""


def _known(row: dict[str, Any], field: Field[Any]) -> float:
    """Return a resource of a kernel; its default if the measurement lacks it."""
    return float(row["known"].get(field.name, field.default))


def _feature(row: dict[str, Any], of: Field[Any]) -> float:
    """Return a recorded feature; its default if the record is older than the feature."""
    return float(row[of.name] if of.default is MISSING else row.get(of.name, of.default))


@dataclass(frozen=True)
class Measured:
    """Kernels of all measured programs as arrays, and which candidate each belongs to."""

    features: KernelFeatures
    owner: Array
    labels: tuple[str, ...]
    programs: Array
    times: Array

    @staticmethod
    def of(data: dict[str, Any], assembled: bool) -> Measured:
        """From the result file; ``assembled`` takes warps, shared memory, registers and spills
        from the compiler instead of the estimates.
        """
        labels = [x for x, k in data["kernels"].items() if "microseconds" in k]
        rows: list[dict[str, Any]] = []
        owner: list[int] = []
        for number, label in enumerate(labels):
            for kernel in data["kernels"][label]["kernels"]:
                rows.append(kernel["features" if assembled else "estimated"])
                owner.append(number)
        columns = {
            f.name: np.array([_feature(r, f) for r in rows])
            for f in fields(KernelFeatures)
            if f.name != "known"
        }
        columns["warpgroups"] = columns["warpgroups"].astype(bool)
        known = Known(*(np.array([_known(r, f) for r in rows]) for f in fields(Known)))
        return Measured(
            KernelFeatures(**columns, known=known),
            np.array(owner),
            tuple(labels),
            np.array([data["kernels"][x]["program"] for x in labels]),
            np.array([data["kernels"][x]["microseconds"] for x in labels]),
        )

    def predict(self, target: Target) -> Array:
        """Return the predicted µs of each candidate."""
        time = estimate(self.features, target)["time"]
        total = np.bincount(self.owner, weights=np.minimum(time, 1e5), minlength=len(self.labels))
        follows = np.diff(self.owner, prepend=-1) == 0
        hot, cold = (after_another(target, memory) for memory in (False, True))
        more = np.where(from_memory(self.features), cold, hot) * follows
        return total + np.bincount(self.owner, weights=more, minlength=len(self.labels))


def needed(data: dict[str, Any]) -> dict[str, Any]:
    """Return the part of a result file that is read here, without counts that are zero."""
    columns = ("features", "estimated")
    return {
        "environment": data["environment"],
        "kernels": {
            label: {
                **{key: row[key] for key in ("program", "finalist", "microseconds")},
                "kernels": [{c: _counted(k[c]) for c in columns} for k in row["kernels"]],
            }
            for label, row in data["kernels"].items()
            if "microseconds" in row
        },
    }


def _counted(row: dict[str, Any]) -> dict[str, Any]:
    """Return the features that are not zero, since zero is their default."""
    zero = {f.name for f in fields(KernelFeatures) if f.default == 0}
    return {key: x for key, x in row.items() if x or key not in zero}


def ranks(x: Array) -> Array:
    """Return the ranks of values; equal values share a rank."""
    _, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2.0)[inverse]


def spearman(a: Array, b: Array) -> float:
    """Return the rank correlation; 0 if one side is constant."""
    ra, rb = ranks(a), ranks(b)
    if ra.std() == 0 or rb.std() == 0:
        return 0.0
    return float(np.corrcoef(ra, rb)[0, 1])


def within(programs: Array, predicted: Array, times: Array) -> float:
    """Return the mean over programs of the rank correlation among their kernels."""
    found = [
        spearman(predicted[programs == p], times[programs == p])
        for p in dict.fromkeys(programs)
        if (programs == p).sum() > 2
    ]
    return float(np.mean(found)) if found else 0.0


def regret(programs: Array, predicted: Array, times: Array, top: int = 1) -> float:
    """Return how many times as long, in the geometric mean, the best of the first ``top`` by
    prediction takes as the best of all.
    """
    ratios: list[float] = []
    for p in dict.fromkeys(programs):
        mine = times[programs == p]
        first = np.argsort(predicted[programs == p], kind="stable")[:top]
        ratios.append(float(np.log(mine[first].min() / mine.min())))
    return float(np.exp(np.mean(ratios)))


def loss(m: Measured, target: Target, chosen: Array) -> float:
    """Return the mean squared log error, in which errors relative to the program's mean have more
    weight."""
    error = np.log(m.predict(target)[chosen] / m.times[chosen])
    programs = m.programs[chosen]
    relative = np.array(error)
    for p in dict.fromkeys(programs):
        relative[programs == p] -= error[programs == p].mean()
    return float(np.mean(error**2) + WITHIN * np.mean(relative**2))


def search(
    start: Target, value: Callable[[Target], float], names: Sequence[str] = FITTED
) -> Target:
    """Change one parameter at a time as long as this helps."""
    best, least = start, value(start)
    moved = True
    while moved:
        moved = False
        for name in names:
            for factor in STEPS:
                trial = replace(best, **{name: getattr(best, name) * factor})
                cost = value(trial)
                if cost < least - 1e-6:
                    best, least, moved = trial, cost, True
    return best


def fit_to(m: Measured, start: Target, chosen: Array) -> Target:
    """Return the parameters that explain the chosen kernels best."""

    def value(target: Target) -> float:
        away = sum(np.log(getattr(target, n) / getattr(start, n)) ** 2 for n in FITTED)
        return loss(m, target, chosen) + PRIOR * float(away)

    return search(start, value)


def summary(m: Measured, predicted: Array, chosen: Array | None = None) -> dict[str, float]:
    """Return measures of the quality of predictions."""
    pick = np.ones(len(m.labels), dtype=bool) if chosen is None else chosen
    p, t, programs = predicted[pick], m.times[pick], m.programs[pick]
    return {
        "kernels": int(pick.sum()),
        "all": spearman(p, t),
        "within_programs": within(programs, p, t),
        "mean_log_error": float(np.abs(np.log(p / t)).mean()),
        "first_over_best": regret(programs, p, t),
        "best_of_3_over_best": regret(programs, p, t, 3),
    }


def line(what: str, s: dict[str, float]) -> str:
    """Return one line of a report."""
    return (
        f"{what}: {s['kernels']:.0f} kernels, rank correlation {s['all']:.3f}, within programs "
        f"{s['within_programs']:.3f}, mean log error {s['mean_log_error']:.3f}, first / best "
        f"{s['first_over_best']:.3f}, best of 3 / best {s['best_of_3_over_best']:.3f}"
    )


def fit_and_describe(data: dict[str, Any], chip: str, seed: int) -> str:
    """Fits on two thirds of the kernels and tests on the rest; fits without each program and tests
    on it; then fits on all.
    """
    start = replace(target_for(chip), **PRIOR_VALUES.get(chip, {}))
    m = Measured.of(data, assembled=True)
    rng = np.random.default_rng(seed)
    held = np.zeros(len(m.labels), dtype=bool)
    for p in dict.fromkeys(m.programs):
        mine = np.flatnonzero(m.programs == p)
        held[rng.choice(mine, size=len(mine) // 3, replace=False)] = True
    part = fit_to(m, start, ~held)
    lines = [
        line("before", summary(m, m.predict(start))),
        line("fitted, kernels it saw", summary(m, m.predict(part), ~held)),
        line("fitted, kernels it did not see", summary(m, m.predict(part), held)),
        line("  the same, before", summary(m, m.predict(start), held)),
    ]
    unseen = np.zeros(len(m.labels))
    for p in dict.fromkeys(m.programs):
        mine = m.programs == p
        unseen[mine] = m.predict(fit_to(m, start, ~mine))[mine]
    lines.append(line("fitted without the program", summary(m, unseen)))
    best = fit_to(m, start, np.ones(len(m.labels), dtype=bool))
    lines.append(line("fitted on all", summary(m, m.predict(best))))
    data["held_out"] = {
        "kernels": summary(m, m.predict(part), held),
        "programs": summary(m, unseen),
    }
    lines += [f"    {n}={getattr(best, n):.4g}," for n in FITTED]
    return "\n".join(lines)


def choices(data: dict[str, Any], m: Measured, target: Target) -> list[str]:
    """Compare the kernels that the driver would choose, if it compiled all of the first ones
    (``chosen``) and of those that it does compile (``taken``), with the best of them and of all
    that were measured, and add this to the data."""
    predicted = m.predict(target)
    estimated = Measured.of(data, assembled=False).predict(target)
    finalist = np.array([data["kernels"][x].get("finalist", False) for x in m.labels])
    found: dict[str, dict[str, float]] = {}
    for p in dict.fromkeys(m.programs):
        mine = np.flatnonzero(m.programs == p)
        own = np.flatnonzero((m.programs == p) & finalist)
        if len(own):
            compiled = own[np.argsort(estimated[own], kind="stable")[: OptimizeOptions.finalists]]
            found[p] = {
                "chosen": float(m.times[own[predicted[own].argmin()]]),
                "taken": float(m.times[compiled[predicted[compiled].argmin()]]),
                "best_of_finalists": float(m.times[own].min()),
                "best": float(m.times[mine].min()),
            }
    data["choices"] = found
    lines: list[str] = []
    for key in ("chosen", "taken", "best_of_finalists"):
        ratio = np.exp(np.mean([np.log(c[key] / c["best"]) for c in found.values()]))
        lines.append(f"{key.replace('_', ' ')} / best measured: {ratio:.3f} in the geometric mean")
    lines += [
        f"  {p:22s} chosen {c['chosen']:6.2f} us, best of those compiled "
        f"{c['best_of_finalists']:6.2f}, best measured {c['best']:6.2f}"
        for p, c in found.items()
    ]
    return lines


def describe(data: dict[str, Any], chip: str) -> str:
    """Add predictions with the table's parameters to the data, and return their quality."""
    target = target_for(chip)
    lines: list[str] = []
    for assembled in (True, False):
        m = Measured.of(data, assembled)
        predicted = m.predict(target)
        key = "predicted_assembled" if assembled else "predicted"
        for label, value in zip(m.labels, predicted, strict=True):
            data["kernels"][label][key] = round(float(value), 3)
        data["correlation_assembled" if assembled else "correlation"] = summary(m, predicted)
        what = "resources from the assembler" if assembled else "resources estimated"
        lines.append(line(what, summary(m, predicted)))
    lines.extend(choices(data, Measured.of(data, True), target))
    for p in dict.fromkeys(m.programs):
        mine = m.programs == p
        order = np.argsort(predicted[mine], kind="stable")
        times = m.times[mine]
        place = int(np.flatnonzero(order == times.argmin())[0]) + 1
        lines.append(
            f"  {p:22s} rank correlation {spearman(predicted[mine], times):5.2f}, first / best "
            f"{times[order[0]] / times.min():.2f}, the best is number {place} of {len(times)}"
        )
    return "\n".join(lines)
