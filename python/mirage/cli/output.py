"""The output of commands: JSON for machines, text and tables for people.

A command builds one JSON object; with ``--json`` that object, and nothing else, is standard output.
Without it the command prints as it runs. Errors go to standard error (with ``--json``: as an object
with the key ``error`` to standard output).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

PIPE_WIDTH = 160
"""The width of tables if standard output is not a terminal."""


class Output:
    """The standard output of one command."""

    def __init__(self, *, as_json: bool, quiet: bool = False) -> None:
        self.as_json = as_json
        self.quiet = quiet
        self._console: Any = None

    @property
    def console(self) -> Any:
        """Rich's console on standard output."""
        if self._console is None:
            from rich.console import Console

            self._console = Console(
                highlight=False, soft_wrap=True, width=None if sys.stdout.isatty() else PIPE_WIDTH
            )
        return self._console

    def say(self, text: str = "", style: str | None = None) -> None:
        """Print a line for people."""
        if not self.as_json and not self.quiet:
            self.console.print(text, style=style, markup=False)

    def heading(self, text: str) -> None:
        """Print a line that starts a section."""
        self.say()
        self.say(text, style="bold")

    def code(self, text: str) -> None:
        """Print verbatim text, such as IR."""
        if not self.as_json and not self.quiet:
            sys.stdout.write(text if text.endswith("\n") else text + "\n")

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """Print a table for people; columns of numbers are aligned on the right."""
        if self.as_json or self.quiet:
            return
        from rich import box
        from rich.table import Table

        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for i, column in enumerate(columns):
            numeric = bool(rows) and all(isinstance(row[i], int | float) for row in rows)
            table.add_column(column, justify="right" if numeric else "left", overflow="fold")
        for row in rows:
            table.add_row(*(_text(cell) for cell in row))
        self.console.print(table)

    @contextmanager
    def progress(self) -> Generator[Callable[[str], None]]:
        """Show the current activity in the last line of a terminal, until it is done."""
        if self.as_json or self.quiet or not self.console.is_terminal:
            yield lambda text: None
            return
        from rich.live import Live
        from rich.text import Text

        # refreshed by the caller: a separate thread could hold a lock while workers are forked
        with Live(console=self.console, auto_refresh=False, transient=True) as live:
            yield lambda text: live.update(Text(text, style="dim"), refresh=True)

    def result(self, data: dict[str, Any]) -> None:
        """Print the command's result; only with ``--json``."""
        if self.as_json:
            json.dump(data, sys.stdout, indent=2, default=str)
            sys.stdout.write("\n")

    def error(self, kind: str, message: str, code: int) -> None:
        """Print an error; ``kind`` is the name of its exception."""
        if self.as_json:
            self.result({"error": {"kind": kind, "message": message, "exit_code": code}})
        else:
            print(f"error: {message}", file=sys.stderr)


def _text(cell: object) -> str:
    from rich.markup import escape

    return f"{cell:.2f}" if isinstance(cell, float) else escape(str(cell))
