"""A part of a program's results, computed by itself, equals that part of the whole results, in
every arithmetic."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import numpy as np
import pytest
from example_programs import graphs
from hypothesis import given, settings
from hypothesis import strategies as st
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.domain import Domain, Float64, Planes
from mirage.semantics.evaluation.evaluate import Sampled, evaluate, evaluate_sampled
from mirage.semantics.indexing.indices import Region, simplify
from mirage.semantics.region import demand
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.verify.arithmetic.field import FieldPair
from mirage.verify.arithmetic.formal import FormalExp
from mirage.verify.arithmetic.interned_sums import NoProof
from mirage.verify.arithmetic.primes import draw
from mirage.verify.arithmetic.symbolic import Symbolic

Inputs = Callable[[tuple[int, ...]], Planes]


def arithmetics() -> dict[str, tuple[Domain, Inputs, Callable[[Planes, Planes], bool]]]:
    rng = np.random.default_rng(7)
    field = FieldPair(draw(random.Random(1), 20, 1 << 25), 3)
    symbolic, names = Symbolic(), itertools.count()
    formal = FormalExp(draw(random.Random(2), 61, None), random.Random(3))
    return {
        "float64": (
            Float64(),
            lambda shape: (rng.standard_normal(shape),),
            lambda a, b: bool(np.allclose(a[0], b[0], rtol=1e-11, equal_nan=True)),
        ),
        "finite field": (
            field,
            lambda shape: field.random(rng, shape),
            lambda a, b: bool(field.agreement(a, b)[0].all()),
        ),
        "formal": (formal, formal.random, lambda a, b: bool(formal.equal(a, b).all())),
        "symbolic": (
            symbolic,
            lambda shape: symbolic.inputs(next(names), shape),
            lambda a, b: all(map(symbolic.same, a[0].ravel(), b[0].ravel())),
        ),
    }


class Walk:
    """Random programs that move elements, many of them with dimensions of size 1."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.builder = Builder()
        rank = self.random.randint(2, 4)
        shape = tuple(self.random.choice([1, 1, 2, 3, 4]) for _ in range(rank))
        self.inputs = [Value(TensorType(shape, DType.F32), f"i{i}") for i in range(2)]
        self.values = list(self.inputs)

    def graph(self) -> KernelGraph:
        for _ in range(self.random.randint(3, 9)):
            value = self.step(self.random.choice(self.values[-3:]))
            if value.type.size <= 400:
                self.values.append(value)
        output = self.builder.unary(UnaryFn.NEG, self.values[-1])
        return KernelGraph("walk", tuple(self.inputs), tuple(self.builder.ops), (output,))

    def step(self, x: Value) -> Value:
        b, r, rank = self.builder, self.random, len(x.shape)
        dim = r.randrange(rank)
        match r.randrange(8):
            case 0:  # reshape, dimensions of size 1 among the new ones
                sizes = [n for d in x.shape for n in ([2, d // 2] if d % 2 == 0 else [d])]
                while len(sizes) > 1 and r.random() < 0.5:
                    at = r.randrange(len(sizes) - 1)
                    sizes[at : at + 2] = [sizes[at] * sizes[at + 1]]
                if r.random() < 0.5:
                    sizes.insert(r.randint(0, len(sizes)), 1)
                return b.reshape(x, tuple(sizes[:5])) if len(sizes) <= 5 else x
            case 1:
                return b.transpose(x, tuple(r.sample(range(rank), rank)))
            case 2:
                start = r.randrange(x.shape[dim])
                size = r.randint(1, x.shape[dim] - start)
                offsets = tuple(start if d == dim else 0 for d in range(rank))
                sizes = [size if d == dim else n for d, n in enumerate(x.shape)]
                return b.slice(x, offsets, tuple(sizes))
            case 3 | 4:  # joined with a computed tensor of another size
                others = [v for v in self.values if len(v.shape) == rank and fits(v, x, dim)]
                return b.concat(tuple(r.sample([x, r.choice(others)], 2)), dim)
            case 5:
                return b.reduce(r.choice([ReduceFn.SUM, ReduceFn.MAX]), x, (dim,))
            case 6:
                others = [v for v in self.values if all(map(broadcasts, v.shape, x.shape))]
                others = [v for v in others if len(v.shape) == rank]
                return b.binary(BinaryFn.ADD, x, r.choice(others))
            case _:
                ones = [r.choice([2, 3]) if n == 1 else n for n in x.shape]
                wide = b.broadcast(x, tuple(ones))
                return b.unary(r.choice([UnaryFn.EXP, UnaryFn.SQUARE]), wide if ones else x)


def fits(a: Value, b: Value, dim: int) -> bool:
    return all(d == dim or a.shape[d] == b.shape[d] for d in range(len(b.shape)))


def broadcasts(n: int, m: int) -> bool:
    return n in (1, m)


def check_part(graph: KernelGraph, region: Region) -> None:
    for name, (domain, inputs, same) in arithmetics().items():
        xs = [inputs(v.shape) for v in graph.inputs]
        try:
            (whole,) = evaluate(graph, domain, xs)
        except NoProof:  # too many terms
            continue
        wanted = demand(graph, [region])
        sampled: list[Sampled] = []
        for x, v in zip(xs, graph.inputs, strict=True):
            part = wanted.regions.get(v, (None,) * len(v.shape))
            at = np.ix_(*(np.arange(n) if i is None else i for i, n in zip(part, v.shape)))
            sampled.append(Sampled(tuple(p[at] for p in x), part))
        (found,) = evaluate_sampled(graph, domain, sampled, wanted)
        shape = graph.outputs[0].shape
        have = [np.arange(n) if i is None else i for i, n in zip(found.region, shape)]
        needed = [np.arange(n) if i is None else i for i, n in zip(region, shape)]
        assert all(set(r) <= set(h) for r, h in zip(needed, have, strict=True))
        assert found.planes[0].shape == tuple(map(len, have)), name
        assert same(found.planes, tuple(p[np.ix_(*have)] for p in whole)), name


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 1 << 32))
def test_parts_of_random_programs(seed: int):
    walk = Walk(seed)
    graph = walk.graph()
    check_graph(graph)
    shape = graph.outputs[0].shape
    parts = [sorted(walk.random.sample(range(n), walk.random.randint(1, n))) for n in shape]
    check_part(graph, tuple(simplify(np.array(i), n) for i, n in zip(parts, shape, strict=True)))


@pytest.mark.parametrize("rows", [[0, 1], [2], [0, 2]])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("kind", ["elementwise", "reduce", "matmul"])
def test_of_a_joined_operand_nothing_is_wanted(kind: str, first: bool, rows: list[int]):
    """An operand with one row that is not needed (the op that computes it repeats operands of size
    1, or sums to one row), or an operand with two."""
    x, y = graphs.tensor(2, 3, dtype=DType.F32), graphs.tensor(1, 3, dtype=DType.F32)
    b = Builder()
    if kind == "elementwise":
        one = b.unary(UnaryFn.SQUARE, b.binary(BinaryFn.MUL, y, b.constant(2.0)))
    elif kind == "reduce":
        one = b.reduce(ReduceFn.SUM, b.broadcast(y, (4, 3)), (0,))
    else:
        one = b.matmul(b.matmul(y, b.transpose(y, (1, 0))), y)
    two = b.binary(BinaryFn.SUB, x, b.reduce(ReduceFn.MAX, b.unary(UnaryFn.SQUARE, x), (1,)))
    joined = b.concat((one, two) if first else (two, one), 0)
    out = b.reshape(joined, (3, 3, 1))
    check_part(KernelGraph("joined", (x, y), tuple(b.ops), (out,)), (np.array(rows), None, None))
