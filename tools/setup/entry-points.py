"""Registers a build tree like an installed package: other packages find its entry points
(TorchDynamo finds its backends) without an import.

    python tools/setup/entry-points.py FOLDER (which must be on Python's path)
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GROUP = "project.entry-points."


def entry_points(settings: str) -> str:
    """Return the entry points of a pyproject.toml in the form of a distribution's file. Python 3.10
    has no TOML parser, so only plain entries are read."""
    found: list[str] = []
    for group, body in re.findall(r"^\[([^\]]+)\]\n((?:(?!\[).*\n?)*)", settings, re.MULTILINE):
        if group.startswith(GROUP):
            lines = re.findall(r'^([\w.-]+) = "([^"]+)"', body, re.MULTILINE)
            found += [f"[{group.removeprefix(GROUP)}]", *(f"{a} = {b}" for a, b in lines), ""]
    return "\n".join(found)


def write(folder: Path) -> Path:
    """Write the metadata of this tree to ``folder``; return their path."""
    text = (ROOT / "python/mirage/__init__.py").read_text()
    version = re.search(r'__version__ = "(.+)"', text)
    assert version is not None
    for old in folder.glob("mirage-*.dist-info"):
        if not (old / "RECORD").exists():  # written here, not installed
            for file in old.iterdir():
                file.unlink()
            old.rmdir()
    info = folder / f"mirage-{version[1]}.dist-info"
    if info.exists():  # an installed wheel, which has them
        return info
    info.mkdir()
    metadata = f"Metadata-Version: 2.1\nName: mirage\nVersion: {version[1]}\n"
    (info / "METADATA").write_text(metadata)
    (info / "entry_points.txt").write_text(entry_points((ROOT / "pyproject.toml").read_text()))
    return info


if __name__ == "__main__":
    write(Path(sys.argv[1]))
