"""A loaded artifact that can be called with torch tensors."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeAlias

from mirage.runtime.arguments.index_check import IndexCheck
from mirage.runtime.launching.captured import CapturedProgram
from mirage.runtime.launching.cuda_driver import ensure_context
from mirage.runtime.launching.fast import (
    CUDA,
    FastCall,
    Surroundings,
    driver_functions,
    fast_call,
)
from mirage.runtime.launching.launch_tensors import LaunchTensors, given_tensors, need_gpu
from mirage.runtime.launching.loaded_kernels import LoadedKernel, load_kernels
from mirage.runtime.launching.packing import Packing
from mirage.runtime.serialization.artifact import Artifact

if TYPE_CHECKING:
    import torch

_READY: dict[int, threading.local] = {}
_Slots: TypeAlias = "tuple[tuple[tuple[int, int], ...], ...]"
"""For each buffer, the parameters that take its address, with an offset in bytes."""


class Executable:
    """An artifact as a function of torch tensors.

    Calls launch on torch's current stream and return at once. They do not synchronise and, with
    ``out`` given, do not allocate (except for the workspace, on the first call on a stream), and
    they may be captured in a CUDA graph. Calls from several threads are safe.
    """

    def __init__(
        self, artifact: Artifact, shares: Executable | None = None, *, check_indices: bool = False
    ) -> None:
        """Prepare the artifact. ``shares`` is the same program at its largest size: this program
        uses its code, workspaces and compiled launcher, which takes any size. With
        ``check_indices``, each call waits for its inputs and raises an error if an index is outside
        of its dimension."""
        self.artifact = artifact
        self.manifest = artifact.manifest
        self._check_indices = (
            IndexCheck(self.manifest.bounds, self.manifest.inputs) if check_indices else None
        )
        self._shares = shares
        self._lock = threading.Lock()
        self._kernels: dict[int, tuple[LoadedKernel, ...]] = {}  # by device
        # by device, where there is a compiled launcher
        self._fast: dict[int, FastCall] = {} if shares is None else shares._fast
        # by device and stream
        self._workspaces: dict[tuple[int, int], torch.Tensor] = (
            {} if shares is None else shares._workspaces
        )

    def __repr__(self) -> str:
        m = self.manifest
        return (
            f"<mirage artifact {m.name!r} for {m.chip}: {len(m.inputs)} inputs, "
            f"{len(m.kernels)} kernels>"
        )

    def __call__(
        self,
        *tensors: torch.Tensor | Sequence[torch.Tensor],
        inputs: Sequence[torch.Tensor] | None = None,
        out: Sequence[torch.Tensor] | None = None,
        follows: bool = False,
    ) -> tuple[torch.Tensor, ...]:
        """Launch the program and return its outputs.

        Inputs are given one by one, as one list, or as ``inputs=``. If it ``follows`` kernels of
        another artifact, without anything in between, its first kernel may start before they have
        ended while a CUDA graph is captured. Raises
        :class:`~mirage.runtime.errors.CallError` if they do not match the manifest,
        :class:`NoGpuError`, and the errors of
        :func:`~mirage.runtime.launching.loaded_kernels.load_kernels`.
        """
        given = given_tensors(tensors, inputs)
        results = None if self._check_indices else self.fast_results(given, out, follows)
        if results is not None:
            return results
        read, device = self.checked(given)
        if self._check_indices:
            self._check_indices(given)
        if out is None:
            results = self._tensors.empty(device)
            written = [y.data_ptr() for y in results]
        else:
            results = tuple(out)
            written = self._tensors.written(results, read, device)
        self._launch(read, written, device, follows)
        return results

    def checked(self, given: Sequence[torch.Tensor]) -> tuple[list[int], int]:
        """Return the addresses of inputs and the number of their device. Raises
        :class:`~mirage.runtime.errors.CallError` if they do not match the manifest, and
        :class:`NoGpuError`."""
        return self._tensors.read(given)

    def captured(self, *inputs: torch.Tensor) -> CapturedProgram:
        """Return the program as one CUDA graph, for inputs like these; see
        :mod:`mirage.runtime.launching.captured`. Raises
        :class:`~mirage.runtime.errors.CallError`."""
        return CapturedProgram(self, inputs)

    def fast_results(
        self,
        given: Sequence[torch.Tensor],
        out: Sequence[torch.Tensor] | None = None,
        follows: bool = False,
    ) -> Any:
        """Return the outputs, computed by the compiled launcher; None if it declines the call."""
        fast = self._fast
        if not fast:
            return None
        if len(fast) > 1:
            try:
                return fast[given[0].get_device()](given, out, follows)
            except (AttributeError, LookupError):
                return None
        (call,) = fast.values()
        return call(given, out, follows)

    def prepare(self, device: int = 0) -> None:
        """Load the code onto a device now rather than at the first call."""
        need_gpu()
        (self._shares or self).modules(device)

    def modules(self, device: int) -> tuple[Any, ...]:
        """Return the code on a device, loading it if necessary."""
        with self._lock:
            kernels = self._load(device)
        return kernels[0].modules if kernels else ()

    @cached_property
    def _tensors(self) -> LaunchTensors:
        return LaunchTensors(self.manifest)

    @cached_property
    def _current_device(self) -> Callable[[], int]:
        import torch

        return torch.cuda.current_device

    @cached_property
    def _current_stream(self) -> Callable[[int], int]:
        return stream_getter()

    @cached_property
    def _packing(self) -> Packing:
        size = self.manifest.size
        return Packing(self.manifest.kernels, 0 if size is None else size.value)

    @cached_property
    def _slots(self) -> tuple[_Slots, _Slots, _Slots]:
        """The slots of inputs, outputs and workspace buffers."""
        m = self.manifest
        counts = {"input": m.inputs, "output": m.outputs, "workspace": m.workspace}
        found = [self._packing.slots_of(kind, len(all)) for kind, all in counts.items()]
        return found[0], found[1], found[2]

    def _launch(
        self, read: list[int], written: list[int], device: int, follows: bool = False
    ) -> None:
        if self._current_device() == device:
            self._launch_here(read, written, device, follows)
            return
        import torch

        with torch.cuda.device(device):
            self._launch_here(read, written, device, follows)

    def _launch_here(self, read: list[int], written: list[int], device: int, follows: bool) -> None:
        """Launch on the current device; ``read`` and ``written`` are addresses."""
        stream = self._current_stream(device)
        early = follows and _is_capturing()
        with self._lock:
            slots = self._packing.slots
            input_slots, output_slots, workspace_slots = self._slots
            kernels = self._kernels.get(device) or self._load(device)
            threads = ready_threads(device)
            if not getattr(threads, "ready", False):
                ensure_context(device)
                threads.ready = True
            for addresses, table in ((read, input_slots), (written, output_slots)):
                for address, uses in zip(addresses, table):
                    for slot, offset in uses:
                        slots[slot] = address + offset
            workspace = self._workspace(device, stream) if workspace_slots else None
            if workspace is not None:
                base = workspace.data_ptr()
                for buffer, uses in zip(self.manifest.workspace, workspace_slots):
                    for slot, offset in uses:
                        slots[slot] = base + buffer.offset + offset
            self._packing.update_maps()
            for kernel in kernels:
                kernel(stream, early)
                early = True

    def _load(self, device: int) -> tuple[LoadedKernel, ...]:
        if device not in self._kernels:
            modules = () if self._shares is None else self._shares.modules(device)
            kernels = load_kernels(self.artifact, device, self._packing.params, modules)
            self._kernels[device] = kernels
            if self._shares is None:
                self._add_fast(kernels, device)
        return self._kernels[device]

    def _add_fast(self, kernels: Sequence[LoadedKernel], device: int) -> None:
        functions = driver_functions()
        if not functions.launch:
            return
        workspace: Callable[[int], torch.Tensor] | None = None
        if self.manifest.workspace:
            workspace = partial(self._workspace, device)
        around = Surroundings(
            device, ready_threads(device), workspace, device_getter(), self._current_stream
        )
        handles = [int(kernel.function) for kernel in kernels]
        launches = tuple(kernel.launch for kernel in kernels)
        manifest = replace(self.manifest, kernels=launches)
        call = fast_call(manifest, handles, CUDA, functions, around)
        if call is not None:
            self._fast[device] = call

    def _workspace(self, device: int, stream: int) -> torch.Tensor:
        """Return the workspace of a stream, whose launches run one after the other and can share
        it.

        During the capture of a CUDA graph it comes from the graph's own memory instead, since the
        graph may be replayed on any stream.
        """
        import torch

        tensor = self._workspaces.get((device, stream))
        capturing = _is_capturing()
        if tensor is None or capturing:
            whole = self if self._shares is None else self._shares
            size = max(whole.manifest.workspace_bytes, 1)
            tensor = torch.empty(size, dtype=torch.uint8, device=f"cuda:{device}")
            if not capturing:
                self._workspaces[(device, stream)] = tensor
        return tensor


def _is_capturing() -> bool:
    """Return whether launches are captured in a CUDA graph."""
    import torch

    return torch.cuda.is_current_stream_capturing()


def ready_threads(device: int) -> threading.local:
    """Return the thread-local object that has ``ready`` in threads with the device's context."""
    return _READY.setdefault(device, threading.local())


def device_getter() -> Callable[[], int]:
    """Return the function that returns the number of torch's current device, once torch has used a
    GPU."""
    import torch

    raw = getattr(sys.modules["torch._C"], "_cuda_getDevice", None)  # without a check of the setup
    return raw or torch.cuda.current_device


def stream_getter() -> Callable[[int], int]:
    """Return the function that returns the address of torch's current stream on a device."""
    import torch

    raw = getattr(sys.modules["torch._C"], "_cuda_getCurrentRawStream", None)
    if raw is not None:  # no Stream object: half a microsecond less
        return raw
    return lambda device: torch.cuda.current_stream(device).cuda_stream
