"""``mirage tune``: a choice among verified candidates by timing them on this machine's GPU."""

from __future__ import annotations

import argparse
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from mirage.cli.artifacts import add_compile_arguments
from mirage.cli.optimizing import add_search_arguments, optimize_options, optimize_shown
from mirage.cli.output import Output
from mirage.cli.programs import HELP, LoadedProgram, load_program

if TYPE_CHECKING:
    from mirage.frontend.program import Program
    from mirage.pipeline.options import OptimizeOptions

SUMMARY = "time the best candidates on the GPU, and keep the choice"
DESCRIPTION = """\
Finds the best candidates of a program like `mirage optimize` (an earlier run's are taken from the
cache), times each of them on this machine's GPU, and keeps the order in the cache, so that
`mirage optimize`, `mirage export` and mirage.optimize take the fastest from then on. Of a program
of PyTorch it does the same with the graphs of torch.compile, as mirage.torch.tune does."""
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
    seconds = options.seconds / 2 if loaded.given else options.seconds
    measured = fastest(optimized, *_inputs(loaded.program), seconds=seconds)
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
    graphs = _tune_graphs(loaded, options, output, seconds) if loaded.given else []
    if not options.use_cache:
        output.say("note: with --no-cache the choice is not kept")
    data = {"program": options.program, "chip": optimized.options.chip, "candidates": rows}
    output.result({**data, "graphs": graphs})
    return 0


def _tune_graphs(
    loaded: LoadedProgram, options: argparse.Namespace, output: Output, seconds: float
) -> list[str]:
    """Time the candidates of the graphs of ``torch.compile``, which have other inputs and other
    options than the program as a whole, and describe them."""
    import torch
    from torch.utils import _pytree as pytree

    from mirage.torch import tune
    from mirage.torch.compiled_graph import describe

    model, *inputs = pytree.tree_map_only(torch.Tensor, lambda x: x.to(_device()), loaded.given)
    if isinstance(model, torch.nn.Module):
        model = model.to(_device())
    chosen = graph_options(optimize_options(options, output))
    try:
        explained = str(tune(model, *inputs, seconds=seconds, options=chosen))
    except Exception as error:  # what TorchDynamo cannot trace
        output.say(f"note: the graphs of torch.compile are not tuned: {describe(error)}")
        return []
    output.heading("graphs of torch.compile")
    output.code(explained)
    return explained.splitlines()


def graph_options(options: OptimizeOptions) -> dict[str, Any]:
    """Return the options for the graphs of ``torch.compile``, without those that have other
    defaults there."""
    from mirage.torch.graph_work import DEFAULTS

    others = (*DEFAULTS, "watch", "progress")
    return {f.name: getattr(options, f.name) for f in fields(options) if f.name not in others}


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
