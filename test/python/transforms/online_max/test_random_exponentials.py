"""Random programs of exponentials, sums, quotients and logarithms, over loops and kernels: the
rewrite keeps their meaning, and if it reports all exponentials as stable, nothing overflows.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np
import pytest
from example_programs.attention_graphs import SUM, tensor
from example_programs.stability_graphs import block
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import TypedFloat, evaluate_floats
from mirage.semantics.scalar import BinaryFn, ReduceFn, UnaryFn
from mirage.semantics.ugraph import Accumulator, Axis, KernelGraph, Launch, Value
from mirage.transforms import stabilize
from thorough import some_of

ROWS, COLUMNS = 3, 16


@dataclass
class Pool:
    """Values of one scope: scores, and positive values that scale with exponentials."""

    rng: random.Random
    build: Builder = field(default_factory=lambda: Builder(in_block=True))
    scores: list[Value] = field(default_factory=list[Value])
    positive: list[Value] = field(default_factory=list[Value])

    @property
    def narrow(self) -> list[Value]:
        """The positive values of one column."""
        return [v for v in self.positive if v.shape[1] == 1]

    def some(self, values: list[Value], most: int) -> list[Value]:
        return self.rng.sample(values, min(len(values), self.rng.randint(1, most)))

    def pair(self) -> tuple[Value, Value] | None:
        """Two values that broadcast."""
        x, y = (self.rng.choice(self.positive) for _ in range(2))
        return (x, y) if 1 in (x.shape[1], y.shape[1]) or x.shape == y.shape else None

    def grow(self) -> None:
        """A few ops."""
        for _ in range(self.rng.randint(2, 6)):
            self._op(self.rng.random())

    def _op(self, choice: float) -> None:
        b, rng = self.build, self.rng
        if choice < 0.35 or not self.positive:
            self.positive.append(b.unary(UnaryFn.EXP, rng.choice(self.scores)))
        elif choice < 0.7:
            pair = self.pair()
            fns = [BinaryFn.ADD, BinaryFn.ADD, BinaryFn.MAX, BinaryFn.MUL, BinaryFn.DIV]
            if pair is not None:
                self.positive.append(b.binary(rng.choice(fns), *pair))
        elif choice < 0.8:
            self.positive.append(b.reduce(ReduceFn.SUM, rng.choice(self.positive), (1,)))
        elif choice < 0.9:
            fn = rng.choice([UnaryFn.SQUARE, UnaryFn.SQRT])
            self.positive.append(b.unary(fn, rng.choice(self.positive)))
        else:
            log = b.unary(UnaryFn.LOG, rng.choice(self.positive))
            score = rng.choice(self.scores)
            if 1 in (score.shape[1], log.shape[1]) or score.shape == log.shape:
                self.scores.append(b.binary(BinaryFn.SUB, score, log))


def loop(
    rng: random.Random, outer: Pool, scores: list[Value], axis: str, cut: tuple[str, ...]
) -> None:
    """Add a loop over tiles of the scores, which returns sums of some of its values."""
    columns = COLUMNS // 2 if cut else COLUMNS
    tile = rng.choice([2, 4, 8])
    pool = Pool(rng)
    for x in rng.sample(scores, rng.randint(1, 2)):
        pool.scores.append(pool.build.load(x, ((), (*cut, axis)), (ROWS, tile)))
    known = outer.narrow
    pool.positive.extend(known)
    pool.grow()
    new = [v for v in pool.positive if v not in known]
    sums: list[Accumulator] = []
    for v in pool.some(new, 3) if new else []:
        wide = v.shape[1] > 1 and rng.random() < 0.8
        sums.append(Accumulator(SUM, pool.build.reduce(ReduceFn.SUM, v, (1,)) if wide else v))
    if not sums:
        return
    steps = Axis(axis, columns // tile)
    for total in outer.build.loop(steps, tuple(pool.build.ops), tuple(sums)):
        outer.positive.append(total)
        if total.shape[1] > 1:
            outer.positive.append(outer.build.reduce(ReduceFn.SUM, total, (1,)))


def launch(rng: random.Random, inputs: tuple[Value, ...], number: int) -> Launch | None:
    """A kernel that reads X, Y and partial results of others; the last one (``number`` 0) stores a
    quotient, the others some columns, possibly of two parts of the row.
    """
    params = tuple(Value(v.type) for v in inputs)
    split = number > 0 and rng.random() < 0.5
    pool = Pool(rng)
    b = pool.build
    for param in params[2:]:
        whole = tuple(() for _ in param.shape)
        tile = b.load(param, whole, param.shape)
        if len(param.shape) == 3:
            tile = b.reshape(b.reduce(ReduceFn.SUM, tile, (0,)), param.shape[1:])
        pool.positive.append(tile)
    if not split and rng.random() < 0.5:
        pool.scores.extend(b.load(x, ((), ()), (ROWS, COLUMNS)) for x in params[:2])
        pool.grow()
    for i in range(rng.randint(0 if pool.scores else 1, 2)):
        loop(rng, pool, list(params[:2]), f"t{number}{i}", ("s",) if split else ())
        if len(pool.narrow) > 1 and rng.random() < 0.4:
            pool.positive.append(b.binary(BinaryFn.ADD, *rng.sample(pool.narrow, 2)))
    if number == 0:
        pair = pool.pair() if pool.positive else None
        if pair is None:
            return None
        y = b.binary(BinaryFn.DIV, *pair)
        return block(inputs, (), params, b, ((y, ((), ()), tensor(*y.shape)),))
    if not pool.narrow:
        return None
    stores: list[tuple[Value, tuple[tuple[str, ...], ...], Value]] = []
    for v in pool.some(pool.narrow, 2):
        if split:
            stores.append((b.reshape(v, (1, ROWS, 1)), (("s",), (), ()), tensor(2, ROWS, 1)))
        else:
            stores.append((v, ((), ()), tensor(ROWS, 1)))
    return block(inputs, (Axis("s", 2),) if split else (), params, b, tuple(stores))


def program(seed: int) -> KernelGraph | None:
    """One to three kernels."""
    rng = random.Random(seed)
    x, y = tensor(ROWS, COLUMNS), tensor(ROWS, COLUMNS)
    inputs: tuple[Value, ...] = (x, y)
    ops: list[Launch] = []
    for number in (*range(1, rng.randint(1, 3)), 0):
        op = launch(rng, inputs, number)
        if op is not None:
            ops.append(op)
            inputs = (*inputs, *op.results)
    complete = ops and ops[-1].results[0].shape[0] == ROWS and len(ops[-1].results) == 1
    return KernelGraph("random", (x, y), tuple(ops), ops[-1].results) if complete else None


@pytest.mark.parametrize("first", some_of(range(0, 300, 100), every=3))
def test_meaning_is_kept_and_nothing_overflows(first: int) -> None:
    changed = safe = 0
    for seed in range(first, first + 100):
        graph = program(seed)
        if graph is None:
            continue
        result = stabilize(graph)
        check_graph(result.graph)
        if result.graph is graph:
            continue
        changed += 1
        rng = np.random.default_rng(seed)
        inputs = [0.4 * rng.standard_normal((ROWS, COLUMNS)) for _ in range(2)]
        (want,) = evaluate_floats(graph, inputs)
        (got,) = evaluate_floats(result.graph, inputs)
        np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-12, err_msg=f"seed {seed}")
        if result.unstable:
            continue
        safe += 1
        with np.errstate(all="ignore"):
            (large,) = evaluate_floats(result.graph, [x * 2.5e3 for x in inputs], TypedFloat())
        assert np.isfinite(large).all(), f"seed {seed}"
    assert changed > 20
    assert safe > 3
