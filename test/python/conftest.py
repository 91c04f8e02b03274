"""Makes the shared graphs and helpers importable by tests in sub-folders."""

from __future__ import annotations

import gc
import logging
import os
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "support"))

import surroundings  # noqa: F401 - before NumPy

# isort: split
import numpy as np
import pytest

# The pass that the tests of the worker use, in this process and in those that it starts.
passes = str(Path(__file__).parents[1] / "PythonPasses" / "Inputs")
sys.path.append(passes)
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (passes, os.environ.get("PYTHONPATH"))))

from mirage.spare_memory import keep_spare_memory  # noqa: E402 - the package is in that folder too

keep_spare_memory()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--thorough", action="store_true", help="run the tests that are marked `thorough` as well"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Further cases run if they are requested: all of them, or one by its name."""
    if config.getoption("--thorough") or any("::" in each for each in config.args):
        return
    further = [item for item in items if item.get_closest_marker("thorough")]
    config.hook.pytest_deselected(items=further)
    items[:] = [item for item in items if not item.get_closest_marker("thorough")]


def pytest_collection() -> None:
    """Imported modules stay: searching them for cycles would take a tenth of the time."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Search for cycles among young objects, and only rarely among all objects."""
    gc.freeze()
    gc.set_threshold(2_000, 10, 100)
    gc.enable()
    # PyTorch describes every step of its own if this logger has a handler, and pytest gives one to
    # each logger that does not propagate.
    logging.getLogger("torch.__trace").propagate = True


@pytest.fixture(autouse=True)
def _same_numbers_each_time() -> None:
    """Random numbers of tests without a seed are the same in any order of tests."""
    random.seed(0)
    np.random.seed(0)
    if (torch := sys.modules.get("torch")) is not None:
        # `torch.manual_seed` also records, for missing devices, where it was called.
        torch.default_generator.manual_seed(0)
