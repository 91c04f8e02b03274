"""Computes the wanted part of one op."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from mirage.semantics.domain import Domain, Planes, map_planes, shape_of
from mirage.semantics.region import Region, Takes, region_shape
from mirage.semantics.scalar import Array
from mirage.semantics.ugraph import Op


class EvaluationError(ValueError):
    """A graph does not define its outputs, or does not fit its inputs."""


class Tensor(NamedTuple):
    """A device tensor, or the part of it that was computed."""

    planes: Planes
    region: Region

    def take(self, region: Region, shape: tuple[int, ...]) -> Planes:
        """Return the elements of ``region``, which must have been computed; ``shape`` is that of
        the whole tensor.
        """
        return taken(self.planes, indices_of(region, self.region, shape))


def taken(planes: Planes, indices: tuple[tuple[int, Array], ...], lead: int = 0) -> Planes:
    """Take the elements at the indices along each named dimension; dimensions are counted after the
    first ``lead`` array dimensions."""
    for dim, index in indices:
        planes = map_planes(lambda p, i=index, d=lead + dim: np.take(p, i, axis=d), planes)
    return planes


def indices_of(
    region: Region, have: Region, shape: tuple[int, ...]
) -> tuple[tuple[int, Array], ...]:
    """Return the places of ``region`` within the computed region ``have``, for each dimension of
    which not everything is wanted."""
    found: list[tuple[int, Array]] = []
    for dim, (wanted, known, size) in enumerate(zip(region, have, shape, strict=True)):
        if wanted is known or (
            wanted is not None and known is not None and np.array_equal(wanted, known)
        ):
            continue
        found.append((dim, locate(np.arange(size) if wanted is None else wanted, known)))
    return tuple(found)


def locate(index: Array, have: Array | None) -> Array:
    """Return the places of the indices among those that were computed."""
    if have is None:
        return index
    at = np.minimum(np.searchsorted(have, index), len(have) - 1)
    if not np.array_equal(have[at], index):
        raise EvaluationError("an element was read that was not requested")
    return at


def computed(
    domain: Domain,
    op: Op,
    operands: Sequence[Tensor],
    region: Region,
    known: dict[Op, Takes],
    lead: int,
) -> Tensor:
    """Return the wanted region of an op's result; the op may produce more. Arrays have ``lead``
    dimensions before those of tensors. ``known`` has what was taken before."""
    takes = known.get(op)
    if takes is None or not _fits(takes, operands):
        takes = known[op] = _takes(op, operands, region)
    if takes.as_they_are:
        xs = [x.planes for x in operands]
        return Tensor(op.compute(domain, xs, lead, takes.shape), takes.region)
    xs = [
        taken(x.planes, i, lead) if i else x.planes
        for x, i in zip(operands, takes.indices, strict=True)
    ]
    if takes.nothing_else:
        return Tensor(xs[0], takes.region)
    if op.renames:
        assert prod(takes.shape) == prod(shape_of(xs[0])[lead:])
        shaped = map_planes(lambda p: p.reshape(p.shape[:lead] + takes.shape), xs[0])
        return Tensor(shaped, takes.region)
    planes = op.compute(domain, xs, lead, takes.shape)
    if 0 in takes.shape:
        # Nothing of a dimension is wanted (only other operands of a concatenation are). If its size
        # is 1, operands that repeat their only index there, and sums over it, produce that index
        # anyway.
        nothing = (*(slice(None) for _ in range(lead)), *(slice(n) for n in takes.shape))
        planes = map_planes(lambda p: p[nothing], planes)
    return Tensor(planes, takes.region)


def _fits(takes: Takes, operands: Sequence[Tensor]) -> bool:
    """Return whether the operands were computed in the regions that they had before."""
    for (_, region), have in zip(operands, takes.have, strict=True):
        if region is not have and not _same(region, have):
            return False
    return True


def _same(a: Region, b: Region) -> bool:
    return all(
        x is y or (x is not None and y is not None and np.array_equal(x, y))
        for x, y in zip(a, b, strict=True)
    )


def _takes(op: Op, operands: Sequence[Tensor], region: Region) -> Takes:
    """Return the parts of its operands that the op takes for ``region`` of its result; the op may
    produce more than that region."""
    region = op.made(region)
    regions = op.needs(region)
    have = tuple(x.region for x in operands)
    indices = tuple(
        indices_of(r, h, v.shape) for r, h, v in zip(regions, have, op.operands, strict=True)
    )
    shape = region_shape(region, op.result.shape)
    slices = op.cut_at is not None
    plain = not slices and not op.renames
    as_they_are = plain and not any(indices) and 0 not in shape
    return Takes(have, indices, region, shape, as_they_are, nothing_else=slices)
