"""Parses the command line and runs a command.

Exit codes of every command: 0 success, 1 a negative result (refuted, a wrong number, a check that
fails), 2 bad input, 3 unknown, 70 a bug in mirage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import threading
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from types import FrameType
from typing import Any, NoReturn

import mirage
from mirage.cli.ended import Ended
from mirage.cli.output import Output
from mirage.errors import MirageError
from mirage.spare_memory import keep_spare_memory

COMMANDS = (
    "optimize", "export", "tune", "search", "verify", "compile", "run", "cache", "doctor",
    "workloads", "demo",
)  # fmt: skip

BAD_INPUT = 2
BUG = 70
INTERRUPTED = 130

EPILOG = """\
programs:
  file.py:object   a torch.nn.Module, a function or a mirage graph; example inputs come from
                   `example_inputs` in the same file, a tuple or a dictionary by the names of
                   parameters. `file.py` alone takes its only program.
                   `mirage export` writes a whole model, calls of PyTorch and weights included.
  file.mlir        a module with one kernel.graph
  NAME             a built-in workload, listed by `mirage workloads`

exit codes:
  0 success   1 negative result   2 bad input   3 unknown   70 bug in mirage   130 interrupted
"""


class Parser(argparse.ArgumentParser):
    """A parser that suggests options with names similar to an unknown one."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.command: argparse.ArgumentParser | None = None

    def error(self, message: str) -> NoReturn:
        unknown = re.findall(r"--[\w-]+", message) if message.startswith("unrecognized") else []
        known = re.findall(r"--[\w-]+", (self.command or self).format_help())
        close = [found[0] for word in unknown if (found := get_close_matches(word, known, 1))]
        super().error(message + (f"; did you mean {', '.join(close)}?" if close else ""))


def build_parser(chosen: str | None = None) -> argparse.ArgumentParser:
    """Return the parser of the whole command line, with the options of all commands or only of the
    ``chosen`` one: options come from modules that take time to import."""
    parser = Parser(
        prog="mirage",
        description="Superoptimizer for tensor programs: finds faster equivalent programs for a "
        "GPU, shows that they are equivalent and compiles them.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"mirage {mirage.__version__}")
    commands = parser.add_subparsers(
        dest="command", metavar="COMMAND", required=True, parser_class=argparse.ArgumentParser
    )
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--json", action="store_true", help="print one JSON object and nothing else"
    )
    for name in COMMANDS:
        module = import_module(f"mirage.cli.commands.{name}")
        command = commands.add_parser(
            name,
            parents=[common],
            help=module.SUMMARY,
            description=module.DESCRIPTION,
            epilog=getattr(module, "EPILOG", None),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if chosen in (None, name):
            module.add_arguments(command)
        if chosen == name:
            parser.command = command
        command.set_defaults(run=module.run)
    return parser


def _end(number: int, frame: FrameType | None) -> None:
    """End the command on SIGTERM as an exception does: nothing is left half-written."""
    raise Ended(128 + number)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``mirage`` with ``arguments`` (by default those of the process) and return its exit
    code."""
    try:
        words = sys.argv[1:] if arguments is None else list(arguments)
        chosen = next((word for word in words if not word.startswith("-")), "")
        options = build_parser(chosen).parse_args(words)
    except SystemExit as e:  # argparse has printed what is wrong, or the help
        return e.code if isinstance(e.code, int) else BAD_INPUT
    output = Output(as_json=options.json)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _end)
    try:
        keep_spare_memory()
        return int(options.run(options, output))
    except MirageError as e:
        output.error(type(e).__name__, str(e), BAD_INPUT)
        return BAD_INPUT
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # the reader is gone; exit without a complaint
        return 0
    except Exception as e:
        if os.environ.get("MIRAGE_DEBUG"):
            raise
        output.error(
            type(e).__name__,
            f"internal error: {type(e).__name__}: {e}\nthis is a bug in mirage; "
            "MIRAGE_DEBUG=1 shows where",
            BUG,
        )
        return BUG
