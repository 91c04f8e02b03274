"""``mirage optimize``: from a program to an artifact."""

from __future__ import annotations

import argparse
from pathlib import Path

from mirage.cli.artifacts import (
    add_compile_arguments,
    add_output_argument,
    describe,
    describe_json,
)
from mirage.cli.dynamic_option import add_dynamic_argument, dynamic_shapes
from mirage.cli.optimizing import (
    add_search_arguments,
    optimize_options,
    optimize_shown,
    optimized_json,
    show_candidates,
    show_choice,
    show_classes,
    show_seconds,
)
from mirage.cli.output import Output
from mirage.cli.programs import HELP, LoadedProgram, default_target, load_program
from mirage.cli.python_files import BadProgramError
from mirage.runtime.serialization.artifact import check_target

SUMMARY = "find, verify and compile a faster equivalent program"
DESCRIPTION = """\
Searches for faster equivalent programs, verifies each, takes the one that is predicted to be the
fastest and compiles it to an artifact: a folder with PTX and a manifest that `mirage run` and
mirage.runtime.load take. `mirage export` writes whole models: calls of PyTorch, weights, updates
and the structure of what goes in and out."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    from mirage.pipeline.forms import STAGES

    parser.add_argument("program", help=HELP)
    add_output_argument(parser)
    add_dynamic_argument(parser)
    parser.add_argument("--emit", choices=STAGES, help="also print the IR in that form")
    add_search_arguments(parser)
    add_compile_arguments(parser)


def run(options: argparse.Namespace, output: Output) -> int:
    """Optimize, write the artifact and describe the result."""
    loaded = load_program(options.program, allow_fallback=options.allow_fallback)
    target = options.output or default_target(options.program, loaded.graph)
    check_target(target)
    if options.dynamic:
        return _by_size(loaded, target, options, output)
    optimized = optimize_shown(loaded.program, options, output)
    show_candidates(output, optimized.report)
    show_choice(output, optimized)
    if options.emit:
        output.heading(f"IR in form {options.emit}")
        output.code(optimized.mlir[options.emit])
    data = {"program": options.program, **optimized_json(optimized), "artifacts": []}
    if options.emit:
        data["emitted"] = optimized.mlir[options.emit]
    output.heading("artifact")
    path = optimized.save(target)
    compiled = [step.compiled for step in optimized.steps if step.compiled is not None]
    if optimized.is_one_artifact:
        describe(output, compiled[0], path)
        data["artifacts"].append(describe_json(compiled[0], path))
    else:
        calls = [step.external.target for step in optimized.steps if step.external is not None]
        for call in dict.fromkeys(calls):
            output.say(f"{call} stays with PyTorch")
        output.say(f"artifact: {path}, {len(compiled)} parts of kernels and {len(calls)} calls")
        data["artifacts"].append({"artifact": str(path), "name": path.name, "calls": calls})
    show_seconds(output, optimized.report)
    output.result(data)
    return 0


def _by_size(
    loaded: LoadedProgram, target: Path, options: argparse.Namespace, output: Output
) -> int:
    """Optimize for a size that is known only at the call, write the artifact and describe the
    result."""
    from mirage.frontend.torch_import import from_torch
    from mirage.pipeline.optimize import optimize_sizes

    if options.emit:
        raise BadProgramError("--emit: expected no --dynamic, since each class has its own IR")
    if not loaded.given:
        raise BadProgramError(
            f"--dynamic: expected a module or function of PyTorch, got {loaded.spec!r}"
        )
    sizes = from_torch(
        *loaded.given,
        allow_fallback=options.allow_fallback,
        dynamic_shapes=dynamic_shapes(options.dynamic),
        name=loaded.graph.name or "program",
    )
    with output.progress() as progress:
        optimized = optimize_sizes(sizes, optimize_options(options, output, progress=progress))
    output.heading("chosen µGraphs")
    data = {"program": options.program, **show_classes(optimized, output)}
    path = optimized.save(target)
    output.say(f"artifact: {path}")
    output.result({**data, "artifact": str(path)})
    return 0
