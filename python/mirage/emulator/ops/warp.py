"""Exchange between the lanes of a warp: shfl, vote, match, redux, elect."""

from __future__ import annotations

from typing import Any

import numpy as np

from mirage.emulator.errors import DivergenceError
from mirage.emulator.machine.cohort import Array, Cohort
from mirage.emulator.machine.flags import any_of
from mirage.emulator.machine.operands import (
    dtype_of,
    immediate_bits,
    reader,
    split_pair,
    writer,
)
from mirage.emulator.ops.bits import COMBINE
from mirage.emulator.ops.opcodes import Compiled, Context, Modifiers, Required, opcode, operands
from mirage.emulator.ptx.syntax import Immediate, Instruction, Operand, Sink

_LANES = np.arange(32)


def members(operand: Operand, instruction: Instruction) -> Required:
    """`required` of instructions with a member mask: the lanes in it that the warp has."""
    mask = reader(operand, "b32", instruction)
    if isinstance(operand, Immediate):
        bits = immediate_bits(operand.value, "b32").astype(np.int64)
        known = ((bits >> _LANES) & 1).astype(bool)

        def constant(c: Cohort) -> Array:
            valid: Any = c.machine.valid
            return known & valid[c.rows]

        return constant

    def required(c: Cohort) -> Array:
        bits = np.broadcast_to(mask(c), (c.n, 32)).astype(np.int64)
        first = np.argmax(c.active(), axis=1)
        chosen = bits[np.arange(c.n), first][:, None]
        valid: Any = c.machine.valid
        return ((chosen >> _LANES) & 1).astype(bool) & valid[c.rows]

    return required


def check_member(c: Cohort, mask: Array) -> None:
    """Check that the executing lanes are in their own mask."""
    if not c.machine.checks:
        return
    inside = (np.broadcast_to(mask, (c.n, 32)).astype(np.int64) >> _LANES & 1).astype(bool)
    bad = c.active() & ~inside
    if any_of(bad):
        c.machine.fail(
            DivergenceError, "expected the executing lane in the member mask, but it is not", c, bad
        )


def _full(operand: Operand) -> bool:
    return isinstance(operand, Immediate) and operand.value in (-1, 0xFFFFFFFF)


def _source_lanes(mode: str, lane: Array, clamp: Array) -> tuple[Array, Array]:
    """Return the lane from which each lane of a shfl gets its value, and whether that lane is in
    bounds; both are broadcastable to [n, 32]."""
    b = (lane & np.uint32(31)).astype(np.int64)
    k = clamp.astype(np.int64)
    segment = (k >> 8) & 31
    bound = k & 31
    limit = (_LANES & segment) | (bound & ~segment)
    floor = _LANES & segment
    if mode == "up":
        j = _LANES - b
        good = j >= limit
    else:
        if mode == "down":
            j = _LANES + b
        elif mode == "bfly":
            j = _LANES ^ b
        else:
            j = floor | (b & ~segment)
        good = j <= limit
    return np.where(good, j, _LANES), good


def _from_lanes(value: Array, lanes: Array) -> Array:
    """Return the elements [n, 32] of `value` [n, 32] at `lanes` ([n, 32], or [1, 32] for all)."""
    if len(lanes) == 1:
        return value.take(lanes[0], axis=1)
    return np.take_along_axis(value, lanes, axis=1)


@opcode("shfl")
def compile_shfl(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """shfl.sync.mode.b32 d|p, a, b, c, membermask"""
    modifiers.type("b32")
    mode = modifiers.take("up", "down", "bfly", "idx")
    if modifiers.take("sync") is None or mode is None:
        raise modifiers.unknown()
    ops = operands(instruction, 5)
    target, predicate = split_pair(ops[0])
    write = writer(target, "b32", instruction)
    write_p = writer(predicate or Sink(), "pred", instruction)
    value = reader(ops[1], "b32", instruction)
    lane_operand = reader(ops[2], "b32", instruction)
    clamp = reader(ops[3], "b32", instruction)
    mask = reader(ops[4], "b32", instruction)
    checked = not _full(ops[4])
    known: tuple[Array, Array] | None = None
    if isinstance(ops[2], Immediate) and isinstance(ops[3], Immediate):
        constants = (immediate_bits(o.value, "b32") for o in (ops[2], ops[3]))
        known = _source_lanes(mode, *constants)

    def run(c: Cohort) -> None:
        if checked:
            check_member(c, mask(c))
        j, good = known or _source_lanes(mode, lane_operand(c), clamp(c))
        if c.machine.checks and c.mask is not None:
            absent = c.mask & ~_from_lanes(c.mask, j)
            if any_of(absent):
                c.machine.fail(
                    DivergenceError,
                    "expected the source lane of shfl to execute it too, but it does not",
                    c,
                    absent,
                )
        write(c, _from_lanes(c.spread(value(c)), j))
        if predicate is not None:
            write_p(c, c.spread(good).copy())

    return Compiled("warp", run=run, required=members(ops[4], instruction))


@opcode("vote")
def compile_vote(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """vote.sync.{all,any,uni,ballot}"""
    kind = modifiers.type("pred", "b32")
    mode = modifiers.take("all", "any", "uni", "ballot")
    if modifiers.take("sync") is None or mode is None:
        raise modifiers.unknown()
    ops = operands(instruction, 3)
    write = writer(ops[0], kind, instruction)
    value = reader(ops[1], "pred", instruction)
    mask = reader(ops[2], "b32", instruction)
    checked = not _full(ops[2])

    def run(c: Cohort) -> None:
        if checked:
            check_member(c, mask(c))
        member = np.broadcast_to(mask(c), (c.n, 32)).astype(np.int64) >> _LANES & 1
        inside = member.astype(bool) & c.active()
        p = np.broadcast_to(value(c), (c.n, 32))
        result: Any
        if mode == "ballot":
            word = ((p & inside).astype(np.uint64) << _LANES.astype(np.uint64)).sum(axis=1)
            result = word.astype(np.uint32)[:, None]
        elif mode == "all":
            result = (p | ~inside).all(axis=1, keepdims=True)
        elif mode == "any":
            result = (p & inside).any(axis=1, keepdims=True)
        else:
            every = (p | ~inside).all(axis=1, keepdims=True)
            result = every | ~(p & inside).any(axis=1, keepdims=True)
        write(c, np.repeat(result, 32, axis=1))

    return Compiled("warp", run=run, required=members(ops[2], instruction))


@opcode("activemask")
def compile_activemask(
    context: Context, instruction: Instruction, modifiers: Modifiers
) -> Compiled:
    """The lanes that execute this together."""
    modifiers.type("b32")
    (target,) = operands(instruction, 1)
    write = writer(target, "b32", instruction)

    def run(c: Cohort) -> None:
        word = (c.active().astype(np.uint64) << _LANES.astype(np.uint64)).sum(axis=1)
        write(c, np.repeat(word.astype(np.uint32)[:, None], 32, axis=1))

    return Compiled("warp", run=run)


@opcode("match")
def compile_match(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """match.any and match.all: lanes with an equal value."""
    kind = modifiers.type("b32", "b64")
    mode = modifiers.take("any", "all")
    if modifiers.take("sync") is None or mode is None:
        raise modifiers.unknown()
    ops = operands(instruction, 3)
    target, predicate = split_pair(ops[0])
    write = writer(target, "b32", instruction)
    write_p = writer(predicate or Sink(), "pred", instruction)
    value = reader(ops[1], kind, instruction)
    mask = reader(ops[2], "b32", instruction)

    def run(c: Cohort) -> None:
        check_member(c, mask(c))
        member = np.broadcast_to(mask(c), (c.n, 32)).astype(np.int64) >> _LANES & 1
        inside = member.astype(bool) & c.active()
        v = np.broadcast_to(value(c), (c.n, 32))
        equal = (v[:, :, None] == v[:, None, :]) & inside[:, None, :]
        word = (equal.astype(np.uint64) << _LANES.astype(np.uint64)).sum(axis=2)
        if mode == "any":
            write(c, word.astype(np.uint32))
            return
        whole = (inside.astype(np.uint64) << _LANES.astype(np.uint64)).sum(axis=1)[:, None]
        same = word == whole
        write(c, np.where(same, word, 0).astype(np.uint32))
        write_p(c, same)

    return Compiled("warp", run=run, required=members(ops[2], instruction))


@opcode("redux")
def compile_redux(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """Reduction of an integer over the member lanes."""
    kind = modifiers.type("s32", "u32", "b32")
    name = modifiers.take("add", "min", "max", "and", "or", "xor")
    if modifiers.take("sync") is None or name is None:
        raise modifiers.unknown()
    ops = operands(instruction, 3)
    write = writer(ops[0], kind, instruction)
    value = reader(ops[1], kind, instruction)
    mask = reader(ops[2], "b32", instruction)
    info = np.iinfo(dtype_of(kind))
    neutral = {"min": info.max, "max": info.min, "and": -1 if kind == "s32" else info.max}

    def run(c: Cohort) -> None:
        check_member(c, mask(c))
        member = np.broadcast_to(mask(c), (c.n, 32)).astype(np.int64) >> _LANES & 1
        inside = member.astype(bool) & c.active()
        v = np.broadcast_to(value(c), (c.n, 32))
        filled = np.where(inside, v, np.array(neutral.get(name, 0), v.dtype))
        result = COMBINE[name].reduce(filled, axis=1).astype(v.dtype)
        write(c, np.repeat(result[:, None], 32, axis=1))

    return Compiled("warp", run=run, required=members(ops[2], instruction))


@opcode("elect")
def compile_elect(context: Context, instruction: Instruction, modifiers: Modifiers) -> Compiled:
    """elect.sync d|p, membermask: true in the lowest member lane."""
    if modifiers.take("sync") is None:
        raise modifiers.unknown()
    ops = operands(instruction, 2)
    target, predicate = split_pair(ops[0])
    write = writer(target, "b32", instruction)
    write_p = writer(predicate or Sink(), "pred", instruction)
    mask = reader(ops[1], "b32", instruction)

    def run(c: Cohort) -> None:
        check_member(c, mask(c))
        member = np.broadcast_to(mask(c), (c.n, 32)).astype(np.int64) >> _LANES & 1
        inside = member.astype(bool) & c.active()
        leader = np.argmax(inside, axis=1)[:, None]
        write(c, np.repeat(leader.astype(np.uint32), 32, axis=1))
        write_p(c, leader == _LANES)

    return Compiled("warp", run=run, required=members(ops[1], instruction))
