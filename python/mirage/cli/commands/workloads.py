"""``mirage workloads``: the built-in programs."""

from __future__ import annotations

import argparse

from mirage.cli.output import Output

SUMMARY = "list the built-in programs"
DESCRIPTION = "Lists the built-in programs: names that every other command takes as a program."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument("prefix", nargs="?", default="", help="only names that start with this")


def run(options: argparse.Namespace, output: Output) -> int:
    """Print the list."""
    from mirage.workloads import all_workloads

    found = [w for w in all_workloads() if w.name.startswith(options.prefix)]
    rows = [(w.name, w.description, w.dtype.value) for w in found]
    output.table(("name", "program", "type"), rows)
    output.result(
        {
            "workloads": [
                {
                    "name": w.name,
                    "description": w.description,
                    "dtype": w.dtype.value,
                    "inputs": [{"name": s.name, "shape": list(s.shape)} for s in w.inputs],
                }
                for w in found
            ]
        }
    )
    return 0 if found else 1
