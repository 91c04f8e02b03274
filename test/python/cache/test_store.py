"""The store: complete entries or none, shared by processes, bounded, and without errors if it
cannot be read or written."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from mirage.cache import KINDS, BadSizeError, Store, cache_folder, entry_file, key_of, shared_store
from mirage.cache.entry_file import DamagedEntryError, Header, packed, unpacked
from mirage.cache.folder import parse_size, shown_size, size_limit

LIMIT = 1 << 20


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "cache", LIMIT)


def keep(store: Store, number: int, size: int = 10) -> str:
    key = key_of("code", "v", number)
    assert store.put("code", key, os.urandom(size), version="v", about=f"entry {number}")
    return key


def test_what_is_put_is_got(store: Store) -> None:
    key = key_of("code", "v", 1)
    assert store.get("code", key) is None
    assert store.put("code", key, b"payload" * 1000, version="v", about="a kernel")
    assert store.get("code", key) == b"payload" * 1000
    assert Store(store.folder, LIMIT).get("code", key) == b"payload" * 1000
    assert store.get("search", key) is None
    (entry,) = store.entries(headers=True)
    assert entry.header is not None
    assert (entry.kind, entry.key, entry.header.about) == ("code", key, "a kernel")


def test_everything_is_in_the_key() -> None:
    parts: list[tuple[str, str, object]] = [
        ("code", "v", "a"), ("code", "v", "b"), ("code", "w", "a"), ("search", "v", "a"),
        ("code", "v", ["a"]),
    ]  # fmt: skip
    keys = {key_of(*each) for each in parts}
    assert len(keys) == len(parts)
    assert key_of("code", "v", {"x": 1, "y": 2}) == key_of("code", "v", {"y": 2, "x": 1})


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-1],
        lambda content: content[: len(content) // 2],
        lambda content: b"",
        lambda content: content + b"x",
        lambda content: content.replace(b"mirage-cache 1", b"mirage-cache 9"),
        lambda content: content[:90] + bytes([content[90] ^ 1]) + content[91:],
        lambda content: content[:-5] + bytes([content[-5] ^ 1]) + content[-4:],
        lambda content: b"\x00" * len(content),
    ],
)
def test_a_damaged_entry_counts_as_absent(
    store: Store, damage: object, caplog: pytest.LogCaptureFixture
) -> None:
    key = keep(store, 1, 1000)
    place = store.place("code", key)
    assert place is not None
    place.write_bytes(damage(place.read_bytes()))  # type: ignore[operator]
    assert store.get("code", key) is None
    assert caplog.text.count("is damaged") == 1
    assert not place.exists()
    keep(store, 1)
    assert store.get("code", key) is not None


def test_an_entry_under_another_name_is_none(store: Store) -> None:
    first, second = keep(store, 1), key_of("code", "v", 2)
    here, there = store.place("code", first), store.place("code", second)
    assert here is not None
    assert there is not None
    there.parent.mkdir(parents=True, exist_ok=True)
    here.rename(there)
    assert store.get("code", second) is None


def test_a_payload_that_grows_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    content = packed(Header("code", "0" * 64, "v", "", 0.0), b"\0" * 100_000)
    assert unpacked(content)[1] == b"\0" * 100_000
    monkeypatch.setattr(entry_file, "LARGEST", 1000)
    with pytest.raises(DamagedEntryError, match="too large"):
        unpacked(content)


# ---- entries that cannot be written or read


def test_a_folder_that_is_a_file_is_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    store = Store(tmp_path / "file", LIMIT)
    for number in range(3):
        key = key_of("code", "v", number)
        assert not store.put("code", key, b"x", version="v")
        assert store.get("code", key) is None
    assert store.clear() == (0, 0)
    (line,) = caplog.messages
    assert "cannot be written" in line


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EDQUOT])
def test_a_full_disk_is_said_once(
    store: Store, number: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "replace", full)
    for each in range(3):
        assert not store.put("code", key_of("code", "v", each), b"x", version="v")
    assert len(caplog.messages) == 1
    assert os.strerror(number) in caplog.text
    assert store.folder is not None
    assert not [p for p in store.folder.rglob("*") if p.is_file()]  # nothing half-written is left


def test_it_may_be_deleted_at_any_time(store: Store, tmp_path: Path) -> None:
    import shutil

    key = keep(store, 1)
    shutil.rmtree(tmp_path / "cache")
    assert store.get("code", key) is None
    keep(store, 1)
    assert store.get("code", key) is not None


# ---- several processes


WRITER = """
import sys
from pathlib import Path
from mirage.cache import Store, key_of
store = Store(Path(sys.argv[1]), 1 << 20)
seen = 0
for turn in range(60):
    for number in range(8):
        key = key_of("code", "v", number)
        payload = bytes([number]) * (20_000 + number)
        found = store.get("code", key)
        assert found is None or found == payload, (number, len(found))
        seen += found is not None
        store.put("code", key, payload, version="v")
    if turn % 20 == 7:
        store.clear()
print("seen", seen)
"""


def test_processes_share_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path / "cache")]
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for process in running:
        out, error = process.communicate(timeout=120)
        assert process.returncode == 0, error
        assert "damaged" not in error
        assert out.startswith("seen ")


@pytest.mark.parametrize("listed", ["a kind", "a part of a kind"])
def test_a_folder_may_go_while_it_is_looked_through(
    store: Store, listed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {keep(store, number) for number in range(3)}
    assert store.folder is not None
    gone = store.folder / "code"
    if listed == "a part of a kind":
        gone = sorted(gone.iterdir())[1]

    def missing(function: Any) -> Any:
        def listing(path: Any = ".") -> Any:
            if Path(path) == gone:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
            return function(path)

        return listing

    for name in ("listdir", "scandir"):
        monkeypatch.setattr(os, name, missing(getattr(os, name)))
    left = {entry.key for entry in store.entries()}
    assert left == (set() if listed == "a kind" else {k for k in keys if k[:2] != gone.name})
    store.clear()
    keep(store, 1)


# ---- size


def test_what_was_not_used_for_long_goes_first(tmp_path: Path) -> None:
    store = Store(tmp_path / "cache", 100_000)
    keys = [keep(store, number, 9_000) for number in range(10)]
    for age, key in enumerate(reversed(keys)):
        place = store.place("code", key)
        assert place is not None
        os.utime(place, (time.time() - 10_000 * (age + 1),) * 2)
    assert store.get("code", keys[0]) is not None  # used now
    for number in range(10, 15):
        keep(store, number, 9_000)
    there = [store.get("code", key) is not None for key in keys]
    assert there[0]
    assert not there[1]
    assert sum(e.bytes for e in store.entries()) <= 100_000


def test_an_entry_beyond_the_limit_is_not_kept(tmp_path: Path) -> None:
    store = Store(tmp_path / "cache", 1000)
    assert not store.put("code", key_of("code", "v", 1), os.urandom(2000), version="v")
    assert not list(store.entries())


def test_files_that_nobody_finishes_are_removed(store: Store) -> None:
    key = keep(store, 1)
    place = store.place("code", key)
    assert place is not None
    old, new = place.with_name(".old.part"), place.with_name(".new.part")
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    keep(Store(store.folder, LIMIT), 2)  # reads the folder once
    assert not old.exists()
    assert new.exists()


@pytest.mark.parametrize(
    ("text", "size"),
    [("0", 0), ("1000", 1000), ("500M", 500 << 20), ("2 GiB", 2 << 30), ("1.5k", 1536)],
)
def test_sizes(text: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse_size(text) == size
    monkeypatch.setenv("MIRAGE_CACHE_SIZE", text)
    assert size_limit() == size


@pytest.mark.parametrize("text", ["much", "-1", "5X", "G"])
def test_bad_sizes(
    text: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(BadSizeError, match=f"got '{text}'"):
        parse_size(text)
    monkeypatch.setenv("MIRAGE_CACHE_SIZE", text)
    assert shared_store().folder is None  # a program runs anyway
    assert "nothing is kept" in caplog.text or caplog.text == ""


def test_sizes_for_people() -> None:
    assert [shown_size(n) for n in (0, 1023, 1024, 3 << 20, 5 << 30)] == [
        "0 B", "1023 B", "1.0 KiB", "3.0 MiB", "5.0 GiB",
    ]  # fmt: skip


# ---- without a folder


def test_memory_alone() -> None:
    store = Store(None, 1)
    key = keep(store, 1)
    assert store.get("code", key) is not None
    assert store.clear() == (0, 0)
    assert store.get("code", key) is None


def test_what_a_process_has_read_and_written_is_seen(store: Store) -> None:
    first = keep(store, 1)
    store.seen = {}
    second = keep(store, 2)
    store.get("code", first)
    store.get("code", key_of("code", "v", 3))
    assert set(store.seen) == {("code", first), ("code", second)}


def test_the_folder_is_that_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MIRAGE_CACHE_DIR", str(tmp_path / "here"))
    assert cache_folder() == tmp_path / "here"
    assert shared_store() is shared_store()
    assert shared_store().folder == tmp_path / "here"
    monkeypatch.delenv("MIRAGE_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if sys.platform == "linux":
        assert cache_folder() == tmp_path / "mirage"


def test_an_unknown_kind_is_a_bug(store: Store) -> None:
    with pytest.raises(ValueError, match="expected a kind among"):
        store.put("codes", "0" * 64, b"", version="v")


def test_all_kinds_go_and_what_older_versions_left(store: Store, tmp_path: Path) -> None:
    for kind in KINDS:
        assert store.put(kind, key_of(kind, "v"), b"x", version="v")
    old = tmp_path / "cache" / "artifacts" / "ab"
    old.mkdir(parents=True)
    (old / "x").write_text("old")
    other = tmp_path / "cache" / "demo"
    other.mkdir()
    count, _ = store.clear(["code"])
    assert count == 1
    assert old.exists()
    count, _ = store.clear()
    assert count == len(KINDS) - 1
    assert [p.name for p in (tmp_path / "cache").iterdir()] == ["demo"]
