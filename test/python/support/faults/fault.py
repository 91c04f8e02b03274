"""A fault: a change of a graph at one op, or at a few related ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from mirage.semantics.builder import Builder
from mirage.semantics.check import result_type
from mirage.semantics.positions import TileGather, TileIota
from mirage.semantics.ugraph import (
    Accumulator,
    BlockGraph,
    KernelGraph,
    Launch,
    Load,
    Loop,
    Mask,
    Op,
    RunningMax,
    TensorType,
    Value,
)


class NotApplicable(Exception):
    """The change does not apply here."""


@dataclass
class Scope:
    """The place of a change: the rebuilt operands, and a builder that appends in front of it."""

    op: Op
    operands: tuple[Value, ...]
    builder: Builder
    visible: list[Value]  # rebuilt values that the op may use
    rebuilt: Callable[[Value], Value]


Change = Callable[[Scope], "Value | Op | BlockGraph"]


@dataclass(frozen=True)
class Fault:
    """One change: ops that replace ``target``; the last one defines the new result. ``also`` are
    changes of other ops that belong to it."""

    kind: str
    description: str
    target: object  # an Op or a BlockGraph
    change: Change
    also: tuple[tuple[object, Change], ...] = ()

    def at(self, thing: object) -> Change | None:
        """Return the change of an op or a block graph, if there is one."""
        return next((c for t, c in ((self.target, self.change), *self.also) if t is thing), None)


@dataclass(frozen=True)
class Site:
    """An op with its surroundings: whether it is in a block, the ops that make the values that it
    may use, and the readers of its results."""

    op: Op
    in_block: bool
    made: dict[Value, Op]
    users: dict[Value, list[Op]]
    loop: Loop | None = None
    axes: tuple[str, ...] = ()

    def maker(self, value: Value) -> Op | None:
        """Return the op that makes a value, if its operands may be used too."""
        return self.made.get(value)


def sites(graph: KernelGraph) -> Iterator[Site]:
    """Yield all ops of a graph, including those in launches and loops."""
    users: dict[Value, list[Op]] = {}
    yield from _sites(graph.ops, False, {}, users, None, ())


def _sites(
    ops: tuple[Op, ...],
    in_block: bool,
    outside: dict[Value, Op],
    users: dict[Value, list[Op]],
    loop: Loop | None,
    axes: tuple[str, ...],
) -> Iterator[Site]:
    made = dict(outside)
    for op in ops:
        for v in op.operands:
            users.setdefault(v, []).append(op)
    for op in ops:
        yield Site(op, in_block, made, users, loop, axes)
        if isinstance(op, Launch):
            names = tuple(a.name for a in op.grid)
            yield from _sites(op.body.ops, True, {}, {}, None, names)
        if isinstance(op, Loop):
            yield from _sites(op.body, True, made, users, op, (*axes, op.axis.name))
        made.update((v, op) for v in op.results)


def again(scope: Scope, in_block: bool, operands: tuple[Value, ...] | None = None) -> Value:
    """Emit the op itself, reading ``operands``."""
    op = replace(scope.op, operands=scope.operands if operands is None else operands)
    new = replace(op, results=(Value(type_of(op, in_block)),))
    scope.builder.ops.append(new)
    return new.results[0]


def type_of(op: Op, in_block: bool) -> TensorType:
    """Return the type of an op's result, given its operands. Raises :class:`NotApplicable`."""
    if isinstance(op, Load):
        return TensorType(op.result.shape, op.operands[0].dtype.in_tile)
    if isinstance(op, (Mask, RunningMax)):
        return op.operands[0].type
    if isinstance(op, (TileIota, TileGather)):
        return op.result.type
    try:
        return result_type(op, "mutant", in_block=in_block)
    except (ValueError, IndexError) as error:
        raise NotApplicable from error


def with_accumulator(op: Loop, i: int, a: Accumulator) -> Loop:
    """Return ``op`` with another accumulator in place of number ``i``."""
    return replace(op, accumulators=(*op.accumulators[:i], a, *op.accumulators[i + 1 :]))


def with_tail(op: Loop, i: int, change: Callable[[Builder, Value], Value]) -> Loop:
    """Return ``op`` with accumulator ``i`` taking the result of ``change`` on its value."""
    b = Builder(in_block=True)
    a = op.accumulators[i]
    value = change(b, a.value)
    changed = with_accumulator(op, i, Accumulator(a.fn, value, a.rescale))
    return replace(changed, body=(*op.body, *b.ops))
