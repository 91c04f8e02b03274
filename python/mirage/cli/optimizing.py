"""Options and texts that the commands for searching share."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from mirage.cli.artifacts import chip_of
from mirage.cli.command_options import add_option
from mirage.cli.output import Output

if TYPE_CHECKING:
    from mirage.frontend.program import Program
    from mirage.pipeline.options import OptimizeOptions
    from mirage.pipeline.result import Optimized, Report
    from mirage.pipeline.size_classes import OptimizedSizes


def add_search_arguments(parser: argparse.ArgumentParser, fallback: bool = True) -> None:
    """Add the options that :func:`optimize_options` reads; with ``fallback``, also the one that
    leaves ops to PyTorch."""
    from mirage.pipeline.options import OptimizeOptions
    from mirage.search import BOUNDS, SearchLimits

    search = parser.add_argument_group("search")
    for name in ("budget", "candidates", "jobs", "seed"):
        add_option(search, OptimizeOptions, name)
    for name in BOUNDS:
        add_option(search, SearchLimits, name, f"max-{name}")
    add_option(search, OptimizeOptions, "fresh")
    if fallback:
        search.add_argument(
            "--allow-fallback",
            action="store_true",
            help="leave ops that mirage does not know to torch instead of refusing the program",
        )
    add_option(search, OptimizeOptions, "pytorch_where_faster")
    verify = parser.add_argument_group("verification")
    for name in ("draws", "verify_seed", "numerics", "check_kernels"):
        add_option(verify, OptimizeOptions, name)


def optimize_shown(
    program: Program, options: argparse.Namespace, output: Output, **more: Any
) -> Optimized:
    """Optimize a program and show the progress."""
    from mirage.pipeline.optimize import optimize

    with output.progress() as progress:
        return optimize(program, optimize_options(options, output, progress=progress, **more))


def optimize_options(options: argparse.Namespace, output: Output, **more: Any) -> OptimizeOptions:
    """Return the command line's options as options of the pipeline."""
    from mirage.pipeline.options import OptimizeOptions
    from mirage.search import BOUNDS

    same = (
        "budget", "candidates", "jobs", "seed", "draws", "verify_seed", "numerics", "check_kernels",
        "fresh", "pytorch_where_faster",
    )  # fmt: skip
    return OptimizeOptions.of(
        chip=chip_of(options),
        **{name: getattr(options, name) for name in same},
        bounds={name: getattr(options, name) for name in BOUNDS},
        cubin=options.cubin,
        use_cache=options.use_cache,
        watch=lambda text: output.say(text, style="dim"),
        **more,
    )


def show_candidates(output: Output, report: Report) -> None:
    """Print a table of the candidates and their verdicts."""
    verdicts = {(c.part, c.index): c for c in report.checked}
    rows: list[tuple[object, ...]] = []
    for part, result in enumerate(report.searches):
        for index, candidate in enumerate(result.candidates):
            checked = verdicts.get((part, index))
            verdict = "" if checked is None else str(checked.verdict).splitlines()[0]
            if checked is not None and not checked.kept:
                verdict += ", dropped"
            cost = candidate.cost
            rows.append(
                (part, index, candidate.description, cost.launches, round(cost.time, 2), verdict)
            )
    output.heading("candidates")
    output.table(("part", "no", "structure", "kernels", "predicted us", "verdict"), rows)


def show_choice(output: Output, optimized: Optimized) -> None:
    """Print the chosen µGraph: in words, with its evidence and its predicted cost."""
    output.heading("chosen µGraph")
    output.code(optimized.describe())
    kept = [c for c in optimized.verdicts if c.kept]
    if kept:
        output.heading("evidence")
        output.code(str(kept[0].verdict))
    unstable = [e for es in optimized.report.exponentials for e in es if not e.stable]
    for reason in dict.fromkeys(str(e) for e in unstable):
        output.say(f"note: in some candidate, {reason}")
    show_prediction(output, optimized)
    if optimized.report.checks:
        output.heading("kernels that were run")
        for check in optimized.report.checks:
            output.say(str(check))
    for note in optimized.report.notes:
        output.say(f"note: {note}")


def show_prediction(output: Output, optimized: Optimized) -> None:
    """Print the predicted bytes and time."""
    prediction = optimized.report.prediction
    if prediction is None:
        return
    output.heading(f"prediction for {optimized.options.chip}")
    output.say(
        f"{prediction.time:.2f} us ({prediction.bound} bound), "
        f"{prediction.bytes_read:,.0f} bytes read, {prediction.bytes_written:,.0f} written, "
        f"{prediction.launches} kernels"
    )


def show_classes(optimized: OptimizedSizes, output: Output) -> dict[str, Any]:
    """Describe the result for each class of sizes, in words and as data."""
    s = optimized.sizes
    output.say(f"{s.name} from {s.at_least} to {s.at_most}: {len(optimized.classes)} classes")
    found: list[dict[str, Any]] = []
    for c in optimized.classes:
        steps = c.plan.plan.steps
        parts = len(c.plan.artifacts)
        output.say(f"up to {c.at_most}: {parts} parts of kernels, {len(steps) - parts} calls")
        output.code(c.optimized.describe())
        for note in c.optimized.report.notes:
            output.say(f"note: {note}")
        found.append({"at_most": c.at_most, "parts": parts, **optimized_json(c.optimized)})
    return {"at_least": s.at_least, "at_most": s.at_most, "classes": found}


def show_seconds(output: Output, report: Report) -> None:
    """Print where the time went."""
    spent = ", ".join(f"{what} {seconds:.1f} s" for what, seconds in report.seconds.items())
    output.say(f"time: {spent}", style="dim")


def optimized_json(optimized: Optimized) -> dict[str, Any]:
    """Return the report on an optimization as data."""
    return {
        "name": optimized.graph.name,
        "chip": optimized.options.chip,
        "description": optimized.describe(),
        "mlir": optimized.mlir["selected"],
        **optimized.report.to_json(),
    }
