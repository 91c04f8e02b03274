"""``mirage search``: candidates and their verdicts, without compiling."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from mirage.cli.artifacts import add_chip_argument
from mirage.cli.optimizing import add_search_arguments, optimize_shown, show_candidates
from mirage.cli.output import Output
from mirage.cli.programs import HELP, load_program

SUMMARY = "find equivalent programs and verify them"
DESCRIPTION = """\
Searches for equivalent programs, makes their exponentials safe from overflow and verifies them, but
compiles nothing. Prints the candidates with their predicted times and verdicts, and the search's
report: what was covered and why it stopped."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("program", help=HELP)
    add_chip_argument(parser)
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="write the candidates as MLIR"
    )
    parser.add_argument(
        "--emit-best", type=Path, metavar="FILE", help="write the best candidate as MLIR"
    )
    parser.add_argument("--words", action="store_true", help="describe each candidate's kernels")
    add_search_arguments(parser)
    parser.set_defaults(cubin=False, use_cache=False)


def run(options: argparse.Namespace, output: Output) -> int:
    """Search and report; the exit code is 1 if no candidate survives."""
    from mirage.semantics.describe import describe

    loaded = load_program(options.program, allow_fallback=options.allow_fallback)
    optimized = optimize_shown(loaded.program, options, output, compile=False)
    report = optimized.report
    show_candidates(output, report)
    if options.words:
        for result in report.searches:
            for index, candidate in enumerate(result.candidates):
                output.heading(f"candidate {index}: {candidate.cost.time:.2f} us predicted")
                output.code(describe(candidate.graph))
    for result in report.searches:
        output.heading("search")
        output.code(result.report.table())
    data: dict[str, Any] = {"program": options.program, **report.to_json(), "written": {}}
    for path, stage in ((options.output, "verified"), (options.emit_best, "selected")):
        if path is not None:
            write_text(path, optimized.mlir[stage])
            output.say(f"wrote {path}")
            data["written"][stage] = str(path)
    for note in report.notes:
        output.say(f"note: {note}")
    output.result(data)
    return 1 if report.searches and not any(c.kept for c in report.checked) else 0


def write_text(path: Path, text: str) -> None:
    """Write a file, whole or not at all."""
    temporary = path.with_name(path.name + ".tmp")
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
