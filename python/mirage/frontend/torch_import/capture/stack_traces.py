"""The calls that lead to each op, recorded in less time than PyTorch takes. For each op, PyTorch
records all frames of the stack, with the text of each line, and then keeps those inside of the
model. Here the others are left out from the start, and only the text of the kept frames is read.
The resulting graph is the same.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from torch.fx import proxy

_PROXY: Any = proxy
_NAME = "CapturedTraceback"
_OF_PYTORCH: Any = getattr(_PROXY, _NAME, None)
_MODEL = "forward"
"""The function below which PyTorch keeps the calls."""


class _CallsOfModels:
    """Replaces PyTorch's ``CapturedTraceback`` for ops."""

    def __init__(self, frame: FrameType | None) -> None:
        self._frame = frame

    @classmethod
    def extract(cls) -> _CallsOfModels:
        return cls(sys._getframe(1))  # pyright: ignore[reportPrivateUsage]

    def summary(self) -> traceback.StackSummary:
        frame = self._frame
        frames: list[FrameType] = []
        kept = 0
        while frame is not None:
            frames.append(frame)
            if frame.f_code.co_name == _MODEL:
                kept = len(frames)
            frame = frame.f_back
        return traceback.StackSummary.from_list(
            [
                traceback.FrameSummary(
                    f.f_code.co_filename, f.f_lineno, f.f_code.co_name, lookup_line=False
                )
                for f in reversed(frames[:kept])
            ]
        )


@contextmanager
def calls_of_models() -> Generator[None]:
    """Record only the calls inside of models."""
    if _OF_PYTORCH is None:  # another version of PyTorch works differently
        yield
        return
    setattr(_PROXY, _NAME, _CallsOfModels)
    try:
        yield
    finally:
        setattr(_PROXY, _NAME, _OF_PYTORCH)
