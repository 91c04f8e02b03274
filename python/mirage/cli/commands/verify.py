"""``mirage verify A B``: are two programs the same function?"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from mirage.cli.command_options import add_option
from mirage.cli.output import Output
from mirage.cli.programs import HELP, load_program
from mirage.cli.python_files import BadProgramError
from mirage.frontend.program import Parameter, Program

if TYPE_CHECKING:
    from pathlib import Path
    from types import ModuleType

    from mirage.cli.programs import LoadedProgram

SUMMARY = "decide whether two programs are equivalent"
DESCRIPTION = """\
Compares two programs with the same signature: a proof by normal forms, random tests over finite
fields with a computed error bound, tests at the real sizes, and rounding errors against float64.

What modules hold is compared too: parameters by name, for all that they may hold; buffers and
constants by what they hold. Results go by their keys."""
EPILOG = """\
exit codes:
  0 equivalent (proved or probable)   1 refuted; the witness is printed   2 bad input   3 unknown
  4 equivalent as functions of real numbers, but rounding errors are too large, or the candidate is
    not defined everywhere where the reference is
"""

EQUIVALENT, REFUTED, UNKNOWN, INACCURATE = 0, 1, 3, 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("reference", help=HELP)
    parser.add_argument("candidate", help=HELP)
    from mirage.verify import VerifyOptions

    for name in ("seed", "draws", "permute", "numerics", "seconds"):
        add_option(parser, VerifyOptions, name)
    parser.add_argument(
        "--match",
        action="append",
        default=[],
        metavar="REFERENCE=CANDIDATE",
        help="a tensor that the reference holds under one name and the candidate under another; "
        "they may hold anything (can be repeated)",
    )
    parser.add_argument(
        "--assume",
        action="append",
        default=[],
        choices=["finite-inputs", "indices-in-range", "rows-left"],
        help="inputs contain no NaN, so that one may be lost; integers that either program picks "
        "elements with name one (no class that is left out); each mask leaves something of each "
        "row",
    )
    parser.add_argument(
        "--no-assume",
        action="append",
        default=[],
        choices=["reassociation", "more-precision", "integers-fit"],
        help="do not accept other numbers than the reference's, casts to 16 bits left out, or sums "
        "of integers of 32 or 64 bits that wrap around in one program alone",
    )


def run(options: argparse.Namespace, output: Output) -> int:
    """Prints the verdict, which also determines the exit code."""
    from mirage.pipeline.checks.defined_somewhere import check_defined_somewhere
    from mirage.pipeline.commands.compare import verify_programs
    from mirage.semantics.check import InvalidGraph
    from mirage.verify import Assumptions, Kind, SignatureMismatch, VerifyOptions
    from mirage.verify.needed import needed

    if options.draws < 1:
        raise BadProgramError(f"expected at least one draw, got {options.draws}")
    files: dict[Path, ModuleType] = {}
    reference, candidate = (
        _one_program(spec, files) for spec in (options.reference, options.candidate)
    )
    check_defined_somewhere(reference.program)
    settings = VerifyOptions(
        seed=options.seed,
        draws=options.draws,
        permute=options.permute,
        numerics=options.numerics,
        seconds=options.seconds,
        assume=Assumptions(
            "reassociation" not in options.no_assume,
            "more-precision" not in options.no_assume,
            "finite-inputs" in options.assume,
            "indices-in-range" in options.assume,
            "rows-left" in options.assume,
            "integers-fit" not in options.no_assume,
        ),
    )
    try:
        verdict = verify_programs(
            _with_names(reference),
            _with_names(candidate),
            settings,
            _pairs(options.match),
            named=reference.named and candidate.named,
        )
    except (SignatureMismatch, InvalidGraph) as e:
        raise BadProgramError(f"{options.reference} and {options.candidate}: {e}") from None
    output.say(str(verdict))
    wants = needed(verdict, (reference.graph, candidate.graph))
    if wants:
        output.say("to know more, this would be needed:")
    for want in wants:
        output.say(f"  {want}")
    names = {"reference": options.reference, "candidate": options.candidate}
    output.result({**names, **verdict.to_json(), "needed": list(wants)})
    if verdict.equivalent:
        return EQUIVALENT if verdict.accepted else INACCURATE
    return REFUTED if verdict.kind is Kind.REFUTED else UNKNOWN


def _one_program(spec: str, files: dict[Path, ModuleType]) -> LoadedProgram:
    from mirage.semantics.alternatives import parts_of

    loaded = load_program(spec, files=files)
    if parts_of(loaded.graph):
        raise BadProgramError(
            f"{spec}: expected one program, got kernel.alternatives; --mirage-verify checks each "
            "of them against its reference, --mirage-select keeps one"
        )
    return loaded


def _with_names(loaded: LoadedProgram) -> Program:
    """Return the program; a program in IR knows the names of the tensors that it holds."""
    held = tuple(Parameter(i, name, None, trained=False) for i, name in loaded.held.items())
    return replace(loaded.program, parameters=held) if held else loaded.program


def _pairs(options: list[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in options:
        first, equals, second = text.partition("=")
        if not (first and equals and second):
            raise BadProgramError(f"--match: expected REFERENCE=CANDIDATE, got {text!r}")
        if first in pairs:
            raise BadProgramError(f"--match: expected {first!r} once, got it twice")
        pairs[first] = second
    return pairs
