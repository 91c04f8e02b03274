"""Random programs of predefined ops, for tests of what is done with programs."""

from __future__ import annotations

import random

from mirage.semantics.builder import Builder, ShapeError
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value

SIZES = [1, 2, 3, 5, 8, 16, 17, 24, 32, 33, 48, 64, 70]
UNARY = [
    UnaryFn.SILU, UnaryFn.RELU, UnaryFn.SQUARE, UnaryFn.SIGMOID, UnaryFn.TANH,
    UnaryFn.NEG, UnaryFn.GELU,
]  # fmt: skip


class Generator:
    """A random walk over ops, with shapes that often do not divide or broadcast in odd places."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.builder = Builder()
        self.inputs: list[Value] = []
        rank = self.random.choice([2, 2, 2, 3, 4])
        lead = [self.random.choice([1, 2, 3]) for _ in range(rank - 2)]
        self.values = [self.tensor([*lead, *(self.random.choice(SIZES) for _ in range(2))])]

    def tensor(self, shape: list[int]) -> Value:
        dtype = self.random.choice([DType.F16] * 4 + [DType.F32])
        self.inputs.append(Value(TensorType(tuple(shape), dtype), f"i{len(self.inputs)}"))
        return self.inputs[-1]

    def graph(self) -> KernelGraph | None:
        for _ in range(self.random.randint(2, 7)):
            try:
                value = self.step(self.random.choice(self.values[-3:]))
            except ShapeError:
                continue
            if value.type.size <= 200_000:
                self.values.append(value)
        last = self.values[-1]
        if last in self.inputs:
            return None
        outputs = [last]
        extra = self.random.choice(self.values)
        if self.random.random() < 0.25 and extra not in (*self.inputs, last):
            outputs.append(extra)
        used = {v for op in self.builder.ops for v in op.operands}
        inputs = tuple(v for v in self.inputs if v in used)
        return KernelGraph("random", inputs, tuple(self.builder.ops), tuple(outputs))

    def step(self, x: Value) -> Value:
        b, r = self.builder, self.random
        kind = r.choices(
            [
                "matmul",
                "gram",
                "unary",
                "binary",
                "scale",
                "norm",
                "softmax",
                "reduce",
                "move",
                "join",
                "slice",
                "share",
            ],
            [4, 1, 3, 4, 2, 3, 1, 1, 1, 1, 1, 1],
        )[0]
        rank = len(x.shape)
        if kind == "matmul":
            lead = x.shape[:-2] if r.random() < 0.5 else ()
            return b.matmul(x, self.tensor([*lead, x.shape[-1], r.choice(SIZES)]))
        if kind == "gram":
            other = r.choice([v for v in self.values if v.shape == x.shape])
            return b.matmul(x, b.transpose(other, (*range(rank - 2), rank - 1, rank - 2)))
        if kind == "unary":
            return b.unary(r.choice(UNARY), x)
        if kind == "binary":
            other = r.choice([v for v in self.values if v.shape == x.shape])
            if r.random() < 0.5:
                shape = [d if r.random() < 0.6 else 1 for d in x.shape]
                other = self.tensor(shape[r.choice([0, 0, rank - 1]) :])
            fn = r.choice([BinaryFn.ADD, BinaryFn.SUB, BinaryFn.MUL, BinaryFn.MAX])
            return b.binary(fn, *r.sample([x, other], 2))
        if kind == "scale":
            return b.binary(
                r.choice([BinaryFn.ADD, BinaryFn.MUL]), x, b.constant(r.choice([0.5, -1.0]))
            )
        if kind == "norm":
            gain = self.tensor([x.shape[-1]]) if r.random() < 0.5 else None
            return b.rms_norm(x, gain) if r.random() < 0.7 else b.layer_norm(x, gain)
        if kind == "softmax":
            return b.softmax(x, -1)
        if kind == "reduce":
            y = b.reduce(r.choice([ReduceFn.SUM, ReduceFn.MAX]), x, (r.randrange(rank),))
            return b.binary(BinaryFn.ADD, x, y) if r.random() < 0.6 else y
        if kind == "join":
            dim = r.randrange(rank)
            other = self.tensor([*x.shape[:dim], r.choice([1, 4, 16]), *x.shape[dim + 1 :]])
            return b.concat(tuple(r.sample([x, other], 2)), dim)
        if kind == "slice":
            dim = r.randrange(rank)
            start = r.randrange(x.shape[dim])
            sizes = [r.randint(1, n - start) if i == dim else n for i, n in enumerate(x.shape)]
            return b.slice(x, tuple(start if i == dim else 0 for i in range(rank)), tuple(sizes))
        if kind == "share":  # heads of a group meet one matrix
            if rank < 3:
                return b.reshape(x, (1, *x.shape))
            groups = x.shape[:-3]
            w = self.tensor([*groups, 1, x.shape[-1], r.choice(SIZES)])
            return b.matmul(x, b.broadcast(w, (*groups, x.shape[-3], *w.shape[-2:])))
        if rank >= 3 and r.random() < 0.5:
            dim = r.randrange(rank - 1)  # two dimensions become one
            merged = x.shape[dim] * x.shape[dim + 1]
            return b.reshape(x, (*x.shape[:dim], merged, *x.shape[dim + 2 :]))
        return b.transpose(x, tuple(r.sample(range(rank), rank)))
