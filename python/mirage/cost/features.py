"""Counts the work of a launch's block."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

from mirage.cost.accountant import Accountant, Around, Operands
from mirage.cost.boxes import shifted_steps
from mirage.cost.contiguous_runs import contiguous_run, run_gap
from mirage.cost.kernel_features import KernelFeatures, Known
from mirage.cost.read_again import Readings
from mirage.cost.registers import RegisterEstimator, estimator_of, with_enough_warps
from mirage.cost.shared_memory_bound import shared_bytes
from mirage.cost.shared_tiles import given_loads
from mirage.cost.shifted_loops import shifted_factors, shifted_loads
from mirage.cost.skewed_rows import is_odd, skewed_factors
from mirage.semantics.integers import TileIntegers
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import (
    Binary,
    Cast,
    Contraction,
    Cumulate,
    Elementwise,
    Launch,
    Load,
    Loop,
    Matmul,
    Movement,
    Op,
    Reduce,
    Scan,
    Source,
    Structure,
    TensorType,
    Transpose,
    Unary,
    Value,
    all_ops,
    axis_extents,
    loops,
    no_rule,
)


@dataclass(frozen=True)
class Resources:
    """The resources of a compiled kernel: threads of a block, bytes of shared memory, registers of
    a thread (None if it was not assembled) and bytes that it spills and reads back.
    """

    threads: int
    shared_bytes: int
    registers: int | None = None
    spilled_bytes: int = 0


def features_of(
    launch: Launch,
    hot: Collection[Value] = (),
    compiled: Resources | None = None,
    tables: Iterable[tuple[Value, float]] = (),
) -> KernelFeatures:
    """Return the features of a launch; ``hot`` are operands that L2 holds because the previous
    kernel has just written them. ``compiled`` are the resources of the compiled kernel, in place of
    estimates. ``tables``: operands of which device memory reads fewer bytes than they have (rows of
    a table with fewer rows, views that overlap), and these bytes."""
    read = frozenset(v for v in launch.operands if v in hot)
    known = frozenset(t for t in tables if t[0] in launch.operands)
    return _features(launch, read, compiled, known)


@lru_cache(maxsize=16)  # ways to run the same launch are compared, and then its cost predicted
def _features(
    launch: Launch,
    hot: frozenset[Value],
    compiled: Resources | None,
    tables: frozenset[tuple[Value, float]],
) -> KernelFeatures:
    launch = with_enough_warps(launch) if compiled is None else _with_threads(launch, compiled)
    estimated = estimator_of(launch)
    shifted = shifted_loads(estimated)
    account = Accountant(
        KernelFeatures(
            blocks=float(prod(a.extent for a in launch.grid)),
            warps=float(launch.schedule.warps),
            stages=float(launch.schedule.stages),
            warpgroups=launch.schedule.warpgroups,
            resident=launch.schedule.resident > 0,
            cluster=float(launch.schedule.cluster),
            apart=_stores_apart(launch),
            shifted=bool(shifted),
        )
    )
    pairs = zip(launch.body.params, launch.operands, strict=True)
    readings = Readings({param for param, value in pairs if value in hot})
    shared = {op: grid.k for op, grid in estimated.grid.items()}
    taken = {loop: _steps_of(launch, loop, shifted) for loop in loops(launch)}
    trips = list(_trips(launch.body.ops, taken)) or [(1.0, 1.0, True)]
    most, steps, _ = max(trips)
    account.features.steps, account.features.runs = most, most / steps
    account.features.in_turn = sum(t for t, _, innermost in trips if innermost) / most
    account.features.uneven = max((s.uneven for s in taken.values()), default=1.0)
    counter = _Counter(
        account,
        most,
        account.features.stages,
        readings,
        shared,
        _Facts(
            _exact(launch),
            _tiles_of(launch, is_odd),
            skewed_factors(estimated),
            shifted_factors(estimated),
            _tiles_of(launch, lambda tensor: tensor.dtype.is_eight_bits),
            _tiles_of(launch, lambda _: True),
            estimated.computed_with,
            _of_params(launch, dict(tables)),
        ),
        taken,
        given_loads(launch),
    )
    counter.count(launch.body.ops, 1.0, 1.0)
    for value, out in zip(launch.results, launch.body.outputs, strict=True):
        run, gap = (
            float(of(out.value.shape, value.shape) * value.dtype.bytes)
            for of in (contiguous_run, run_gap)
        )
        account.store(float(value.type.bytes), run, gap)
    account.features.serial = not estimated.takes_turns()
    account.features.known = _known(launch, estimated, compiled)
    return account.features


def _with_threads(launch: Launch, compiled: Resources) -> Launch:
    """Return a launch with the warps that the compiler gave it."""
    schedule, warps = launch.schedule, compiled.threads // 32
    # Beside warpgroups there is one warp that copies, or a group of four with it: without room
    # for that the compiler had warps multiply.
    groups = schedule.warpgroups and warps > 4
    warps = (warps - 1) // 4 * 4 if groups else warps
    return replace(launch, schedule=replace(schedule, warps=warps, warpgroups=groups))


def _of_params(launch: Launch, sizes: Mapping[Value, float]) -> dict[Value, float]:
    """Return the numbers of operands as those of the block's parameters."""
    params = zip(launch.body.params, launch.operands, strict=True)
    return {param: sizes[value] for param, value in params if value in sizes}


def _known(launch: Launch, estimated: RegisterEstimator, compiled: Resources | None) -> Known:
    """Return shared memory and registers: those of the compiler if known, otherwise estimates."""
    registers = estimated.run()
    shared = shared_bytes(launch)
    known = Known(
        float(shared.staged), registers.used, registers.spilled_bytes, float(shared.first)
    )
    if compiled is None:
        return known
    known = replace(known, shared=float(compiled.shared_bytes))
    if compiled.registers is None:
        return known
    used, spilled = float(compiled.registers), float(compiled.spilled_bytes)
    return replace(known, registers=used, spilled=spilled)


def _stores_apart(launch: Launch) -> bool:
    """Return whether each of several groups of four warps owns 64 rows of a block's tiles, so that
    one finishes its rows while the others multiply (``groupsOwnRows`` in
    ``Boxes.cpp``)."""
    schedule = launch.schedule
    rows = {prod(output.value.shape[:-1]) for output in launch.body.outputs}
    return schedule.resident > 0 and schedule.warps > 4 and rows == {16 * schedule.warps}


@dataclass(frozen=True)
class _Steps:
    """The average number of a loop's steps that a block takes, the ratio of the largest number to
    the average, and the share of its tensors' elements that the loop is expected to read."""

    mean: float
    uneven: float = 1.0
    share: float = 1.0


def _steps_of(launch: Launch, loop: Loop, shifted: frozenset[Load]) -> _Steps:
    for load in shifted.intersection(loop.body):
        tensor, tile = load.operands[0].type, load.result.shape[-1]
        return _Steps(float(shifted_steps(tensor.shape[-1], tile, tensor.dtype.bytes)))
    if loop.steps is None:
        return _Steps(float(loop.axis.extent))
    extents, extent = axis_extents(launch), loop.axis.extent
    mean = float(loop.steps.counts(extents, extent).mean())
    # what one block skips because of its position, another one reads
    share = mean / extent if loop.steps.readings else 1.0
    return _Steps(mean, loop.steps.most(extents, extent) / mean, share)


def _trips(
    ops: tuple[Op, ...], taken: Mapping[Loop, _Steps], around: float = 1.0
) -> Iterator[tuple[float, float, bool]]:
    """Yield, for each loop, how often its body runs, its steps, and whether it contains no loop."""
    for op in ops:
        if isinstance(op, Loop):
            trips = around * taken[op].mean
            inner = list(_trips(op.body, taken, trips))
            yield trips, taken[op].mean, not inner
            yield from inner


@dataclass(frozen=True)
class _Facts:
    """Facts about the values of a block."""

    exact: set[Value]  # of more than 16 bits, whose elements were numbers of 16 bits
    odd: set[Value]  # tiles of tensors whose rows start at odd elements
    skewed: set[Value]  # those of them whose rows start in shared memory as in the tensor
    shifted: set[Value]  # those of them that are shifted boxes
    eight_bits: set[Value]  # tiles of tensors of 8-bit floats, as they are loaded
    loaded: set[Value]  # tiles of any tensors, as they are loaded
    computed_with: set[Value]  # what other ops than products read
    tables: Mapping[Value, float]  # the bytes of the tables of which parameters are rows

    def operands(self, op: Matmul) -> Operands:
        """Describe the factors of a matmul."""
        a, b = op.operands
        half = a.dtype.is_half and b.dtype.is_half
        exact = a in self.exact, b in self.exact
        computed = not {a, b} <= self.loaded
        skewed = a in self.skewed, b in self.skewed
        return Operands(half, exact, {a, b} <= self.eight_bits, computed, op.tf32, skewed)


@dataclass
class _Counter:
    """Counts ops; the steps of the loop with the most steps count as the kernel's steps."""

    account: Accountant
    steps: float
    stages: float
    readings: Readings
    shared: Mapping[Matmul, int]
    facts: _Facts
    taken: Mapping[Loop, _Steps]
    given: Collection[Op]  # loads of which other blocks of the cluster copy their parts
    outermost: Loop | None = None  # around the ops that are being counted

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


def _exact(launch: Launch) -> set[Value]:
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


def _tiles_of(launch: Launch, has: Callable[[TensorType], bool]) -> set[Value]:
    """Return the tensors of some kind, and their tiles as they are loaded."""
    params = set(launch.body.params)
    found = {param for param in params if has(param.type)}
    for op in all_ops(launch.body.ops):
        own = params.intersection(op.operands) or isinstance(op, Movement)
        if own and not found.isdisjoint(op.operands):
            found.update(op.results)
    return found


def _count(
    account: Accountant,
    op: Op,
    in_loop: bool,
    shared: Mapping[Matmul, int],
    facts: _Facts,
    reads: Callable[[Value, float, float, float], None],
) -> None:
    size = float(op.results[0].type.size) if op.results else 0.0
    if isinstance(op, Unary | Binary | Reduce | Cumulate):
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
        case Source(operands=(table, indices)):  # rows by index, none of them more than once
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
            account.reduce(float(x.type.size), size, in_loop, _across(x, op.over[0]))
        case Cumulate():
            rows = size / op.result.shape[op.dim]
            account.cumulate(size, rows, in_loop, _across(op.result, (op.dim,)))
        case Scan():  # and by what sums are rescaled
            account.elementwise(size, 3.0, 1.0, in_loop)
        case Cast():
            if op.result.dtype.is_half and not op.operands[0].dtype.is_half:
                account.convert(size, in_loop)
        case Elementwise():
            account.elementwise(size, *op.work, in_loop)
        case Transpose():
            if op.result in facts.computed_with and _turns(op):
                account.turn(size, op.result.dtype.bytes, in_loop)
            elif not isinstance_load(op):
                account.elementwise(size, 2.0, 0.0, in_loop)
        case Source() | Movement() | Structure():
            pass
        case _:
            no_rule(op, "the cost model")


def _count_product(
    account: Accountant, op: Matmul, in_loop: bool, sharers: int, facts: _Facts
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
    reads: Callable[[Value, float, float, float], None],
) -> None:
    """Count exact arithmetic: its operands, and the functions of each element, of 64 bits."""
    for operand, dims in zip(op.operands, op.formula.loads, strict=True):
        tile = tuple(1 if d < 0 else op.result.shape[d] for d in dims)
        run, each = float(contiguous_run(tile, operand.shape)) if tile else 1.0, operand.dtype.bytes
        reads(operand, float(operand.type.bytes), run * each, float(prod(tile) * each))
        account.load(float(prod(tile)), run, operand.type, in_loop)
    account.elementwise(float(op.result.type.size), 2.0 * op.formula.work, 0.0, in_loop)


def isinstance_load(op: Transpose) -> bool:
    """Return whether a transpose reads a tile in the tensor's own type, that is (almost surely) a
    load: ldmatrix transposes it for free."""
    return op.operands[0].dtype in (DType.F16, DType.BF16)


def _run_of(load: Load) -> int:
    (source,) = load.operands
    return contiguous_run(load.result.shape, source.shape)
