"""Loads artifacts and launches them. Needs Python, torch, cuda-bindings and a driver; no compiler,
no bindings.

import mirage.runtime

program = mirage.runtime.load("rms_linear.mirage")
(y,) = program(x, w)

model = mirage.runtime.load("llama.mirage")        # a whole model, as `mirage export` writes it
logits = model(ids, cache_position=position)
"""

from mirage.runtime.artifact import Artifact, read_artifact, write_artifact
from mirage.runtime.errors import (
    ArtifactError,
    ArtifactVersionError,
    CallError,
    DriverError,
    MissingOpError,
    NoGpuError,
    StateError,
    TruncatedArtifactError,
    UnreadableArtifactError,
    WrongChipError,
)
from mirage.runtime.executable import Executable
from mirage.runtime.loading import load
from mirage.runtime.manifest import Manifest
from mirage.runtime.model import Model

__all__ = [
    "Artifact",
    "ArtifactError",
    "ArtifactVersionError",
    "CallError",
    "DriverError",
    "Executable",
    "Manifest",
    "MissingOpError",
    "Model",
    "NoGpuError",
    "StateError",
    "TruncatedArtifactError",
    "UnreadableArtifactError",
    "WrongChipError",
    "load",
    "read_artifact",
    "write_artifact",
]
