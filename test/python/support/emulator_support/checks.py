"""Runs kernels that break a rule and examines the error messages."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from emulator_support.harness import launch
from mirage.emulator import (
    DeadlockError,
    EmulatorError,
    InstructionBudgetError,
    MisalignedAccessError,
    OutOfBoundsError,
    RaceError,
)

TILE = ".shared .align 128 .b8 tile[512]; .shared .align 8 .b64 bar; .shared .align 8 .b64 bar2;"
_OPERATION = "model.py:7:3"
# Errors of several warps, whose text lists each of them with its instruction.
_OF_MANY = (DeadlockError, InstructionBudgetError)
_OF_ADDRESSES = (OutOfBoundsError, MisalignedAccessError, RaceError)


def fails(
    error: type[EmulatorError] | tuple[type[EmulatorError], ...],
    match: str,
    body: str,
    args: list[Any] | None = None,
    addressed: bool = True,
    of_warps: bool = False,
    **options: Any,
) -> EmulatorError:
    """The kernel raises `error`, which names the instruction, the op that it came from, block and
    warp, the lane unless it is about whole warps, and the address unless it is about none."""
    options.setdefault("declarations", TILE)
    options["module"] = '.file 1 "model.py"\n'
    with pytest.raises(error, match=match) as caught:
        launch(
            f".loc 1 7 3\n{body}",
            args if args is not None else [np.zeros(64, np.uint32)],
            **options,
        )
    raised, text = caught.value, str(caught.value)
    if isinstance(raised, _OF_MANY):
        assert re.search(r"warp \d+.*at ptx line \d+: `.*` \(from model.py:7:3\)", text), text
        return raised
    assert raised.site is not None
    assert raised.site.location == _OPERATION
    assert f"at ptx line {raised.site.line}: `{raised.site.text}` (from {_OPERATION})" in text
    assert raised.thread is not None
    assert re.search(r"by block \(\d+, \d+, \d+\) warp \d+", text)
    if addressed and isinstance(raised, _OF_ADDRESSES):
        assert raised.address is not None
        assert f"{raised.address:#x}" in text
    if not of_warps:
        assert raised.thread.lane is not None
    return raised
