"""The page of the reference that lists the options, made from their dataclasses."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from typing import Any

HEAD = """# Options

How a program is optimized. The names are those of Python: `graph.superoptimize(budget=10)`,
`mirage.optimize(program, OptimizeOptions(budget=10))`, and for `torch.compile`
`backend="mirage", options={"budget": 10}`.
The command `mirage optimize` and the passes have the same options with the same defaults; the
[passes](python-passes.md) write `-` for `_`.
"""


def options_page() -> str:
    """Return the text of the page. Imports :mod:`mirage`."""
    from mirage.cli.artifacts import add_compile_arguments
    from mirage.cli.optimizing import add_search_arguments
    from mirage.pipeline.options import OptimizeOptions
    from mirage.search import BOUNDS, SearchLimits
    from mirage.verify import VerifyOptions
    from mirage.verify.assumptions import Assumptions

    parser = argparse.ArgumentParser(add_help=False)
    add_search_arguments(parser)
    add_compile_arguments(parser)
    # The parser's options are public only through its help.
    actions = parser._actions
    flags = {action.dest: action.option_strings[0] for action in actions}
    limits = [f for f in fields(SearchLimits) if f.name in BOUNDS]
    assumed = ", ".join(f"`{f.name}` ({_default(f)})" for f in fields(Assumptions))
    return "\n".join(
        (
            HEAD,
            "## Of all of it",
            "",
            *_table(fields(OptimizeOptions), flags),
            "",
            "## Bounds of the search",
            "",
            '`bounds={"matmuls": 4}` in Python. A bound that was met is a note in the report.',
            "",
            *_table(limits, flags),
            "",
            "## Of `mirage.verify`",
            "",
            *_table(fields(VerifyOptions), {}),
            "",
            f"What may be assumed (`assume`): {assumed}; see [verification](../verification.md).",
        )
    )


def _table(found: Any, flags: Mapping[str, str]) -> list[str]:
    rows = [(f"`{f.name}`", _default(f), _what(f), flags.get(f.name, "")) for f in found]
    if not flags:
        rows = [row[:3] for row in rows]
    head = ("option", "default", "what it is", "`mirage optimize`")[: len(rows[0])]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        cells = (*row[:3], *(f"`{flag}`" if flag else "" for flag in row[3:]))
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _what(field: Field[Any]) -> str:
    return str(field.metadata["help"]).replace("|", "\\|")


def _default(field: Field[Any]) -> str:
    unset = str(field.metadata.get("unset", ""))
    if unset:
        return unset
    value = field.default
    if value is MISSING:
        return "none" if field.name == "bounds" else "see below"
    if value is None:
        return "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
