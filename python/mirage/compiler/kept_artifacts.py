"""Earlier compiled artifacts, as entries of the cache (:mod:`mirage.cache`).

The key is a hash of everything that the result depends on: the IR (which has shapes and types in
it), the chip, the options, and the compiler itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from mirage.cache import key_of, kind_version, shared_store
from mirage.runtime.errors import ArtifactError
from mirage.runtime.serialization.artifact import Artifact, sha256
from mirage.runtime.serialization.manifest_reader import from_json

KIND = "code"


def cache_key(ir: str, chip: str, options: Mapping[str, Any]) -> str:
    """Return a hash of everything from which an artifact is compiled."""
    return key_of(KIND, kind_version(KIND), chip, dict(options), ir)


def lookup(key: str) -> Artifact | None:
    """Return the artifact with that key, if it is present and valid."""
    store = shared_store()
    payload = store.get(KIND, key)
    if payload is None:
        return None
    try:
        return from_bytes(payload)
    except (ArtifactError, ValueError, KeyError, TypeError, AttributeError) as error:
        store.damaged(KIND, key, str(error))
        return None


def store(key: str, artifact: Artifact) -> None:
    """Keep ``artifact``. It is not an error if the cache cannot be written."""
    manifest = artifact.manifest
    about = f"{manifest.name} for {manifest.chip}, {len(manifest.kernels)} kernels"
    shared_store().put(KIND, key, to_bytes(artifact), version=kind_version(KIND), about=about)


def to_bytes(artifact: Artifact) -> bytes:
    """Return an artifact in one piece: a line that describes the rest, then the files."""
    files = {name: len(content) for name, content in artifact.files.items()}
    line = json.dumps({"manifest": artifact.manifest.to_json(), "files": files})
    return line.encode() + b"\n" + b"".join(artifact.files.values())


def from_bytes(payload: bytes) -> Artifact:
    """Read the bytes that :func:`to_bytes` wrote. Raises ``ValueError``, ``KeyError``,
    ``TypeError`` and :class:`~mirage.runtime.errors.ArtifactError`."""
    line, _, rest = payload.partition(b"\n")
    data = json.loads(line)
    manifest = from_json(data["manifest"], "the cache")
    files: dict[str, bytes] = {}
    for name, size in data["files"].items():
        files[name], rest = rest[:size], rest[size:]
    for module in manifest.modules:
        hashes = [(module.ptx, module.ptx_sha256)]
        if module.cubin is not None and module.cubin_sha256 is not None:
            hashes.append((module.cubin, module.cubin_sha256))
        for name, expected in hashes:
            if sha256(files[name]) != expected:
                raise ValueError(f"{name} does not have the hash in its manifest")
    return Artifact(manifest, files)
