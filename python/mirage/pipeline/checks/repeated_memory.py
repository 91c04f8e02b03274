"""Arrays that repeat a run of bytes and take only as much memory as the run.

The operands of a kernel may be weights of hundreds of megabytes of which its first blocks read
little, and their contents repeat anyway. So all pages of such an array map to the pages of one run,
if the system supports it (Linux).
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import weakref
from functools import cache
from typing import Any

import numpy as np

Bytes = np.ndarray[Any, np.dtype[np.uint8]]
_PAGES = 2053  # a prime: rows of a power of two of bytes hold different numbers
RUN = _PAGES * mmap.PAGESIZE
"""The number of bytes in a run."""
_FIXED = 0x10  # MAP_FIXED of Linux, for which the module has no name
_NOTHING = 0  # PROT_NONE
_FAILED = ctypes.c_void_p(-1).value


def repeated(run: Bytes, size: int) -> Bytes | None:
    """Return ``size`` bytes that repeat a run of :data:`RUN` bytes. A write changes only the place
    to which it writes. Return None if the system cannot map memory in that way."""
    if not sys.platform.startswith("linux") or len(run) != RUN:
        return None
    try:
        file = os.memfd_create("operand")
    except OSError:
        return None
    try:
        with os.fdopen(os.dup(file), "wb") as writer:
            writer.write(run.tobytes())
        start = _mapped(file, size)
    except OSError:
        return None
    finally:
        os.close(file)
    memory = (ctypes.c_uint8 * size).from_address(start)
    weakref.finalize(memory, _libc().munmap, start, size)
    return np.ctypeslib.as_array(memory)


def _mapped(file: int, size: int) -> int:
    """Return the address of memory of that size whose pages map to those of a file, over and over.
    Raises ``OSError``."""
    aside = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    start = _map(None, size, _NOTHING, aside, -1)
    for offset in range(0, size, RUN):
        at, some = start + offset, min(RUN, size - offset)
        try:
            _map(at, some, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | _FIXED, file)
        except OSError:
            _libc().munmap(start, size)
            raise
    return start


def _map(at: int | None, size: int, access: int, flags: int, file: int) -> int:
    found = _libc().mmap(at, size, access, flags, file, 0)
    if found is None or found == _FAILED:
        raise OSError(ctypes.get_errno(), "memory cannot be mapped")
    return found


@cache
def _libc() -> Any:
    libc = ctypes.CDLL(None, use_errno=True)
    number, size = ctypes.c_int, ctypes.c_size_t
    libc.mmap.argtypes = (ctypes.c_void_p, size, number, number, number, ctypes.c_long)
    libc.mmap.restype = ctypes.c_void_p
    libc.munmap.argtypes = (ctypes.c_void_p, size)
    return libc
