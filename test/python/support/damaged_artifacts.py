"""Programs with PTX other than the compiler's, with corrected checksums of their files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mirage.runtime.serialization.artifact import Artifact, sha256

Damage = Callable[[str], str]


def damaged(artifact: Artifact, damage: Damage) -> Artifact:
    """Return the program with other PTX."""
    files, modules = dict(artifact.files), []
    for module in artifact.manifest.modules:
        files[module.ptx] = damage(artifact.files[module.ptx].decode()).encode()
        modules.append(replace(module, ptx_sha256=sha256(files[module.ptx])))
    return Artifact(replace(artifact.manifest, modules=tuple(modules)), files)
