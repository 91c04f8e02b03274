"""``mirage optimize``: the whole way from a program to an artifact."""

from __future__ import annotations

import argparse
from pathlib import Path

from mirage.cli.artifacts import add_compile_arguments, describe, describe_json
from mirage.cli.optimizing import (
    add_search_arguments,
    optimize_shown,
    optimized_json,
    show_candidates,
    show_choice,
    show_seconds,
)
from mirage.cli.output import Output
from mirage.cli.programs import HELP, load_program
from mirage.runtime.artifact import check_target

SUMMARY = "find, verify and compile a faster equivalent program"
DESCRIPTION = """\
Searches for faster equivalent programs, verifies each, takes the one that is predicted to be the
fastest and compiles it to an artifact: a folder with PTX and a manifest that `mirage run` and
mirage.runtime.load take."""

PART = "part{}.mirage"
"""The artifacts of a program that calls of PyTorch cut into parts."""

STAGES = ("reference", "candidates", "stabilized", "verified", "selected")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("program", help=HELP)
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="the artifact (default: NAME.mirage)"
    )
    parser.add_argument("--emit", choices=STAGES, help="also print the IR in that form")
    add_search_arguments(parser)
    add_compile_arguments(parser)


def run(options: argparse.Namespace, output: Output) -> int:
    """Optimizes, writes the artifact and says what was found."""
    loaded = load_program(options.program, allow_fallback=options.allow_fallback)
    target = options.output or Path(f"{loaded.graph.name or 'program'}.mirage")
    if not (target / PART.format(0)).is_dir():
        check_target(target)
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
    for step in optimized.steps:
        if step.external is not None:
            output.say(f"{step.external.target} stays with torch")
    compiled = [step.compiled for step in optimized.steps if step.compiled is not None]
    for number, part in enumerate(compiled):
        path = write(part, target if len(compiled) == 1 else target / PART.format(number))
        describe(output, part, path)
        data["artifacts"].append(describe_json(part, path))
    show_seconds(output, optimized.report)
    output.result(data)
    return 0


def write(compiled: object, path: Path) -> Path:
    """Writes an artifact, whole or not at all."""
    from mirage.compiler import Compiled
    from mirage.runtime.artifact import write_artifact

    assert isinstance(compiled, Compiled)
    return write_artifact(compiled.artifact, path)
