"""Candidates ranked again once they are compiled."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from mirage.cost import Resources

if TYPE_CHECKING:
    from mirage.runtime.manifest import Manifest


def resources_of(manifest: Manifest) -> list[Resources]:
    """What the kernels of an artifact need, in the order of their launches."""
    found: list[Resources] = []
    for kernel in manifest.kernels:
        said = manifest.resources.get(kernel.entry)
        found.append(
            Resources(
                prod(kernel.block),
                kernel.shared_bytes,
                None if said is None else said["registers"],
                0 if said is None else said["spill_stores"] + said["spill_loads"],
            )
        )
    return found
