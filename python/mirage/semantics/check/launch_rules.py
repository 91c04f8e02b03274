"""Rules of launches: params, bodies and stores."""

from __future__ import annotations

from mirage.semantics.builder import ShapeError
from mirage.semantics.check.loop_rules import LoopRules
from mirage.semantics.check.op_rules import InvalidGraph, arity, check_scope, check_type, define
from mirage.semantics.check.tile_rules import TileRules
from mirage.semantics.integers import TileIntegers
from mirage.semantics.positions import TileGather, TileIota, gathered
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import (
    Load,
    Loop,
    Mask,
    Op,
    Output,
    RunningMax,
    TensorType,
    Value,
    loops,
)


class LaunchChecker(LoopRules, TileRules):
    """The rules of one launch."""

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
            define(self.defined, p, f"{self.where}, param {i}")
        params = frozenset(body.params)
        self._ops(body.ops, params, scope=frozenset(self.grid), loop=None)
        if len(body.outputs) != len(launch.results) or not body.outputs:
            raise InvalidGraph(
                "C5",
                self.where,
                f"expected {len(launch.results)} stores (at least one), got {len(body.outputs)}",
            )
        for i, (output, result) in enumerate(zip(body.outputs, launch.results, strict=True)):
            self._store(output, result, params, f"{self.where}, store {i}")

    def _store(self, output: Output, result: Value, params: frozenset[Value], at: str) -> None:
        if output.value not in self.defined or output.value in params:
            raise InvalidGraph("C1", at, "expected a tile that the block defines outside its loops")
        number = result.dtype.is_integer and result.dtype is not DType.I1
        if output.value.dtype.is_integer and not number:
            raise InvalidGraph(
                "C2", at, f"expected integers to be stored as integers, got {result.type}"
            )
        self.check_map(at, output.map, output.value.shape, result.shape, frozenset(self.grid))
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
            check_scope(op, self.defined, at)
            if not op.in_block:
                raise InvalidGraph(
                    "C4", at, "expected an op of the block level, got one of the kernel level"
                )
            if isinstance(op, Loop):
                self._loop(op, params, scope, at)
            elif isinstance(op, Load):
                arity(op, at, 1, 1)
                if op.operands[0] not in params:
                    raise InvalidGraph("C4", at, "expected a param of the block, got a tile")
                self.tile_type(at, op, op.operands[0].dtype)
                self.check_map(at, op.map, op.result.shape, op.operands[0].shape, scope)
                self.depends[op.result] = op.reads_axes
            elif isinstance(op, TileGather):
                arity(op, at, 2, 2)
                if not params.issuperset(op.operands):
                    raise InvalidGraph("C4", at, "expected params of the block, got a tile")
                try:
                    source = gathered(*op.operands)
                except ShapeError as error:
                    raise InvalidGraph("C2", at, str(error)) from error
                self.tile_type(at, op, source.dtype)
                self.check_map(at, op.map, op.result.shape, source.shape, scope)
                self.depends[op.result] = op.reads_axes
            elif isinstance(op, TileIntegers):
                self.integers(op, params, scope, at)
                self.depends[op.result] = op.reads_axes
            else:
                if any(v in params for v in op.operands):
                    raise InvalidGraph(
                        "C4", at, "expected tiles, got a param of the block (load it first)"
                    )
                self._inner(op, scope, loop, at)
            for v in op.results:
                define(self.defined, v, at)

    def _inner(self, op: Op, scope: frozenset[str], loop: Loop | None, at: str) -> None:
        if not op.of_integers and any(v.dtype.is_integer for v in op.operands):
            raise InvalidGraph(
                "C2",
                at,
                "expected tiles of floats, got integers: only totals and formulas are of those",
            )
        depends = frozenset[str]().union(*(self.depends[v] for v in op.operands))
        if isinstance(op, Mask):
            arity(op, at, 1, 1)
            self.mask(op, scope, at)
            depends |= op.reads_axes
        elif isinstance(op, TileIota):
            arity(op, at, 0, 0)
            self.iota(op, scope, at)
            depends |= op.reads_axes
        elif isinstance(op, RunningMax):
            arity(op, at, 1, 1)
            if loop is None:
                raise InvalidGraph("C4", at, "expected a loop around a running maximum, got none")
            if op.result.type != op.operands[0].type:
                raise InvalidGraph(
                    "C2",
                    at,
                    f"expected a result of type {op.operands[0].type}, got {op.result.type}",
                )
        else:
            check_type(op, at, in_block=True)
        self.depends[op.result] = depends

    def _loop(self, op: Loop, params: frozenset[Value], scope: frozenset[str], at: str) -> None:
        outside = set(self.defined)
        self.readings(op, params, at)
        if op.steps is not None:
            self.steps(op.steps, at)
        self._ops(op.body, params, scope | {op.axis.name}, op)
        maxima = set(op.maxima)
        if len(op.results) != len(op.accumulators):
            raise InvalidGraph(
                "C9", at, f"expected {len(op.accumulators)} results, got {len(op.results)}"
            )
        for i, (a, result) in enumerate(zip(op.accumulators, op.results, strict=True)):
            self.accumulator(a, result, maxima, f"{at}, accumulator {i}")
            # The final value depends on what each step depends on, and no longer on the step.
            over = self.depends[a.value] | (self.depends[a.rescale] if a.rescale else frozenset())
            self.depends[result] = over - {op.axis.name}
            if op.steps is not None:
                self.depends[result] |= op.steps.depends
        self.defined = outside


def _list(types: list[TensorType]) -> str:
    return "(" + ", ".join(map(str, types)) + ")"
