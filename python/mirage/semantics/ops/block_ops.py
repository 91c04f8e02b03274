"""The ops of block graphs only: loads, masks of padding, and loops with the values that they carry.

Axes and tile maps, by which they cut tensors, are explained in :mod:`mirage.semantics.ugraph`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

from mirage.semantics.ops.kinds import Elementwise, Scan, Source, Structure, Zeros
from mirage.semantics.ops.op import Op, TensorType, Value, bare, called
from mirage.semantics.ops.part_counts import Parts
from mirage.semantics.ops.taken_steps import Steps
from mirage.semantics.ops.taken_steps import TileMap as TileMap
from mirage.semantics.scalar import DType


@dataclass(frozen=True)
class Axis:
    """A grid or loop axis: a name that is unique in its launch, and its number of steps."""

    name: str
    extent: int

    def with_parts(self, parts: Parts) -> Axis:
        """Return the axis with another number of steps."""
        return Axis(self.name, parts.after[self.name])


def renamed_map(cuts: TileMap, names: Mapping[str, str]) -> TileMap:
    """Return a tile map with axes renamed."""
    return tuple(tuple(names.get(a, a) for a in axes) for axes in cuts)


@dataclass(frozen=True, eq=False)
class Load(Source):
    """This block's tile of a device tensor (a param of the block graph), at the current step of the
    loops around it.
    """

    map: TileMap

    in_kernel: ClassVar[bool] = False

    @property
    def cuts(self) -> TileMap:
        return self.map

    @property
    def reads_along(self) -> TileMap:
        return self.map

    def with_cuts(self, cuts: TileMap) -> Load:
        return replace(self, map=cuts)

    def with_axes(self, names: Mapping[str, str]) -> Load:
        return replace(self, map=renamed_map(self.map, names))

    def written(self, xs: Sequence[str]) -> str:
        return xs[0]


@dataclass(frozen=True, eq=False)
class Mask(Elementwise):
    """Overwrites the elements outside the tensor along ``dim`` with ``fill``.

    Element ``i`` along ``dim`` is kept where ``part(axes) * tile + i < extent``, ``tile`` being the
    operand's size there.
    """

    dim: int
    axes: tuple[str, ...]
    extent: int
    fill: float

    scalar: ClassVar[bool] = True
    of_integers: ClassVar[bool] = True
    in_kernel: ClassVar[bool] = False

    @property
    def work(self) -> tuple[float, float]:
        return 1.0, 0.0

    @property
    def zeros(self) -> Zeros:
        """Where the kept elements are zero; the overwritten ones are ``fill``."""
        return Zeros.ALL

    @property
    def reads_along(self) -> TileMap:
        return (self.axes,)

    def with_axes(self, names: Mapping[str, str]) -> Mask:
        return replace(self, axes=tuple(names.get(a, a) for a in self.axes))

    def with_parts(self, parts: Parts) -> Mask:
        tile = self.result.shape[self.dim]
        return replace(self, extent=parts.size(self.extent, self.axes, tile))

    def written(self, xs: Sequence[str]) -> str:
        return f"mask({bare(xs[0])}, {self.fill:g} from {self.extent})"


class AccumulateFn(enum.Enum):
    """The way in which a loop combines the values of its steps."""

    SUM = "sum"
    MAX = "max"
    LAST = "last"


@dataclass(frozen=True, eq=False)
class Accumulator:
    """One result of a loop.

    ``rescale`` (with SUM only) is a :class:`RunningMax` result ``m`` of the same loop: before each
    step's value is added, the sum so far is multiplied by ``exp(m_previous - m_now)``. With values
    that carry a factor ``exp(-m_now)`` the result is the sum with the factor ``exp(-m_final)``: the
    online form of Milakov & Gimelshein (arXiv 1805.02867).
    """

    fn: AccumulateFn
    value: Value
    rescale: Value | None = None


@dataclass(frozen=True, eq=False)
class RunningMax(Scan):
    """Inside a loop, the maximum of the operand over all steps up to and including this one."""

    in_kernel: ClassVar[bool] = False

    def written(self, xs: Sequence[str]) -> str:
        return called("running_max", xs)


@dataclass(frozen=True, eq=False)
class Loop(Structure):
    """``axis.extent`` steps of ``body``; results are the accumulators' final values. Values defined
    before the loop are used directly. Loops may follow one another and nest.

    With ``steps``, a block takes only those and does nothing in the others. The operands are the
    integer tensors (params) that it reads to determine them.
    """

    axis: Axis
    body: tuple[Op, ...]
    accumulators: tuple[Accumulator, ...]
    steps: Steps | None = None

    in_kernel: ClassVar[bool] = False

    @property
    def inside(self) -> tuple[Op, ...]:
        return self.body

    @property
    def maxima(self) -> tuple[Value, ...]:
        """The maxima of all steps so far, at each step."""
        return tuple(op.result for op in self.body if isinstance(op, Scan))

    @cached_property
    def reads(self) -> tuple[Load, ...]:
        """Loads of the parts of its operands that bound its steps."""
        readings = () if self.steps is None else self.steps.readings
        return tuple(
            Load((tensor,), (Value(TensorType(r.tile, DType.F32)),), r.map)
            for tensor, r in zip(self.operands, readings, strict=True)
        )

    @property
    def ends(self) -> tuple[Value, ...]:
        return tuple(v for _, v in self.carries)

    @property
    def carries(self) -> tuple[tuple[Value, Value], ...]:
        pairs = zip(self.accumulators, self.results, strict=True)
        both = ((result, v) for a, result in pairs for v in (a.value, a.rescale))
        return tuple((result, v) for result, v in both if v is not None)

    def rebuilt(self, inside: tuple[Op, ...], new: Callable[[Value], Value]) -> Loop:
        accumulators = tuple(
            Accumulator(a.fn, new(a.value), None if a.rescale is None else new(a.rescale))
            for a in self.accumulators
        )
        return replace(self, body=inside, accumulators=accumulators)

    def with_each_once(self, inside: tuple[Op, ...], known: dict[Value, Value]) -> Loop:
        loop = super().with_each_once(inside, known)
        sums: dict[tuple[AccumulateFn, Value, Value | None], tuple[Value, Accumulator]] = {}
        for one, result in zip(loop.accumulators, loop.results, strict=True):
            first, _ = sums.setdefault((one.fn, one.value, one.rescale), (result, one))
            if first is not result:
                known[result] = first
        results, accumulators = zip(*sums.values(), strict=True)
        return replace(loop, results=results, accumulators=accumulators)

    def with_parts(self, parts: Parts) -> Loop:
        body = tuple(op.with_parts(parts) for op in self.body)
        return replace(self, axis=self.axis.with_parts(parts), body=body)
