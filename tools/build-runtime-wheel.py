"""Builds the wheel `mirage-runtime`: the part of this tree that loads and runs artifacts, in pure
Python.

    python tools/build-runtime-wheel.py dist

It has the package `mirage` with nothing but `mirage.runtime`, needs torch, and is the same file
whenever and wherever it is built. It replaces `mirage` on machines where that is not installed;
both contain these files, so only one of them may be installed."""

from __future__ import annotations

import argparse
import base64
import hashlib
import re
import zipfile
from pathlib import Path

import tomllib

ROOT = Path(__file__).resolve().parents[1]
NAME = "mirage-runtime"
CONTENT = ("__init__.py", "errors.py", "lazy_names.py", "py.typed", "runtime/**/*.py")
"""Files of `python/mirage`."""
TORCH = "torch>=2.9"
EPOCH = (1980, 1, 1, 0, 0, 0)


def build(folder: Path) -> Path:
    """Write the wheel to a folder and return its path."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    package = ROOT / "python" / "mirage"
    version = re.search(r'__version__ = "(.+)"', (package / "__init__.py").read_text())
    assert version is not None
    stem = f"{NAME.replace('-', '_')}-{version[1]}"
    files = {
        f"mirage/{path.relative_to(package).as_posix()}": path.read_bytes()
        for pattern in CONTENT
        for path in sorted(package.glob(pattern))
    }
    files[f"{stem}.dist-info/METADATA"] = metadata(version[1], settings).encode()
    files[f"{stem}.dist-info/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: mirage\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    record = [f"{name},sha256={digest(data)},{len(data)}" for name, data in files.items()]
    place = f"{stem}.dist-info/RECORD"
    files[place] = "\n".join([*record, f"{place},,", ""]).encode()
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{stem}-py3-none-any.whl"
    unfinished = target.with_suffix(".part")
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in files.items():
            info = zipfile.ZipInfo(name, EPOCH)
            info.external_attr = 0o644 << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(info, data)
    unfinished.replace(target)
    return target


def metadata(version: str, settings: dict[str, object]) -> str:
    """Return the metadata for package tools. A GPU needs `mirage-runtime[gpu]`."""
    extras: dict[str, list[str]] = settings["optional-dependencies"]  # type: ignore[assignment]
    lines = [
        "Metadata-Version: 2.1",
        f"Name: {NAME}",
        f"Version: {version}",
        "Summary: Loads and runs what mirage has compiled and exported",
        f"Requires-Python: {settings['requires-python']}",
        f"Requires-Dist: {TORCH}",
        "Provides-Extra: gpu",
        *(f"Requires-Dist: {need}; extra == 'gpu'" for need in extras["gpu"]),
    ]
    return "\n".join([*lines, ""])


def digest(data: bytes) -> str:
    """Return a hash in the format of wheels."""
    found = hashlib.sha256(data).digest()
    return base64.urlsafe_b64encode(found).rstrip(b"=").decode()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])  # type: ignore[union-attr]
    parser.add_argument("folder", type=Path, help="where the wheel goes")
    print(build(parser.parse_args().folder))
