"""The errors that may occur between a folder on disk and a result on a GPU."""

from __future__ import annotations

from mirage.errors import MirageError


class ArtifactError(MirageError):
    """An artifact cannot be used."""


class UnreadableArtifactError(ArtifactError):
    """The folder or its manifest cannot be read, or is not a valid artifact."""


class UnwritableArtifactError(ArtifactError, OSError):
    """The folder cannot be written, for example on a full disk; no partial folder is left
    behind."""


class TruncatedArtifactError(ArtifactError):
    """A file of the artifact is missing or differs from what was written."""


class ArtifactVersionError(ArtifactError):
    """The artifact was written by a compiler with another manifest format."""


class WrongChipError(ArtifactError):
    """The artifact is for another kind of GPU."""


class StateError(ArtifactError):
    """Weights that a model needs are missing, or have another shape or type."""


class MissingOpError(ArtifactError):
    """This torch does not have an op that the program calls."""


class CallError(MirageError):
    """An artifact was called with invalid arguments."""


class ArgumentCountError(CallError, TypeError):
    """There are too few or too many tensors."""


class ArgumentStructureError(CallError, TypeError):
    """The arguments are nested in another way."""


class ArgumentValueError(CallError, ValueError):
    """A number or string differs from the one for which the model was made."""


class ArgumentTypeError(CallError, TypeError):
    """An argument is not a tensor, or has another element type."""


class ArgumentShapeError(CallError, ValueError):
    """A tensor has another shape."""


class ArgumentSizeError(ArgumentShapeError):
    """The program has no kernels for this size."""


class ArgumentIndexError(CallError, IndexError):
    """An index is outside of its dimension, in a program that checks them."""


class ArgumentStrideError(CallError, ValueError):
    """A tensor has another memory layout."""


class ArgumentDeviceError(CallError, ValueError):
    """A tensor is on another device."""


class ArgumentAliasError(CallError, ValueError):
    """An output shares memory with another argument."""


class InterruptedUpdateError(CallError, RuntimeError):
    """A program failed after it had started to update its inputs."""


class CaptureError(CallError, RuntimeError):
    """A program cannot be captured in a CUDA graph, or a captured program was called with other
    memory."""


class GradientError(CallError, RuntimeError):
    """A gradient would be required; artifacts compute values only."""


class NoGpuError(MirageError, RuntimeError):
    """There is no GPU, no driver, or no CUDA build of torch."""


class DriverError(MirageError, RuntimeError):
    """The CUDA driver refused a call; the message has its error name and, for modules, its log."""
