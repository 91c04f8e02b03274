"""Versions of the code that entries depend on: hashes of the contents of the package's own files.

A version number alone would not suffice: a result under a changed rule of the verifier must not be
mistaken for one under the old rule, in a developer's tree either.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import mirage

COMPILED = "compiled"
"""The name of the compiled half: bindings, passes, the table of chips."""

_FOUND = (
    "cache", "compiler", "cost", "errors.py", "frontend/program.py", "mlir_io", "pipeline",
    "search", "semantics", "transforms", "verify", COMPILED,
)  # fmt: skip

_CHECKED = ("cost", "errors.py", "pipeline", "runtime", "semantics", COMPILED)

RESTS_ON: dict[str, tuple[str, ...]] = {
    "search": _FOUND,
    "program": (*_FOUND, "emulator", "runtime"),
    "class": ("cost", "emulator", "errors.py", "pipeline", "runtime", "semantics", "verify"),
    "import": (
        "cache", "cost", "errors.py", "frontend", "mlir_io", "pipeline/parts/graph_record.py",
        "runtime", "semantics", "torch", "transforms", COMPILED,
    ),
    "verdict": ("cost", "errors.py", "semantics", "verify"),
    "check": ("compiler", "emulator", "mlir_io", *_CHECKED),
    "code": ("cache", "compiler", "cost", "errors.py", "runtime", COMPILED),
}  # fmt: skip
"""The code that entries of each kind depend on, besides the parts of their keys."""


def kind_version(kind: str) -> str:
    """Return the version of entries of a kind that this process reads and writes."""
    return version_of(*RESTS_ON[kind])


@cache
def version_of(*rooms: str) -> str:
    """Return a hash of mirage's version and of all source files of some packages (``verify``),
    modules (``errors.py``) and the compiled half (:data:`COMPILED`). It is the same on each machine
    with the same files.
    """
    state = hashlib.sha256(mirage.__version__.encode())
    for room in sorted(set(rooms)):
        count = 0
        for name, path in _files(room):
            state.update(f"\0{name}\0".encode())
            state.update(_digest(path))
            count += 1
        if not count and room != COMPILED:
            raise ValueError(f"expected a package or a module of mirage, got {room!r}")
    return state.hexdigest()[:24]


def _files(room: str) -> Iterator[tuple[str, Path]]:
    """Yield files with their names within the package, in an order that is the same everywhere."""
    patterns = (f"{room}/**/*.py",) if not room.endswith(".py") else (room,)
    if room == COMPILED:
        patterns = ("_mlir_libs/*.so*", "_mlir_libs/*.dylib", "_target*.so")
    found = {
        path.relative_to(root).as_posix(): path
        for root in map(Path, reversed(list(mirage.__path__)))
        for pattern in patterns
        for path in root.glob(pattern)
    }
    yield from sorted(found.items())


@cache
def _digest(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()
