"""``mirage compile``: from a given µGraph to an artifact."""

from __future__ import annotations

import argparse
from pathlib import Path

from mirage.cli.artifacts import add_compile_arguments, compile_options, describe, describe_json
from mirage.cli.output import Output
from mirage.cli.programs import HELP, default_target, load_program
from mirage.cli.python_files import BadProgramError

SUMMARY = "compile a µGraph as it stands (no search)"
DESCRIPTION = """\
Compiles a program whose kernels are all written down already: a µGraph in .mlir form (as `mirage
search --emit-best` writes it), or a mirage graph of customized kernels. `mirage optimize` searches
first.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("program", help=HELP)
    parser.add_argument(
        "-o", "--output", type=Path, help="folder of the artifact (default: NAME.mirage)"
    )
    add_compile_arguments(parser)


def run(options: argparse.Namespace, output: Output) -> int:
    """Compile and write the artifact."""
    from mirage.compiler.compile import compile_graph
    from mirage.pipeline.checks.defined_somewhere import check_defined_somewhere
    from mirage.runtime.serialization.artifact import write_artifact
    from mirage.semantics.ugraph import Launch

    program = load_program(options.program)
    loose = [op for op in program.graph.ops if not (isinstance(op, Launch) or op.renames)]
    if loose:
        raise BadProgramError(
            f"{options.program}: expected kernels only, got the op "
            f"{type(loose[0]).__name__.lower()}; "
            "`mirage optimize` finds kernels for it"
        )
    check_defined_somewhere(program.program)
    compiled = compile_graph(program.graph, compile_options(options))
    target = options.output or default_target(options.program, program.graph)
    path = write_artifact(compiled.artifact, target)
    describe(output, compiled, path)
    output.result(describe_json(compiled, path))
    return 0
