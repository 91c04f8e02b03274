"""``mirage verify A B``: are two programs the same function?"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from mirage.cli.output import Output
from mirage.cli.programs import HELP, BadProgramError, load_program

if TYPE_CHECKING:
    from mirage.semantics.ugraph import KernelGraph

SUMMARY = "decide whether two programs are equivalent"
DESCRIPTION = """\
Compares two programs with the same signature: a proof by normal forms, random tests over finite
fields with a computed error bound, tests at the real sizes, and rounding errors against float64."""
EPILOG = """\
exit codes:
  0 equivalent (proved or probable)   1 refuted; the witness is printed   2 bad input   3 unknown
"""

EQUIVALENT, REFUTED, UNKNOWN = 0, 1, 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("reference", help=HELP)
    parser.add_argument("candidate", help=HELP)
    parser.add_argument(
        "--seed", type=int, help="make the run repeatable (default: secret randomness)"
    )
    parser.add_argument(
        "--draws", type=int, default=2, help="independent random draws (default: 2)"
    )
    parser.add_argument(
        "--permute", action="store_true", help="accept the outputs in another order"
    )
    parser.add_argument("--no-numerics", action="store_true", help="do not measure rounding errors")


def run(options: argparse.Namespace, output: Output) -> int:
    """Prints the verdict; the exit code says it too."""
    from mirage.semantics.check import InvalidGraph
    from mirage.verify import Kind, SignatureMismatch, VerifyOptions, verify

    if options.draws < 1:
        raise BadProgramError(f"expected at least one draw, got {options.draws}")
    reference, candidate = (_one_program(spec) for spec in (options.reference, options.candidate))
    settings = VerifyOptions(
        seed=options.seed,
        draws=options.draws,
        permute=options.permute,
        numerics=not options.no_numerics,
    )
    try:
        verdict = verify(reference, candidate, settings)
    except (SignatureMismatch, InvalidGraph) as e:
        raise BadProgramError(f"{options.reference} and {options.candidate}: {e}") from None
    output.say(str(verdict))
    output.result(
        {"reference": options.reference, "candidate": options.candidate, **verdict.to_json()}
    )
    if verdict.equivalent:
        return EQUIVALENT
    return REFUTED if verdict.kind is Kind.REFUTED else UNKNOWN


def _one_program(spec: str) -> KernelGraph:
    from mirage.semantics.alternatives import Alternatives

    graph = load_program(spec).graph
    if any(isinstance(op, Alternatives) for op in graph.ops):
        raise BadProgramError(
            f"{spec}: expected one program, got kernel.alternatives; --mirage-verify checks each "
            "of them against its reference, --mirage-select keeps one"
        )
    return graph
