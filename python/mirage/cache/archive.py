"""The cache as one file, for transfer to another machine.

An archive is a tar file whose members are the files of the cache, ``kind/key``. All members are
checked before any is imported: if one of them is invalid, nothing is kept.
"""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mirage.cache.entry_file import LARGEST, DamagedEntryError, Header, unpacked
from mirage.cache.store import KINDS, Store
from mirage.errors import MirageError


class ArchiveError(MirageError, ValueError):
    """A file is not an archive of a cache, or cannot be written; the message says why."""


@dataclass(frozen=True)
class Imported:
    """The numbers of entries that were new, that already existed, and that exceeded the size
    limit."""

    new: int
    known: int
    left_out: int


def export_archive(store: Store, path: Path, kinds: Iterable[str] = KINDS) -> tuple[int, int]:
    """Write all valid entries of some kinds; return their number and bytes. Raises
    :class:`ArchiveError`."""
    wanted, count, size = set(kinds), 0, 0
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as folder:
            temporary = Path(folder) / "archive"
            with tarfile.open(temporary, "w") as tar:
                for entry in store.entries(headers=True):
                    if entry.kind not in wanted or entry.header is None:
                        continue
                    with suppress(FileNotFoundError):  # another process was faster
                        tar.add(entry.path, f"{entry.kind}/{entry.key}", recursive=False)
                        count, size = count + 1, size + entry.bytes
            temporary.replace(path)
    except OSError as error:
        raise ArchiveError(f"{path}: cannot be written: {error.strerror or error}") from None
    return count, size


def import_archive(store: Store, path: Path) -> Imported:
    """Adds an archive's entries to the cache, once all of them are found to be valid; the archive
    of an empty cache has none. Raises :class:`ArchiveError`."""
    if store.folder is None:
        raise ArchiveError("expected a cache that keeps entries, MIRAGE_CACHE_SIZE says 0")
    for _ in _members(path):
        pass  # all are checked before any is kept; there may be none
    new = known = left_out = 0
    for header, content in _members(path):
        if store.has(header.kind, header.key) and store.get(header.kind, header.key) is not None:
            known += 1
        elif store.put_file(header, content):
            new += 1
        else:
            left_out += 1
    return Imported(new, known, left_out)


def _members(path: Path) -> Iterator[tuple[Header, bytes]]:
    try:
        with tarfile.open(path, "r:") as tar:
            for member in tar:
                yield _member(path, tar, member)
    except (OSError, tarfile.TarError) as error:
        what = getattr(error, "strerror", None) or error
        raise ArchiveError(f"{path}: expected an archive of a cache, got: {what}") from None


def _member(path: Path, tar: tarfile.TarFile, member: tarfile.TarInfo) -> tuple[Header, bytes]:
    where = f"{path}: {member.name!r}"
    if not member.isfile() or member.size > LARGEST:
        raise ArchiveError(f"{where}: expected a file of at most {LARGEST:,} bytes")
    file = tar.extractfile(member)
    content = b"" if file is None else file.read()
    try:
        header, _ = unpacked(content)
    except DamagedEntryError as error:
        raise ArchiveError(f"{where}: expected a whole entry of the cache: {error}") from None
    if member.name != f"{header.kind}/{header.key}" or header.kind not in KINDS:
        raise ArchiveError(f"{where}: expected the entry of that name, got {header.kind!r}")
    if len(header.key) != 64 or not set(header.key) <= set("0123456789abcdef"):
        raise ArchiveError(f"{where}: expected a key of 64 hexadecimal digits")
    return header, content
