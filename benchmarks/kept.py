"""The files that a benchmark leaves: a summary that is small enough to commit and, next to it, the
complete data, which git ignores.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from math import isfinite
from pathlib import Path
from typing import Any

LARGEST = 100_000
"""The most bytes of a summary."""
DIGITS = 6
"""Significant digits of a summary's numbers, more than any clock has."""


class TooLargeError(ValueError):
    """A summary that is too large to commit."""


def raw_path(path: Path) -> Path:
    """Return the path of the complete data that ``path`` summarises."""
    return path.with_suffix(".raw.json")


def write(path: Path, data: Mapping[str, Any], rows: str, details: Collection[str] = ()) -> None:
    """Write ``data`` to ``<stem>.raw.json``, and without the ``details`` of its ``rows`` (a list or
    dictionary) to ``path``, one row per line. Raises :class:`TooLargeError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _replace(raw_path(path), json.dumps(data, indent=1) + "\n")
    text = summary(data, rows, details)
    if len(text.encode()) > LARGEST:
        raise TooLargeError(
            f"expected a summary of at most {LARGEST} bytes, got {len(text.encode())} for {path}; "
            "leave out more details"
        )
    _replace(path, text)


def summary(data: Mapping[str, Any], rows: str, details: Collection[str] = ()) -> str:
    """Return the text of a summary."""
    found = data[rows]

    def short(row: Any) -> Any:
        if not isinstance(row, Mapping):
            return row
        return {key: value for key, value in row.items() if key not in details}

    if isinstance(found, Mapping):
        lines = [f"  {json.dumps(k)}: {_compact(short(v))}" for k, v in found.items()]
        inner = "{\n" + ",\n".join(lines) + "\n }"
    else:
        inner = "[\n" + ",\n".join(f"  {_compact(short(v))}" for v in found) + "\n ]"
    parts = (f" {json.dumps(k)}: {inner if k == rows else json.dumps(v)}" for k, v in data.items())
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _compact(data: Any) -> str:
    return json.dumps(_rounded(data), separators=(",", ":"))


def _rounded(data: Any) -> Any:
    if isinstance(data, float) and isfinite(data):
        return float(f"{data:.{DIGITS}g}")
    if isinstance(data, Mapping):
        return {key: _rounded(value) for key, value in data.items()}
    return [_rounded(x) for x in data] if isinstance(data, (list, tuple)) else data


def _replace(path: Path, text: str) -> None:
    temporary = path.with_suffix(path.suffix + ".tmp")
    temporary.write_text(text)
    temporary.replace(path)
