"""Makes a build tree known as an installed package is: what other packages find by entry points
(TorchDynamo its backends) is found without an import.

    python tools/setup/entry-points.py FOLDER   (one that Python's path has)
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GROUP = "project.entry-points."


def entry_points(settings: str) -> str:
    """Return the entry points of a pyproject.toml in the form of a distribution's file. Python 3.10
    has no reader of TOML, so only plain entries are read."""
    found: list[str] = []
    for group, body in re.findall(r"^\[([^\]]+)\]\n((?:(?!\[).*\n?)*)", settings, re.MULTILINE):
        if group.startswith(GROUP):
            lines = re.findall(r'^([\w.-]+) = "([^"]+)"', body, re.MULTILINE)
            found += [f"[{group.removeprefix(GROUP)}]", *(f"{a} = {b}" for a, b in lines), ""]
    return "\n".join(found)


def write(folder: Path) -> Path:
    """The metadata of this tree in ``folder``; returns where they are."""
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
