"""Errors for indices that are outside of their dimension, if a caller requests them.

Kernels read no memory outside of their tensors, whatever the indices are: for an index outside they
compute with NaN and store nothing. PyTorch raises an error, and so does a program that is loaded
with ``check_indices``: each call first computes the smallest and the largest of its indices, and
waits for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from mirage.runtime.errors import ArgumentIndexError
from mirage.runtime.serialization.index_steps import evaluate, inputs_of

if TYPE_CHECKING:
    import torch

    from mirage.runtime.serialization.manifest import IndexBound, Manifest, TensorSpec


class IndexCheck:
    """The index check of a program's inputs."""

    def __init__(self, bounds: Iterable[IndexBound], inputs: Iterable[TensorSpec]) -> None:
        names = [f"input {i} ({t.name})" for i, t in enumerate(inputs)]
        self._bounds = [(b, _described(b, names)) for b in bounds]

    def __call__(self, given: Sequence[torch.Tensor]) -> None:
        """Check the inputs. Raises :class:`~mirage.runtime.errors.ArgumentIndexError`."""
        for b, what in self._bounds:
            x = evaluate(b.steps, given) if b.steps else given[b.input]
            check_indices(x, what, b.below, from_end=b.from_end, ignored=b.ignored)


def _described(bound: IndexBound, names: Sequence[str]) -> str:
    """Return the names of the inputs that a bound concerns."""
    if not bound.steps:
        return names[bound.input]
    *others, last = (names[i] for i in inputs_of(bound.steps))
    both = f"{', '.join(others)} and {last}" if others else last
    return f"what the program computes from {both}"


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
    checks = [IndexCheck(m.bounds, m.inputs) for m in manifests]

    def run(part: int, given: list[torch.Tensor], _: bool) -> Sequence[torch.Tensor]:
        checks[part](given)
        return launch(part, given, False)

    return run
