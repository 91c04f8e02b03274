"""The limits of the code generator: the one place that states the constraints on launches."""

from __future__ import annotations

from math import prod

from mirage import _target
from mirage.cost.shared_memory_bound import shared_bytes
from mirage.cost.target import Target
from mirage.cost.warpgroup_limits import why_no_warpgroups
from mirage.semantics.ugraph import Launch, Load, Matmul, all_ops, axis_extents, loops

MAX_WIDE_DIMS = 2
"""The most dimensions of a tile that may be larger than one."""
MAX_ROWS = 128
"""The most rows of a matmul tile."""
MAX_COLUMNS = 256
"""The most columns of a matmul tile."""
MAX_GROUP_ROWS = 144
"""The most rows of a matmul tile of warpgroups that has up to ``MAX_COLUMNS`` columns (or the other
way round): an eighth more than ``MAX_ROWS``, so that 2049 rows are 16 tiles of 136."""
FEW_ROWS, MAX_LONG = 16, 512
"""The most rows of a matmul tile that may have ``MAX_LONG`` columns, which each warp multiplies on
its own: values of 16 heads that attend to the same latent rows are such tiles, and blocks that
split the keys need them as a whole, since each has its own sum of weights."""
MAX_WARPS = 16
MAX_BOX = _target.MAX_BOX_ROWS
"""The most rows that one copy of the tensor memory accelerator moves."""
MAX_BOX_RANK = _target.MAX_BOX_RANK
GRID_LIMIT = 2**31 - 1


class CheckError(ValueError):
    """A launch breaks a constraint of the code generator."""


def wide_dims(shape: tuple[int, ...]) -> int:
    """Return the number of dimensions larger than one."""
    return sum(n > 1 for n in shape)


def check_launch(launch: Launch, target: Target) -> None:
    """Raise :class:`CheckError` if a launch cannot be generated for ``target``."""
    names = [a.name for a in launch.grid]
    names += [loop.axis.name for loop in loops(launch)]
    if len(set(names)) != len(names):
        raise CheckError(f"expected distinct axis names, got {names}")
    blocks = prod(a.extent for a in launch.grid)
    if blocks > GRID_LIMIT:
        raise CheckError(f"expected at most {GRID_LIMIT} blocks, got {blocks}")
    if not 1 <= launch.schedule.warps <= MAX_WARPS:
        raise CheckError(f"expected 1 to {MAX_WARPS} warps, got {launch.schedule.warps}")
    extents = axis_extents(launch)
    for op in all_ops(launch.body.ops):
        for value in op.results:
            if wide_dims(value.shape) > MAX_WIDE_DIMS:
                raise CheckError(
                    f"expected tiles with at most {MAX_WIDE_DIMS} dimensions above 1, "
                    f"got {value.shape}"
                )
        if isinstance(op, Load):
            _check_map(op.operands[0].shape, op.result.shape, op.map, extents)
        if isinstance(op, Matmul):
            _check_matmul(op, launch.schedule.warpgroups)
    for output, value in zip(launch.body.outputs, launch.results, strict=True):
        _check_map(value.shape, output.value.shape, output.map, extents)
        used = {name for dim in output.map for name in dim}
        missing = [a.name for a in launch.grid if a.name not in used]
        if missing:
            raise CheckError(
                f"expected stores to name every grid axis, got {output.map} without {missing}"
            )
    if launch.schedule.warpgroups and (why := why_no_warpgroups(launch)):
        raise CheckError(f"expected for warpgroups {why}")
    shared = shared_bytes(launch)
    if shared.total > target.shared_block:
        raise CheckError(
            f"expected at most {target.shared_block} bytes of shared memory, got up to "
            f"{shared.total} ({shared.staged} of them for tiles)"
        )


def _check_map(
    shape: tuple[int, ...],
    tile: tuple[int, ...],
    axes: tuple[tuple[str, ...], ...],
    extents: dict[str, int],
) -> None:
    if not len(shape) == len(tile) == len(axes):
        raise CheckError(f"expected a map and a tile of rank {len(shape)}, got {axes} and {tile}")
    for n, t, names in zip(shape, tile, axes, strict=True):
        parts = prod(extents[name] for name in names)
        if t * parts < n:
            raise CheckError(f"expected {parts} parts of {t} to cover {n} elements")


def _check_matmul(op: Matmul, warpgroups: bool) -> None:
    a, b = op.operands
    if a.dtype is not b.dtype:
        raise CheckError(
            f"expected matmul operands of one type, got {a.dtype.value} and {b.dtype.value}"
        )
    if wide_dims((*a.shape[:-2], *b.shape[:-2])):
        raise CheckError(f"expected matmul tiles without batch, got {a.shape} x {b.shape}")
    m, n = a.shape[-2], b.shape[-1]
    few = MAX_GROUP_ROWS if warpgroups else MAX_ROWS
    rows = MAX_COLUMNS if warpgroups and n <= few else few
    if not warpgroups and m <= FEW_ROWS and n <= MAX_LONG:
        return
    if m > rows or n > MAX_COLUMNS:
        raise CheckError(f"expected a matmul tile of at most {rows} x {MAX_COLUMNS}, got {m} x {n}")
