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

from importlib import import_module
from typing import TYPE_CHECKING

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
_WHERE = {
    **dict.fromkeys(("Artifact", "read_artifact", "write_artifact"), "serialization.artifact"),
    **dict.fromkeys(_ERRORS, "errors"),
    "Executable": "launching.executable",
    "load": "loading",
    "Manifest": "serialization.manifest",
    "Model": "models.model",
}

__all__ = [*_WHERE]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    if name not in _WHERE:
        raise AttributeError(f"module 'mirage.runtime' has no attribute {name!r}")
    module = import_module(f"mirage.runtime.{_WHERE[name]}")
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_WHERE})
