"""The source of the indices of a movement's result, dimension by dimension.

The relations of a movement (:class:`mirage.semantics.ops.kinds.Movement`) are complete: along
dimensions of the result that none of its relations names, elements are repeated.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Same:
    """Dimension ``result`` of the result has the indices of dimension ``dim`` of an operand."""

    operand: int
    dim: int
    result: int


@dataclass(frozen=True)
class Regrouped:
    """The named dimensions of the only operand and of the result have the same elements in
    row-major order."""

    dims: tuple[int, ...]
    result: tuple[int, ...]


@dataclass(frozen=True)
class Taken:
    """Dimension ``result`` of the result has the indices of dimension ``dim`` of the only operand
    that start at ``offset``."""

    dim: int
    result: int
    offset: int


@dataclass(frozen=True)
class Joined:
    """Dimension ``result`` of the result has, from ``offset`` on, the indices of dimension ``dim``
    of an operand."""

    operand: int
    dim: int
    result: int
    offset: int


Relation = Same | Regrouped | Taken | Joined
