"""Compiled kernels in the cache: keys, damage, and folders that cannot be written."""

from __future__ import annotations

from pathlib import Path

import pytest
from mirage.cache import shared_store
from mirage.compiler import kept_artifacts
from mirage.runtime.serialization.artifact import Artifact
from small_artifacts.small_artifact import small_artifact


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setenv("MIRAGE_CACHE_DIR", str(tmp_path / "cache"))


def test_store_and_lookup() -> None:
    key = kept_artifacts.cache_key("ir", "sm_80", {})
    assert kept_artifacts.lookup(key) is None
    kept_artifacts.store(key, small_artifact())
    found = kept_artifacts.lookup(key)
    assert found is not None
    assert found.manifest == small_artifact().manifest
    assert found.files == small_artifact().files


def test_damaged_entries_count_as_absent(caplog: pytest.LogCaptureFixture) -> None:
    key = kept_artifacts.cache_key("ir", "sm_80", {})
    kept_artifacts.store(key, small_artifact())
    place = shared_store().place("code", key)
    assert place is not None
    place.write_bytes(place.read_bytes()[:-10])
    assert kept_artifacts.lookup(key) is None
    assert "is damaged" in caplog.text
    kept_artifacts.store(key, small_artifact())
    assert kept_artifacts.lookup(key) is not None


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.replace(b"add.f32", b"sub.f32"),
        lambda data: data[:-1],
        lambda data: b"{}\n" + data,
        lambda data: data.replace(b'"kernels"', b'"kernel"'),
        lambda data: b"",
    ],
)
def test_files_have_the_hashes_of_the_manifest(change: object) -> None:
    """Even if the entry's own hash is valid."""
    key = kept_artifacts.cache_key("ir", "sm_80", {})
    data = kept_artifacts.to_bytes(small_artifact())
    changed = change(data)  # type: ignore[operator]
    assert changed != data
    shared_store().put("code", key, changed, version="v")
    assert kept_artifacts.lookup(key) is None


def test_everything_is_in_the_key() -> None:
    keys = {
        kept_artifacts.cache_key("a", "sm_80", {"cubin": None}),
        kept_artifacts.cache_key("b", "sm_80", {"cubin": None}),
        kept_artifacts.cache_key("a", "sm_90a", {"cubin": None}),
        kept_artifacts.cache_key("a", "sm_80", {"cubin": "13.0"}),
    }
    assert len(keys) == 4
    assert kept_artifacts.cache_key("a", "sm_80", {"cubin": None}) in keys


def test_unwritable_cache_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MIRAGE_CACHE_DIR", str(tmp_path / "file"))
    kept_artifacts.store("0" * 64, small_artifact())
    assert kept_artifacts.lookup("0" * 64) is None


def test_there_and_back() -> None:
    artifact: Artifact = small_artifact()
    read = kept_artifacts.from_bytes(kept_artifacts.to_bytes(artifact))
    assert read.manifest == artifact.manifest
