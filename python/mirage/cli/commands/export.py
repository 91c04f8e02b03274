"""``mirage export``: a whole model as one artifact."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirage.cli.artifacts import add_compile_arguments, add_output_argument
from mirage.cli.dynamic_option import add_dynamic_argument, dynamic_shapes
from mirage.cli.modules import HELP, load_module
from mirage.cli.optimizing import (
    add_search_arguments,
    optimize_options,
    optimized_json,
    show_classes,
    show_prediction,
    show_seconds,
)
from mirage.cli.output import Output
from mirage.runtime.serialization.artifact import check_target

if TYPE_CHECKING:
    from mirage.pipeline.commands.export import Exported
    from mirage.pipeline.commands.export_sizes import ExportedSizes

SUMMARY = "write a whole model: kernels, calls of PyTorch, weights"
DESCRIPTION = """\
Optimizes a module and writes all of it as one artifact: its kernels, the calls that stay with
PyTorch between them, the tensors that it holds, what it writes to, and how its results lie in
memory. mirage.runtime.load takes it with nothing but torch, and calls it as the module is called.
An artifact is complete, or it is not written."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("program", help=HELP)
    add_output_argument(parser)
    parser.add_argument(
        "--inputs",
        type=Path,
        metavar="FILE",
        help=".npz or .safetensors file with example inputs by the names of the module's "
        "parameters, instead of the file's `example_inputs`",
    )
    parser.add_argument(
        "--weights",
        choices=("safetensors", "reference"),
        default="safetensors",
        help="write the tensors of the module's state_dict to a file in the artifact, or their "
        "names only: whoever loads it passes them (default: safetensors)",
    )
    add_dynamic_argument(parser)
    add_search_arguments(parser, fallback=False)
    add_compile_arguments(parser)


def run(options: argparse.Namespace, output: Output) -> int:
    """Optimize, write the artifact and describe it."""
    from mirage.errors import MirageError, SourceLocation
    from mirage.pipeline.commands.export import Exported, export_with
    from mirage.pipeline.commands.export_sizes import export_sizes
    from mirage.pipeline.optimize import optimize

    name = options.program.rpartition(":")[2] if ":" in options.program else options.program
    target = options.output or Path(f"{re.sub(r'[^A-Za-z0-9_]', '_', Path(name).stem)}.mirage")
    check_target(target)
    loaded = load_module(options.program, options.inputs)
    with output.progress() as progress:
        try:
            settings = optimize_options(options, output, progress=progress)
            given = loaded.module, loaded.inputs, loaded.named
            found: Exported | ExportedSizes
            if options.dynamic:
                shapes = dynamic_shapes(options.dynamic)
                found = export_sizes(*given, shapes, target, options.weights, settings)
            else:
                found = export_with(optimize, *given, target, options.weights, settings)
        except MirageError as error:
            error.locate(SourceLocation(str(loaded.path), 0))
            raise
    alone = isinstance(found, Exported)
    data = _say(found, output) if alone else _say_sizes(found, output)
    output.result({"program": options.program, **data})
    return 0


def _say_sizes(found: ExportedSizes, output: Output) -> dict[str, Any]:
    """Describe an artifact for a size that is known only at the call, in words and as data."""
    output.heading("artifact")
    for op, reason in dict.fromkeys(found.stays):
        output.say(f"{op} stays with PyTorch: {reason}")
    data = show_classes(found.optimized, output)
    output.say(f"artifact: {found.path}")
    stays = [{"op": op, "reason": reason} for op, reason in found.stays]
    return {**data, "artifact": str(found.path), "stays": stays}


def _say(found: Exported, output: Output) -> dict[str, Any]:
    """Describe the artifact, in words and as data."""
    from mirage.runtime.dispatch.plan import Call
    from mirage.runtime.models.model_artifact import read_model

    m = read_model(found.path, check_tensors=False).manifest
    calls = [s for s in m.plan.steps if isinstance(s, Call)]
    parts = len(m.plan.steps) - len(calls)
    show_prediction(output, found.optimized)
    output.heading("artifact")
    for op, reason in dict.fromkeys(found.stays):
        output.say(f"{op} stays with PyTorch: {reason}")
    written = sum(call.in_place for call in calls)
    output.say(
        f"{parts} parts of kernels and {len(calls)} calls of PyTorch, {written} of which "
        f"write in place; {len(m.state)} tensors of state"
    )
    for note in found.optimized.report.notes:
        output.say(f"note: {note}")
    output.say(f"artifact: {found.path}")
    show_seconds(output, found.optimized.report)
    return {
        **optimized_json(found.optimized),
        "artifact": str(found.path),
        "parts": parts,
        "calls": [call.op for call in calls],
        "in_place": written,
        "stays": [{"op": op, "reason": reason} for op, reason in found.stays],
        "state": [s.spec.name for s in m.state],
        "files": dict(m.files),
    }
