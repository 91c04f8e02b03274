"""The header of ``.safetensors`` files: the tensors and their places.

A file is the length of the header (8 bytes), the header in JSON, and the tensors' elements, which
are read as torch tensors (:mod:`mirage.runtime.serialization.tensor_files`) or, without torch, as
arrays (``mirage.cli.tensor_archives``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Any, cast

from mirage.runtime.serialization.manifest import ELEMENT_BYTES

LENGTH_BYTES = 8
_LONGEST = 100_000_000  # bytes, as the format says
_OTHERS = {"i1": "BOOL", "f8E4M3FN": "F8_E4M3", "f8E5M2": "F8_E5M2"}
_NAMES = {name: _OTHERS.get(name, name.upper()) for name in ELEMENT_BYTES}
_KINDS = {spelled: name for name, spelled in _NAMES.items()}


class HeaderError(ValueError):
    """The header of a file is invalid: expected and actual."""


@dataclass(frozen=True)
class Entry:
    """A tensor: its element type, by mirage's name, and the place of its bytes after the header."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


def header_length(first: bytes, size: int) -> int:
    """Return the length of the header of a file of ``size`` bytes that starts with these eight.
    Raises :class:`HeaderError`."""
    length = int.from_bytes(first, "little")
    if len(first) < LENGTH_BYTES or length > min(size - LENGTH_BYTES, _LONGEST):
        raise HeaderError("expected a .safetensors file, got one that is cut off")
    return length


def read_header(text: bytes, room: int) -> dict[str, Entry]:
    """Return the tensors in the ``room`` bytes after the header. Raises :class:`HeaderError`."""
    try:
        header = json.loads(text)
    except ValueError as e:
        raise HeaderError(f"expected a .safetensors header, got an error: {e}") from None
    if not isinstance(header, dict):
        raise HeaderError("expected a .safetensors header, got something else")
    entries = cast("dict[str, Any]", header)
    return {name: _entry(name, e, room) for name, e in entries.items() if name != "__metadata__"}


def _entry(name: str, entry: Any, room: int) -> Entry:
    try:
        spelled = str(entry["dtype"])
        shape = tuple(map(int, entry["shape"]))
        start, end = map(int, entry["data_offsets"])
    except (KeyError, TypeError, ValueError) as e:
        raise HeaderError(
            f"{name}: expected a type, a shape and offsets, got an error: {e}"
        ) from None
    if spelled not in _KINDS:
        raise HeaderError(f"{name}: expected a type of {', '.join(_KINDS)}, got {spelled}")
    kind = _KINDS[spelled]
    wanted = prod(shape) * ELEMENT_BYTES[kind]
    if not 0 <= start <= end <= room or end - start != wanted or min(shape, default=0) < 0:
        raise HeaderError(
            f"{name}: expected {wanted} bytes for {list(shape)} of {kind}, got bytes {start} to "
            f"{end} of {room}"
        )
    return Entry(kind, shape, start, end)


def written_header(
    tensors: Iterable[tuple[str, str, tuple[int, ...]]], alignment: int = LENGTH_BYTES
) -> bytes:
    """Return the length and header of a file of dense tensors (name, element type, shape), stored
    one after the other; the first one starts at a multiple of ``alignment`` bytes."""
    header: dict[str, Any] = {}
    start = 0
    for name, kind, shape in tensors:
        end = start + prod(shape) * ELEMENT_BYTES[kind]
        header[name] = {"dtype": _NAMES[kind], "shape": list(shape), "data_offsets": [start, end]}
        start = end
    text = json.dumps(header).encode()
    text += b" " * (-(len(text) + LENGTH_BYTES) % alignment)
    return len(text).to_bytes(LENGTH_BYTES, "little") + text
