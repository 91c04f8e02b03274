"""The contents of an entry's file: a line with the hash of the rest, a line of JSON (the header),
and the compressed payload."""

from __future__ import annotations

import hashlib
import json
import zlib
from dataclasses import asdict, dataclass

from mirage.cache.plain import from_plain

FORMAT = "mirage-cache 1"
LARGEST = 1 << 30
"""The most bytes of one entry."""


class DamagedEntryError(ValueError):
    """A file differs from what was written; the message says how."""


@dataclass(frozen=True)
class Header:
    """The header of a file. ``about`` is for people; ``created`` is in seconds since the epoch."""

    kind: str
    key: str
    version: str
    about: str
    created: float


def packed(header: Header, payload: bytes) -> bytes:
    """Return the contents of a file."""
    body = json.dumps(asdict(header)).encode() + b"\n" + zlib.compress(payload, 3)
    return f"{FORMAT} {hashlib.sha256(body).hexdigest()}\n".encode() + body


def unpacked(content: bytes) -> tuple[Header, bytes]:
    """Return the header and payload of contents that :func:`packed` made. Raises
    :class:`DamagedEntryError`."""
    first, _, body = content.partition(b"\n")
    name, _, digest = first.decode(errors="replace").rpartition(" ")
    if name != FORMAT:
        raise DamagedEntryError(f"expected a file that starts with {FORMAT!r}, got {name[:40]!r}")
    if hashlib.sha256(body).hexdigest() != digest:
        raise DamagedEntryError("its contents do not have the stated hash")
    line, _, data = body.partition(b"\n")
    try:
        header = from_plain(Header, json.loads(line))
        stream = zlib.decompressobj()
        payload = stream.decompress(data, LARGEST)
    except (ValueError, zlib.error) as error:
        raise DamagedEntryError(str(error)) from None
    if not stream.eof:
        raise DamagedEntryError("its payload is cut off, or too large")
    return header, payload
