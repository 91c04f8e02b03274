"""Random programs through search and compiler, executed with all checks.

``MIRAGE_SEEDS=2000:2300`` takes these seeds instead of a few.
"""

from __future__ import annotations

import os

import pytest
from random_lowering import CHIPS, Refused, check, is_defined, programs
from thorough import some_of

FIRST, END = map(int, os.environ.get("MIRAGE_SEEDS", "2000:2004").split(":"))


@pytest.mark.parametrize("chip", some_of(CHIPS, every=6))
@pytest.mark.parametrize("seed", range(FIRST, END))
def test_random_programs(seed: int, chip: str) -> None:
    for name, graph, meaning in programs(seed, chip):
        if not is_defined(meaning, seed):
            continue
        try:
            check(graph, meaning, chip, seed)
        except Refused:
            # The search knows the limits of the code generator; outputs that are inputs may remain.
            assert name in ("program", "graph")
