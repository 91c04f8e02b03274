"""The part of the outputs to compute so that a test at the real sizes ends in time.

The free dimensions of the outputs are cut down until the estimated work fits. The chosen indices
are runs at both ends (where masks and tails are) and at random places in between. All values that
the chosen part needs are computed in full: no reduction is ever shortened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, prod

import numpy as np

from mirage.semantics.region import (
    Demand,
    OfLaunches,
    Positions,
    Region,
    demand,
    region_shape,
    union,
    whole,
)
from mirage.semantics.scalar import Array
from mirage.semantics.tile_parts import TileParts
from mirage.semantics.ugraph import (
    Cumulation,
    KernelGraph,
    Launch,
    Loop,
    Matmul,
    Op,
    Source,
    Value,
)

_FEWEST = 64  # output elements: fewer say too little about rounding errors
_FLOPS_PER_ELEMENT = 25  # multiply-adds of a matmul that take as long as one element of another op

_FAR_MORE = 2.0
"""Samples that are still above the budget by this factor touch as few tiles as possible."""
_OPS_OF_A_CUMULATION = 4  # elementwise ops that take as long as a cumulation


@dataclass(frozen=True)
class Sample:
    """A part of the outputs, the demand of each graph for it, and the part of the inputs that is
    read."""

    outputs: tuple[Region, ...]
    demands: tuple[Demand, ...]
    inputs: tuple[Region, ...]
    fraction: float
    work: float
    elements: int
    read: int = 0
    """The number of elements of the inputs' part."""
    fixed: Mapping[int, Array] = field(default_factory=dict[int, Array])
    """Inputs that are not random, by number: the weights of a program over cells of indices."""

    def fixed_part(self, number: int) -> Array | None:
        """Return the sampled part of a fixed input (fixed inputs have rank 1); None for other
        inputs."""
        if number not in self.fixed:
            return None
        (index,) = self.inputs[number]
        return self.fixed[number] if index is None else self.fixed[number][index]


class Sampler:
    """Draws samples of programs that have the same outputs, all at the same indices. The sampled
    graphs have the same signature and no composite ops.
    """

    def __init__(
        self, outputs: Sequence[Value], rng: np.random.Generator, columns: int = 1
    ) -> None:
        shapes = [v.shape for v in outputs]
        self._columns = {s[-1] for s in shapes if s}
        self._fewest_columns = columns
        self.counts = {n: n for shape in shapes for n in shape}
        # Equal sizes get equal indices, so that several outputs need the same parts of their
        # inputs.
        self._order = {n: _Indices(n, rng) for n in self.counts}
        self._left: dict[int, dict[int, float]] = {}
        """The share of the work that remained when a size was divided by a step, by step."""

    def least_work(self, graphs: Sequence[KernelGraph]) -> float:
        """Return the work for a single element; no sample needs less."""
        return _sample(graphs, dict.fromkeys(self.counts, 1), self._order).work

    def sample(
        self,
        graphs: Sequence[KernelGraph],
        budget: float,
        fixed: Mapping[int, Array] | None = None,
    ) -> Sample:
        """Return the largest sample whose work, in elements of elementwise ops, is at most
        ``budget``. It is found by halving and is not larger than the one before.
        """
        sample = _sample(graphs, self.counts, self._order)
        while sample.work > budget:
            steps = [s for s in (16, 4, 2) if s == 2 or sample.work > 2 * s * budget]
            best = next(filter(None, (self._smaller(graphs, sample, step) for step in steps)), None)
            if best is None:
                break
            sample, self.counts = best
        if sample.work > _FAR_MORE * budget:
            sample = self._in_fewer_runs(graphs, sample)
        return replace(sample, fixed=fixed or {})

    def _in_fewer_runs(self, graphs: Sequence[KernelGraph], sample: Sample) -> Sample:
        """Return a sample with the same number of indices that touches fewer tiles, if there is
        one."""
        for indices in self._order.values():
            indices.in_one_run = True
            smaller = _sample(graphs, self.counts, self._order)
            indices.in_one_run = smaller.work < sample.work
            sample = smaller if indices.in_one_run else sample
        return sample

    def _smaller(
        self, graphs: Sequence[KernelGraph], sample: Sample, step: int
    ) -> tuple[Sample, dict[int, int]] | None:
        """Return the cheapest sample with one size divided by ``step``. The saving of a size hardly
        grows as samples become smaller, so sizes that saved less before than the best one does now
        are not tried again."""
        best: tuple[Sample, dict[int, int]] | None = None
        saved = self._left.setdefault(step, {})
        for n in sorted(self.counts, key=lambda n: saved.get(n, 0.0)):
            if best is not None and saved.get(n, 0.0) >= best[0].work / sample.work:
                break
            count, fewest = self.counts[n], self._fewest_columns if n in self._columns else 1
            if count <= fewest:
                continue
            counts = {**self.counts, n: max(fewest, count // step)}
            option = _sample(graphs, counts, self._order)
            usable = option.work < sample.work and option.elements >= _FEWEST
            saved[n] = option.work / sample.work if usable else inf
            if usable and (best is None or option.work < best[0].work):
                best = option, counts
        return best


def choose_sample(
    graphs: Sequence[KernelGraph],
    budget: float,
    rng: np.random.Generator,
    fixed: Mapping[int, Array] | None = None,
    columns: int = 1,
) -> Sample:
    """Return a sample of several programs, as :meth:`Sampler.sample` does; at least ``columns``
    indices of the outputs' last dimensions are kept.
    """
    return Sampler(graphs[0].outputs, rng, columns).sample(graphs, budget, fixed)


class _Indices:
    """Nested samples of ``range(n)``: a quarter at each end, and the rest in a run in between; or,
    if ``in_one_run``, the last indices, where tails of tiles are."""

    def __init__(self, n: int, rng: np.random.Generator) -> None:
        self.n = n
        self.at = float(rng.random())
        self.in_one_run = False

    def first(self, count: int) -> Array | None:
        """Return ``count`` indices, sorted."""
        if count >= self.n:
            return None
        if count == 1:
            return np.array([int(self.at * self.n)])
        if self.in_one_run:
            return np.arange(self.n - count, self.n)
        ends = max(1, count // 4)
        inner = count - 2 * ends
        start = ends + int(self.at * (self.n - 2 * ends - inner))
        return np.concatenate(
            [np.arange(ends), np.arange(start, start + inner), np.arange(self.n - ends, self.n)]
        )


def _sample(
    graphs: Sequence[KernelGraph], counts: dict[int, int], order: dict[int, _Indices]
) -> Sample:
    # Outputs of equal shapes get equal regions, in whatever order the graphs have them.
    regions: list[tuple[Region, ...]] = [
        tuple(tuple(order[n].first(counts[n]) for n in v.shape) for v in g.outputs) for g in graphs
    ]
    outputs = regions[0]
    demands = tuple(demand(g, r) for g, r in zip(graphs, regions, strict=True))
    inputs: list[Region] = []
    for i, v in enumerate(graphs[0].inputs):
        region: Region | None = None
        for g, d in zip(graphs, demands, strict=True):
            part = d.regions.get(g.inputs[i])
            if part is not None:
                region = part if region is None else union(region, part, v.shape)
        # An input that nothing reads still exists; one element of it is enough.
        inputs.append(tuple(np.arange(1) for _ in v.shape) if region is None else region)
    computed = sum(
        prod(region_shape(r, v.shape)) for r, v in zip(outputs, graphs[0].outputs, strict=True)
    )
    work = sum(graph_work(g, d) for g, d in zip(graphs, demands, strict=True))
    read = sum(
        prod(region_shape(r, v.shape)) for r, v in zip(inputs, graphs[0].inputs, strict=True)
    )
    return Sample(
        outputs,
        demands,
        tuple(inputs),
        computed / sum(v.type.size for v in graphs[0].outputs),
        work + read,
        computed,
        read,
    )


def graph_work(graph: KernelGraph, wanted: Demand) -> float:
    """Estimate the work of an evaluation, in elements of elementwise ops."""
    work = 0.0
    for op in graph.ops:
        if isinstance(op, Launch):
            if op in wanted.positions:
                work += _launch_work(op, wanted.positions[op], wanted.parts.get(op))
        elif op.result in wanted.regions:
            region = wanted.regions[op.result]
            elements = prod(region_shape(region, op.result.shape))
            work += elements
            if isinstance(op, Matmul):
                work += elements * op.operands[0].shape[-1] / _FLOPS_PER_ELEMENT
            elif isinstance(op, Cumulation):
                work += elements * _OPS_OF_A_CUMULATION
            for v in op.operands:  # a reduction reads more than it writes
                r = wanted.regions.get(v, whole(len(v.shape)))
                work += 0.25 * prod(region_shape(r, v.shape))
    return work


def _launch_work(launch: Launch, positions: Positions, parts: TileParts | None) -> float:
    steps = {axis: len(p) for axis, p in positions.items()}
    sizes = None
    if parts is not None:
        sizes = {v: prod(region_shape(part, v.shape)) for v, part in parts.items()}
    key = tuple(sorted(steps.items())), None if sizes is None else tuple(sizes.items())
    return _WORK.get(launch, key, lambda: _work_of_blocks(launch, steps, sizes))


_WORK: OfLaunches[float] = OfLaunches()


def _work_of_blocks(
    launch: Launch, steps: Mapping[str, int], sizes: Mapping[Value, int] | None
) -> float:
    """Estimate the work of a launch for the given number of positions along each grid axis, and
    numbers of elements that are computed of each tile (None: all)."""
    depends: dict[Value, frozenset[str]] = {}

    def size(tile: Value) -> int:
        return tile.type.size if sizes is None else sizes.get(tile, 0)

    def run(ops: tuple[Op, ...], trips: int) -> float:
        work = 0.0
        for op in ops:
            if isinstance(op, Loop):
                work += run(op.body, trips * op.axis.extent)
                for a, result in zip(op.accumulators, op.results, strict=True):
                    depends[result] = depends[a.value] | (
                        depends[a.rescale] if a.rescale else frozenset()
                    )
                    blocks = prod(steps[x] for x in depends[result])
                    work += trips * op.axis.extent * blocks * result.type.size
                continue
            axes = frozenset[str]().union(*(depends[v] for v in op.operands if v in depends))
            axes |= op.reads_axes & steps.keys()
            depends[op.result] = axes
            elements = (
                trips
                * prod(steps[a] for a in axes)
                * max((size(v) for v in op.operands), default=1)
            )
            if isinstance(op, Source):
                elements = trips * prod(steps[a] for a in axes) * size(op.result) * 0.25
            work += elements
            if isinstance(op, Cumulation):
                work += elements * _OPS_OF_A_CUMULATION
            if isinstance(op, Matmul):
                flops = size(op.result) * op.operands[0].shape[-1]
                work += trips * prod(steps[a] for a in axes) * flops / _FLOPS_PER_ELEMENT
        return work

    return run(launch.body.ops, 1)
