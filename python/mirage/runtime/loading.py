"""From a folder to something that can be called."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from mirage.runtime.artifact import read_artifact, read_json
from mirage.runtime.by_size import FORMAT as SIZES
from mirage.runtime.by_size import SizedExecutable, read_sizes
from mirage.runtime.errors import StateError
from mirage.runtime.executable import Executable
from mirage.runtime.model_manifest import FORMAT

if TYPE_CHECKING:
    import torch

    from mirage.runtime.model import Model, SizedModel


def is_model(path: str | os.PathLike[str]) -> bool:
    """Whether the artifact in a folder is a whole model. Raises
    :class:`~mirage.runtime.errors.ArtifactError` where there is none."""
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
    """The artifact in the folder ``path``, ready to be called.

    A single program (what ``mirage optimize`` writes) is an :class:`Executable`; it needs no GPU to
    be loaded, runs where its inputs are, and takes no other argument; one for sizes in a range is a
    :class:`~mirage.runtime.by_size.SizedExecutable` likewise. A whole model (``mirage
    export``) is a :class:`~mirage.runtime.model.Model` on ``device`` (torch's current GPU by
    default; on "cpu" its kernels are executed in the emulator, if that is installed). ``state`` are
    the weights of one that refers to them: a state dict, or a ``.safetensors`` file. Without
    ``check_tensors`` the hashes of large files are not computed. With ``check_indices`` a call
    whose indices are outside of their dimension raises
    :class:`~mirage.runtime.errors.ArgumentIndexError`, for which it waits for its inputs; without,
    what is outside reads no number and is written nowhere.

    Raises :class:`~mirage.runtime.errors.ArtifactError`,
    :class:`~mirage.runtime.errors.NoGpuError`.
    """
    if not is_model(path):
        if state is not None:
            raise StateError(f"{path}: expected a whole model for a state dict, got one program")
        if _format_of(path) == SIZES:
            return SizedExecutable(read_sizes(path), check_indices=check_indices)
        return Executable(read_artifact(path), check_indices=check_indices)
    from mirage.runtime.model import Model, SizedModel
    from mirage.runtime.model_artifact import read_model
    from mirage.runtime.tensor_files import read_file

    if isinstance(state, str | os.PathLike):
        state = read_file(Path(state))
    artifact = read_model(path, check_tensors=check_tensors)
    if artifact.manifest.size is not None:
        return SizedModel(artifact, device=device, state=state, check_indices=check_indices)
    return Model(artifact, device=device, state=state, check_indices=check_indices)
