"""``mirage tune``: a choice among verified candidates by timing them on this machine's GPU."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from mirage.cli.artifacts import add_compile_arguments
from mirage.cli.optimizing import add_search_arguments, optimize_shown
from mirage.cli.output import Output
from mirage.cli.programs import HELP, load_program

if TYPE_CHECKING:
    from mirage.frontend.program import Program

SUMMARY = "time the best candidates on the GPU, and keep the choice"
DESCRIPTION = """\
Finds the best candidates of a program like `mirage optimize` (an earlier run's are taken from the
cache), times each of them on this machine's GPU, and keeps the order in the cache, so that
`mirage optimize`, `mirage export` and mirage.optimize take the fastest from then on.
mirage.torch.tune does the same for the graphs of torch.compile."""
SECONDS = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("program", help=HELP)
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, metavar="SECONDS",
        help="seconds of timing, after the search (default: %(default)g)",
    )  # fmt: skip
    add_search_arguments(parser)
    add_compile_arguments(parser)


def run(options: argparse.Namespace, output: Output) -> int:
    """Time the finalists and print a table. Raises :class:`~mirage.runtime.errors.NoGpuError`."""
    from mirage.pipeline.measure import fastest, need_gpu

    need_gpu("tuning (`mirage optimize` chooses by predicted times)")
    loaded = load_program(options.program, allow_fallback=options.allow_fallback)
    optimized = optimize_shown(loaded.program, options, output)
    finalists = optimized.finalists
    measured = fastest(optimized, *_inputs(loaded.program), seconds=options.seconds)
    rows: list[dict[str, Any]] = [
        {
            "place": f.place,
            "predicted_us": None if f.prediction is None else round(f.prediction.time, 2),
            "measured_us": round(spent, 2),
            "chosen": f.place == measured.optimized.place,
        }
        for f, spent in zip(finalists, measured.microseconds, strict=True)
    ]
    output.heading("candidates")
    output.table(
        ("no", "predicted us", "measured us", ""),
        [(r["place"], r["predicted_us"], r["measured_us"], "chosen" * r["chosen"]) for r in rows],
    )
    if not options.use_cache:
        output.say("note: with --no-cache the choice is not kept")
    output.result({"program": options.program, "chip": optimized.options.chip, "candidates": rows})
    return 0


def _inputs(program: Program) -> list[Any]:
    """Return inputs on the GPU: normally distributed numbers, and zeros where they are integers,
    which may be indices."""
    import torch

    from mirage.runtime.serialization.manifest import TORCH_NAMES

    found: list[Any] = []
    for value in program.call_inputs:
        dtype = getattr(torch, TORCH_NAMES[value.dtype.value])
        x = torch.zeros(value.shape, dtype=dtype)
        found.append((x.normal_() if dtype.is_floating_point else x).to(_device()))
    return found


def _device() -> str:
    """Where kernels run."""
    return "cuda"
