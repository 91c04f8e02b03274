"""Errors for indices that are outside of their dimension, where a caller asks for them.

Kernels read no memory outside of their tensors, whatever the indices are: for one that is outside
they compute with no number, and store nothing. PyTorch raises. So does a program that is loaded
with ``check_indices``: each call looks at the smallest and the largest of its indices first, for
which it waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mirage.runtime.errors import ArgumentIndexError

if TYPE_CHECKING:
    import torch

    from mirage.runtime.manifest import Manifest


class IndexCheck:
    """Of a program's inputs."""

    def __init__(self, manifest: Manifest) -> None:
        names = [t.name for t in manifest.inputs]
        self._bounds = [
            (b.input, f"input {b.input} ({names[b.input]})", b.below) for b in manifest.bounds
        ]

    def __call__(self, given: Sequence[torch.Tensor]) -> None:
        """Raises :class:`~mirage.runtime.errors.ArgumentIndexError`."""
        for number, what, below in self._bounds:
            check_indices(given[number], what, below)


def check_indices(x: torch.Tensor, what: str, below: int) -> None:
    """Whether all elements of ``x`` lie in ``[0, below)``. Raises
    :class:`~mirage.runtime.errors.ArgumentIndexError`."""
    import torch

    if not x.numel():
        return
    least, most = torch.stack(torch.aminmax(x)).tolist()
    if least >= 0 and most < below:
        return
    wrong = (x < 0) | (x >= below)
    at = tuple(int(n) for n in wrong.nonzero()[0])
    place = f" at {list(at)}" if at else ""
    raise ArgumentIndexError(
        f"{what}: expected indices from 0 to {below - 1}, got {int(x[at])}{place}"
    )


def checked_launcher(
    launch: Callable[[int, list[torch.Tensor]], Sequence[torch.Tensor]],
    manifests: Sequence[Manifest],
) -> Callable[[int, list[torch.Tensor]], Sequence[torch.Tensor]]:
    """What runs the parts of a model, with the indices of each looked at first. An error names the
    input of the part."""
    checks = [IndexCheck(m) for m in manifests]

    def run(part: int, given: list[torch.Tensor]) -> Sequence[torch.Tensor]:
        checks[part](given)
        return launch(part, given)

    return run
