"""Keeps the memory that arrays release for later ones.

The C library returns memory at the end of its heap to the system at once, and the system clears
each page of it when it is needed again. For arrays of some hundred kilobytes, of which verification
makes one after the other, this takes several times as long as computing them.
"""

from __future__ import annotations

import sys

SPARE = 64 << 20
"""The bytes that a process keeps: some dozens of the largest arrays of one test."""
LARGEST = 32 << 20
"""The bytes from which on an array is mapped separately, the largest value that glibc accepts."""
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # in glibc's malloc.h


def keep_spare_memory() -> None:
    """Let this process keep some memory that it has released. Only glibc supports this; elsewhere
    nothing changes. It is a setting of a whole process, so it is for our own processes, not for
    those of users."""
    if sys.platform == "linux":
        import ctypes  # not for a command's help

        tell = getattr(ctypes.CDLL(None), "mallopt", None)
        if tell is not None:
            # Setting any of these disables the automatic adjustment of the others.
            tell(_MMAP_THRESHOLD, LARGEST)
            tell(_TRIM_THRESHOLD, SPARE)
            tell(_TOP_PAD, SPARE)
