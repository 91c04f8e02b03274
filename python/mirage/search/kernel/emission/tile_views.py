"""Tiles as rows and columns: turned, or with other dimensions of size 1."""

from __future__ import annotations

from math import prod

from mirage.search.algebra.axes import Dims
from mirage.search.kernel.derivations.moves import EmitError
from mirage.semantics.builder import Builder
from mirage.semantics.ugraph import Value


def upright(build: Builder, x: Value) -> Value:
    """Return a tile with at least two dimensions."""
    if len(x.shape) >= 2:
        return x
    return build.reshape(x, (1,) * (2 - len(x.shape)) + x.shape)


def flipped(build: Builder, x: Value) -> Value:
    """Exchange the rows and the columns of a tile."""
    x = upright(build, x)
    rank = len(x.shape)
    return build.transpose(x, (*range(rank - 2), rank - 1, rank - 2))


def reshaped(build: Builder, x: Value, shape: tuple[int, ...]) -> Value:
    """Change dimensions of size 1 of a tile."""
    if [n for n in x.shape if n > 1] != [n for n in shape if n > 1]:
        raise EmitError(f"expected a tile over one axis a dimension, got {x.shape} as {shape}")
    return build.reshape(x, shape)


def turned(build: Builder, x: Value) -> Value:
    """Turn rows into columns, where one of the two has size 1."""
    return reshaped(build, x, (*x.shape[:-2], *x.shape[:-3:-1]))


def viewed(
    build: Builder, x: Value, dims: Dims, tile: dict[str, int], row: str | None, col: str | None
) -> Value:
    """Return a loaded tile, whose dimensions have the axes ``dims``, as rows and columns; ``tile``
    is its size along each axis."""
    shape = (tile[row] if row else 1, tile[col] if col else 1)
    order = [a for dim in dims for a in dim if tile[a] > 1]
    wanted = [a for a in (row, col) if a is not None]
    if order == wanted:
        padded = (1,) * (2 - len(x.shape)) + x.shape
        if padded[-2:] != shape or prod(padded[:-2]) != 1:
            return reshaped(build, x, shape)
        if len(x.shape) >= 2 or (shape[0] == 1 and len(x.shape) == 1):
            return x
        return build.reshape(x, shape)
    if order == wanted[::-1]:
        if x.shape[-2:] != shape[::-1] or prod(x.shape[:-2]) != 1:
            x = reshaped(build, x, shape[::-1])
        return flipped(build, x)
    raise EmitError(f"expected a tile over {wanted}, got {order}")
