"""The effects of a PyTorch graph besides its computation: the memory of its results, and the inputs
that it writes to.

Both are determined by running it on fake tensors, which have shapes, strides and storages but no
elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.multiprocessing.reductions import StorageWeakRef

from mirage.frontend.torch_import.capture.kept_state import kept_state
from mirage.runtime.dispatch.layouts import Found, Layout


class Graph(Protocol):
    """A module of ``torch.fx``, or anything that is called like one."""

    def forward(self, *inputs: Any) -> Any:
        """Return the results."""
        ...


@dataclass(frozen=True)
class Effects:
    """The results of a graph, and the inputs that it writes to."""

    results: tuple[Found, ...]
    written: tuple[int, ...]


class NotAsEager(ValueError):
    """Layouts cannot describe the graph's effects on its inputs, or its results."""


@kept_state
def effects_of(module: Graph, inputs: Sequence[Any]) -> Effects:
    """Return the effects of the graph on inputs like these (tensors and numbers). Raises
    :class:`NotAsEager`.
    """
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    # tensors of inference mode do not count writes
    with torch.inference_mode(False), torch.no_grad(), mode:
        fakes = [
            torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)
            if isinstance(x, torch.Tensor)
            else x
            for x in inputs
        ]
        before = [_version(f) for f in fakes]
        results = module.forward(*fakes)
    for number, (x, fake) in enumerate(zip(inputs, fakes, strict=True)):
        if isinstance(x, torch.Tensor) and (x.shape, x.stride()) != (fake.shape, fake.stride()):
            raise NotAsEager(f"the graph gives input {number} another shape or other strides")
    owners = {_storage(f): i for i, f in enumerate(fakes) if isinstance(f, torch.Tensor)}
    groups: dict[int, int] = {}
    flat = list(results) if isinstance(results, tuple | list) else [results]
    found = tuple(_layout(result, fakes, owners, groups) for result in flat)
    written = tuple(i for i, f in enumerate(fakes) if _version(f) != before[i])
    return Effects(found, written)


def _version(x: Any) -> int:
    return int(x._version) if isinstance(x, torch.Tensor) else 0  # grows with each write


def _layout(
    result: Any, inputs: Sequence[Any], owners: dict[int, int], groups: dict[int, int]
) -> Found:
    if result is None or isinstance(result, bool | int | float | str):
        return result
    if not isinstance(result, torch.Tensor):
        raise NotAsEager(f"the graph returns a {type(result).__name__}")
    device = next((x.device for x in inputs if isinstance(x, torch.Tensor)), result.device)
    if result.device != device:
        raise NotAsEager(f"the graph returns a tensor on {result.device}, expected {device}")
    storage = _storage(result)
    owner = owners.get(storage)
    return Layout(
        result.dtype,
        tuple(result.shape),
        tuple(result.stride()),
        int(result.storage_offset()),  # inputs start at 0 here
        int(result.untyped_storage().nbytes()),
        owner,
        groups.setdefault(storage, len(groups)),
        result.is_conj(),
        result.is_neg(),
    )


def _storage(x: torch.Tensor) -> int:
    return StorageWeakRef(x.untyped_storage()).cdata
