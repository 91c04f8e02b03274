"""Counts the work of the ops of a block."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TypeAlias

from mirage.cost.accountant import SECTOR, Accountant, Around, Operands
from mirage.cost.contiguous_runs import contiguous_run
from mirage.cost.kernel_features import KernelFeatures
from mirage.cost.loop_trips import Steps
from mirage.cost.read_again import Readings
from mirage.semantics.integers import TileIntegers
from mirage.semantics.picked_runs import picked_run
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import (
    Cast,
    Contraction,
    Cumulation,
    Elementwise,
    Launch,
    Load,
    Loop,
    Matmul,
    Movement,
    Op,
    Scan,
    Source,
    Structure,
    TensorType,
    Transpose,
    Value,
    all_ops,
    no_rule,
)

ROUND = 8.0
"""The operations of a lane that compare and exchange an element and its place."""

Reads: TypeAlias = "Callable[[Value, float, float, float], None]"
"""Counts an operand: the bytes of all of it that are read, those of a run, and those of a tile."""


@dataclass(frozen=True)
class Facts:
    """Facts about the values of a block."""

    exact: set[Value]  # values of more than 16 bits whose elements were numbers of 16 bits
    odd: set[Value]  # tiles of tensors whose rows start at odd elements
    skewed: set[Value]  # those whose rows keep their offsets in shared memory
    shifted: set[Value]  # those that are shifted boxes
    eight_bits: set[Value]  # tiles of tensors of 8-bit floats, as they are loaded
    loaded: set[Value]  # tiles of any tensors, as they are loaded
    computed_with: set[Value]  # values that ops other than products read
    multiplied: set[Value]  # results of products, and values computed from these
    tables: Mapping[Value, float]  # the bytes of the tables whose rows are parameters

    def operands(self, op: Matmul) -> Operands:
        """Describe the factors of a matmul."""
        a, b = op.operands
        half = a.dtype.is_half and b.dtype.is_half
        exact = a in self.exact, b in self.exact
        computed = not {a, b} <= self.loaded
        skewed = a in self.skewed, b in self.skewed
        return Operands(half, exact, {a, b} <= self.eight_bits, computed, op.tf32, skewed)


def exact_values(launch: Launch) -> set[Value]:
    """Return the values of more than 16 bits whose elements were 16-bit numbers."""
    exact: set[Value] = set()
    for op in all_ops(launch.body.ops):
        match op:
            case Elementwise(identity=True) if op.operands[0].dtype.is_half:
                exact.update(op.results)
            case Movement() if op.operands[0] in exact:
                exact.update(op.results)
            case _:
                pass
    return exact


def tiles_of(launch: Launch, has: Callable[[TensorType], bool]) -> set[Value]:
    """Return the tensors of some kind, and their loaded tiles."""
    params = set(launch.body.params)
    found = {param for param in params if has(param.type)}
    for op in all_ops(launch.body.ops):
        own = params.intersection(op.operands) or isinstance(op, Movement)
        if own and not found.isdisjoint(op.operands):
            found.update(op.results)
    return found


def computed_from(launch: Launch, products: Iterable[Op]) -> set[Value]:
    """Return the results of products, and the values that are computed from these."""
    found = {result for op in products for result in op.results}
    for op in all_ops(launch.body.ops):
        if not found.isdisjoint(op.operands):
            found.update(op.results)
    return found


@dataclass
class Counter:
    """Counts ops; the steps of the loop with the most steps count as the kernel's steps."""

    account: Accountant
    steps: float
    stages: float
    readings: Readings
    shared: Mapping[Matmul, int]
    facts: Facts
    taken: Mapping[Loop, Steps]
    given: Collection[Op]  # loads of which other blocks of the cluster copy their parts
    outermost: Loop | None = None  # the loops around the ops that are being counted

    def count(
        self,
        ops: tuple[Op, ...],
        trips: float,
        extent: float,
        looped: bool = False,
        share: float = 1.0,
    ) -> None:
        """Count the ops of one body, which runs ``trips`` times, ``extent`` of them in a row, and
        reads a ``share`` of its tensors."""
        in_loop = looped and trips == self.steps
        times = trips / extent if in_loop else trips
        around = Around(times, min(self.stages, extent), looped, share=share)
        for op in ops:
            if isinstance(op, Loop):
                steps = self.taken[op]
                inner = trips * steps.mean
                around_it = self.outermost
                self.outermost = around_it or op
                self.count(op.body, inner, steps.mean, True, share * steps.share)
                self.outermost = around_it
                self._accumulators(op, inner)
            else:
                self.account.around = around
                given = in_loop and op in self.given
                before = replace(self.account.features) if given else None
                _count(self.account, op, in_loop, self.shared, self.facts, self._reads)
                if before is not None:
                    self._give(before)
        self.account.around = Around()

    def _reads(self, tensor: Value, size: float, run: float, tile: float) -> None:
        """Count the bytes of a tensor, of its contiguous runs, and of a tile that is loaded."""
        self.readings.count(self.account, tensor, (size, run), self.outermost, tile)

    def _give(self, before: KernelFeatures) -> None:
        """Adjust the load that was just counted: a block copies only its own part of it."""
        now = self.account.features
        others = 1.0 - 1.0 / now.cluster
        now.given_step += others * (now.load_step - before.load_step)
        now.given_split_step += others * (now.split_step - before.split_step)

    def _accumulators(self, op: Loop, trips: float) -> None:
        account, in_loop = self.account, trips == self.steps
        account.around = Around(trips, looped=True)
        matmuls = {r for o in op.body if isinstance(o, Matmul) for r in o.results}
        for acc in op.accumulators:
            size = float(acc.value.type.size)
            account.accumulate(size, acc.value in matmuls, in_loop)
            if acc.rescale is not None:
                account.elementwise(size, 1.0, 0.0, in_loop, live=False)


def _count(
    account: Accountant,
    op: Op,
    in_loop: bool,
    shared: Mapping[Matmul, int],
    facts: Facts,
    reads: Reads,
) -> None:
    size = float(op.results[0].type.size) if op.results else 0.0
    if op.function is not None or isinstance(op, Cumulation):
        for operand in op.operands:
            if operand.dtype.is_half:
                account.fetch(float(operand.type.size), operand.dtype.bytes, in_loop)
    match op:
        case Load():
            (source,) = op.operands
            run = float(_run_of(op))
            whole = facts.tables.get(source, float(source.type.bytes))
            reads(source, whole, run * source.dtype.bytes, float(op.result.type.bytes))
            skewed = op.result in facts.skewed
            shifted = op.result in facts.shifted
            account.load(size, run, source.type, in_loop, skewed=skewed, shifted=shifted)
        case TileIntegers():
            _count_integers(account, op, in_loop, reads)
        case Source(operands=(table, indices)):  # rows by index, each at most once
            row = table.shape[1:]
            run = float(contiguous_run(op.result.shape[len(op.result.shape) - len(row) :], row))
            each, tile = float(indices.dtype.bytes), float(op.result.type.bytes)
            reads(table, rows_read(table, indices), run * table.dtype.bytes, tile)
            reads(indices, float(indices.type.bytes), each, each)
            account.load(float(op.result.type.size), run, table.type, in_loop)
        case Matmul():
            _count_product(account, op, in_loop, shared.get(op, 1), facts)
        case Contraction():
            (x,) = op.operands
            across = _across(x, op.over[0])
            rows = across or x in facts.multiplied
            account.reduce(float(x.type.size), size, in_loop, across, rows)
        case Cumulation():
            rows = size / op.result.shape[op.along]
            account.cumulate(size, rows, in_loop, _across(op.result, (op.along,)))
            account.elementwise(size * op.rounds, ROUND, 0.0, in_loop)
        case Scan():  # and the factors that rescale sums
            account.elementwise(size, 3.0, 1.0, in_loop)
        case Cast():
            if op.result.dtype.is_half and not op.operands[0].dtype.is_half:
                account.convert(size, in_loop)
        case Elementwise():
            account.elementwise(size, *op.work, in_loop)
        case Transpose():
            if op.result in facts.computed_with and _turns(op):
                account.turn(size, op.result.dtype.bytes, in_loop)
            elif not is_free(op):
                account.elementwise(size, 2.0, 0.0, in_loop)
        case Source() | Movement() | Structure():
            pass
        case _:
            no_rule(op, "the cost model")


def _count_product(
    account: Accountant, op: Matmul, in_loop: bool, sharers: int, facts: Facts
) -> None:
    a, b = op.operands
    for factor in (a, b):
        if factor in facts.eight_bits and not account.features.warpgroups:
            account.convert(float(factor.type.size), in_loop)
    for factor in (a, b):
        if factor in facts.odd - facts.skewed - facts.shifted:
            account.copy_odd(float(factor.type.size), in_loop)
    rows = float(a.shape[-2]) * float(prod(op.result.shape[:-2]))
    n, k = float(b.shape[-1]), float(a.shape[-1])
    account.matmul(rows, n, k, facts.operands(op), in_loop, sharers)


def _turns(op: Transpose) -> bool:
    """Return whether a transpose exchanges dimensions that are larger than one."""
    wide = [d for d in op.permutation if op.operands[0].shape[d] > 1]
    return wide != sorted(wide)


def _across(x: Value, dims: Sequence[int]) -> bool:
    """Return whether neighbours in memory are combined along these dimensions of a tile."""
    wide = [d for d, n in enumerate(x.shape) if n > 1]
    return bool(wide) and wide[-1] in dims


def rows_read(table: Value, indices: Value) -> float:
    """Return the bytes of the rows that indices name, each counted once."""
    rows = min(indices.type.size, table.shape[0])
    return float(rows * prod(table.shape[1:]) * table.dtype.bytes)


def _count_integers(
    account: Accountant,
    op: TileIntegers,
    in_loop: bool,
    reads: Reads,
) -> None:
    """Count exact arithmetic: its operands, and the functions of each element, of 64 bits."""
    for number, (operand, dims) in enumerate(zip(op.operands, op.formula.loads, strict=True)):
        if number in op.formula.tables:
            _count_picked(account, op, number, in_loop, reads)
            continue
        tile = tuple(1 if d < 0 else op.result.shape[d] for d in dims)
        run, each = float(contiguous_run(tile, operand.shape)) if tile else 1.0, operand.dtype.bytes
        reads(operand, float(operand.type.bytes), run * each, float(prod(tile) * each))
        account.load(float(prod(tile)), run, operand.type, in_loop)
    account.elementwise(float(op.result.type.size), 2.0 * op.formula.work, 0.0, in_loop)


def _count_picked(
    account: Accountant, op: TileIntegers, number: int, in_loop: bool, reads: Reads
) -> None:
    """Count the elements that a formula picks of an operand."""
    operand, tile = op.operands[number], op.result.shape
    each, elements = operand.dtype.bytes, op.result.type.size
    found = picked_run(op.formula, number, operand.shape, tile, int(SECTOR) // each)
    picked = max(float(each), SECTOR / found.run) * op.computed.size
    whole = min(float(operand.type.bytes), picked)
    reads(operand, whole, float(found.run * each), float(elements * each))
    account.load(elements / found.count * found.elements, float(found.run), operand.type, in_loop)


def is_free(op: Transpose) -> bool:
    """Return whether a transpose reads a tile in the tensor's own type, that is (almost surely) a
    load: ldmatrix transposes it for free."""
    return op.operands[0].dtype in (DType.F16, DType.BF16)


def _run_of(load: Load) -> int:
    (source,) = load.operands
    return contiguous_run(load.result.shape, source.shape)
