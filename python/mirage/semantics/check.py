"""Structural rules of µGraphs, checked before anything is made of a graph.

Search results, hand-written graphs and mutants all pass through :func:`check_graph`. The rules,
which error messages cite:

* C1 every operand is defined before it is used and in scope; a value is defined once;
* C2 shapes and element types of results follow from the operands (``Builder`` states the rules);
* C3 every size, extent and tile size is at least 1;
* C4 an op stands at a level where it has a meaning (loads, masks and loops in blocks; composites
  and launches outside);
* C5 the params of a launch match its operands in number and type, its outputs match its results in
  number and shape rank;
* C6 axis names are unique within a launch; a map names only axes that are in scope, each at most
  once in a dimension;
* C7 maps cover: ``tile * parts >= size`` in every dimension;
* C8 a store's map names each grid axis once, or the stored value does not depend on that axis;
* C9 accumulators read values in scope; ``rescale`` goes with SUM and names a running maximum of the
  same loop;
* C10 constants are not NaN; a mask's extent lies within the masked dimension;
* C11 the steps that a loop takes depend on axes of the grid and on parts of integer params, and are
  divided by at least 1.
"""

from __future__ import annotations

import math
from math import prod

from mirage.semantics.builder import Builder, ShapeError, broadcast_shapes
from mirage.semantics.ops.steps import MOST_READ
from mirage.semantics.positions import MAX_POSITIONS, TileGather, TileIota, gathered
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    External,
    KernelGraph,
    Launch,
    Load,
    Loop,
    Mask,
    Op,
    RunningMax,
    Steps,
    TensorType,
    TileMap,
    UnknownOp,
    Value,
    axis_extents,
    loops,
)


class InvalidGraph(ValueError):
    """A graph breaks a structural rule; ``rule`` is its number."""

    def __init__(self, rule: str, where: str, problem: str) -> None:
        super().__init__(f"{where}: {problem} [{rule}]")
        self.rule = rule
        self.where = where


def check_graph(graph: KernelGraph) -> None:
    """Raises :class:`InvalidGraph` at the first rule that ``graph`` breaks."""
    where = f"graph '{graph.name}'" if graph.name else "graph"
    defined: set[Value] = set()
    for i, v in enumerate(graph.inputs):
        _define(defined, v, f"{where}, input {i}")
    for number, op in enumerate(graph.ops):
        at = f"{where}, op {number} ({type(op).__name__.lower()})"
        _check_scope(op, defined, at)
        if not op.in_kernel:
            raise InvalidGraph(
                "C4", at, "expected an op of the kernel level, got one of the block level"
            )
        if isinstance(op, Launch):
            _LaunchChecker(op, at).check()
        elif not isinstance(op, External):  # a call's results are what it says
            _check_type(op, at, in_block=False)
        for v in op.results:
            _define(defined, v, at)
    if not graph.outputs:
        raise InvalidGraph("C1", where, "expected at least one output, got none")
    for i, v in enumerate(graph.outputs):
        if v not in defined:
            raise InvalidGraph(
                "C1",
                f"{where}, output {i}",
                "expected a value that the graph defines, got another one",
            )


def _define(defined: set[Value], value: Value, where: str) -> None:
    if value in defined:
        raise InvalidGraph("C1", where, "expected a new value, got one that is defined already")
    if any(n < 1 for n in value.shape):
        raise InvalidGraph("C3", where, f"expected sizes of at least 1, got {value.type}")
    defined.add(value)


def _check_scope(op: Op, defined: set[Value], where: str) -> None:
    for i, v in enumerate(op.operands):
        if v not in defined:
            raise InvalidGraph(
                "C1",
                where,
                f"operand {i} ({v.type}) is not defined before it is used, or not in scope",
            )


def _check_type(op: Op, where: str, *, in_block: bool) -> None:
    if len(op.results) != 1:
        raise InvalidGraph("C2", where, f"expected one result, got {len(op.results)}")
    try:
        expected = result_type(op, where, in_block=in_block)
    except (ShapeError, ValueError, IndexError) as error:
        if isinstance(error, InvalidGraph):
            raise
        raise InvalidGraph("C2", where, str(error)) from error
    if expected != op.result.type:
        raise InvalidGraph(
            "C2", where, f"expected a result of type {expected}, got {op.result.type}"
        )


def _arity(op: Op, where: str, low: int, high: int) -> None:
    if not low <= len(op.operands) <= high:
        wanted = str(low) if low == high else f"{low} to {high}"
        raise InvalidGraph("C2", where, f"expected {wanted} operands, got {len(op.operands)}")


def result_type(op: Op, where: str, *, in_block: bool) -> TensorType:
    """The type that the result of an op has by its operands (ops that are neither launches nor
    loops, loads or masks).

    Raises :class:`InvalidGraph` and :class:`mirage.semantics.builder.ShapeError`; ``where`` goes
    into messages.
    """
    if in_block and not op.in_block:
        raise InvalidGraph("C4", where, "expected an op of the block level, got another one")
    _arity(op, where, *op.arity)
    if op.number is not None and op.number != op.number:
        raise InvalidGraph("C10", where, "expected a number, got NaN")
    try:
        return op.result_type(Builder(in_block))
    except UnknownOp:
        raise InvalidGraph("C4", where, "expected a known op") from None


class _LaunchChecker:
    """The rules of one launch."""

    def __init__(self, launch: Launch, where: str) -> None:
        self.launch = launch
        self.where = where
        self.extents = axis_extents(launch)
        self.grid = {a.name for a in launch.grid}
        self.defined: set[Value] = set()
        self.depends: dict[Value, frozenset[str]] = {}  # grid and loop axes a value depends on
        self.number = 0

    def check(self) -> None:
        launch, body = self.launch, self.launch.body
        axes = [*launch.grid, *(loop.axis for loop in loops(launch))]
        names = [a.name for a in axes]
        for name in names:
            if names.count(name) > 1:
                raise InvalidGraph(
                    "C6",
                    self.where,
                    f"expected unique axis names, got '{name}' {names.count(name)} times",
                )
        for a in axes:
            if a.extent < 1:
                raise InvalidGraph(
                    "C3",
                    self.where,
                    f"expected axis '{a.name}' to have at least 1 step, got {a.extent}",
                )
        types, given = [p.type for p in body.params], [v.type for v in launch.operands]
        if types != given or len(set(body.params)) != len(body.params):
            raise InvalidGraph(
                "C5", self.where, f"expected params of types {_list(given)}, got {_list(types)}"
            )
        for i, p in enumerate(body.params):
            _define(self.defined, p, f"{self.where}, param {i}")
        params = frozenset(body.params)
        self._ops(body.ops, params, scope=frozenset(self.grid), loop=None)
        if len(body.outputs) != len(launch.results) or not body.outputs:
            raise InvalidGraph(
                "C5",
                self.where,
                f"expected {len(launch.results)} stores (at least one), got {len(body.outputs)}",
            )
        for i, (output, result) in enumerate(zip(body.outputs, launch.results, strict=True)):
            at = f"{self.where}, store {i}"
            if output.value not in self.defined or output.value in params:
                raise InvalidGraph(
                    "C1", at, "expected a tile that the block defines outside its loops"
                )
            self._map(at, output.map, output.value.shape, result.shape, frozenset(self.grid))
            named = [a for group in output.map for a in group]
            for axis in self.launch.grid:
                if named.count(axis.name) > 1:
                    raise InvalidGraph(
                        "C8",
                        at,
                        f"expected grid axis '{axis.name}' at most once, got {output.map}",
                    )
                if (
                    axis.name not in named
                    and axis.extent > 1
                    and axis.name in self.depends[output.value]
                ):
                    raise InvalidGraph(
                        "C8",
                        at,
                        f"blocks along grid axis '{axis.name}' compute different values, "
                        f"but {output.map} gives them the same elements",
                    )

    def _ops(
        self,
        ops: tuple[Op, ...],
        params: frozenset[Value],
        scope: frozenset[str],
        loop: Loop | None,
    ) -> None:
        for op in ops:
            at = f"{self.where}, block op {self.number} ({type(op).__name__.lower()})"
            self.number += 1
            _check_scope(op, self.defined, at)
            if not op.in_block:
                raise InvalidGraph(
                    "C4", at, "expected an op of the block level, got one of the kernel level"
                )
            if isinstance(op, Loop):
                self._loop(op, params, scope, at)
            elif isinstance(op, Load):
                _arity(op, at, 1, 1)
                if op.operands[0] not in params:
                    raise InvalidGraph("C4", at, "expected a param of the block, got a tile")
                self._tile_type(at, op, op.operands[0].dtype)
                self._map(at, op.map, op.result.shape, op.operands[0].shape, scope)
                self.depends[op.result] = op.reads_axes
            elif isinstance(op, TileGather):
                _arity(op, at, 2, 2)
                if not params.issuperset(op.operands):
                    raise InvalidGraph("C4", at, "expected params of the block, got a tile")
                try:
                    source = gathered(*op.operands)
                except ShapeError as error:
                    raise InvalidGraph("C2", at, str(error)) from error
                self._tile_type(at, op, source.dtype)
                self._map(at, op.map, op.result.shape, source.shape, scope)
                self.depends[op.result] = op.reads_axes
            else:
                if any(v in params for v in op.operands):
                    raise InvalidGraph(
                        "C4", at, "expected tiles, got a param of the block (load it first)"
                    )
                self._inner(op, scope, loop, at)
            for v in op.results:
                _define(self.defined, v, at)

    def _tile_type(self, at: str, op: Op, source: DType) -> None:
        """What is read from memory has the tensor's type; whole numbers are f32."""
        if op.result.dtype is not source.in_tile:
            raise InvalidGraph(
                "C2",
                at,
                f"expected element type {source.in_tile.value}, got {op.result.dtype.value}",
            )

    def _iota(self, op: TileIota, scope: frozenset[str], at: str) -> None:
        self._tile_type(at, op, DType.I32)
        shape = op.result.shape
        if not 0 <= op.dim < len(shape):
            raise InvalidGraph("C2", at, f"expected a dimension of {op.result.type}, got {op.dim}")
        self._axes(at, op.axes, scope)
        covered = prod(self.extents[a] for a in op.axes) * shape[op.dim]
        if not 1 <= op.extent <= min(covered, MAX_POSITIONS):
            raise InvalidGraph(
                "C7",
                at,
                f"expected an extent between 1 and {min(covered, MAX_POSITIONS)}, got {op.extent}",
            )

    def _inner(self, op: Op, scope: frozenset[str], loop: Loop | None, at: str) -> None:
        depends = frozenset[str]().union(*(self.depends[v] for v in op.operands))
        if isinstance(op, Mask):
            _arity(op, at, 1, 1)
            self._mask(op, scope, at)
            depends |= op.reads_axes
        elif isinstance(op, TileIota):
            _arity(op, at, 0, 0)
            self._iota(op, scope, at)
            depends |= op.reads_axes
        elif isinstance(op, RunningMax):
            _arity(op, at, 1, 1)
            if loop is None:
                raise InvalidGraph("C4", at, "expected a loop around a running maximum, got none")
            if op.result.type != op.operands[0].type:
                raise InvalidGraph(
                    "C2",
                    at,
                    f"expected a result of type {op.operands[0].type}, got {op.result.type}",
                )
        else:
            _check_type(op, at, in_block=True)
        self.depends[op.result] = depends

    def _mask(self, op: Mask, scope: frozenset[str], at: str) -> None:
        x = op.operands[0]
        if op.result.type != x.type:
            raise InvalidGraph(
                "C2", at, f"expected a result of type {x.type}, got {op.result.type}"
            )
        if not 0 <= op.dim < len(x.shape):
            raise InvalidGraph("C2", at, f"expected a dimension of {x.type}, got {op.dim}")
        self._axes(at, op.axes, scope)
        covered = prod(self.extents[a] for a in op.axes) * x.shape[op.dim]
        if not 1 <= op.extent <= covered:
            raise InvalidGraph(
                "C10", at, f"expected an extent between 1 and {covered}, got {op.extent}"
            )
        if math.isnan(op.fill):
            raise InvalidGraph("C10", at, "expected a number to fill with, got NaN")

    def _loop(self, op: Loop, params: frozenset[Value], scope: frozenset[str], at: str) -> None:
        outside = set(self.defined)
        self._readings(op, params, at)
        if op.steps is not None:
            self._steps(op.steps, at)
        self._ops(op.body, params, scope | {op.axis.name}, op)
        maxima = {inner.result for inner in op.body if isinstance(inner, RunningMax)}
        if len(op.results) != len(op.accumulators):
            raise InvalidGraph(
                "C9", at, f"expected {len(op.accumulators)} results, got {len(op.results)}"
            )
        for i, (a, result) in enumerate(zip(op.accumulators, op.results, strict=True)):
            self._accumulator(a, result, maxima, f"{at}, accumulator {i}")
            # The final value depends on what each step depends on, and no longer on the step.
            over = self.depends[a.value] | (self.depends[a.rescale] if a.rescale else frozenset())
            self.depends[result] = over - {op.axis.name}
            if op.steps is not None:
                self.depends[result] |= op.steps.depends
        self.defined = outside

    def _readings(self, op: Loop, params: frozenset[Value], at: str) -> None:
        readings = () if op.steps is None else op.steps.readings
        if len(readings) != len(op.operands):
            raise InvalidGraph(
                "C11", at, f"expected {len(readings)} tensors to read, got {len(op.operands)}"
            )
        for tensor, reading in zip(op.operands, readings, strict=True):
            if tensor not in params or tensor.dtype not in (DType.I32, DType.I64):
                raise InvalidGraph(
                    "C11", at, f"expected steps by params of i32 or i64, got {tensor.type}"
                )
            self._map(at, reading.map, reading.tile, tensor.shape, frozenset(self.grid))
            covered = tuple(
                prod(self.extents[a] for a in axes) * n
                for axes, n in zip(reading.map, reading.tile, strict=True)
            )
            if covered != tensor.shape or not 1 <= prod(reading.tile) <= MOST_READ:
                raise InvalidGraph(
                    "C11",
                    at,
                    f"expected parts of at most {MOST_READ} elements that cover {tensor.shape}, "
                    f"got parts {reading.tile} that cover {covered}",
                )
            if reading.least > reading.most:
                raise InvalidGraph(
                    "C11", at, f"expected bounds in order, got {reading.least}, {reading.most}"
                )

    def _steps(self, steps: Steps, at: str) -> None:
        for number in (steps.first, steps.end):
            if any(not 0 <= i < len(steps.readings) for i, _ in number.reads):
                raise InvalidGraph(
                    "C11", at, f"expected {len(steps.readings)} integers, got {number.reads}"
                )
            named = [axis for axis, _ in number.terms]
            self._axes(at, tuple(named), frozenset(self.grid))
            if number.divisor < 1:
                raise InvalidGraph(
                    "C11", at, f"expected steps with a divisor of at least 1, got {number.divisor}"
                )

    def _accumulator(self, a: Accumulator, result: Value, maxima: set[Value], at: str) -> None:
        if a.value not in self.depends:
            raise InvalidGraph("C9", at, "expected a tile in scope, got another value")
        if a.value not in self.defined:
            raise InvalidGraph("C9", at, "expected a tile in scope, got one of an inner loop")
        if a.value.dtype not in (DType.F32, DType.F64) and a.fn is not AccumulateFn.LAST:
            wanted = TensorType(a.value.shape, DType.F32)
            if result.type not in (wanted, a.value.type):
                raise InvalidGraph(
                    "C2", at, f"expected a result of type {wanted}, got {result.type}"
                )
        elif result.type != a.value.type:
            raise InvalidGraph(
                "C2", at, f"expected a result of type {a.value.type}, got {result.type}"
            )
        if a.rescale is None:
            return
        if a.fn is not AccumulateFn.SUM:
            raise InvalidGraph("C9", at, f"expected a sum to rescale, got '{a.fn.value}'")
        if a.rescale not in maxima:
            raise InvalidGraph(
                "C9",
                at,
                "expected a running maximum of the same loop as rescale, got another value",
            )
        if broadcast_shapes(a.rescale.shape, a.value.shape) != a.value.shape:
            raise InvalidGraph(
                "C9",
                at,
                f"expected a maximum that broadcasts to {a.value.shape}, got {a.rescale.shape}",
            )

    def _axes(self, at: str, axes: tuple[str, ...], scope: frozenset[str]) -> None:
        for axis in axes:
            if axis not in scope:
                known = ", ".join(f"'{a}'" for a in sorted(scope)) or "none"
                raise InvalidGraph("C6", at, f"expected an axis in scope ({known}), got '{axis}'")
        if len(set(axes)) != len(axes):
            raise InvalidGraph("C6", at, f"expected distinct axes in one dimension, got {axes}")

    def _map(
        self,
        at: str,
        tile_map: TileMap,
        tile: tuple[int, ...],
        shape: tuple[int, ...],
        scope: frozenset[str],
    ) -> None:
        if not len(tile_map) == len(tile) == len(shape):
            raise InvalidGraph(
                "C2",
                at,
                f"expected a map and a tile of rank {len(shape)}, got {tile_map} and {tile}",
            )
        for dim, (axes, t, size) in enumerate(zip(tile_map, tile, shape, strict=True)):
            self._axes(at, axes, scope)
            parts = prod(self.extents[a] for a in axes)
            if parts * t < size:
                raise InvalidGraph(
                    "C7", at, f"dimension {dim}: expected tile * parts >= {size}, got {t} * {parts}"
                )


def _list(types: list[TensorType]) -> str:
    return "(" + ", ".join(map(str, types)) + ")"
