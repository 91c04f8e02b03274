"""Results for pieces, kept for the next candidate that has the same piece, and on disk for the next
run.

Keys are hashes of both programs of a piece (ops, attributes, types). An entry of the cache
(:mod:`mirage.cache`) also counts for one version of the verifier only: its key has the hash of all
files that a verdict depends on. Only positive results are kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from mirage.cache import Store, key_of, kind_version
from mirage.verify.pieces.kernel_by_kernel import Piece, Shown
from mirage.verify.verdict import Evidence, FreeExtent, HoldsFor

KIND = "verdict"


class Ledger(Mapping[str, Shown]):
    """The results for pieces, by their key; with a ``store``, also those of other runs."""

    def __init__(self, store: Store | None = None) -> None:
        self._known: dict[str, Shown] = {}
        self._store = store

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
        """Record the result for a piece."""
        self._known[piece.key] = shown
        if shown.holds and self._store is not None:
            payload = json.dumps(to_json(shown)).encode()
            self._store.put(KIND, _kept_as(piece.key), payload, version=kind_version(KIND))

    def _read(self, key: str) -> Shown | None:
        payload = None if self._store is None else self._store.get(KIND, _kept_as(key))
        if payload is None:
            return None
        try:
            return from_json(json.loads(payload))
        except (ValueError, KeyError, TypeError):
            return None


def _kept_as(key: str) -> str:
    return key_of(KIND, kind_version(KIND), key)


def to_json(shown: Shown) -> dict[str, Any]:
    """Return plain data; a proof has no bound."""
    proved = shown.bound_log2 == float("-inf")
    return {
        "bound_log2": None if proved else shown.bound_log2,
        "evidence": [asdict(e) for e in shown.evidence],
        "holds_for": None if shown.holds_for is None else asdict(shown.holds_for),
    }


def from_json(data: Mapping[str, Any]) -> Shown:
    """Read the data that :func:`to_json` wrote. Raises ``KeyError``, ``TypeError`` or
    ``ValueError``."""
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
