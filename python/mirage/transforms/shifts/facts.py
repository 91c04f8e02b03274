"""The results of analysing a launch: where shifts start and meet, and which are stored."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from mirage.semantics.ugraph import Binary, Load, Loop, TileMap, Unary, Value
from mirage.transforms.shifts.shifts import Align, Shift, TensorShift, TensorTerms, Terms


@dataclass(eq=False)
class StoredShift:
    """A shift that the launch must store: the dimensions of the new result, and where the tile of
    ``m`` goes.
    """

    shift: Shift
    dims: tuple[
        int, ...
    ]  # the shift's dimension for each dimension of the result, -1 for one of size 1
    shape: tuple[int, ...]
    map: TileMap
    tensor: TensorShift


@dataclass(frozen=True)
class LoadedShift:
    """The shift of a load of partial results: the tile of ``m`` that belongs to the loaded tile."""

    shift: Shift
    map: TileMap
    tile: tuple[int, ...]

    @property
    def whole(self) -> bool:
        """Whether that is the tile over which the shift's maximum is taken."""
        return self.map == self.shift.map and self.tile == self.shift.shape


@dataclass(frozen=True)
class ShiftedExp:
    """The shift that an exponential is taken relative to. ``again`` says that it was computed
    before and that the earlier maximum is used; ``partial`` says that this maximum covers more
    elements.
    """

    shift: Shift
    align: Align
    again: bool = False
    partial: bool = False

    @property
    def covered(self) -> tuple[int, ...]:
        """The dimensions of the argument over which the maximum is taken."""
        if not self.again:
            return self.shift.reduced
        m = self.shift.result_shape
        return tuple(d for d, a in enumerate(self.align) if a is None or m[a] == 1)


@dataclass(frozen=True)
class Rebase:
    """An operand that carries a part of a merged shift and is converted to the whole: the power,
    and how its result, of the op's rank, is aligned with the whole.
    """

    operand: int
    part: Shift
    whole: Shift
    power: Fraction
    align: Align


@dataclass(eq=False)
class LaunchFacts:
    """Result of the analysis of one launch."""

    terms: dict[Value, Terms] = field(default_factory=dict[Value, Terms])
    exps: dict[Unary, ShiftedExp] = field(default_factory=dict[Unary, ShiftedExp])
    rebased: dict[Binary, list[Rebase]] = field(default_factory=dict[Binary, list[Rebase]])
    loads: dict[Load, tuple[LoadedShift, ...]] = field(
        default_factory=dict[Load, tuple[LoadedShift, ...]]
    )
    looped: dict[Loop, tuple[Shift, ...]] = field(default_factory=dict[Loop, tuple[Shift, ...]])
    stored: list[StoredShift] = field(default_factory=list[StoredShift])
    results: dict[Value, TensorTerms] = field(default_factory=dict[Value, TensorTerms])
