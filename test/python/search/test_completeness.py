"""Brute force over all block graphs finds nothing cheaper than the search does.

For small programs and a fixed frame, every sequence of block-level ops is enumerated in the order
of its cost (uniform-cost search over sets of values, equal values merged by their numbers on
random inputs) up to the cost of the search's best derivation. The cost of an op is the number of
scalar operations, times the steps of the loop where it is in the loop; loads are free. The
enumeration knows nothing of normal forms, so a graph that the normal forms cannot express would
show up.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import prod
from typing import Any

import numpy as np
import pytest
from example_programs.search_programs import graph, tensor
from mirage.cost import H200
from mirage.search.algebra.atoms import InAtom
from mirage.search.algebra.axes import AxisTable
from mirage.search.kernel.derivations.derive import Derivations, Goal
from mirage.search.kernel.derivations.extract import Choices
from mirage.search.kernel.derivations.moves import (
    Accumulate,
    Edge,
    Load,
    Number,
    Product,
    ReduceTile,
)
from mirage.search.kernel.loop_nests.frames import FrameType
from mirage.search.kernel.loop_nests.problem_axes import analyze
from mirage.search.kernel.problems.narrowing import Narrowing
from mirage.search.kernel.problems.problem import KernelProblem
from mirage.search.kernel.solver import KernelSolver
from mirage.search.limits import SearchLimits, SearchReport
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import UNARY, BinaryFn, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph
from thorough import some_of

TILE = {"m": 2, "n": 3, "k": 4, "l": 5, "d": 3}
STEPS = {"T": 2, "U": 2}
"""Steps of the loop, and of a loop inside each of its steps."""
OP = 200.0
"""Cost of any op, in addition to its work: the enumeration is then ordered by the number of ops
first."""


@dataclass(frozen=True)
class Case:
    """A program, the axis it loops over, the scalar functions the enumeration may use, and the axis
    of a loop inside the loop."""

    name: str
    program: KernelGraph
    loop: str | None
    functions: tuple[UnaryFn, ...] = ()
    inner: str | None = None

    @property
    def steps(self) -> dict[str, str]:
        """Return the axis of the steps for each looped axis."""
        return {a: t for a, t in ((self.loop, "T"), (self.inner, "U")) if a is not None}


def scaled_matmul() -> KernelGraph:
    x, w, s, b = tensor("x", 8, 48), tensor("w", 48, 24), tensor("s", 8, 1), Builder()
    return graph("", (x, w, s), b, b.matmul(b.binary(BinaryFn.MUL, x, s), w))


def two_matmuls() -> KernelGraph:
    x, w, v, b = tensor("x", 8, 48), tensor("w", 48, 24), tensor("v", 48, 24), Builder()
    return graph("", (x, w, v), b, b.binary(BinaryFn.MUL, b.matmul(x, w), b.matmul(x, v)))


def shared_left() -> KernelGraph:
    x, w, v, b = tensor("x", 8, 48), tensor("w", 48, 24), tensor("v", 48, 24), Builder()
    return graph("", (x, w, v), b, b.binary(BinaryFn.ADD, b.matmul(x, w), b.matmul(x, v)))


def chain() -> KernelGraph:
    x, w, v, b = tensor("x", 8, 48), tensor("w", 48, 40), tensor("v", 40, 24), Builder()
    return graph("", (x, w, v), b, b.matmul(b.matmul(x, w), v))


def activated_sums() -> KernelGraph:
    x, b = tensor("x", 40, 48), Builder()
    sums = b.unary(UnaryFn.SILU, b.reduce(ReduceFn.SUM, x, (1,)))
    return graph("", (x,), b, b.reduce(ReduceFn.SUM, sums, (0,)))


def low_rank() -> KernelGraph:
    x, w, a, c = tensor("x", 8, 48), tensor("w", 48, 24), tensor("a", 48, 40), tensor("c", 40, 24)
    b = Builder()
    y = b.binary(BinaryFn.ADD, b.matmul(x, w), b.matmul(b.matmul(x, a), c))
    return graph("", (x, w, a, c), b, y)


def normalised() -> KernelGraph:
    x, b = tensor("x", 8, 48), Builder()
    square = b.reduce(ReduceFn.SUM, b.unary(UnaryFn.SQUARE, x), (1,))
    return graph("", (x,), b, b.binary(BinaryFn.MUL, x, b.unary(UnaryFn.RSQRT, square)))


def residual_sum() -> KernelGraph:
    x, y, z, b = tensor("x", 8, 48), tensor("y", 8, 48), tensor("z", 48), Builder()
    product = b.binary(BinaryFn.MUL, b.binary(BinaryFn.ADD, x, y), z)
    return graph("", (x, y, z), b, b.reduce(ReduceFn.SUM, product, (1,)))


def weighted_mean() -> KernelGraph:
    """Attention with the scores given, its denominator not yet inverted."""
    s, v, b = tensor("s", 8, 48), tensor("v", 48, 24), Builder()
    e = b.unary(UnaryFn.EXP, s)
    total = b.reduce(ReduceFn.SUM, e, (1,))
    return graph("", (s, v), b, b.binary(BinaryFn.MUL, b.matmul(e, v), total))


CASES = [
    Case("scaled_matmul", scaled_matmul(), "k"),
    Case("two_matmuls", two_matmuls(), None),
    Case("shared_left", shared_left(), "k"),
    Case("chain", chain(), None),
    Case("chain_loop", chain(), "k"),
    Case("low_rank", low_rank(), None),
    Case("normalised", normalised(), None, (UnaryFn.RSQRT,)),
    Case("residual_sum", residual_sum(), "n"),
    Case("weighted_mean", weighted_mean(), None, (UnaryFn.EXP,)),
    Case("chain_nest", chain(), "n", inner="k"),
    Case("activated_nest", activated_sums(), "m", (UnaryFn.SILU,), inner="n"),
]


class Ours:
    """Return the search's derivations in one frame, and the cheapest of them."""

    def __init__(self, case: Case) -> None:
        program = case.program
        definitions = {r: op for op in program.ops for r in op.results}
        self.table = AxisTable.of(program)
        problem = KernelProblem(program.outputs, program.inputs, definitions, self.table)
        solver = KernelSolver(H200, SearchLimits(), SearchReport())
        analysis = analyze(problem)[0]
        kind = FrameType(case.loop, None, inner=case.inner)
        found, _ = solver.derivations.of(analysis, kind, Narrowing())
        self.looped = case.steps
        self.output = tuple(a for dim in analysis.dims[0] for a in dim)
        self.inputs = [self._labels(d) for d, _ in found]
        self.cost = min(self._cheapest(d, targets[0]) for d, targets in found)

    def _labels(self, derivations: Derivations) -> list[tuple[str, ...]]:
        atoms = [a for a in derivations.algebra.atoms if isinstance(a, InAtom)]
        atoms.sort(key=lambda a: a.tensor)
        return [tuple(x for dim in a.dims for x in dim) for a in atoms]

    def _elements(self, derivations: Derivations, goal: Goal, *extra: str) -> int:
        free = derivations.algebra.free(goal[0])
        axes = {a for a, level in free if level == "L"} | set(extra)
        steps = [STEPS[t] for a, t in self.looped.items() if (a, "T") in free]
        return prod(TILE[a] for a in axes) * prod(steps)

    def _cost(self, derivations: Derivations, edge: Edge) -> float:
        match edge:
            case Load() | Number():
                return 0.0
            case Product():
                return OP + self._elements(derivations, edge.goal, edge.axis)
            case ReduceTile() | Accumulate():
                return OP + self._elements(derivations, edge.children[0])
            case _:
                return OP + self._elements(derivations, edge.goal)

    def _cheapest(self, derivations: Derivations, target: Goal) -> float:
        choices = Choices(derivations, [target])
        costs = [self._cost(derivations, e) for e in choices.edges]
        best = (choices.select(chosen) for chosen in choices.k_best(costs, 8))
        return min(sum(self._cost(derivations, e) for e in edges) for edges in best)


@dataclass(frozen=True, eq=False)
class Tile:
    """A value of the enumeration: its axes in order, its numbers, and the loops after which it is
    available. The loop's steps are the axis ``T``, those of a loop inside it the axis ``U``. A
    value that does not depend on ``T`` can be summed over ``U`` in a loop before the nest, the loop
    ``first``.
    """

    axes: tuple[str, ...]
    data: Any
    after: frozenset[str] = frozenset()

    @property
    def key(self) -> tuple[tuple[str, ...], frozenset[str], bytes]:
        return self.axes, self.after, np.round(self.data, 7).tobytes()

    @property
    def tile(self) -> set[str]:
        """Axes within a step."""
        return {*self.axes} - STEPS.keys()

    def joined(self, other: Tile) -> frozenset[str] | None:
        """Return the loops after which both are available, or None if there is no such place."""
        after, axes = self.after | other.after, {*self.axes, *other.axes}
        if ("T" in after and axes & STEPS.keys()) or ("U" in after and "U" in axes):
            return None
        return after

    def summed(self, axis: str) -> frozenset[str] | None:
        """Return the loops after which the sum over an axis is available, or None if it is
        nowhere."""
        if axis == "T":
            return None if "U" in self.axes else (self.after - {"U"}) | {"T"}
        if axis == "U" and "T" in self.axes:
            return self.after | {"U"}
        if axis == "U":
            return None if "first" in self.after else self.after | {"first"}
        return self.after


@dataclass
class Step:
    """An op: its cost, its resulting tile, and the number of that tile once it is computed."""

    price: float
    tile: Callable[[], Tile]
    made: int | None = None


State = tuple[tuple[int, ...], tuple[int, ...]]
"""The computed values, and those that are not used yet."""


class BruteForce:
    """Uniform-cost search over sets of tiles."""

    def __init__(self, case: Case, ours: Ours) -> None:
        self.functions = case.functions
        rng = np.random.default_rng(0)
        self.tiles: list[Tile] = []
        self.index: dict[Any, int] = {}
        self.start: list[int] = []
        self.steps: dict[tuple[int, int], list[Step]] = {}
        for labels in ours.inputs[0]:
            axes = tuple(sorted({*labels, *(t for a, t in case.steps.items() if a in labels)}))
            shape = [STEPS[a] if a in STEPS else TILE[a] for a in axes]
            self.start.append(self.intern(Tile(axes, rng.uniform(0.5, 1.5, shape))))
        self.labels = ours.inputs[0]

    def intern(self, tile: Tile) -> int:
        found = self.index.get(tile.key)
        if found is None:
            found = self.index[tile.key] = len(self.tiles)
            self.tiles.append(tile)
        return found

    def run(self, is_target: Callable[[Tile], bool], limit: float) -> float | None:
        """Return the least cost below ``limit`` of a graph that computes the target, or None."""
        heap: list[tuple[float, State]] = [(0.0, ((), ()))]
        done: set[State] = set()
        while heap:
            cost, state = heapq.heappop(heap)
            if state in done:
                continue
            done.add(state)
            made, unused = state
            if len(unused) == 1 and is_target(self.tiles[unused[0]]):
                return cost
            have = (*self.start, *made)
            for i, j in combinations_with_replacement(have, 2):
                others = {*unused} - {i, j}
                for step in self.cached(i, j):
                    total = cost + OP + step.price
                    # every further op joins at most two values into one
                    if total >= limit - 1e-9 or len(others) > (limit - total) // OP:
                        continue
                    new = self.number(step)
                    if new not in have:
                        left = tuple(sorted({*others, new}))
                        heapq.heappush(heap, (total, (tuple(sorted((*made, new))), left)))
        return None

    def number(self, step: Step) -> int:
        """Return the number of a step's tile, which is computed if the limit allows the step."""
        if step.made is None:
            step.made = self.intern(step.tile())
        return step.made

    def cached(self, i: int, j: int) -> list[Step]:
        if (i, j) not in self.steps:
            self.steps[i, j] = list(self.results(i, j))
        return self.steps[i, j]

    def results(self, i: int, j: int) -> Iterator[Step]:
        a, b = self.tiles[i], self.tiles[j]
        if i == j:
            yield from self.unary(a)
        after = a.joined(b)
        if after is None:
            return
        axes = tuple(sorted({*a.axes, *b.axes}))
        within = a.tile | b.tile
        x, y = self.align(a, axes), self.align(b, axes)
        shape = np.broadcast_shapes(x.shape, y.shape)
        size = float(prod(shape))
        if len(within) <= 2:
            for fn in (np.multiply, np.add):
                yield Step(size, lambda f=fn: Tile(axes, np.broadcast_to(f(x, y), shape), after))
        for k in sorted(a.tile & b.tile):
            if len(within - {k}) > 2 or a.tile == b.tile:
                continue
            rest, dim = tuple(name for name in axes if name != k), axes.index(k)
            yield Step(size, lambda r=rest, d=dim: Tile(r, (x * y).sum(axis=d), after))

    def unary(self, a: Tile) -> Iterator[Step]:
        size = float(a.data.size)
        for fn in self.functions:
            yield Step(size, lambda f=fn: Tile(a.axes, UNARY[f].evaluate(a.data), a.after))
        for n, axis in enumerate(a.axes):
            after = a.summed(axis)
            if after is None:
                continue
            rest = a.axes[:n] + a.axes[n + 1 :]
            yield Step(size, lambda r=rest, d=n, t=after: Tile(r, a.data.sum(axis=d), t))

    @staticmethod
    def align(tile: Tile, axes: tuple[str, ...]) -> Any:
        shape = [tile.data.shape[tile.axes.index(x)] if x in tile.axes else 1 for x in axes]
        return tile.data.reshape(shape)


def target_of(case: Case, brute: BruteForce, ours: Ours) -> Any:
    """Return the program's result on the inputs of the enumeration, with steps joined into their
    axes."""
    from mirage.semantics.evaluation.evaluate import evaluate_floats

    inputs: list[Any] = []
    for value, labels in zip(case.program.inputs, brute.labels, strict=True):
        tile = brute.tiles[brute.start[len(inputs)]]
        axes: list[str] = []
        for label in labels:
            axes.extend([case.steps[label], label] if label in case.steps else [label])
        data = np.transpose(tile.data, [tile.axes.index(a) for a in axes])
        shape = [TILE[x] * (STEPS[case.steps[x]] if x in case.steps else 1) for x in labels]
        inputs.append(data.reshape(shape).reshape([1] * (len(value.shape) - len(shape)) + shape))
        if len(value.shape) > len(shape) and value.shape[-1] == 1:
            inputs[-1] = inputs[-1].reshape([*shape, 1])
    small = resize(case.program, [x.shape for x in inputs])
    (out,) = evaluate_floats(small, inputs)
    shape = [TILE[a] for a in ours.output]
    return np.transpose(out.reshape(shape), np.argsort(ours.output))


def resize(program: KernelGraph, shapes: list[tuple[int, ...]]) -> KernelGraph:
    """Return the same ops on inputs of other sizes."""
    from mirage.semantics.ugraph import Binary, Matmul, Reduce, Unary, Value

    b = Builder()
    new: dict[Value, Value] = {
        v: tensor(v.name, *shape) for v, shape in zip(program.inputs, shapes, strict=True)
    }
    for op in program.ops:
        operands = [new[v] for v in op.operands]
        match op:
            case Matmul():
                new[op.result] = b.matmul(*operands)
            case Binary():
                new[op.result] = b.binary(op.fn, *operands)
            case Unary():
                new[op.result] = b.unary(op.fn, *operands)
            case Reduce():
                new[op.result] = b.reduce(op.fn, operands[0], op.dims)
            case _:
                raise AssertionError(op)
    inputs = tuple(new[v] for v in program.inputs)
    return KernelGraph("", inputs, tuple(b.ops), tuple(new[v] for v in program.outputs))


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("case", some_of(CASES, 12), ids=lambda c: c.name)
def test_no_cheaper_graph_exists(case: Case) -> None:
    ours = Ours(case)
    brute = BruteForce(case, ours)
    want = target_of(case, brute, ours)
    axes = tuple(sorted(ours.output))

    def is_target(tile: Tile) -> bool:
        return tile.axes == axes and np.allclose(tile.data, want, rtol=1e-6)

    # the least cost of all: none is cheaper, and the enumeration is able to find ours
    assert brute.run(is_target, ours.cost + 1.0) == pytest.approx(ours.cost)
