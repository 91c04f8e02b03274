"""Large arrays that repeat a run take as much memory as the run."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import numpy as np
import pytest
from mirage.pipeline.checks.repeated_memory import RUN, repeated

RUN_BYTES = np.random.default_rng(0).integers(0, 256, RUN, dtype=np.uint8)
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="pages are mapped there")


def private() -> int:
    """Return the private bytes of this process, including those of its memory files."""
    pages = Path("/proc/self/smaps_rollup").read_text()
    return 1024 * sum(int(x.split()[1]) for x in pages.splitlines() if x.startswith("Pss:"))


@linux
def test_it_repeats_the_run_and_takes_no_more_memory() -> None:
    size = 40 * RUN + 12_345
    before = private()
    found = repeated(RUN_BYTES, size)
    assert found is not None
    assert len(found) == size
    for start in (0, RUN, 39 * RUN):
        assert np.array_equal(found[start : start + RUN], RUN_BYTES)
    assert np.array_equal(found[40 * RUN :], RUN_BYTES[:12_345])
    assert private() - before < 4 * RUN


@linux
def test_what_is_written_is_seen_at_one_place() -> None:
    found = repeated(RUN_BYTES, 3 * RUN)
    assert found is not None
    was = found[RUN]
    found[0] = was + 1
    assert found[RUN] == found[2 * RUN] == was


@linux
def test_it_is_given_back() -> None:
    """Larger than the address space."""
    limits = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + 100 * RUN, limits[1]))
    try:
        for _ in range(20):
            view = repeated(RUN_BYTES, 30 * RUN)
            assert view is not None
            del view
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def test_another_run_is_refused() -> None:
    assert repeated(RUN_BYTES[:-1], 3 * RUN) is None
