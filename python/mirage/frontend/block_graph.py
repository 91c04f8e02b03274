"""The builder of block graphs: kernels written by hand.

A kernel runs its block graph once for each point of a grid, optionally with one loop inside. The
place of an op follows from its operands: an op that depends on the loop's step is in the loop, an
op that depends on an accumulator's result is after it, and all others are before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from mirage.errors import SourceLocation
from mirage.frontend.dtypes import as_dtype
from mirage.frontend.errors import (
    BlockPhaseError,
    ForeignValueError,
    GraphShapeError,
    GraphTypeError,
    InvalidGraphError,
)
from mirage.frontend.handles import Tensor, Tile
from mirage.frontend.location import user_location
from mirage.frontend.ops import Emit, GraphOps
from mirage.semantics.builder import Builder, promote
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Axis,
    BlockGraph,
    Launch,
    Loop,
    Op,
    Output,
    RunningMax,
    Schedule,
    TensorType,
    TileMap,
    Value,
)

Split = Mapping[str, int] | Sequence[int]
"""The tensor dimension that each axis splits: by axis name, or one entry per grid axis (-1: none),
as imap and omap.
"""

_BEFORE, _IN, _AFTER = 0, 1, 2


class BlockGraphBuilder(GraphOps[Tile]):
    """The program of one thread block, under construction; see :func:`new_threadblock_graph`."""

    _handle = Tile

    def __init__(self, grid: tuple[Axis, ...], loop: Axis | None, schedule: Schedule) -> None:
        self.grid = grid
        self.loop = loop
        self.schedule = schedule
        self._builders = {phase: Builder(in_block=True) for phase in (_BEFORE, _IN, _AFTER)}
        self._phase: dict[Value, int] = {}
        self._params: dict[Value, Value] = {}  # device tensor -> param
        self._sources: list[Tensor] = []
        self._accumulators: list[Accumulator] = []
        self._accumulated: list[Value] = []
        self._outputs: list[tuple[Tile, TileMap, tuple[int, ...], object]] = []
        self._results: tuple[Value, ...] = ()

    # ---- loads and stores

    def new_input(self, dtensor: Tensor, imap: Split = (), fmap: int | None = None) -> Tile:
        """Return this block's tile of ``dtensor`` (an input iterator).

        ``imap`` names the dimension that each axis splits: ``{"n": 1, "k": 0}``, several axes on a
        dimension being outermost first; or one dimension per grid axis (-1: whole). ``fmap`` is the
        dimension that the loop splits. Tile sizes are rounded up; elements outside of the tensor
        are zero (see :meth:`mask`)."""
        what = "new_input"
        if not isinstance(dtensor, Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
            got = type(dtensor).__name__
            raise GraphTypeError(
                f"{what}: expected a tensor of a kernel graph, got {got}", user_location()
            )
        shape = dtensor.shape
        tile_map = self._map(what, shape, imap, fmap)
        tile = tuple(-(-n // self._parts(axes)) for n, axes in zip(shape, tile_map, strict=True))
        param = self._params.get(dtensor.value)
        if param is None:
            param = self._params[dtensor.value] = Value(dtensor.value.type, dtensor.value.name)
            self._sources.append(dtensor)
        looped = self.loop is not None and any(self.loop.name in axes for axes in tile_map)
        phase = _IN if looped else _BEFORE
        value = self._builders[phase].load(param, tile_map, tile)
        return self._handle_of(value, phase)

    def new_output(
        self,
        tile: Tile,
        omap: Split = (),
        *,
        shape: Sequence[int] | None = None,
        dtype: object = None,
    ) -> None:
        """Store ``tile`` to the next result of the kernel (an output saver); every grid axis must
        split a dimension.

        The result has the shape that the tiles cover, or ``shape`` if the last tiles extend beyond
        the tensor; its element type is that of the first input, or ``dtype``."""
        what = "new_output"
        handle = self._own(what, tile)
        if self._phase[handle.value] == _IN:
            raise BlockPhaseError(
                f"{what}: expected a value after the loop, got a step's value; accumulate it",
                user_location(),
            )
        tile_map = self._map(what, handle.shape, omap, None)
        missing = {a.name for a in self.grid if a.extent > 1} - {
            n for axes in tile_map for n in axes
        }
        if missing:
            raise GraphShapeError(
                f"{what}: expected a dimension for every grid axis, got none for {sorted(missing)}",
                user_location(),
            )
        covered = tuple(
            n * self._parts(axes) for n, axes in zip(handle.shape, tile_map, strict=True)
        )
        size = covered if shape is None else self._integers(what, shape)
        if len(size) != len(covered) or any(
            not c - n * self._parts(a) < s <= c
            for s, c, n, a in zip(size, covered, handle.shape, tile_map, strict=True)
        ):
            raise GraphShapeError(
                f"{what}: expected a shape that the tiles cover exactly ({covered}), got {size}",
                user_location(),
            )
        self._outputs.append((handle, tile_map, size, dtype))

    def _parts(self, axes: tuple[str, ...]) -> int:
        extents = {a.name: a.extent for a in self._axes()}
        return prod(extents[name] for name in axes)

    def _axes(self) -> tuple[Axis, ...]:
        return self.grid if self.loop is None else (*self.grid, self.loop)

    def _map(self, what: str, shape: tuple[int, ...], split: Split, fmap: int | None) -> TileMap:
        if isinstance(split, Mapping):
            pairs = [(name, self._integer(what, dim)) for name, dim in split.items()]
        else:
            dims = self._integers(what, split)
            names = [a.name for a in self.grid]
            if len(dims) > len(names) and any(d != -1 for d in dims[len(names) :]):
                raise GraphShapeError(
                    f"{what}: expected at most {len(names)} entries in the map, got {dims}",
                    user_location(),
                )
            pairs = [(name, d) for name, d in zip(names, dims, strict=False) if d != -1]
        if fmap is not None and fmap != -1:
            if self.loop is None:
                raise BlockPhaseError(
                    f"{what}: expected no fmap in a graph without a loop, got {fmap}",
                    user_location(),
                )
            pairs.append((self.loop.name, self._integer(what, fmap)))
        known = {a.name for a in self._axes()}
        result: list[list[str]] = [[] for _ in shape]
        seen: set[str] = set()
        for name, dim in pairs:
            if name not in known:
                raise GraphShapeError(
                    f"{what}: expected axes among {sorted(known)}, got {name!r}", user_location()
                )
            if not 0 <= dim < len(shape):
                raise GraphShapeError(
                    f"{what}: expected a dimension of {shape} for axis {name!r}, got {dim}",
                    user_location(),
                )
            if name in seen:
                raise GraphShapeError(
                    f"{what}: expected one dimension for axis {name!r}, got two", user_location()
                )
            seen.add(name)
            result[dim].append(name)
        return tuple(map(tuple, result))

    # ---- the loop

    def accumulate(self, x: Tile, fn: str = "sum", *, rescale: Tile | None = None) -> Tile:
        """Combine ``x`` over the steps of the loop by ``"sum"``, ``"max"`` or ``"last"``, and
        return the value after the loop.

        ``rescale`` (with sums): a :meth:`running_max` ``m``; before each step's value is added,
        the sum so far is multiplied by ``exp(m_previous - m_now)`` (online softmax)."""
        what = "accumulate"
        handle = self._own(what, x)
        fns = {f.value: f for f in AccumulateFn}
        if fn not in fns:
            raise GraphTypeError(
                f"{what}: expected fn in {sorted(fns)}, got {fn!r}", user_location()
            )
        self._need_loop(what)
        if self._phase[handle.value] == _AFTER:
            raise BlockPhaseError(
                f"{what}: expected a value of the loop's steps, got one after the loop",
                user_location(),
            )
        running = None
        if rescale is not None:
            running = self._own(what, rescale).value
            if fn != "sum" or not any(op.results == (running,) for op in self._running()):
                raise BlockPhaseError(
                    f"{what}: expected rescale with a sum and a running_max value", user_location()
                )
        self._accumulators.append(Accumulator(fns[fn], handle.value, running))
        dtype = DType.F32 if handle.dtype.is_half and fn != "last" else handle.dtype
        result = Value(TensorType(handle.shape, dtype))
        self._accumulated.append(result)
        return self._handle_of(result, _AFTER)

    def running_max(self, x: Tile) -> Tile:
        """Return the maximum of ``x`` over the steps so far, including this one."""
        self._need_loop("running_max")
        handle = self._own("running_max", x)
        if self._phase[handle.value] == _AFTER:
            raise BlockPhaseError(
                "running_max: expected a value of the loop's steps, got one after the loop",
                user_location(),
            )
        return self._handle_of(self._builders[_IN].running_max(handle.value), _IN)

    def _running(self) -> list[Op]:
        return [op for op in self._builders[_IN].ops if isinstance(op, RunningMax)]

    def _need_loop(self, what: str) -> None:
        if self.loop is None:
            raise BlockPhaseError(
                f"{what}: expected a graph with a loop, got one without", user_location()
            )

    def mask(self, x: Tile, dim: int, axes: Sequence[str], extent: int, fill: float = 0.0) -> Tile:
        """Replace ``x`` by ``fill`` where index ``part(axes) * tile + i`` along ``dim`` is not
        below ``extent`` (the tensor's size).
        """
        what = "mask"
        (d,) = self._integers(what, dim)
        handle = self._own(what, x)
        known = {a.name for a in self._axes()}
        if not 0 <= d < len(handle.shape) or not known.issuperset(axes):
            raise GraphShapeError(
                f"{what}: expected a dimension of {handle.shape} and axes of {sorted(known)}, "
                f"got {d} and {list(axes)}",
                user_location(),
            )
        looped = self.loop is not None and self.loop.name in axes
        phase = max(self._phase[handle.value], _IN if looped else _BEFORE)
        if looped and phase == _AFTER:
            raise BlockPhaseError(
                f"{what}: expected axes of the grid after the loop, got the loop's", user_location()
            )
        value = self._builders[phase].mask(
            handle.value, d, tuple(axes), extent, float(self._number(what, fill))
        )
        return self._handle_of(value, phase)

    # ---- ops

    def _append(self, what: str, operands: tuple[Tile, ...], emit: Emit) -> Tile:
        phases = {self._phase[x.value] for x in operands}
        if {_IN, _AFTER} <= phases:
            raise BlockPhaseError(
                f"{what}: expected operands on one side of the loop, got a step's value and an "
                "accumulated one",
                user_location(),
            )
        phase = max(phases)
        builder = self._builders[phase]
        start = len(builder.ops)
        try:
            value = emit(builder, tuple(x.value for x in operands))
        except BaseException:
            del builder.ops[start:]
            raise
        return self._handle_of(value, phase)

    def _handle_of(self, value: Value, phase: int) -> Tile:
        self._phase[value] = phase
        return Tile(self, value, user_location())

    # ---- the whole graph

    def launch(self, inputs: Sequence[Tensor]) -> Launch:
        """Return the kernel applied to ``inputs``, in that order; called by
        :meth:`GraphBuilder.customized`."""
        what, where = "customized", user_location()
        if not self._outputs:
            raise InvalidGraphError(f"{what}: expected a block graph with outputs, got none", where)
        given = [x.value for x in inputs]
        for source in self._sources:
            if source.value not in given:
                raise ForeignValueError(
                    f"{what}: expected {source!r} among the inputs: the block graph reads it", where
                )
        for x in inputs:
            if x.value not in self._params:
                raise InvalidGraphError(
                    f"{what}: expected inputs that the block graph reads, got unused {x!r}", where
                )
        if len(set(given)) != len(given):
            raise InvalidGraphError(f"{what}: expected each input once, got one twice", where)
        ops = self._ops(where)
        default = promote(*(v.dtype for v in given[:1]))
        results = tuple(
            Value(TensorType(shape, default if dtype is None else as_dtype(dtype)))
            for _, _, shape, dtype in self._outputs
        )
        params = tuple(self._params[v] for v in given)
        body = BlockGraph(
            params,
            ops,
            tuple(Output(tile.value, tile_map) for tile, tile_map, _, _ in self._outputs),
        )
        return Launch(tuple(given), results, self.grid, body, self.schedule)

    def _ops(self, where: SourceLocation | None) -> tuple[Op, ...]:
        before, inside, after = (tuple(self._builders[p].ops) for p in (_BEFORE, _IN, _AFTER))
        if self.loop is None:
            return before
        if not self._accumulators:
            raise BlockPhaseError(
                "expected at least one accumulator in a graph with a loop, got none", where
            )
        loop = Loop((), tuple(self._accumulated), self.loop, inside, tuple(self._accumulators))
        return (*before, loop, *after)


def new_threadblock_graph(
    grid: Mapping[str, int] | Sequence[int],
    loop: Mapping[str, int] | int | None = None,
    *,
    warps: int = 4,
    stages: int = 2,
) -> BlockGraphBuilder:
    """Return an empty block graph, to be used with :meth:`GraphBuilder.customized`.

    ``grid`` gives the extents of the grid's axes by name (``{"n": 128}``) or in the order x, y, z;
    ``loop`` the steps of the loop (``{"k": 64}``, or a number for an axis called ``i``)."""
    what = "new_threadblock_graph"
    named = grid if isinstance(grid, Mapping) else dict(zip("xyz", grid, strict=False))
    if not isinstance(grid, Mapping) and len(grid) > 3:
        raise GraphShapeError(
            f"{what}: expected at most 3 grid extents, got {len(grid)}; use names", user_location()
        )
    steps = {"i": loop} if isinstance(loop, int) else dict(loop or {})
    if len(steps) > 1:
        raise GraphShapeError(f"{what}: expected one loop, got {len(steps)}", user_location())
    if steps.keys() & named.keys():
        raise GraphShapeError(
            f"{what}: expected a loop axis that is not in the grid, got {next(iter(steps))!r}",
            user_location(),
        )
    extents: dict[str, object] = {**named, **steps, "warps": warps, "stages": stages}
    for name, extent in extents.items():
        if isinstance(extent, bool) or not isinstance(extent, int) or extent < 1:
            raise GraphShapeError(
                f"{what}: expected a positive extent for {name!r}, got {extent!r}", user_location()
            )
    axes = tuple(Axis(name, extent) for name, extent in named.items())
    axis = next((Axis(name, extent) for name, extent in steps.items()), None)
    return BlockGraphBuilder(axes, axis, Schedule(warps, stages))
