"""Loads artifacts and launches them. Needs Python, torch, cuda-bindings and a driver; no compiler,
no bindings.

import mirage.runtime

program = mirage.runtime.load("rms_linear.mirage")
(y,) = program(x, w)

model = mirage.runtime.load("llama.mirage")        # a whole model, as `mirage export` writes it
logits = model(ids, cache_position=position)

Names load on first use, so the import alone costs next to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirage.lazy_names import on_first_use

if TYPE_CHECKING:
    from mirage.runtime.errors import ArtifactError as ArtifactError
    from mirage.runtime.errors import ArtifactVersionError as ArtifactVersionError
    from mirage.runtime.errors import CallError as CallError
    from mirage.runtime.errors import DriverError as DriverError
    from mirage.runtime.errors import MissingOpError as MissingOpError
    from mirage.runtime.errors import NoGpuError as NoGpuError
    from mirage.runtime.errors import StateError as StateError
    from mirage.runtime.errors import TruncatedArtifactError as TruncatedArtifactError
    from mirage.runtime.errors import UnreadableArtifactError as UnreadableArtifactError
    from mirage.runtime.errors import UnwritableArtifactError as UnwritableArtifactError
    from mirage.runtime.errors import WrongChipError as WrongChipError
    from mirage.runtime.launching.executable import Executable as Executable
    from mirage.runtime.loading import load as load
    from mirage.runtime.models.model import Model as Model
    from mirage.runtime.serialization.artifact import Artifact as Artifact
    from mirage.runtime.serialization.artifact import read_artifact as read_artifact
    from mirage.runtime.serialization.artifact import write_artifact as write_artifact
    from mirage.runtime.serialization.manifest import Manifest as Manifest

_ERRORS = (
    "ArtifactError", "ArtifactVersionError", "CallError", "DriverError", "MissingOpError",
    "NoGpuError", "StateError", "TruncatedArtifactError", "UnreadableArtifactError",
    "UnwritableArtifactError", "WrongChipError",
)  # fmt: skip
_HOMES = {
    "Artifact": ".serialization.artifact",
    "read_artifact": ".serialization.artifact",
    "write_artifact": ".serialization.artifact",
    **dict.fromkeys(_ERRORS, ".errors"),
    "Executable": ".launching.executable",
    "load": ".loading",
    "Manifest": ".serialization.manifest",
    "Model": ".models.model",
}

__all__ = [*_HOMES]  # pyright: ignore[reportUnsupportedDunderAll]

__getattr__, __dir__ = on_first_use(__name__, _HOMES)
