"""Options and texts that the commands around the search share."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from mirage.cli.artifacts import chip_of
from mirage.cli.output import Output

if TYPE_CHECKING:
    from mirage.frontend.program import Program
    from mirage.pipeline.options import OptimizeOptions
    from mirage.pipeline.result import Optimized, Report


BOUNDS = {
    "plans": "sets of stored intermediates whose kernels are solved",
    "cuts": "states of the program's cuts at one place",
    "matmuls": "matmuls in one kernel",
    "outputs": "values that one kernel writes",
    "choices": "ways to compute a kernel, to be combined with those of others",
    "goals": "values in one type of frame",
    "derivations": "derivations of a value",
    "columns": "choices of sizes in one type of frame",
    "samples": "choices of sizes at which derivations are picked",
}
"""What :data:`mirage.search.BOUNDS` bound; not imported, as `--help` needs no search."""


def add_search_arguments(parser: argparse.ArgumentParser) -> None:
    """Options that :func:`optimize_options` reads."""
    search = parser.add_argument_group("search")
    search.add_argument(
        "--budget",
        type=float,
        default=60.0,
        metavar="SECONDS",
        help="time for everything; then the best that is verified is taken (default: 60)",
    )
    search.add_argument(
        "--candidates", type=int, default=6, metavar="N", help="candidates to verify (default: 6)"
    )
    search.add_argument(
        "--jobs",
        type=int,
        metavar="N",
        help="processes that search and verify (default: one a processor)",
    )
    search.add_argument("--seed", type=int, default=0, help="seed of the search (default: 0)")
    for name, what in BOUNDS.items():
        search.add_argument(f"--max-{name}", type=int, metavar="N", help=f"at most N {what}")
    search.add_argument(
        "--allow-fallback",
        action="store_true",
        help="leave ops that mirage does not know to torch instead of refusing the program",
    )
    verify = parser.add_argument_group("verification")
    verify.add_argument(
        "--draws", type=int, default=2, help="independent random draws (default: 2)"
    )
    verify.add_argument(
        "--verify-seed", type=int, help="make the tests repeatable (default: secret randomness)"
    )
    verify.add_argument("--no-numerics", action="store_true", help="do not measure rounding errors")


def optimize_shown(
    program: Program, options: argparse.Namespace, output: Output, **more: Any
) -> Optimized:
    """Optimizes a program, and shows how far that is."""
    from mirage.pipeline.optimize import optimize

    with output.progress() as progress:
        return optimize(program, optimize_options(options, output, progress=progress, **more))


def optimize_options(options: argparse.Namespace, output: Output, **more: Any) -> OptimizeOptions:
    """The driver's options."""
    from mirage.pipeline.options import OptimizeOptions

    return OptimizeOptions.of(
        chip=chip_of(options),
        budget=options.budget,
        candidates=options.candidates,
        seed=options.seed,
        verify_seed=options.verify_seed,
        draws=options.draws,
        numerics=not options.no_numerics,
        jobs=options.jobs,
        bounds={
            name: bound for name in BOUNDS if (bound := getattr(options, f"max_{name}")) is not None
        },
        cubin=not options.no_cubin,
        use_cache=not options.no_cache,
        watch=lambda text: output.say(text, style="dim"),
        **more,
    )


def show_candidates(output: Output, report: Report) -> None:
    """A table of what the search found and what verification said."""
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
    """The chosen µGraph: in words, its evidence, and what it is predicted to cost."""
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
    for note in optimized.report.notes:
        output.say(f"note: {note}")


def show_prediction(output: Output, optimized: Optimized) -> None:
    """Predicted bytes and time."""
    prediction = optimized.report.prediction
    if prediction is None:
        return
    output.heading(f"prediction for {optimized.options.chip}")
    output.say(
        f"{prediction.time:.2f} us ({prediction.bound} bound), "
        f"{prediction.bytes_read:,.0f} bytes read, {prediction.bytes_written:,.0f} written, "
        f"{prediction.launches} kernels"
    )


def show_seconds(output: Output, report: Report) -> None:
    """Where the time went."""
    spent = ", ".join(f"{what} {seconds:.1f} s" for what, seconds in report.seconds.items())
    output.say(f"time: {spent}", style="dim")


def optimized_json(optimized: Optimized) -> dict[str, Any]:
    """The account of an optimization as data."""
    return {
        "name": optimized.graph.name,
        "chip": optimized.options.chip,
        "description": optimized.describe(),
        "mlir": optimized.mlir["selected"],
        **optimized.report.to_json(),
    }
