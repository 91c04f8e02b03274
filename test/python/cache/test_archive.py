"""The cache as one file: export and import, and invalid archives."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from mirage.cache import KINDS, Store, key_of
from mirage.cache.archive import ArchiveError, export_archive, import_archive
from mirage.cache.entry_file import Header, packed

LIMIT = 1 << 20


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "cache", LIMIT)
    for kind in KINDS:
        store.put(kind, key_of(kind, "v"), kind.encode() * 100, version="v", about=kind)
    return store


def test_there_and_back(store: Store, tmp_path: Path) -> None:
    archive = tmp_path / "folder" / "mirage.cache"
    count, size = export_archive(store, archive)
    assert count == len(KINDS)
    assert size == sum(e.bytes for e in store.entries())
    assert [p.name for p in archive.parent.iterdir()] == [archive.name]
    other = Store(tmp_path / "other", LIMIT)
    assert vars(import_archive(other, archive)) == {"new": len(KINDS), "known": 0, "left_out": 0}
    assert vars(import_archive(other, archive)) == {"new": 0, "known": len(KINDS), "left_out": 0}
    for kind in KINDS:
        assert other.get(kind, key_of(kind, "v")) == kind.encode() * 100


def test_some_kinds(store: Store, tmp_path: Path) -> None:
    export_archive(store, tmp_path / "a", ["code", "search"])
    other = Store(tmp_path / "other", LIMIT)
    import_archive(other, tmp_path / "a")
    assert {e.kind for e in other.entries()} == {"code", "search"}


def test_damaged_entries_are_not_exported(store: Store, tmp_path: Path) -> None:
    place = store.place("code", key_of("code", "v"))
    assert place is not None
    place.write_bytes(place.read_bytes()[:-3])
    count, _ = export_archive(store, tmp_path / "a")
    assert count == len(KINDS) - 1


def test_the_archive_of_an_empty_cache(tmp_path: Path) -> None:
    """Everything that can be written can be read."""
    store = Store(tmp_path / "cache", LIMIT)
    assert export_archive(store, tmp_path / "a") == (0, 0)
    found = import_archive(store, tmp_path / "a")
    assert (found.new, found.known, found.left_out) == (0, 0, 0)


def archive_of(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


KEY = "0" * 64
WHOLE = packed(Header("code", KEY, "v", "", 0.0), b"payload")

BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "no file": (lambda path: None, "No such file"),
    "no archive": (lambda path: path.write_bytes(b"hello" * 1000), "expected an archive"),
    "nothing at all": (lambda path: path.write_bytes(b""), "expected an archive"),
    "truncated": (lambda path: archive_of(path, {f"code/{KEY}": WHOLE[:-1]}), "a whole entry"),
    "another name": (lambda path: archive_of(path, {f"check/{KEY}": WHOLE}), "that name"),
    "a way out": (lambda path: archive_of(path, {f"../../code/{KEY}": WHOLE}), "that name"),
    "an unknown kind": (
        lambda path: archive_of(
            path, {f"x/{KEY}": packed(Header("x", KEY, "v", "", 0.0), b"payload")}
        ),
        "that name",
    ),
    "no key": (
        lambda path: archive_of(
            path, {"code/../x": packed(Header("code", "../x", "v", "", 0.0), b"payload")}
        ),
        "64 hexadecimal digits",
    ),
    "one of two": (
        lambda path: archive_of(path, {f"code/{KEY}": WHOLE, f"code/{'1' * 64}": WHOLE}),
        "that name",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_nothing_is_kept_of_a_bad_archive(name: str, tmp_path: Path) -> None:
    make, message = BAD[name]
    make(tmp_path / "a")
    store = Store(tmp_path / "cache", LIMIT)
    with pytest.raises(ArchiveError, match=message):
        import_archive(store, tmp_path / "a")
    assert not list(store.entries())


def test_a_link_is_no_entry(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a", "w") as tar:
        info = tarfile.TarInfo(f"code/{KEY}")
        info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(info)
    with pytest.raises(ArchiveError, match="expected a file"):
        import_archive(Store(tmp_path / "cache", LIMIT), tmp_path / "a")


def test_no_room(store: Store, tmp_path: Path) -> None:
    export_archive(store, tmp_path / "a")
    with pytest.raises(ArchiveError, match="MIRAGE_CACHE_SIZE says 0"):
        import_archive(Store(tmp_path / "other", 0), tmp_path / "a")
    small = import_archive(Store(tmp_path / "other", 50), tmp_path / "a")
    assert (small.new, small.left_out) == (0, len(KINDS))


def test_a_place_that_cannot_be_written(store: Store, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ArchiveError, match="cannot be written"):
        export_archive(store, tmp_path / "file" / "a")
