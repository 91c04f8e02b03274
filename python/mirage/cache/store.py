"""Entries on disk, each a file that states its kind, key and version.

A file (:mod:`mirage.cache.entry_file`) is written under another name and renamed, so a reader sees
all of it or nothing; processes share the folder without locks. An unreadable entry counts as
absent, and an entry that cannot be written is not kept: neither is an error, and each is logged
once in ``mirage.cache``.

If the folder exceeds its limit, the least recently used entries are removed. Everything may be
deleted at any time.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from mirage.cache.entry_file import DamagedEntryError, Header, packed, unpacked
from mirage.cache.folder import BadSizeError, cache_folder, size_limit

log = logging.getLogger("mirage.cache")

KINDS = {
    "import": "a graph of PyTorch as a program",
    "search": "what was found for a part of a program, and its verdicts",
    "program": "which of it was chosen for a whole program, and measurements",
    "class": "which of it serves all sizes of a class",
    "verdict": "pieces that were shown to be equal",
    "check": "kernels that passed in the emulator",
    "code": "compiled kernels",
}
"""The kinds of entries, and the contents of each."""

OLD = ("artifacts", "verdicts", "checks")
"""The folders of older versions, which had several caches."""

USED = 600.0
"""The seconds between two notes that an entry was used."""
ABANDONED = 3600.0
"""The seconds after which a temporary file counts as abandoned."""
ROOM = 0.9
"""The share of the limit that remains after entries are removed."""


@dataclass(frozen=True)
class Entry:
    """A file of the cache. ``header`` is None if it cannot be read."""

    kind: str
    key: str
    path: Path
    bytes: int
    used: float
    header: Header | None = None


def key_of(kind: str, version: str, *parts: object) -> str:
    """Return the key of a value that depends on ``parts`` (plain data) and on a version."""
    text = json.dumps([kind, version, *parts], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


class Store:
    """The entries of a folder (or only of memory without a folder), at most ``limit`` bytes.

    ``memory`` holds payloads that count as entries in this process. ``seen``, unless it is None,
    collects the payloads of all entries that are read and written, to be sent to another process.
    """

    def __init__(self, folder: Path | None, limit: int) -> None:
        self.folder = folder if limit > 0 else None
        self.limit = limit
        self.memory: dict[tuple[str, str], bytes] = {}
        self.seen: dict[tuple[str, str], bytes] | None = None
        self._said: set[str] = set()
        self._written: int | None = None  # bytes written since the folder was examined

    # ---- reading

    def get(self, kind: str, key: str) -> bytes | None:
        """Return the payload of an entry; None if it is missing or damaged."""
        payload = self.memory.get((kind, key))
        if payload is None:
            payload = self._read(kind, key)
        if payload is not None and self.seen is not None:
            self.seen[kind, key] = payload
        return payload

    def has(self, kind: str, key: str) -> bool:
        """Return whether there is an entry, valid or not."""
        place = self.place(kind, key)
        return (kind, key) in self.memory or (place is not None and place.is_file())

    def _read(self, kind: str, key: str) -> bytes | None:
        place = self.place(kind, key)
        if place is None:
            return None
        try:
            content = place.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._say_of_folder("read", error)
            return None
        try:
            header, payload = unpacked(content)
            if (header.kind, header.key) != (kind, key):
                raise DamagedEntryError(f"it is of another kind or key: {header.kind}")
        except DamagedEntryError as error:
            self.damaged(kind, key, str(error))
            return None
        with suppress(OSError):
            if time.time() - place.stat().st_mtime > USED:
                os.utime(place)
        return payload

    def damaged(self, kind: str, key: str, why: str) -> None:
        """Remove a damaged entry and log it."""
        self._say(f"an entry of the cache is damaged ({kind} {key[:12]}: {why}); it is made again")
        self.drop(kind, key)

    # ---- writing

    def put(self, kind: str, key: str, payload: bytes, *, version: str, about: str = "") -> bool:
        """Keep an entry; return whether that was possible."""
        if kind not in KINDS:
            raise ValueError(f"expected a kind among {', '.join(KINDS)}, got {kind!r}")
        if self.seen is not None:
            self.seen[kind, key] = payload
        if self.folder is None:
            self.memory[kind, key] = payload
            return True
        header = Header(kind, key, version, about, time.time())
        return self.put_file(header, packed(header, payload))

    def put_file(self, header: Header, content: bytes) -> bool:
        """Keep an entry that is already packed; return whether that was possible."""
        place = self.place(header.kind, header.key)
        if place is None or len(content) > self.limit:
            return False
        try:
            _write(place, content)
        except OSError as error:
            self._say_of_folder("written", error)
            return False
        self._make_room(len(content))
        return True

    def drop(self, kind: str, key: str) -> None:
        """Remove an entry, if it exists."""
        self.memory.pop((kind, key), None)
        place = self.place(kind, key)
        if place is not None:
            with suppress(OSError):
                place.unlink()

    def clear(self, kinds: Iterable[str] = KINDS) -> tuple[int, int]:
        """Remove all entries of some kinds; return their number and bytes. If all kinds are given,
        files of older versions are removed, too."""
        wanted = set(kinds)
        count = size = 0
        for entry in list(self.entries()):
            if entry.kind in wanted:
                with suppress(OSError):
                    entry.path.unlink()
                    count, size = count + 1, size + entry.bytes
        if self.folder is not None:
            old = OLD if wanted == set(KINDS) else ()
            for name in (*wanted, *old):
                _remove_folders(self.folder / name, whole=name in OLD)
        self.memory = {k: v for k, v in self.memory.items() if k[0] not in wanted}
        return count, size

    # ---- all of it

    def place(self, kind: str, key: str) -> Path | None:
        """Return the file of an entry; None without a folder."""
        return None if self.folder is None else self.folder / kind / key[:2] / key

    def entries(self, headers: bool = False) -> Iterator[Entry]:
        """Yield all files of the cache; with ``headers``, their contents are read and checked."""
        if self.folder is None:
            return
        for kind in KINDS:
            for path in _files(self.folder, kind):
                if len(path.name) != 64 or not set(path.name) <= set("0123456789abcdef"):
                    continue
                try:
                    stat = path.stat()
                    content = path.read_bytes() if headers else None
                except OSError:  # another process was faster
                    continue
                header = None
                if content is not None:
                    with suppress(DamagedEntryError):
                        header, _ = unpacked(content)
                yield Entry(kind, path.name, path, stat.st_size, stat.st_mtime, header)

    def _make_room(self, written: int) -> None:
        """Remove the least recently used entries if the folder has become too large. It is examined
        once per process, and again after a twentieth of the limit has been written."""
        if self._written is not None and self._written + written < self.limit / 20:
            self._written += written
            return
        self._written = 0
        assert self.folder is not None
        _remove_abandoned(self.folder)
        entries = list(self.entries())
        total = sum(e.bytes for e in entries)
        if total <= self.limit:
            return
        for entry in sorted(entries, key=lambda e: e.used):
            if total <= ROOM * self.limit:
                break
            with suppress(OSError):
                entry.path.unlink()
            total -= entry.bytes

    def _say_of_folder(self, what: str, error: OSError) -> None:
        """Log that the folder cannot be read or written, in one line, since one implies the
        other."""
        self._say(
            f"the cache in {self.folder} cannot be {what} ({error.strerror or error}): results "
            "are not kept"
        )

    def _say(self, text: str) -> None:
        """Log a line, once."""
        what = text.partition(" (")[0].removesuffix(" read").removesuffix(" written")
        if what not in self._said:
            self._said.add(what)
            log.warning("%s", text)


def _write(place: Path, content: bytes) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".", suffix=".part", dir=place.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(name, place)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


def _inside(folder: Path) -> list[Path]:
    """Return the contents of a folder; nothing if another process has removed it."""
    with suppress(OSError):
        return sorted(folder.iterdir())
    return []


def _files(folder: Path, kind: str) -> list[Path]:
    """Return the files of a kind, including those that are being written."""
    return [path for inside in _inside(folder / kind) for path in _inside(inside)]


def _remove_abandoned(folder: Path) -> None:
    """Remove temporary files of processes that ended early."""
    for kind in KINDS:
        for path in _files(folder, kind):
            with suppress(OSError):
                if path.suffix == ".part" and time.time() - path.stat().st_mtime > ABANDONED:
                    path.unlink()


def _remove_folders(folder: Path, *, whole: bool) -> None:
    """Remove a kind's empty folders, or (with ``whole``) all of its folders with their contents."""
    if whole:
        shutil.rmtree(folder, ignore_errors=True)
        return
    for path in (*_inside(folder), folder):
        with suppress(OSError):
            path.rmdir()


_STORES: dict[tuple[Path, int], Store] = {}
_INSTEAD: list[Store] = []


@contextmanager
def shared_as(store: Store) -> Generator[None]:
    """Let :func:`shared_store` return another store in the ``with`` block, in all threads."""
    _INSTEAD.append(store)
    try:
        yield
    finally:
        _INSTEAD.remove(store)


def shared_store() -> Store:
    """Return the cache of this user, as set by the environment; the same object for the same
    folder."""
    if _INSTEAD:
        return _INSTEAD[-1]
    try:
        limit = size_limit()
    except BadSizeError as error:
        limit = 0
        _STORES.setdefault((Path(), -1), Store(None, 0))._say(  # pyright: ignore[reportPrivateUsage]
            f"{error.message}: nothing is kept"
        )
    where = (cache_folder(), limit)
    if where not in _STORES:
        _STORES[where] = Store(*where)
    return _STORES[where]
