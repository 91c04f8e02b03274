"""Whole models on disk: a folder with ``manifest.json``, the artifacts of its parts in folders of
their own, and files of tensors."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirage.runtime.errors import TruncatedArtifactError
from mirage.runtime.models.model_manifest import ModelManifest, PartFolder
from mirage.runtime.models.model_reader import model_from_json
from mirage.runtime.serialization.artifact import (
    MANIFEST,
    Artifact,
    read_artifact,
    read_json,
    sha256,
    write_files,
    writing,
)
from mirage.runtime.serialization.tensor_files import hash_of, read_file, write_file

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class ModelArtifact:
    """A manifest, the artifacts of its parts by their folders, and tensors by file and key."""

    manifest: ModelManifest
    parts: Mapping[str, Artifact]
    tensors: Mapping[str, Mapping[str, torch.Tensor]] = field(
        default_factory=dict[str, Mapping[str, Any]]
    )
    path: Path | None = None

    def part(self, number: int) -> Artifact:
        """Return the part that a launch names."""
        return self.parts[self.manifest.parts[number].folder]


def write_model(model: ModelArtifact, path: str | os.PathLike[str]) -> Path:
    """Write the folder ``path`` (replacing an existing artifact), whole or not at all, and return
    it. Hashes are computed from the written files; those in the manifest are ignored.

    Raises :class:`UnreadableArtifactError` if ``path`` is anything other than an artifact, and
    :class:`~mirage.runtime.errors.UnwritableArtifactError`.
    """
    with writing(path) as folder:
        hashes: dict[str, str] = {}
        for name, artifact in model.parts.items():
            (folder / name).mkdir()
            write_files(artifact, folder / name)
            hashes[name] = sha256((folder / name / MANIFEST).read_bytes())
        files = {name: write_file(folder / name, held) for name, held in model.tensors.items()}
        manifest = _with_hashes(model.manifest, hashes, files)
        text = json.dumps(manifest.to_json(), indent=1, allow_nan=False)
        (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")
    return Path(path)


def _with_hashes(
    m: ModelManifest, hashes: Mapping[str, str], files: Mapping[str, str]
) -> ModelManifest:
    """Return the manifest with the hashes of the written files."""

    def hashed(parts: Sequence[PartFolder]) -> tuple[PartFolder, ...]:
        return tuple(PartFolder(p.folder, hashes[p.folder]) for p in parts)

    size = m.size
    if size is not None:
        smaller = tuple(replace(p, parts=hashed(p.parts)) for p in size.smaller)
        size = replace(size, smaller=smaller)
    return replace(m, parts=hashed(m.parts), files=files, size=size)


def read_model(path: str | os.PathLike[str], *, check_tensors: bool = True) -> ModelArtifact:
    """Read and check the model in the folder ``path``. Without ``check_tensors``, the hashes of its
    files of tensors are not checked, which would take as long as reading them.

    Raises :class:`~mirage.runtime.errors.ArtifactError`; its subclasses say what is wrong.
    """
    folder = Path(path)
    manifest = model_from_json(read_json(folder), str(folder / MANIFEST))
    parts: dict[str, Artifact] = {}
    for part in manifest.every_part:
        if part.folder not in parts:
            _compare(folder / part.folder / MANIFEST, part.sha256)
            parts[part.folder] = read_artifact(folder / part.folder)
    tensors: dict[str, dict[str, torch.Tensor]] = {}
    for name, expected in manifest.files.items():
        if check_tensors:
            _compare(folder / name, expected)
        tensors[name] = read_file(folder / name)
    _check_parts(manifest, parts, folder)
    if manifest.size is not None:
        for program in manifest.size.smaller:
            _check_parts(replace(manifest, plan=program.plan, parts=program.parts), parts, folder)
    return ModelArtifact(manifest, parts, tensors, folder)


def _compare(path: Path, expected: str) -> None:
    got = hash_of(path)
    if got != expected:
        raise TruncatedArtifactError(
            f"{path}: expected contents with hash {expected[:12]}…, got {got[:12]}…: the file was "
            "truncated or changed; export the model again"
        )


def _check_parts(manifest: ModelManifest, parts: Mapping[str, Artifact], folder: Path) -> None:
    """Check that the parts take and return as many tensors as the plan has for them."""
    for number, step in enumerate(manifest.plan.steps):
        if hasattr(step, "part"):
            part = manifest.parts[step.part]  # type: ignore[union-attr]
            own = parts[part.folder].manifest
            counts = len(own.inputs), len(own.outputs) + len(own.updates)
            if counts != (len(step.operands), len(step.results)):
                raise TruncatedArtifactError(
                    f"{folder / MANIFEST}: steps[{number}]: expected {counts[0]} operands and "
                    f"{counts[1]} results, as {part.folder} has, got {len(step.operands)} and "
                    f"{len(step.results)}; export the model again"
                )
            if own.updates != step.updates:  # type: ignore[union-attr]
                raise TruncatedArtifactError(
                    f"{folder / MANIFEST}: steps[{number}]: expected operands {list(own.updates)} "
                    f"to be written to, as {part.folder} does, got "
                    f"{list(step.updates)}; export the model again"  # type: ignore[union-attr]
                )
