"""Results in the form in which PyTorch returns them: with its strides, and sharing memory where it
returns views.

A result in the memory of an input is a view of that input and is not computed. Results that share
memory with each other get one storage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Layout:
    """The place of a result in its storage (sizes, strides and offset in elements).

    ``input`` is the input whose storage it is, with the offset counted from the input's start; it
    may have elements of another type. Without an input, results of the same ``group`` share a
    storage of ``bytes``. A ``conjugate`` or ``negative`` result holds the conjugates or negatives
    of the elements in its memory, like PyTorch's lazy views of complex tensors."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    bytes: int
    input: int | None
    group: int
    conjugate: bool = False
    negative: bool = False


Found = Layout | bool | int | float | str | None
"""A tensor among the results, or a value that does not depend on the inputs."""


class Arranged:
    """Puts computed tensors where PyTorch would have put them."""

    def __init__(self, layouts: Sequence[Found]) -> None:
        self.layouts = tuple(layouts)
        self.computed = [
            i for i, at in enumerate(layouts) if isinstance(at, Layout) and at.input is None
        ]
        """Places of the results that the program has to compute."""
        counts: dict[int, int] = {}
        for i in self.computed:
            group = self._at(i).group
            counts[group] = counts.get(group, 0) + 1
        self._shared = {group for group, count in counts.items() if count > 1}
        self._typed: list[tuple[Layout, int]] | None = None
        """Views of inputs of another type, with the inputs' numbers."""

    @property
    def memories(self) -> list[int]:
        """The memories of the computed results: equal numbers for those that share one."""
        return [self._at(i).group for i in self.computed]

    def fits(self, inputs: Sequence[Any]) -> bool:
        """Return whether results of other types can be views of these inputs' memory."""
        if self._typed is None:
            layouts = (at for at in self.layouts if isinstance(at, Layout))
            views = [(at, at.input) for at in layouts if at.input is not None]
            self._typed = [(at, i) for at, i in views if at.dtype != inputs[i].dtype]
        return all(_is_seen(inputs[i], at) for at, i in self._typed)

    def _at(self, place: int) -> Layout:
        at = self.layouts[place]
        assert isinstance(at, Layout)
        return at

    def __call__(self, computed: Sequence[torch.Tensor], inputs: Sequence[Any]) -> tuple[Any, ...]:
        """Return all results; ``computed`` are those that the program computed."""
        import torch

        storages: dict[int, torch.UntypedStorage] = {}
        found: list[Any] = list(self.layouts)
        for place, at in enumerate(self.layouts):
            if isinstance(at, Layout) and at.input is not None:
                found[place] = _view(inputs[at.input], at)
        for place, value in zip(self.computed, computed, strict=True):
            at = self._at(place)
            if at.dtype.is_complex and not value.is_complex():  # kernels compute pairs of numbers
                value = torch.view_as_complex(value.contiguous())
            if at.group not in self._shared:
                found[place] = _with_strides(value, at)
                continue
            if at.group not in storages:
                whole = torch.empty(at.bytes, dtype=torch.uint8, device=value.device)
                storages[at.group] = whole.untyped_storage()
            y = _lazily(_in_storage(storages[at.group], at, 0, value.device), at)
            _write(y, value)
            found[place] = y
        return tuple(found)


def _view(x: torch.Tensor, at: Layout) -> torch.Tensor:
    if x.dtype != at.dtype:
        start = x.storage_offset() * x.itemsize // at.dtype.itemsize
        return _lazily(_in_storage(x.untyped_storage(), at, start, x.device), at)
    if (tuple(x.shape), x.stride(), 0) == (at.shape, at.strides, at.offset):
        return _lazily(x, at)
    return _lazily(x.as_strided(at.shape, at.strides, x.storage_offset() + at.offset), at)


def _is_seen(x: torch.Tensor, at: Layout) -> bool:
    """Return whether a result of another type can be a view of an input's memory."""
    aligned = x.storage_offset() * x.itemsize % at.dtype.itemsize == 0
    return aligned and not x.is_conj() and not x.is_neg()


def _in_storage(
    storage: torch.UntypedStorage, at: Layout, start: int, device: torch.device
) -> torch.Tensor:
    """Return the elements of a result in a storage, where its offset counts from ``start``."""
    import torch

    y = torch.empty(0, dtype=at.dtype, device=device)
    return y.set_(storage, start + at.offset, at.shape, at.strides)  # pyright: ignore


def _lazily(x: torch.Tensor, at: Layout) -> torch.Tensor:
    """Return the contents of a result, given the elements in its memory."""
    if at.negative:
        import torch

        x = torch._neg_view(x)  # pyright: ignore
    return x.conj() if at.conjugate else x


def _with_strides(value: torch.Tensor, at: Layout) -> torch.Tensor:
    if value.stride() == at.strides:
        return value
    import torch

    y = torch.empty_strided(at.shape, at.strides, dtype=at.dtype, device=value.device)
    _write(y, value)
    return y


def _write(y: torch.Tensor, value: torch.Tensor) -> None:
    """Copy, writing each element of memory once (along strides of 0 there is one)."""
    once = tuple(slice(0, 1) if s == 0 else slice(None) for s in y.stride())
    y[once].copy_(value[once])
