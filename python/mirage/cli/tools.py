"""Starts the compiled tools of an installed package (`mirage-opt`, `mirage-lsp-server`)."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from mirage.errors import MirageError


def mirage_opt() -> None:
    """Becomes `mirage-opt`."""
    _become("mirage-opt")


def mirage_lsp_server() -> None:
    """Becomes `mirage-lsp-server`."""
    _become("mirage-lsp-server")


def _become(tool: str) -> None:
    path = Path(__file__).parents[1] / "bin" / tool
    if not path.exists():
        raise MirageError(f"{tool} is not part of this installation: {path} does not exist")
    # Passes written in Python run in the interpreter that this package is installed for.
    os.environ.setdefault("MIRAGE_PYTHON", sys.executable)
    os.execv(path, [tool, *sys.argv[1:]])
