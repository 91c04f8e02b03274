"""Loads artifacts and launches them. Needs Python, torch, cuda-bindings and a driver; no compiler,
no bindings.

import mirage.runtime

program = mirage.runtime.load("rms_linear.mirage")
(y,) = program(x, w)
"""

from mirage.runtime.artifact import Artifact, read_artifact, write_artifact
from mirage.runtime.errors import (
    ArtifactError,
    ArtifactVersionError,
    CallError,
    DriverError,
    NoGpuError,
    TruncatedArtifactError,
    UnreadableArtifactError,
    WrongChipError,
)
from mirage.runtime.executable import Executable, load
from mirage.runtime.manifest import Manifest

__all__ = [
    "Artifact",
    "ArtifactError",
    "ArtifactVersionError",
    "CallError",
    "DriverError",
    "Executable",
    "Manifest",
    "NoGpuError",
    "TruncatedArtifactError",
    "UnreadableArtifactError",
    "WrongChipError",
    "load",
    "read_artifact",
    "write_artifact",
]
