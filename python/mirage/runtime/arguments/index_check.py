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
        self._bounds = [(b, f"input {b.input} ({names[b.input]})") for b in manifest.bounds]

    def __call__(self, given: Sequence[torch.Tensor]) -> None:
        """Check the inputs. Raises :class:`~mirage.runtime.errors.ArgumentIndexError`."""
        for b, what in self._bounds:
            check_indices(given[b.input], what, b.below, from_end=b.from_end, ignored=b.ignored)


def check_indices(
    x: torch.Tensor, what: str, below: int, *, from_end: bool = False, ignored: int | None = None
) -> None:
    """Check that all elements of ``x`` lie in ``[0, below)``, or ``[-below, below)``, or equal
    ``ignored``. Raises :class:`~mirage.runtime.errors.ArgumentIndexError`."""
    import torch

    if not x.numel():
        return
    first = -below if from_end else 0
    least, most = torch.stack(torch.aminmax(x)).tolist()
    if least >= first and most < below:
        return
    wrong = (x < first) | (x >= below)
    if ignored is not None:
        wrong &= x != ignored
        if not wrong.any():
            return
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
