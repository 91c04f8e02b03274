"""``mirage demo``: two real programs from start to end, with all results and checks."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mirage
from mirage.cli.artifacts import add_chip_argument, chip_of, describe, describe_json
from mirage.cli.optimizing import optimized_json, show_candidates, show_choice, show_seconds
from mirage.cli.output import Output
from mirage.cli.programs import LoadedProgram, load_program, of_workload

if TYPE_CHECKING:
    from mirage.pipeline.result import Optimized

SUMMARY = "optimize two real programs and show the results"
DESCRIPTION = """\
Imports a PyTorch module (RMSNorm with gain, then a linear layer) and grouped-query attention,
searches, verifies and compiles them, and checks the numbers: on a GPU against torch where there is
one, else by interpreting the chosen µGraph in float64 and as a GPU rounds, and by executing the PTX
of a smaller version of the program in the emulator. Exit code 1 if a number is wrong."""

EXAMPLES = Path(mirage.__file__).resolve().parents[2] / "examples"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("programs", nargs="*", help="other programs to show instead")
    add_chip_argument(parser)
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="where artifacts go (default: the cache)"
    )
    parser.add_argument("--mlir", action="store_true", help="print all of the µGraph's MLIR")


def run(options: argparse.Namespace, output: Output) -> int:
    """Show the programs one after the other."""
    from mirage.cache import cache_folder

    folder = options.output or cache_folder() / "demo"
    results: list[dict[str, Any]] = []
    chosen = [(spec, None) for spec in options.programs] or list(programs())
    for spec, small in chosen:
        start = time.monotonic()
        results.append(show(load_program(spec), small, folder, options, output))
        results[-1]["seconds_in_total"] = time.monotonic() - start
    good = all(r["ok"] for r in results)
    output.say()
    output.say("all numbers are right" if good else "SOME NUMBERS ARE WRONG", style="bold")
    output.result({"ok": good, "programs": results})
    return 0 if good else 1


def programs() -> Iterator[tuple[str, LoadedProgram]]:
    """Yield the programs to show, each with a version that is small enough for the emulator."""
    from mirage.workloads.attention import plain_attention
    from mirage.workloads.linear import rms_matmul

    example = EXAMPLES / "rms_linear.py"  # an installed package has no examples
    linear = str(example) if example.is_file() else "rms_gain_mm4096_m8"
    yield linear, of_workload(rms_matmul("rms_linear_small", 16, 256, 96, gain=True))
    yield "gqa_bs1_kv4096", of_workload(plain_attention("gqa_small", "", 1, 32, 64, 256))


def show(
    loaded: LoadedProgram,
    small: LoadedProgram | None,
    folder: Path,
    options: argparse.Namespace,
    output: Output,
) -> dict[str, Any]:
    """Show one program: optimized, described and checked."""
    from mirage.pipeline.optimize import optimize
    from mirage.pipeline.options import OptimizeOptions
    from mirage.runtime.serialization.artifact import write_artifact

    name = Path(loaded.spec.partition(":")[0]).stem
    output.heading(f"==== {name} ====")
    settings = OptimizeOptions(
        chip=chip_of(options), watch=lambda text: output.say(text, style="dim"), fresh=True
    )
    optimized = optimize(loaded.program, settings)
    show_candidates(output, optimized.report)
    show_choice(output, optimized)
    output.heading("µGraph in MLIR")
    text = optimized.mlir["selected"]
    lines = text.splitlines()
    output.code(text if options.mlir or len(lines) <= 60 else "\n".join([*lines[:60], "…"]))
    output.heading("artifact")
    (compiled,) = (step.compiled for step in optimized.steps if step.compiled is not None)
    path = write_artifact(compiled.artifact, folder / f"{name}.mirage")
    describe(output, compiled, path)
    show_seconds(output, optimized.report)
    checks = check(loaded, small, optimized, output)
    return {
        "name": name,
        **optimized_json(optimized),
        "artifacts": [describe_json(compiled, path)],
        "checks": checks,
        "ok": all(c["ok"] for c in checks),
    }


def check(
    loaded: LoadedProgram, small: LoadedProgram | None, optimized: Optimized, output: Output
) -> list[dict[str, Any]]:
    """Run all checks that this machine supports."""
    from mirage.cli import checks

    results = [checks.interpret(loaded, optimized.graph)]
    if checks.has_gpu():
        results.extend(checks.on_the_gpu(loaded, optimized.artifact))
    if small is not None:
        results.append(checks.emulate_smaller(small, replace(optimized.options, watch=None)))
    output.heading("checks")
    rows = [
        (
            c["check"],
            c["against"],
            f"{c['error']:.2e}",
            f"{c['allowed']:.2e}",
            _mark(c),
            c["detail"],
        )
        for c in results
    ]
    output.table(("what", "against", "error", "allowed", "", ""), rows)
    return results


def _mark(result: dict[str, Any]) -> str:
    return "ok" if result["ok"] else "WRONG"
