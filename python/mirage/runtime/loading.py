"""Loads a folder as a callable."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from mirage.runtime.errors import StateError
from mirage.runtime.launching.by_size import FORMAT as SIZES
from mirage.runtime.launching.by_size import SizedExecutable, read_sizes
from mirage.runtime.launching.executable import Executable
from mirage.runtime.models.model_manifest import FORMAT
from mirage.runtime.serialization.artifact import read_artifact, read_json

if TYPE_CHECKING:
    import torch

    from mirage.runtime.models.model import Model, SizedModel


def is_model(path: str | os.PathLike[str]) -> bool:
    """Return whether the artifact in a folder is a whole model. Raises
    :class:`~mirage.runtime.errors.ArtifactError` if there is no artifact."""
    return _format_of(path) == FORMAT


def _format_of(path: str | os.PathLike[str]) -> object:
    data = read_json(Path(path))
    return cast("dict[str, Any]", data).get("format") if isinstance(data, dict) else None


def load(
    path: str | os.PathLike[str],
    *,
    device: str | torch.device | None = None,
    state: Mapping[str, torch.Tensor] | str | os.PathLike[str] | None = None,
    check_tensors: bool = True,
    check_indices: bool = False,
) -> Executable | SizedExecutable | Model | SizedModel:
    """Load the artifact in the folder ``path`` as a callable.

    A single program (written by ``mirage optimize``) becomes an :class:`Executable`. It needs no
    GPU to be loaded, runs on the device of its inputs, and uses only ``check_indices`` of the
    other arguments. A program for a range of sizes becomes a
    :class:`~mirage.runtime.launching.by_size.SizedExecutable` in the same way. A whole model
    (written by ``mirage export``) becomes a :class:`~mirage.runtime.models.model.Model` on
    ``device`` (torch's current GPU by default; on "cpu" its kernels run in the emulator, if that is
    installed). ``state`` are the weights of a model that refers to them: a state dict, or a
    ``.safetensors`` file. Without ``check_tensors`` the hashes of large files are not computed.
    With ``check_indices``, a call waits for its inputs and raises
    :class:`~mirage.runtime.errors.ArgumentIndexError` if an index is outside of its dimension;
    without it, such an index reads NaN and stores nothing.

    Raises :class:`~mirage.runtime.errors.ArtifactError`,
    :class:`~mirage.runtime.errors.NoGpuError`.
    """
    if not is_model(path):
        if state is not None:
            raise StateError(f"{path}: expected a whole model for a state dict, got one program")
        if _format_of(path) == SIZES:
            return SizedExecutable(read_sizes(path), check_indices=check_indices)
        return Executable(read_artifact(path), check_indices=check_indices)
    from mirage.runtime.models.model import Model, SizedModel
    from mirage.runtime.models.model_artifact import read_model
    from mirage.runtime.serialization.tensor_files import read_file

    if isinstance(state, str | os.PathLike):
        state = read_file(Path(state))
    artifact = read_model(path, check_tensors=check_tensors)
    if artifact.manifest.size is not None:
        return SizedModel(artifact, device=device, state=state, check_indices=check_indices)
    return Model(artifact, device=device, state=state, check_indices=check_indices)
