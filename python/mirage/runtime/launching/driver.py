"""The few calls of the CUDA driver that launching needs, with errors as exceptions.

``cuda.bindings`` is imported on first use, so artifacts can be read and programs compiled without a
driver.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from mirage.runtime.errors import DriverError, NoGpuError, WrongChipError
from mirage.runtime.serialization.artifact import Artifact
from mirage.runtime.serialization.manifest import KernelLaunch

_LOG_BYTES = 16384
_DEFAULT_SHARED = 48 * 1024  # dynamic shared memory that a kernel may use without asking, in bytes


@cache
def driver() -> Any:
    """Return ``cuda.bindings.driver``. Raises :class:`NoGpuError` if it or a GPU is missing."""
    try:
        from cuda.bindings import driver as module  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]
    except ImportError as e:
        raise NoGpuError(
            f"cannot launch: the package cuda-bindings is missing ({e}); pip install "
            "'cuda-bindings>=13'"
        ) from None
    try:
        (code,) = module.cuInit(0)
    except RuntimeError as e:  # libcuda is not there
        raise NoGpuError(f"cannot launch: no CUDA driver was found ({e})") from None
    if code != module.CUresult.CUDA_SUCCESS:
        raise NoGpuError(f"cannot launch: the CUDA driver found no usable GPU ({code.name})")
    return module


def check(result: tuple[Any, ...], what: str, log: bytearray | None = None) -> Any:
    """Return the values after the error code. Raises :class:`DriverError`, which says ``what`` was
    tried."""
    code = result[0]
    if code != driver().CUresult.CUDA_SUCCESS:
        text = "" if log is None else bytes(log).split(b"\0")[0].decode(errors="replace").strip()
        raise DriverError(f"{what}: {code.name}" + (f"\n{text}" if text else ""))
    return result[1] if len(result) == 2 else result[1:]


def compute_capability(device: int) -> tuple[int, int]:
    """Return the major and minor number of a device."""
    d = driver()
    handle = check(d.cuDeviceGet(device), f"device {device}")
    names = d.CUdevice_attribute
    major, minor = (
        check(d.cuDeviceGetAttribute(a, handle), "compute capability")
        for a in (
            names.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            names.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
        )
    )
    return major, minor


def first_device() -> tuple[tuple[int, int], str] | None:
    """Return the compute capability and name of this machine's first GPU, or None if there is none.
    No context is created.
    """
    try:
        d = driver()
    except NoGpuError:
        return None
    handle = check(d.cuDeviceGet(0), "device 0")
    name: bytes = check(d.cuDeviceGetName(128, handle), "name of device 0")
    return compute_capability(0), name.split(b"\0")[0].decode(errors="replace")


def runs_on(chip: str, capability: tuple[int, int]) -> bool:
    """Return whether code for ``chip`` runs on a device: ``sm_80`` runs on that or anything later,
    ``sm_90a`` on 9.0 only.
    """
    match = re.fullmatch(r"sm_(\d+)(\d)([af]?)", chip)
    if match is None:
        return False
    wanted = (int(match[1]), int(match[2]))
    if match[3] == "a":
        return capability == wanted
    return capability >= wanted and (not match[3] or capability[0] == wanted[0])


def wrong_chip(
    what: str, chip: str, device: int, capability: tuple[int, int], again: str
) -> WrongChipError:
    """Return the error that says that ``what`` was made for ``chip``; ``again`` says how to make it
    for the device."""
    major, minor = capability
    return WrongChipError(
        f"{what} was compiled for {chip}, but device {device} has compute capability "
        f"{major}.{minor}; {again} it with --chip sm_{major}{minor}"
    )


def ensure_context(device: int) -> None:
    """Make the device's primary context (torch's) current in this thread if none is current."""
    d = driver()
    if int(check(d.cuCtxGetCurrent(), "current context")) == 0:
        handle = check(d.cuDeviceGet(device), f"device {device}")
        context = check(d.cuDevicePrimaryCtxRetain(handle), f"primary context of device {device}")
        check(d.cuCtxSetCurrent(context), f"primary context of device {device}")


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
        if kernel.shared_bytes > _DEFAULT_SHARED:
            check(
                d.cuFuncSetAttribute(
                    function,
                    d.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                    kernel.shared_bytes,
                ),
                f"kernel {kernel.entry!r} needs {kernel.shared_bytes} bytes of shared memory",
            )
        if (
            kernel.cluster is not None
            and max(kernel.cluster[0] * kernel.cluster[1] * kernel.cluster[2], 1) > 8
        ):
            attribute = d.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
            check(
                d.cuFuncSetAttribute(function, attribute, 1),
                f"kernel {kernel.entry!r}: cluster of more than 8 blocks",
            )
        loaded.append(LoadedKernel(function, kernel, address, modules))
    return tuple(loaded)


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
