"""Our own processes keep memory that is freed."""

from __future__ import annotations

import subprocess
import sys

import pytest

PAGES = """
import resource
import numpy as np
from mirage.spare_memory import keep_spare_memory

def pages() -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(50):
        parts = [np.ones(1 << 15) for _ in range(40)]  # 10 MB
        del parts
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

first = pages()
keep_spare_memory()
pages()
print(first, pages())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a setting of glibc")
def test_pages_are_asked_for_once() -> None:
    """The layout of memory differs between processes, so there are three attempts."""
    assert any(kept < 2_000 < first for first, kept in (pages() for _ in range(3)))  # of 125 000


def pages() -> tuple[int, int]:
    """Return how many pages a process requests, before and after it keeps memory."""
    done = subprocess.run([sys.executable, "-c", PAGES], capture_output=True, text=True, check=True)
    first, kept = map(int, done.stdout.split())
    return first, kept
