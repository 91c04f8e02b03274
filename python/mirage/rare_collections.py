"""Fewer runs of the garbage collector while a search or a proof makes many objects."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager

ALLOCATED = 100_000
"""The number of new objects after which the collector looks for cycles: with the default of 700 it
takes a tenth of the time of a search, whose objects have few cycles."""


@contextmanager
def rare_collections() -> Generator[None]:
    """Let the collector run less often within the context, if it is enabled."""
    before = gc.get_threshold()
    if before[0]:
        gc.set_threshold(max(before[0], ALLOCATED), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
