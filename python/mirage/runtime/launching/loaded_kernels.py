"""The kernels of an artifact, loaded onto a device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

from mirage.runtime.errors import DriverError
from mirage.runtime.launching.cuda_driver import (
    check,
    compute_capability,
    driver,
    ensure_context,
    runs_on,
    wrong_chip,
)
from mirage.runtime.launching.even_shares import multiprocessors
from mirage.runtime.serialization.artifact import Artifact
from mirage.runtime.serialization.manifest import KernelLaunch

_LOG_BYTES = 16384


class LoadedKernel:
    """A kernel on a device, to be called with the address of a stream. If it is dependent, it may
    start ``early``, before the kernel that was launched last has ended.

    ``params`` is the address of its ``kernelParams``; the parameters themselves are read during the
    call. ``modules`` keeps the code loaded.
    """

    def __init__(
        self, function: Any, launch: KernelLaunch, params: int, modules: tuple[Any, ...]
    ) -> None:
        d = driver()
        self.function = function
        self.launch = launch
        self.params = params
        self.modules = modules
        self._success = d.CUresult.CUDA_SUCCESS
        self._geometry = (*launch.grid, *launch.block, launch.shared_bytes)
        self._launch = d.cuLaunchKernel
        self._config = _config(launch) if launch.cluster or launch.dependent else None
        self._attributes = 0 if self._config is None else int(self._config.numAttrs)

    def __call__(self, stream: int, early: bool = True) -> None:
        if self._config is None:
            (code,) = self._launch(self.function, *self._geometry, stream, self.params, 0)
        else:
            d = driver()
            self._config.hStream = d.CUstream(stream)
            self._config.numAttrs = self._attributes - (self.launch.dependent and not early)
            (code,) = d.cuLaunchKernelEx(self._config, self.function, self.params, 0)
        if code != self._success:
            k = self.launch
            raise DriverError(
                f"launch of kernel {k.entry!r} with grid {k.grid}, block {k.block} and "
                f"{k.shared_bytes} bytes of "
                f"shared memory: {code.name}"
            )


def _config(launch: KernelLaunch) -> Any:
    """Return the launch attributes besides the geometry: clusters of blocks, at last an early
    start."""
    d = driver()
    config = d.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = launch.grid
    config.blockDimX, config.blockDimY, config.blockDimZ = launch.block
    config.sharedMemBytes = launch.shared_bytes
    attributes: list[Any] = []
    if launch.cluster is not None:
        attribute = d.CUlaunchAttribute()
        attribute.id = d.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        size = attribute.value.clusterDim
        size.x, size.y, size.z = launch.cluster
        attributes.append(attribute)
    if launch.dependent:
        attribute = d.CUlaunchAttribute()
        kinds = d.CUlaunchAttributeID
        attribute.id = kinds.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        attribute.value.programmaticStreamSerializationAllowed = 1
        attributes.append(attribute)
    config.attrs = attributes
    config.numAttrs = len(attributes)
    return config


def load_kernels(
    artifact: Artifact, device: int, params: Sequence[int], modules: tuple[Any, ...] = ()
) -> tuple[LoadedKernel, ...]:
    """Load the artifact's code onto a device; ``params`` are the addresses of the launches'
    parameter lists, and ``modules`` is the code if it is already loaded.

    Raises :class:`WrongChipError`, :class:`DriverError` (with the driver's log if it compiled PTX)
    and :class:`NoGpuError`.
    """
    d = driver()
    manifest = artifact.manifest
    capability = compute_capability(device)
    if not runs_on(manifest.chip, capability):
        raise wrong_chip(
            f"artifact {manifest.name!r}", manifest.chip, device, capability, "compile"
        )
    ensure_context(device)
    modules = modules or tuple(_load_module(artifact, i) for i in range(len(manifest.modules)))
    loaded: list[LoadedKernel] = []
    for kernel, address in zip(manifest.kernels, params, strict=True):
        function = check(
            d.cuModuleGetFunction(modules[kernel.module], kernel.entry.encode()),
            f"kernel {kernel.entry!r}",
        )
        _allow_shared(function, kernel)
        launch = _evenly(function, kernel, device)
        _allow_shared(function, launch)
        if (
            kernel.cluster is not None
            and max(kernel.cluster[0] * kernel.cluster[1] * kernel.cluster[2], 1) > 8
        ):
            attribute = d.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            check(
                d.cuFuncSetAttribute(function, attribute, 1),
                f"kernel {kernel.entry!r}: cluster of more than 8 blocks",
            )
        loaded.append(LoadedKernel(function, launch, address, modules))
    return tuple(loaded)


def _evenly(function: Any, kernel: KernelLaunch, device: int) -> KernelLaunch:
    """Return the launch in which no multiprocessor takes more than its share of the blocks, if they
    start early and all fit."""
    if not kernel.dependent or kernel.cluster is not None:
        return kernel
    threads, blocks = prod(kernel.block), prod(kernel.grid)
    fitting = check(
        driver().cuOccupancyMaxActiveBlocksPerMultiprocessor(
            function, threads, kernel.shared_bytes
        ),
        f"blocks of kernel {kernel.entry!r} on a multiprocessor",
    )
    asked = multiprocessors(device).even_share(blocks, fitting, kernel.shared_bytes)
    return replace(kernel, shared_bytes=asked)


def _allow_shared(function: Any, kernel: KernelLaunch) -> None:
    """Let a kernel request its dynamic shared memory; others that run the same code may request
    more."""
    d = driver()
    most = d.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    what = f"kernel {kernel.entry!r} needs {kernel.shared_bytes} bytes of shared memory"
    if kernel.shared_bytes > check(d.cuFuncGetAttribute(most, function), what):
        check(d.cuFuncSetAttribute(function, most, kernel.shared_bytes), what)


def _load_module(artifact: Artifact, index: int) -> Any:
    d = driver()
    cubin = artifact.cubin(index)
    if cubin is not None:
        code, module = d.cuModuleLoadData(cubin)
        if code == d.CUresult.CUDA_SUCCESS:
            return module
        # Assembled for a newer driver, for instance: this driver compiles the PTX itself.
    log = bytearray(_LOG_BYTES)
    options = [
        d.CUjit_option.CU_JIT_ERROR_LOG_BUFFER,
        d.CUjit_option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
    ]
    ptx = artifact.files[artifact.manifest.modules[index].ptx] + b"\0"
    what = (
        f"the driver cannot load {artifact.manifest.modules[index].ptx} of artifact "
        f"{artifact.manifest.name!r}"
    )
    return check(d.cuModuleLoadDataEx(ptx, len(options), options, [log, _LOG_BYTES]), what, log)
