"""Overlaps of memory ranges that are written to."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

from mirage.runtime.errors import ArgumentAliasError
from mirage.runtime.serialization.manifest import TensorSpec


def written_apart(starts: Sequence[int], sizes: Sequence[int], written: Container[int]) -> bool:
    """Return whether no memory range that is ``written`` (by its number) overlaps another one.
    Range ``i`` starts at ``starts[i]`` and has ``sizes[i]`` bytes."""
    furthest = furthest_written = -1
    for start, number in sorted((start, i) for i, start in enumerate(starts) if sizes[i]):
        writes = number in written
        if start < (furthest if writes else furthest_written):
            return False
        end = start + sizes[number]
        furthest = max(furthest, end)
        if writes:
            furthest_written = max(furthest_written, end)
    return True


class Updates:
    """The inputs of a program that its kernels write to, by their numbers."""

    def __init__(self, inputs: Sequence[TensorSpec], numbers: Sequence[int]) -> None:
        self.inputs, self.numbers = inputs, numbers
        self._sizes = [spec.bytes for spec in inputs]
        # addresses of inputs that are known not to overlap
        self._known: tuple[int, ...] | None = None

    def apart(self, given: Sequence[Any]) -> bool:
        """Return whether none of them overlaps another input, as far as all are tensors."""
        if not self.numbers:
            return True
        try:
            starts = tuple([x.data_ptr() for x in given])
        except AttributeError:
            return False
        return len(starts) == len(self.inputs) and self._starts_apart(starts)

    def check(self, starts: Sequence[int]) -> None:
        """Raise :class:`ArgumentAliasError` if one of them overlaps another input."""
        if not self.numbers or self._starts_apart(tuple(starts)):
            return
        for number in self.numbers:
            mine, start = self.inputs[number], starts[number]
            for other, spec in enumerate(self.inputs):
                at = starts[other]
                if other != number and at < start + mine.bytes and start < at + spec.bytes:
                    raise ArgumentAliasError(
                        f"input {number} ({mine.name}): expected separate memory, as kernels "
                        f"write to it, got some that input {other} ({spec.name}) has too"
                    )

    def _starts_apart(self, starts: tuple[int, ...]) -> bool:
        if starts != self._known:
            if not written_apart(starts, self._sizes, self.numbers):
                return False
            self._known = starts
        return True
