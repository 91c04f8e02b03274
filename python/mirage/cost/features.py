"""The features of a launch: its grid, its resources and the work of one of its blocks."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

from mirage.cost.accountant import Accountant
from mirage.cost.cluster_split import split_over_cluster
from mirage.cost.contiguous_runs import contiguous_run, run_gap
from mirage.cost.counted_ops import Counter, Facts, computed_from, exact_values, tiles_of
from mirage.cost.kernel_features import KernelFeatures, Known
from mirage.cost.loop_trips import steps_of, trips_of, unevenness
from mirage.cost.read_again import Readings
from mirage.cost.registers import RegisterEstimator, estimator_of, with_enough_warps
from mirage.cost.shared_memory_bound import shared_bytes
from mirage.cost.shared_tiles import given_loads
from mirage.cost.shifted_loops import shifted_factors, shifted_loads
from mirage.cost.skewed_rows import is_odd, skewed_factors
from mirage.semantics.ugraph import (
    Launch,
    Value,
    loops,
)


@dataclass(frozen=True)
class Resources:
    """The resources of a compiled kernel: threads of a block, bytes of shared memory, registers of
    a thread (None if it was not assembled) and bytes that it spills and reads back; and its number
    of blocks, fewer than those of the launch if several are packed (None if that is unknown).
    """

    threads: int
    shared_bytes: int
    registers: int | None = None
    spilled_bytes: int = 0
    blocks: int | None = None


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
    launch, rounds = _of_one_block(launch, compiled)
    estimated = estimator_of(launch)
    shifted = shifted_loads(estimated)
    account = Accountant(_scheduled(launch, rounds, bool(shifted)))
    pairs = zip(launch.body.params, launch.operands, strict=True)
    readings = Readings({param for param, value in pairs if value in hot})
    shared = {op: grid.k for op, grid in estimated.grid.items()}
    taken = {loop: steps_of(launch, loop, shifted) for loop in loops(launch)}
    trips = list(trips_of(launch.body.ops, taken)) or [(1.0, 1.0, True)]
    most, steps, _ = max(trips)
    account.features.steps, account.features.runs = most, most / steps
    account.features.in_turn = sum(t for t, _, innermost in trips if innermost) / most
    account.features.uneven, account.features.unsorted = unevenness(taken.values())
    counter = Counter(
        account,
        most,
        account.features.stages,
        readings,
        shared,
        Facts(
            exact_values(launch),
            tiles_of(launch, is_odd),
            skewed_factors(estimated),
            shifted_factors(estimated),
            tiles_of(launch, lambda tensor: tensor.dtype.is_eight_bits),
            tiles_of(launch, lambda _: True),
            estimated.computed_with,
            computed_from(launch, estimated.matmuls),
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


def _scheduled(launch: Launch, rounds: float, shifted: bool) -> KernelFeatures:
    """Return the features that do not depend on the ops of a launch."""
    return KernelFeatures(
        blocks=float(prod(a.extent for a in launch.grid)),
        warps=float(launch.schedule.warps),
        stages=float(launch.schedule.stages),
        warpgroups=launch.schedule.warpgroups,
        resident=launch.schedule.resident > 0,
        cluster=float(launch.schedule.cluster),
        rounds=rounds,
        apart=_stores_apart(launch),
        shifted=shifted,
    )


def _of_one_block(launch: Launch, compiled: Resources | None) -> tuple[Launch, float]:
    """Return a launch as the compiler runs it, with other warps, and with blocks that share the
    work of one position of the grid; and how often these exchange totals."""
    split = split_over_cluster(launch)
    launch = launch if split is None else split.launch
    launch = with_enough_warps(launch) if compiled is None else _with_threads(launch, compiled)
    return launch, 0.0 if split is None else float(split.rounds)


def _with_threads(launch: Launch, compiled: Resources) -> Launch:
    """Return a launch with the warps that the compiler gave it."""
    schedule, warps = launch.schedule, compiled.threads // 32
    if compiled.blocks and not schedule.resident:
        warps //= max(1, prod(axis.extent for axis in launch.grid) // compiled.blocks)
    # Beside warpgroups there is one warp that copies, or a group of four with it: if there was no
    # room for that, the compiler let warps multiply.
    groups = schedule.warpgroups and warps > 4
    warps = (warps - 1) // 4 * 4 if groups else warps
    return replace(launch, schedule=replace(schedule, warps=warps, warpgroups=groups))


def _of_params(launch: Launch, sizes: Mapping[Value, float]) -> dict[Value, float]:
    """Convert the numbers of operands to those of the block's parameters."""
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
