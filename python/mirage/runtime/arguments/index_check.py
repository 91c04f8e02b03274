"""Errors for indices that are outside of their dimension, if a caller requests them.

Kernels read no memory outside of their tensors, whatever the indices are: for an index outside they
compute with NaN and store nothing. PyTorch raises an error, and so does a program that is loaded
with ``check_indices``: each call first computes the smallest and the largest of its indices, and
waits for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mirage.runtime.errors import ArgumentIndexError

if TYPE_CHECKING:
    import torch

    from mirage.runtime.serialization.manifest import Manifest


class IndexCheck:
    """The index check of a program's inputs."""

    def __init__(self, manifest: Manifest) -> None:
        names = [t.name for t in manifest.inputs]
        self._bounds = [
            (b.input, f"input {b.input} ({names[b.input]})", b.below, b.from_end)
            for b in manifest.bounds
        ]

    def __call__(self, given: Sequence[torch.Tensor]) -> None:
        """Check the inputs. Raises :class:`~mirage.runtime.errors.ArgumentIndexError`."""
        for number, what, below, from_end in self._bounds:
            check_indices(given[number], what, below, from_end=from_end)


def check_indices(x: torch.Tensor, what: str, below: int, *, from_end: bool = False) -> None:
    """Check that all elements of ``x`` lie in ``[0, below)``, or ``[-below, below)``. Raises
    :class:`~mirage.runtime.errors.ArgumentIndexError`."""
    import torch

    if not x.numel():
        return
    first = -below if from_end else 0
    least, most = torch.stack(torch.aminmax(x)).tolist()
    if least >= first and most < below:
        return
    wrong = (x < first) | (x >= below)
    at = tuple(int(n) for n in wrong.nonzero()[0])
    place = f" at {list(at)}" if at else ""
    raise ArgumentIndexError(
        f"{what}: expected indices from {first} to {below - 1}, got {int(x[at])}{place}"
    )


def checked_launcher(
    launch: Callable[[int, list[torch.Tensor], bool], Sequence[torch.Tensor]],
    manifests: Sequence[Manifest],
) -> Callable[[int, list[torch.Tensor], bool], Sequence[torch.Tensor]]:
    """Return a launcher of a model's parts that first checks the indices of each part. An error
    names the input of the part."""
    checks = [IndexCheck(m) for m in manifests]

    def run(part: int, given: list[torch.Tensor], _: bool) -> Sequence[torch.Tensor]:
        checks[part](given)
        return launch(part, given, False)

    return run
