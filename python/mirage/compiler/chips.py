"""The chip for which code is generated if the caller names none."""

from __future__ import annotations

from functools import cache

from mirage.cost.target import DEFAULT_CHIP, target_of_device
from mirage.runtime.launching.cuda_driver import first_device


@cache
def default_chip() -> str:
    """Return the card that is this machine's first GPU, by its name in the table of chips; without
    a GPU, the table's default chip.

    Raises :class:`mirage.cost.UnknownTargetError` if the table has no row for the GPU."""
    device = first_device()
    return DEFAULT_CHIP if device is None else target_of_device(*device).name
