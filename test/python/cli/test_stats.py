"""The output of `mirage run --emulate --stats`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mirage.cli import main
from mirage.emulator import Counters
from mirage.runtime import write_artifact
from small_artifacts.small_artifact import small_artifact


def test_the_command_prints_them(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    artifact = str(write_artifact(small_artifact(), tmp_path / "twice.mirage"))
    assert main(["run", artifact, "--emulate", "--stats"]) == 0
    text = capsys.readouterr().out
    assert main(["run", artifact, "--emulate", "--stats", "--json"]) == 0
    copy, twice = json.loads(capsys.readouterr().out)["stats"]
    assert (copy["kernel"], twice["kernel"]) == ("copy", "twice")
    for stats in (copy, twice):
        assert (stats["blocks"], stats["warps"]) == (2, 2)
        assert (stats["global_load_bytes"], stats["global_load_sectors"]) == (256, 8)
        assert (stats["global_store_bytes"], stats["global_store_sectors"]) == (256, 8)
        assert stats["instructions"] == sum(stats["instructions_by_class"].values())
    assert copy["instructions"] == twice["instructions"] == 2 * 13
    assert twice["instructions_by_class"]["float"] == 2
    lines = [" ".join(line.split()) for line in text.splitlines()]
    for name in Counters().__dict__:
        assert sum(line.split(" ")[0] == name for line in lines) == 2, name
    assert lines.count("global_load_sectors 8") == 2
