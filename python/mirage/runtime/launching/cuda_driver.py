"""The few calls of the CUDA driver that launching needs, with errors as exceptions.

``cuda.bindings`` is imported on first use, so artifacts can be read and programs compiled without a
driver.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from mirage.runtime.errors import DriverError, NoGpuError, WrongChipError


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
    except RuntimeError as e:  # libcuda is missing
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
