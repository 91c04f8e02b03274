"""The places of ops in the user's program."""

from __future__ import annotations

import os
import re
import sysconfig

import torch

from mirage.errors import SourceLocation
from mirage.frontend.location import is_internal, user_location

_TORCH = os.path.join(os.path.dirname(os.path.abspath(torch.__file__)), "")
_PYTHON = os.path.join(sysconfig.get_path("stdlib"), "")
_PACKAGES = tuple(
    os.path.join(sysconfig.get_path("stdlib"), name, "")
    for name in ("site-packages", "dist-packages")
)
"""The folders of packages inside of Python's own folders."""
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


def is_user_file(file: str) -> bool:
    """Return whether a file belongs neither to PyTorch, nor to this package, nor to Python
    itself."""
    path = os.path.abspath(file)
    of_python = path.startswith(_PYTHON) and not path.startswith(_PACKAGES)
    of_torch = path.startswith(_TORCH)
    return not (of_python or of_torch or is_internal(path) or file.startswith("<"))


def place_of(node: torch.fx.Node) -> SourceLocation | None:
    """Return the innermost line of the user's code that a node comes from, or the caller's line."""
    frames = _FRAME.findall(str(node.meta.get("stack_trace") or ""))
    users = [SourceLocation(file, int(line)) for file, line in frames if is_user_file(file)]
    return users[-1] if users else user_location()
