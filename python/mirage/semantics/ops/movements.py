"""The movements of both levels: transposes, reshapes, broadcasts, concatenations and slices.

Each class says where the elements of its result come from, dimension by dimension, and which part
of its operands a part of its result needs; analyses need nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from mirage.semantics.domain import Domain, Planes, map_planes, pad_rank, shape_of
from mirage.semantics.indexing.indices import (
    Indices,
    Region,
    aligned,
    equal_dims,
    inside,
    reshape_groups,
    simplify,
    unit_free_dims,
)
from mirage.semantics.indexing.regrouped import regrouped
from mirage.semantics.indexing.relations import Joined, Regrouped, Relation, Same, Taken
from mirage.semantics.ops.kinds import Movement, Rearrangement, View
from mirage.semantics.ops.op import TensorType

if TYPE_CHECKING:
    from mirage.semantics.builder import Builder


@dataclass(frozen=True, eq=False)
class Transpose(Rearrangement):
    """``result.shape[i] == operand.shape[permutation[i]]``."""

    permutation: tuple[int, ...]

    def result_type(self, b: Builder) -> TensorType:
        return b.transpose(self.operands[0], self.permutation).type

    def compute(
        self, domain: Domain, xs: Sequence[Planes], lead: int, shape: tuple[int, ...]
    ) -> Planes:
        order = (*range(lead), *(lead + d for d in self.permutation))
        return map_planes(lambda p: p.transpose(order), xs[0])

    def source_dims(self) -> Mapping[int, int] | None:
        return dict(enumerate(self.permutation))

    def relations(self) -> Sequence[Relation]:
        return [Same(0, d, i) for i, d in enumerate(self.permutation)]

    def needs(self, region: Region) -> tuple[Region, ...]:
        source: list[Indices] = [None] * len(self.permutation)
        for i, d in enumerate(self.permutation):
            source[d] = region[i]
        return (tuple(source),)


@dataclass(frozen=True, eq=False)
class Reshape(Rearrangement):
    """Gives a tensor another shape, with the elements in the same row-major order."""

    renames: ClassVar[bool] = True
    of_integers: ClassVar[bool] = True

    def result_type(self, b: Builder) -> TensorType:
        return b.reshape(self.operands[0], self.result.shape).type

    def compute(
        self, domain: Domain, xs: Sequence[Planes], lead: int, shape: tuple[int, ...]
    ) -> Planes:
        return map_planes(lambda p: p.reshape(p.shape[:lead] + shape), xs[0])

    def written(self, xs: Sequence[str]) -> str:
        return xs[0]

    def source_dims(self) -> Mapping[int, int] | None:
        return unit_free_dims(self.operands[0].shape, self.result.shape)

    def relations(self) -> Sequence[Relation]:
        groups = reshape_groups(self.operands[0].shape, self.result.shape)
        return [Regrouped(group.operand, group.result) for group in groups]

    def made(self, region: Region) -> Region:
        return regrouped(region, self.operands[0].shape, self.result.shape)[1]

    def needs(self, region: Region) -> tuple[Region, ...]:
        return (regrouped(region, self.operands[0].shape, self.result.shape)[0],)


@dataclass(frozen=True, eq=False)
class Broadcast(View):
    """Dimensions of size 1 (or missing leading dimensions), repeated to the shape of the result."""

    whole: ClassVar[bool] = True

    def result_type(self, b: Builder) -> TensorType:
        return b.broadcast(self.operands[0], self.result.shape).type

    def compute(
        self, domain: Domain, xs: Sequence[Planes], lead: int, shape: tuple[int, ...]
    ) -> Planes:
        x = pad_rank(xs[0], lead, len(shape))
        return map_planes(lambda p: np.broadcast_to(p, p.shape[:lead] + shape), x)

    def written(self, xs: Sequence[str]) -> str:
        return xs[0]

    def source_dims(self) -> Mapping[int, int] | None:
        return equal_dims(self.operands[0].shape, self.result.shape)

    def relations(self) -> Sequence[Relation]:
        x, y = self.operands[0].shape, self.result.shape
        lead = len(y) - len(x)
        return [Same(0, d, lead + d) for d in reversed(range(len(x))) if x[d] != 1]

    def needs(self, region: Region) -> tuple[Region, ...]:
        return (aligned(region, self.operands[0].shape),)


@dataclass(frozen=True, eq=False)
class Concat(Movement):
    """The operands, concatenated along ``dim``."""

    dim: int

    arity: ClassVar[tuple[int, int]] = (1, 1 << 30)

    @property
    def joined_along(self) -> int | None:
        return self.dim

    def result_type(self, b: Builder) -> TensorType:
        return b.concat(self.operands, self.dim).type

    def compute(
        self, domain: Domain, xs: Sequence[Planes], lead: int, shape: tuple[int, ...]
    ) -> Planes:
        common = np.broadcast_shapes(*(shape_of(x)[:lead] for x in xs))
        wide = [map_planes(lambda p: np.broadcast_to(p, common + p.shape[lead:]), x) for x in xs]
        return domain.concat(wide, lead + self.dim)

    def relations(self) -> Sequence[Relation]:
        found: list[Relation] = []
        offset = 0
        for i, v in enumerate(self.operands):
            for d, n in enumerate(self.result.shape):
                same = d != self.dim or v.shape[d] == n
                found.append(Same(i, d, d) if same else Joined(i, d, d, offset))
            offset += v.shape[self.dim]
        return found

    def needs(self, region: Region) -> tuple[Region, ...]:
        regions: list[Region] = []
        start = 0
        for v in self.operands:
            size = v.shape[self.dim]
            part = inside(region[self.dim], start, size)
            regions.append((*region[: self.dim], part, *region[self.dim + 1 :]))
            start += size
        return tuple(regions)


@dataclass(frozen=True, eq=False)
class Slice(View):
    """The block of the result's shape that starts at ``offsets``."""

    offsets: tuple[int, ...]

    @property
    def cut_at(self) -> tuple[int, ...] | None:
        return self.offsets

    def result_type(self, b: Builder) -> TensorType:
        return b.slice(self.operands[0], self.offsets, self.result.shape).type

    def compute(
        self, domain: Domain, xs: Sequence[Planes], lead: int, shape: tuple[int, ...]
    ) -> Planes:
        key = (slice(None),) * lead + tuple(
            slice(o, o + n) for o, n in zip(self.offsets, shape, strict=True)
        )
        return map_planes(lambda p: p[key], xs[0])

    def relations(self) -> Sequence[Relation]:
        sizes = zip(self.operands[0].shape, self.result.shape, strict=True)
        return [
            Same(0, d, d) if n == m else Taken(d, d, self.offsets[d])
            for d, (n, m) in enumerate(sizes)
        ]

    def source_dims(self) -> Mapping[int, int] | None:
        return equal_dims(self.operands[0].shape, self.result.shape)

    def needs(self, region: Region) -> tuple[Region, ...]:
        (x,) = self.operands
        sizes = zip(self.offsets, region, x.shape, self.result.shape, strict=True)
        return (
            tuple(
                simplify(o + (np.arange(size) if r is None else r), n) for o, r, n, size in sizes
            ),
        )
