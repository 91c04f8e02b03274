"""Artifacts on disk: a folder with ``manifest.json`` and the kernels' code.

Folders are written under a temporary name and renamed, so a reader never sees an incomplete one.
Files are checked against the hashes in the manifest when they are read.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mirage.runtime.errors import (
    TruncatedArtifactError,
    UnreadableArtifactError,
    UnwritableArtifactError,
)
from mirage.runtime.serialization.manifest import Manifest
from mirage.runtime.serialization.manifest_reader import from_json

MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Artifact:
    """A manifest with the contents of its files."""

    manifest: Manifest
    files: Mapping[str, bytes]
    path: Path | None = None

    def ptx(self, module: int = 0) -> str:
        """Return the PTX text of a module."""
        return self.files[self.manifest.modules[module].ptx].decode()

    def cubin(self, module: int) -> bytes | None:
        """Return the machine code of a module, or None if the artifact has none."""
        name = self.manifest.modules[module].cubin
        return None if name is None else self.files[name]


def sha256(content: bytes) -> str:
    """Return the hash of a file's content, as manifests contain it."""
    return hashlib.sha256(content).hexdigest()


def read_artifact(path: str | os.PathLike[str]) -> Artifact:
    """Read and check the artifact in the folder ``path``.

    Raises :class:`~mirage.runtime.errors.ArtifactError`; its subclasses say what is wrong.
    """
    folder = Path(path)
    manifest = from_json(read_json(folder), str(folder / MANIFEST))
    files: dict[str, bytes] = {}
    for module in manifest.modules:
        files[module.ptx] = _read(folder / module.ptx, module.ptx_sha256)
        if module.cubin is not None and module.cubin_sha256 is not None:
            files[module.cubin] = _read(folder / module.cubin, module.cubin_sha256)
    return Artifact(manifest, files, folder)


def read_json(folder: Path) -> object:
    """Return the JSON data of the manifest in a folder. Raises :class:`UnreadableArtifactError` and
    :class:`TruncatedArtifactError`."""
    place = folder / MANIFEST
    try:
        text = place.read_text(encoding="utf-8")
    except FileNotFoundError:
        what = "there is no such file" if folder.is_dir() else "there is no such folder"
        raise UnreadableArtifactError(
            f"{place}: expected an artifact's manifest, but {what}"
        ) from None
    except (OSError, UnicodeDecodeError) as e:
        raise UnreadableArtifactError(f"{place}: cannot be read: {e}") from None
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as e:
        raise TruncatedArtifactError(
            f"{place}: expected complete JSON, got an error: {e}; compile the program again"
        ) from None


def _read(path: Path, expected: str) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as e:
        raise TruncatedArtifactError(
            f"{path}: expected a file of the artifact, got: {e.strerror}; compile the program again"
        ) from None
    if sha256(content) != expected:
        raise TruncatedArtifactError(
            f"{path}: expected contents with hash {expected[:12]}…, got {sha256(content)[:12]}… "
            f"({len(content)} bytes): the file was truncated or changed; compile the program again"
        )
    return content


def write_artifact(artifact: Artifact, path: str | os.PathLike[str]) -> Path:
    """Write the folder ``path`` (replacing an existing artifact) and return it.

    Raises :class:`UnreadableArtifactError` if ``path`` is anything other than an artifact, and
    :class:`UnwritableArtifactError`.
    """
    with writing(path) as folder:
        write_files(artifact, folder)
    return Path(path)


def write_files(artifact: Artifact, folder: Path) -> None:
    """Write an artifact into an existing folder. Raises ``OSError``."""
    for name, content in artifact.files.items():
        (folder / name).write_bytes(content)
    text = json.dumps(artifact.manifest.to_json(), indent=1)
    (folder / MANIFEST).write_text(text + "\n", encoding="utf-8")


@contextlib.contextmanager
def writing(path: str | os.PathLike[str]) -> Generator[Path]:
    """Yield a temporary folder that becomes ``path`` at the end, unless an error is raised.

    Raises :class:`UnreadableArtifactError` if ``path`` is anything other than an artifact, and
    :class:`UnwritableArtifactError`.
    """
    target = Path(path)
    check_target(target)
    if target.is_dir() and not any(target.iterdir()):
        target.rmdir()
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        yield temporary
        temporary.chmod(0o755)
        _replace(temporary, target)
    except OSError as error:
        raise UnwritableArtifactError(
            f"{target}: cannot be written ({error.strerror or error}); nothing is left there but "
            "what was there before"
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def check_target(path: str | os.PathLike[str]) -> None:
    """Raise :class:`UnreadableArtifactError` if an artifact could not be written to ``path``:
    something else exists there, or its parent folder is not writable.
    """
    target = Path(path)
    other = target.exists() and not (target / MANIFEST).is_file()
    if other and (not target.is_dir() or any(target.iterdir())):
        raise UnreadableArtifactError(
            f"{target}: expected no file, an empty folder or an artifact to replace"
        )
    folder = target.absolute().parent
    while not folder.exists():
        folder = folder.parent
    try:  # permissions do not suffice: a file system may be read-only or refuse folders
        os.rmdir(tempfile.mkdtemp(prefix=f".{target.name}.", dir=folder))
    except OSError as error:
        raise UnreadableArtifactError(
            f"{target}: expected a folder that can be written, {folder} is not ({error.strerror})"
        ) from error


def _replace(temporary: Path, target: Path) -> None:
    """Rename a folder to the name of another one, which a plain rename can do only if that is
    empty."""
    old = temporary.with_name(temporary.name + ".old")
    with contextlib.suppress(FileNotFoundError):
        os.replace(target, old)
    try:
        os.replace(temporary, target)
    except OSError:
        if not (
            target / MANIFEST
        ).is_file():  # otherwise another process was faster with the same artifact
            raise
    shutil.rmtree(old, ignore_errors=True)
