"""``--chip`` of the benchmarks: its default, and which commands read the table of chips."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest
from mirage.cost.target import DEFAULT_CHIP

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

from chip_option import add_chip


@pytest.mark.parametrize(
    ("words", "chip"),
    [(["compile"], DEFAULT_CHIP), (["compile", "--chip", "A100"], "a100"), (["run"], None)],
)
def test_the_table_is_asked_only_where_a_command_compiles(
    words: list[str], chip: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that measures may have only the runtime."""
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers()
    commands.add_parser("run")
    add_chip(commands.add_parser("compile"))
    if chip is None:
        monkeypatch.setitem(sys.modules, "mirage.cost.target", None)
    assert getattr(parser.parse_args(words), "chip", None) == chip


def test_an_unknown_chip_is_an_error_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    add_chip(parser)
    with pytest.raises(SystemExit):
        parser.parse_args(["--chip", "h20"])
    assert "expected a known chip (sm_80, " in capsys.readouterr().err
