"""What is known about pieces: kept for the next candidate that has the same one, and on disk for
the next run.

Keys are hashes of both programs of a piece (ops, attributes, types); an entry on disk also counts
for one version of the verifier only. Files are written under a temporary name and renamed, and one
that cannot be read counts as absent. Only what was shown is kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import mirage
from mirage.verify.kernel_by_kernel import Piece, Shown
from mirage.verify.verdict import Evidence, FreeExtent, HoldsFor


@cache
def fingerprint() -> str:
    """The version of the verifier, and the state of the files that a verdict rests on."""
    state = hashlib.sha256(mirage.__version__.encode())
    root = Path(__file__).parent.parent
    for path in sorted((*root.glob("verify/*.py"), *root.glob("semantics/*.py"))):
        state.update(path.read_bytes())
    return state.hexdigest()[:16]


class Ledger(Mapping[str, Shown]):
    """Pieces that were looked at, by their key; with a ``folder``, those of other runs too."""

    def __init__(self, folder: Path | None = None) -> None:
        self._known: dict[str, Shown] = {}
        self._folder = None if folder is None else folder / fingerprint()

    def __getitem__(self, key: str) -> Shown:
        if key not in self._known:
            found = self._read(key)
            if found is None:
                raise KeyError(key)
            self._known[key] = found
        return self._known[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def add(self, piece: Piece, shown: Shown) -> None:
        """Keeps what was found out."""
        self._known[piece.key] = shown
        if shown.holds and self._folder is not None:
            with suppress(OSError):
                self._write(self._path(piece.key), to_json(shown))

    def _path(self, key: str) -> Path:
        assert self._folder is not None
        return self._folder / key[:2] / f"{key}.json"

    def _read(self, key: str) -> Shown | None:
        if self._folder is None:
            return None
        try:
            return from_json(json.loads(self._path(key).read_text()))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _write(self, path: Path, data: Mapping[str, Any]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
        try:
            with os.fdopen(handle, "w") as file:
                json.dump(data, file)
            os.replace(name, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(name)
            raise


def to_json(shown: Shown) -> dict[str, Any]:
    """Plain data; a proof has no bound."""
    proved = shown.bound_log2 == float("-inf")
    return {
        "bound_log2": None if proved else shown.bound_log2,
        "evidence": [asdict(e) for e in shown.evidence],
        "holds_for": None if shown.holds_for is None else asdict(shown.holds_for),
    }


def from_json(data: Mapping[str, Any]) -> Shown:
    """What :func:`to_json` wrote. Raises ``KeyError``, ``TypeError`` or ``ValueError``."""
    bound = float("-inf") if data["bound_log2"] is None else float(data["bound_log2"])
    evidence = tuple(Evidence(**e) for e in data["evidence"])
    held = data["holds_for"]
    holds_for = None
    if held is not None:
        holds_for = HoldsFor(
            tuple(FreeExtent(**f) for f in held["free"]),
            tuple(tuple(shape) for shape in held["inputs"]),
            tuple((name, extent) for name, extent in held["axes"]),
            held["constants"],
            tuple((constant, size) for constant, size in held["sizes"]),
        )
    return Shown(bound, evidence, holds_for)
