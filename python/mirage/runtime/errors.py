"""What can go wrong between a folder on disk and a result on a GPU."""

from __future__ import annotations

from mirage.errors import MirageError


class ArtifactError(MirageError):
    """An artifact cannot be used."""


class UnreadableArtifactError(ArtifactError):
    """The folder or its manifest cannot be read, or does not say what a manifest must say."""


class UnwritableArtifactError(ArtifactError, OSError):
    """The folder cannot be written, as on a full disk; nothing is left of what was begun."""


class TruncatedArtifactError(ArtifactError):
    """A file of the artifact is missing or not as it was written."""


class ArtifactVersionError(ArtifactError):
    """The artifact was written by a compiler with another manifest format."""


class WrongChipError(ArtifactError):
    """The artifact is for another kind of GPU."""


class StateError(ArtifactError):
    """Weights that a model needs are missing, or are of another shape or type."""


class MissingOpError(ArtifactError):
    """This torch does not have an op that the program calls."""


class CallError(MirageError):
    """An artifact was called with arguments that do not fit."""


class ArgumentCountError(CallError, TypeError):
    """Too few or too many tensors."""


class ArgumentStructureError(CallError, TypeError):
    """Arguments that are nested in another way."""


class ArgumentValueError(CallError, ValueError):
    """A number or a string that is not the one that the model was made for."""


class ArgumentTypeError(CallError, TypeError):
    """Not a tensor, or one of another element type."""


class ArgumentShapeError(CallError, ValueError):
    """A tensor of another shape."""


class ArgumentSizeError(ArgumentShapeError):
    """A size that the program has no kernels for."""


class ArgumentIndexError(CallError, IndexError):
    """An index that is outside of its dimension, of a program that looks at them."""


class ArgumentStrideError(CallError, ValueError):
    """A tensor with another memory layout."""


class ArgumentDeviceError(CallError, ValueError):
    """A tensor on another device."""


class ArgumentAliasError(CallError, ValueError):
    """An output that shares memory with another argument."""


class InterruptedUpdateError(CallError, RuntimeError):
    """A program failed after it had begun to update its inputs."""


class CaptureError(CallError, RuntimeError):
    """A program cannot be captured in a CUDA graph, or a captured one is called with other
    memory."""


class GradientError(CallError, RuntimeError):
    """A gradient would be needed; artifacts compute values only."""


class NoGpuError(MirageError, RuntimeError):
    """There is no GPU, no driver, or no CUDA build of torch."""


class DriverError(MirageError, RuntimeError):
    """The CUDA driver refused a call; the message has its error name and, for modules, its log."""
