"""Tensors that a plan computes without inputs: computed once for a device, not in each call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mirage.runtime.dispatch.torch_calls import TorchCall

MOST_BYTES = 1 << 20
"""The most bytes of one such tensor; larger ones are computed in each call, so that they occupy
memory only during it."""


class Constants:
    """The results of the ``calls`` (in order) that depend on no input."""

    def __init__(self, calls: Sequence[TorchCall]) -> None:
        self._calls: list[TorchCall] = []
        self._found: Mapping[int, Any] | None = None
        self.made: set[int] = set()
        """The numbers of tensors that are constants."""
        for call in calls:
            if self.made.issuperset(call.call.operands) and call.repeatable and _small(call):
                self._calls.append(call)
                self.made.update(call.call.results)

    def __call__(self) -> Mapping[int, Any]:
        """Return the constants, by their numbers. During the capture of a CUDA graph they are
        computed again, as a part of it."""
        if not self._calls:
            return {}
        if self._found is not None:
            return self._found
        import torch

        gpu = torch.cuda.is_available()
        passing = gpu and torch.cuda.is_current_stream_capturing()
        found: dict[int, Any] = {}
        with torch.inference_mode(False), torch.no_grad():
            for call in self._calls:
                results = call([found[v] for v in call.call.operands])
                found.update(zip(call.call.results, results, strict=True))
        passing |= any(type(x) is not torch.Tensor for x in found.values())  # like in a trace
        if passing:
            return found
        if gpu and any(x.is_cuda for x in found.values()):
            torch.cuda.current_stream().synchronize()  # they are read on any stream from now on
        self._found = found
        return found


def _small(call: TorchCall) -> bool:
    """Return whether the results are small, judging by the shapes among the arguments."""
    for name, value in call.call.arguments:
        sizes = value if isinstance(value, tuple) else (value,)
        counts = [n for n in sizes if isinstance(n, int) and not isinstance(n, bool)]
        if name in ("size", "shape", "end") and 8 * _product(counts) > MOST_BYTES:
            return False
    return True


def _product(numbers: Sequence[int]) -> int:
    found = 1
    for n in numbers:
        found *= max(n, 1)
    return found
