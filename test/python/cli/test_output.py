"""The messages of a command about work in progress."""

from __future__ import annotations

import io

import pytest
from mirage.cli.output import Output
from rich.console import Console


def progress_on(*, terminal: bool, as_json: bool = False) -> str:
    """The output while two tasks run."""
    output = Output(as_json=as_json)
    written = io.StringIO()
    output._console = Console(file=written, force_terminal=terminal, width=80)
    with output.progress() as progress:
        progress("search: 1 kernels solved")
        output.say("a line that stays")
        progress("verify")
    return written.getvalue()


def test_a_terminal_shows_it_in_its_last_line() -> None:
    shown = progress_on(terminal=True)
    assert "1 kernels solved" in shown
    assert "a line that stays" in shown
    assert shown.index("a line that stays") < shown.index("verify")
    assert "\x1b[2K" in shown.split("verify")[1]  # the line is erased at the end


@pytest.mark.parametrize("as_json", [False, True])
def test_nothing_else_does(as_json: bool) -> None:
    shown = progress_on(terminal=False, as_json=as_json)
    assert "solved" not in shown
    assert ("a line that stays" in shown) is not as_json
