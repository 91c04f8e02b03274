"""The tensors of a launch: inputs that match the manifest, outputs that overlap nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from mirage.runtime.arguments.overlaps import Updates
from mirage.runtime.arguments.tensor_check import TensorCheck
from mirage.runtime.errors import (
    ArgumentAliasError,
    ArgumentCountError,
    ArgumentDeviceError,
    ArgumentStrideError,
    NoGpuError,
)
from mirage.runtime.launching.fast import ALIGNMENT
from mirage.runtime.serialization.manifest import Manifest, TensorSpec

if TYPE_CHECKING:
    import torch


class LaunchTensors:
    """Checks the tensors of a program's calls and returns their addresses."""

    def __init__(self, manifest: Manifest) -> None:
        self._inputs = [_Check(s, f"input {i} ({s.name})") for i, s in enumerate(manifest.inputs)]
        self._outputs = [
            _Check(s, f"output {i} ({s.name})") for i, s in enumerate(manifest.outputs)
        ]
        self._updates = Updates(manifest.inputs, manifest.updates)

    def read(self, given: Sequence[torch.Tensor]) -> tuple[list[int], int]:
        """Return the addresses of inputs and the number of their device. Raises
        :class:`~mirage.runtime.errors.CallError` if they do not match the manifest, and
        :class:`NoGpuError`."""
        checks = self._inputs
        if len(given) != len(checks):
            names = ", ".join(c.spec.name for c in checks)
            raise ArgumentCountError(
                f"expected {len(checks)} input tensors ({names}), got {len(given)}"
            )
        device = _device_of(given)
        read = [wanted(tensor, device) for tensor, wanted in zip(given, checks)]
        self._updates.check(read)
        if device < 0:
            self._reject_host_tensors(given)
        return read, device

    def empty(self, device: int) -> tuple[torch.Tensor, ...]:
        """Return new tensors for the outputs."""
        return tuple(c.empty(device) for c in self._outputs)

    def _reject_host_tensors(self, tensors: Sequence[torch.Tensor]) -> NoReturn:
        need_gpu()
        raise ArgumentDeviceError(
            f"input 0 ({self._inputs[0].spec.name}): expected a tensor on a CUDA device, "
            "got one on "
            f"{tensors[0].device}; move it with .cuda()"
        )

    def written(self, results: tuple[torch.Tensor, ...], read: list[int], device: int) -> list[int]:
        """Return the addresses of the outputs, which must overlap nothing."""
        checks = self._outputs
        if len(results) != len(checks):
            raise ArgumentCountError(f"expected {len(checks)} output tensors, got {len(results)}")
        written = [wanted(tensor, device) for tensor, wanted in zip(results, checks)]
        taken = [(start, start + c.bytes) for start, c in zip(read, self._inputs)]
        for start, wanted in zip(written, checks):
            end = start + wanted.bytes
            for a, b in taken:
                if start < b and a < end:
                    raise ArgumentAliasError(
                        f"{wanted.what}: expected separate memory, got some of another argument"
                    )
            taken.append((start, end))
        return written


def given_tensors(
    tensors: tuple[torch.Tensor | Sequence[torch.Tensor], ...],
    inputs: Sequence[torch.Tensor] | None,
) -> Sequence[torch.Tensor]:
    """Return the inputs of a call, which are given one by one, as one list, or as ``inputs=``."""
    if inputs is not None:
        if tensors:
            raise ArgumentCountError("expected tensors either by position or as inputs=, got both")
        return inputs
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        return tensors[0]
    return tensors  # type: ignore[return-value]


def need_gpu() -> None:
    """Raise :class:`NoGpuError` if torch has no GPU."""
    try:
        import torch
    except ImportError:
        raise NoGpuError("cannot launch: torch is not installed") from None
    if not torch.cuda.is_available():
        built = "no GPU was found" if torch.version.cuda else "this torch was built without CUDA"
        raise NoGpuError(
            f"cannot launch: {built}; compiling and emulating need no GPU, running does"
        )


def _device_of(tensors: Sequence[Any]) -> int:
    """Return the device of the first input: -1 for host memory, and torch's current device if
    there are no inputs.
    """
    if tensors:
        get_device = getattr(tensors[0], "get_device", None)
        return -1 if get_device is None else get_device()
    need_gpu()
    import torch

    return torch.cuda.current_device()


class _Check(TensorCheck):
    """The check of a tensor argument of a launch, on the device of its first input."""

    def __init__(self, spec: TensorSpec, what: str) -> None:
        super().__init__(spec, what)
        self.bytes = spec.bytes

    def empty(self, device: int) -> torch.Tensor:
        """Return a new tensor of this specification."""
        import torch

        return torch.empty_strided(
            self.spec.shape, self.strides, dtype=self.dtype, device=f"cuda:{device}"
        )

    def __call__(self, tensor: torch.Tensor, device: int) -> int:
        """Check a tensor and return its address."""
        self.check_kind(tensor)
        if tensor.get_device() != device:
            where = f"cuda:{device}" if device >= 0 else "the CPU as input 0 is"
            raise ArgumentDeviceError(
                f"{self.what}: expected a tensor on {where}, got one on {tensor.device}; "
                "move all tensors to one CUDA device"
            )
        self.check_layout(tensor)
        address = tensor.data_ptr()
        if address % ALIGNMENT:
            raise ArgumentStrideError(
                f"{self.what}: expected data that starts at a multiple of {ALIGNMENT} bytes, "
                f"got an offset of {address % ALIGNMENT}; pass .clone()"
            )
        return address
