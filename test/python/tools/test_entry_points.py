"""A build tree is found by entry points like the wheel."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import tomllib

ROOT = Path(__file__).parents[3]
TOOL = ROOT / "tools/setup/entry-points.py"
BACKENDS = "import torch; assert 'mirage' in torch.compiler.list_backends(), 'no backend'"


def found_in(folder: Path, code: str) -> str:
    paths = [str(folder), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, env=environment, cwd=folder
    ).stdout


def test_the_backend_is_known_without_an_import(tmp_path: Path) -> None:
    for _ in range(2):  # the earlier files are replaced
        subprocess.run([sys.executable, TOOL, tmp_path], check=True)
    (info,) = tmp_path.glob("*.dist-info")
    found_in(tmp_path, BACKENDS)
    code = (
        "from importlib.metadata import distribution as d\n"
        "for e in d('mirage').entry_points: print(e.group, e.name, e.value)"
    )
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
    wanted = [f"{g} {name} {value}" for g, all in stated.items() for name, value in all.items()]
    assert found_in(tmp_path, code).split("\n")[:-1] == wanted
    (info / "RECORD").write_text("")  # that of an installed wheel stays
    (info / "entry_points.txt").write_text("")
    subprocess.run([sys.executable, TOOL, tmp_path], check=True)
    assert (info / "entry_points.txt").read_text() == ""
