"""Artifacts that were compiled before, under the user's cache folder (XDG on Linux).

The key is a hash of everything that the result depends on: the canonical IR (which has shapes,
strides and types in it), the chip, the options, and the compiler itself. Entries are artifacts,
written under a temporary name and renamed; one that cannot be read counts as absent.
``MIRAGE_CACHE_DIR`` moves the folder.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import mirage
from mirage.runtime.artifact import Artifact, read_artifact, write_artifact
from mirage.runtime.errors import ArtifactError


def cache_folder() -> Path:
    """The folder that holds the cache; it need not exist."""
    override = os.environ.get("MIRAGE_CACHE_DIR")
    if override:
        return Path(override)
    from platformdirs import user_cache_path

    return user_cache_path("mirage")


@cache
def compiler_fingerprint() -> str:
    """Version of the compiler, and the state of its files: a rebuilt compiler does not reuse what
    the old one made.
    """
    state = hashlib.sha256(mirage.__version__.encode())
    for root in mirage.__path__:
        for path in sorted(
            (*Path(root).glob("_mlir_libs/*.so*"), *Path(root).glob("compiler/*.py"))
        ):
            stat = path.stat()
            state.update(f"{path.name} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return f"{mirage.__version__}+{state.hexdigest()[:12]}"


def cache_key(ir: str, chip: str, options: Mapping[str, Any]) -> str:
    """Hash of what an artifact is compiled from."""
    text = json.dumps([compiler_fingerprint(), chip, options, ir], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def entry_path(key: str) -> Path:
    """The folder of an entry."""
    return cache_folder() / "artifacts" / key[:2] / f"{key}.mirage"


def lookup(key: str) -> Artifact | None:
    """The artifact with that key, if it is there and whole."""
    path = entry_path(key)
    if not path.is_dir():
        return None
    try:
        return read_artifact(path)
    except ArtifactError:
        return None


def store(key: str, artifact: Artifact) -> Artifact:
    """Keeps ``artifact``; returns it as the cache has it. A cache that cannot be written to is no
    error.
    """
    try:
        return read_artifact(write_artifact(artifact, entry_path(key)))
    except (OSError, ArtifactError):
        return artifact
