"""The cache of artifacts: keys, damage, and folders that cannot be written."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from mirage.compiler import cache
from small_artifact import small_artifact


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.setenv("MIRAGE_CACHE_DIR", str(tmp_path / "cache"))


def test_store_and_lookup() -> None:
    key = cache.cache_key("ir", "sm_80", {})
    assert cache.lookup(key) is None
    cache.store(key, small_artifact())
    found = cache.lookup(key)
    assert found is not None
    assert found.manifest == small_artifact().manifest


def test_damaged_entries_count_as_absent() -> None:
    key = cache.cache_key("ir", "sm_80", {})
    cache.store(key, small_artifact())
    (cache.entry_path(key) / "kernels.ptx").write_text("half")
    assert cache.lookup(key) is None
    cache.store(key, small_artifact())
    assert cache.lookup(key) is not None


def test_everything_is_in_the_key() -> None:
    keys = {
        cache.cache_key("a", "sm_80", {"cubin": None}),
        cache.cache_key("b", "sm_80", {"cubin": None}),
        cache.cache_key("a", "sm_90a", {"cubin": None}),
        cache.cache_key("a", "sm_80", {"cubin": "13.0"}),
    }
    assert len(keys) == 4
    assert cache.cache_key("a", "sm_80", {"cubin": None}) in keys


def test_unwritable_cache_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MIRAGE_CACHE_DIR", str(tmp_path / "file"))
    artifact = small_artifact()
    assert cache.store("0" * 64, artifact) is artifact


def test_default_is_the_users_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MIRAGE_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if sys.platform == "linux":
        assert cache.cache_folder() == tmp_path / "mirage"
