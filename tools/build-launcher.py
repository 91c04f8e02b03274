"""Compiles the launcher of `mirage.runtime` (python/mirage/runtime/native/launcher.c).

    python tools/build-launcher.py [folder]

One shared object serves all versions of Python from 3.10 on, and any version of PyTorch. The build
puts it next to the bindings; if only the runtime is installed, the folder is that of the package
`mirage`. The runtime works without it, too."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "python" / "mirage"
SOURCE = PACKAGE / "runtime" / "native" / "launcher.c"
NAME = "_launcher.abi3.so"
FLAGS = ("-std=c11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra",
         "-Wshadow", "-Werror")  # fmt: skip


def build(folder: Path = PACKAGE) -> Path:
    """Write the shared object to a folder. Raises ``OSError`` if there is no compiler, and
    ``subprocess.CalledProcessError`` if it fails."""
    compiler = shlex.split(os.environ.get("CC", "cc"))
    headers = f"-I{sysconfig.get_paths()['include']}"
    target = folder / NAME
    unfinished = target.with_suffix(".part")
    command = [*compiler, *FLAGS, headers, "-o", str(unfinished), str(SOURCE), "-lpthread"]
    subprocess.run(command, check=True)
    unfinished.replace(target)
    return target


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, nargs="?", default=PACKAGE)
    print(build(parser.parse_args().folder))
