#!/usr/bin/env python3
"""Calibrates the cost model on measured kernels.

    python benchmarks/calibrate.py compile --artifacts build/artifacts-calibration
    python benchmarks/calibrate.py measure --artifacts build/artifacts-calibration --out DIR  # GPU
    python benchmarks/calibrate.py fit --out benchmarks/results
    python benchmarks/calibrate.py report --out benchmarks/results
    python benchmarks/calibrate.py pack --out DIR --measured FILE.json.xz

``compile`` takes candidates of many programs over a range of ranks, some of them with other
schedules, and stores the features that the model uses next to each artifact. ``measure`` compares
their results with PyTorch and writes their times with cold L2 to ``cost_model.json``. ``fit`` looks
for parameters of the chip that explain the times and prints them for ``lib/Target/Chip.cpp``, with
rank correlations on kernels and on whole programs that were left out of the fit. ``report``
predicts times with the current parameters in the table, and writes and draws predictions next to
measurements. ``pack`` keeps the data of a measurement that these two read, for tests and for people
who have no GPU.
"""

from __future__ import annotations

import argparse
import json
import lzma
import shlex
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python")]

import kept  # noqa: E402

MEASURED = HERE.parent / "test/python/benchmarks/Inputs/measured_kernels.json.xz"
"""Kernels measured on one H200, with the model's features of each: the data that parameters are
fitted to."""

PROGRAMS = (
    "gqa_bs1_kv4096", "gqa_bs8_kv4096", "gqa_bs16_kv4096", "qknorm_bs1", "qknorm_bs8", "mqa_bs8",
    "mha_bs1", "decode_b1", "docs_attn", "gqa_decode_bs8", "rms_mm6144_bs1", "rms_mm6144_bs8",
    "rms_mm6144_bs16", "rms_mm4096_bs1", "rms_mm4096_bs8", "rms_mm4096_bs16", "lora_m1",
    "lora_m8", "lora_m16", "gmlp_m1",
    "gmlp_m8", "gmlp_m16", "ntrans_bs8", "softmax_n1024", "mm_1024", "ln_linear_gelu_m8",
    "residual_rms_qkv_m8",
)  # fmt: skip
TOLERANCE = 2e-2
DETAILS = (
    "kernels", "quartiles", "error", "program", "rank", "finalist", "predicted_assembled",
)  # fmt: skip
"""Details that the summary leaves out: there are a thousand kernels."""


def main() -> int:
    arguments = parse()
    return COMMANDS[arguments.what](arguments)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("what", choices=COMMANDS)
    parser.add_argument("--programs", nargs="*", help="workloads (default: a selection)")
    parser.add_argument("--artifacts", type=Path, help="folder of the compiled kernels")
    parser.add_argument("--out", type=Path, help="folder for the results")
    parser.add_argument(
        "--measured", type=Path, default=MEASURED,
        help="what is read where `measure` has left nothing in --out (%(default)s), and what "
        "`pack` writes",
    )  # fmt: skip
    parser.add_argument("--chip", help="default: the compiler's")
    parser.add_argument("--each", type=int, default=10, help="kernels of a program")
    parser.add_argument(
        "--finalists", type=int, help="of these, so many first choices (default: the driver's own)"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=11, help="rounds a median is taken over")
    parser.add_argument("--seconds", type=float, default=200.0, help="start nothing after this")
    arguments = parser.parse_args()
    if arguments.what != "measure" and arguments.chip is None:  # which needs no compiler
        from mirage.cost import DEFAULT_CHIP

        arguments.chip = DEFAULT_CHIP
    return arguments


# ---- compile


def compile_all(arguments: argparse.Namespace) -> int:
    """Compile a range of candidates; ``kernels.json`` has the model's features of each."""
    from candidate_spread import spread
    from mirage.cost.target import target_for
    from mirage.errors import MirageError
    from mirage.mlir_io import graph_to_text
    from mirage.runtime import write_artifact

    target = target_for(arguments.chip)
    entries: dict[str, Any] = {}
    arguments.artifacts.mkdir(parents=True, exist_ok=True)
    for name in arguments.programs or PROGRAMS:
        start = time.monotonic()
        try:
            chosen = spread(
                name, target, arguments.each, arguments.finalists, f"{arguments.seed} {name}"
            )
        except MirageError as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        done = 0
        for number, (rank, graph, finalist) in enumerate(chosen):
            label = f"{name}@{number}"
            compiled = compile_one(graph, arguments.chip)
            if isinstance(compiled, str):
                print(f"  {label}: {compiled.splitlines()[0]}", file=sys.stderr)
                continue
            write_artifact(compiled.artifact, arguments.artifacts / f"{label}.mirage")
            text = graph_to_text(graph, form="selected")
            (arguments.artifacts / f"{label}.mlir").write_text(text)
            entries[label] = {
                "program": name,
                "rank": rank,
                "finalist": finalist,
                "kernels": kernels_of(graph, arguments.chip, compiled),
            }
            done += 1
        (arguments.artifacts / "kernels.json").write_text(json.dumps(entries, indent=1) + "\n")
        print(f"{name}: {done} compiled, {time.monotonic() - start:.1f} s", flush=True)
    return 0


def compile_one(graph: Any, chip: str) -> Any:
    """Return the compiled graph, or the reason why there is none."""
    from mirage.compiler import CompileError, CompileOptions, compile_graph

    try:
        return compile_graph(graph, CompileOptions(chip))
    except CompileError as error:
        return str(error)


def kernels_of(graph: Any, chip: str, compiled: Any) -> list[dict[str, Any]]:
    """Return the model's features of each kernel, and the assembler's report."""
    from mirage.cost.predict import features_in
    from mirage.cost.target import target_for
    from mirage.pipeline.rank import resources_of
    from mirage.semantics.ugraph import Launch

    target = target_for(chip)
    resources = resources_of(compiled.artifact.manifest)
    launches = [op for op in graph.ops if isinstance(op, Launch)]
    before, after = features_in(graph, target), features_in(graph, target, resources)
    return [
        {
            "grid": {a.name: a.extent for a in launch.grid},
            "warps": launch.schedule.warps,
            "stages": launch.schedule.stages,
            "compiled": asdict(r),
            "estimated": asdict(b),
            "features": asdict(a),
        }
        for launch, r, b, a in zip(launches, resources, before, after, strict=True)
    ]


# ---- measure


def measure_all(arguments: argparse.Namespace) -> int:
    """Checks and times all kernels on this machine's GPU."""
    import run
    import torch

    started = time.monotonic()
    entries = json.loads((arguments.artifacts / "kernels.json").read_text())
    programs: dict[str, list[str]] = {}
    for label, entry in entries.items():
        programs.setdefault(entry["program"], []).append(label)
    for name, labels in programs.items():
        used = time.monotonic() - started
        if used > arguments.seconds:
            print(f"{name}: not run, {arguments.seconds} s are over")
            continue
        times = measure_program(name, {x: entries[x] for x in labels}, arguments)
        best = min(times, default=None)
        print(f"[{used:4.0f} s] {name}: {len(times)} timed, best {best} us", flush=True)
        write(arguments, entries, {**run.environment(), "rounds": arguments.rounds})
        torch.cuda.empty_cache()
    return 0


def measure_program(
    name: str, entries: dict[str, Any], arguments: argparse.Namespace
) -> list[float]:
    """Time all kernels of one program in turns, each launch on inputs that L2 no longer holds."""
    import timing
    import torch
    from mirage.runtime import load
    from mirage.workloads import get

    workload = get(name)
    inputs = workload.torch_inputs(0, device="cuda")
    with torch.no_grad():
        want = workload.torch_module()(*inputs)
    size = sum(x.numel() * x.element_size() for x in inputs)
    copies = timing.copies_needed(size)
    sets = [inputs] + [tuple(x.clone() for x in inputs) for _ in range(copies - 1)]
    outputs = [(torch.empty_like(want),) for _ in sets]
    launches = timing.launches_per_graph(copies)
    order = [i % copies for i in range(launches)]
    graphs: dict[str, torch.cuda.CUDAGraph] = {}
    for label, entry in entries.items():
        try:
            program = load(arguments.artifacts / f"{label}.mirage")
            out = torch.full_like(want, float("nan"))
            program(inputs=inputs, out=(out,))
            torch.cuda.synchronize()
            entry["error"] = float((out.float() - want.float()).norm() / want.float().norm())
            if not entry["error"] < TOLERANCE:
                print(f"{label}: relative error {entry['error']:.2e}")
                continue
            graphs[label] = timing.capture(
                lambda i, p=program: p(inputs=sets[i], out=outputs[i]), order
            )
        except Exception as error:  # one bad kernel must not hide the others' times
            print(f"{label}: {type(error).__name__}: {error}")
    times = timing.time_graphs(graphs, launches, arguments.rounds)
    for label, t in times.items():
        entries[label]["microseconds"] = round(t.median, 3)
        entries[label]["quartiles"] = [t.low, t.high]
    return [t.median for t in times.values()]


def write(arguments: argparse.Namespace, entries: dict[str, Any], info: dict[str, Any]) -> None:
    """The result file."""
    info.setdefault("command", shlex.join(["python", *sys.argv]))
    keep(arguments, {"environment": info, "kernels": entries})


# ---- fit and report


def fit(arguments: argparse.Namespace) -> int:
    """Search for better parameters and print them."""
    from cost_fit import fit_and_describe

    data = read(arguments)
    text = fit_and_describe(data, arguments.chip, arguments.seed)
    data["command_of_fit"] = shlex.join(["python", *sys.argv])
    keep(arguments, data)
    print(text)
    return 0


def report(arguments: argparse.Namespace) -> int:
    """Write predictions and correlations with the table's parameters, and the plot."""
    from cost_fit import describe

    data = read(arguments)
    text = describe(data, arguments.chip)
    data["command_of_report"] = shlex.join(["python", *sys.argv])
    keep(arguments, data)
    draw(data, arguments.out / "cost_model.png")
    print(text)
    return 0


def pack(arguments: argparse.Namespace) -> int:
    """Write the part of a measurement that ``fit`` and ``report`` read."""
    from cost_fit import needed

    raw = kept.raw_path(arguments.out / "cost_model.json")
    data = needed(json.loads(raw.read_text()))
    text = json.dumps(data, separators=(",", ":"))
    arguments.measured.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
    return 0


def read(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the measurements that ``measure`` wrote, otherwise those that are committed."""
    raw = kept.raw_path(arguments.out / "cost_model.json")
    if raw.exists():
        return json.loads(raw.read_text())
    return json.loads(lzma.decompress(arguments.measured.read_bytes()))


def keep(arguments: argparse.Namespace, data: dict[str, Any]) -> None:
    """The result files."""
    kept.write(arguments.out / "cost_model.json", data, "kernels", DETAILS)


COMMANDS = {
    "compile": compile_all, "measure": measure_all, "fit": fit, "report": report, "pack": pack,
}  # fmt: skip


def draw(data: dict[str, Any], path: Path) -> None:
    """Draw predicted against measured times, with a colour for each program; needs matplotlib."""
    try:
        import matplotlib
    except ImportError:
        print("no plot: matplotlib is not installed", file=sys.stderr)
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    done = [k for k in data["kernels"].values() if "microseconds" in k]
    figure, axes = plt.subplots(figsize=(7, 6))
    names = list(dict.fromkeys(k["program"] for k in done))
    for i, name in enumerate(names):
        points = [k for k in done if k["program"] == name]
        axes.scatter(
            [k["microseconds"] for k in points],
            [k["predicted"] for k in points],
            s=16, label=name, color=plt.get_cmap("nipy_spectral")(i / len(names)),
        )  # fmt: skip
    ends = [min(k["microseconds"] for k in done), max(k["microseconds"] for k in done)]
    axes.plot(ends, ends, color="grey", linewidth=1)
    axes.set(xscale="log", yscale="log", xlabel="measured [µs]", ylabel="predicted [µs]")
    correlation = data["correlation"]
    axes.set_title(
        f"{len(done)} kernels, rank correlation {correlation['all']:.2f}, "
        f"within programs {correlation['within_programs']:.2f}"
    )
    axes.legend(fontsize=6, ncols=2)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    sys.exit(main())
