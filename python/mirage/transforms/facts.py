"""What the analysis of a launch finds: where shifts start, and which the launch must store."""

from __future__ import annotations

from dataclasses import dataclass, field

from mirage.semantics.ugraph import Load, Loop, TileMap, Unary, Value
from mirage.transforms.shifts import Shift, TensorShift, TensorTerms, Terms


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
    """What a load of partial results carries: the tile of ``m`` that belongs to the loaded tile."""

    shift: Shift
    map: TileMap
    tile: tuple[int, ...]

    @property
    def whole(self) -> bool:
        """Whether that is the tile over which the shift's maximum is taken."""
        return self.map == self.shift.map and self.tile == self.shift.shape


@dataclass(eq=False)
class LaunchFacts:
    """Result of the analysis of one launch."""

    terms: dict[Value, Terms] = field(default_factory=dict[Value, Terms])
    exps: dict[Unary, Shift] = field(default_factory=dict[Unary, Shift])
    loads: dict[Load, tuple[LoadedShift, ...]] = field(
        default_factory=dict[Load, tuple[LoadedShift, ...]]
    )
    looped: dict[Loop, tuple[Shift, ...]] = field(default_factory=dict[Loop, tuple[Shift, ...]])
    stored: list[StoredShift] = field(default_factory=list[StoredShift])
    results: dict[Value, TensorTerms] = field(default_factory=dict[Value, TensorTerms])
