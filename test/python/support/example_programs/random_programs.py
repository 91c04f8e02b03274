"""Random programs of predefined ops, for tests of transformations of programs."""

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
    """A random walk over ops, with shapes that tiles often do not divide, or that broadcast in
    unusual places."""

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
        """Add an op on ``x``; if it has two operands, the other one is an earlier value or a new
        input."""
        steps = {
            self._matmul: 4, self._gram: 1, self._unary: 3, self._binary: 4, self._scale: 2,
            self._norm: 3, self._softmax: 1, self._reduce: 1, self._move: 1, self._join: 1,
            self._slice: 1, self._share: 1,
        }  # fmt: skip
        (step,) = self.random.choices(list(steps), list(steps.values()))
        return step(x)

    def _matmul(self, x: Value) -> Value:
        lead = x.shape[:-2] if self.random.random() < 0.5 else ()
        w = self.tensor([*lead, x.shape[-1], self.random.choice(SIZES)])
        return self.builder.matmul(x, w)

    def _gram(self, x: Value) -> Value:
        rank = len(x.shape)
        turned = self.builder.transpose(self._alike(x), (*range(rank - 2), rank - 1, rank - 2))
        return self.builder.matmul(x, turned)

    def _alike(self, x: Value) -> Value:
        return self.random.choice([v for v in self.values if v.shape == x.shape])

    def _unary(self, x: Value) -> Value:
        return self.builder.unary(self.random.choice(UNARY), x)

    def _binary(self, x: Value) -> Value:
        r, other = self.random, self._alike(x)
        if r.random() < 0.5:
            shape = [d if r.random() < 0.6 else 1 for d in x.shape]
            other = self.tensor(shape[r.choice([0, 0, len(x.shape) - 1]) :])
        fn = r.choice([BinaryFn.ADD, BinaryFn.SUB, BinaryFn.MUL, BinaryFn.MAX])
        return self.builder.binary(fn, *r.sample([x, other], 2))

    def _scale(self, x: Value) -> Value:
        fn = self.random.choice([BinaryFn.ADD, BinaryFn.MUL])
        return self.builder.binary(fn, x, self.builder.constant(self.random.choice([0.5, -1.0])))

    def _norm(self, x: Value) -> Value:
        gain = self.tensor([x.shape[-1]]) if self.random.random() < 0.5 else None
        mean_too = self.random.random() >= 0.7
        return self.builder.layer_norm(x, gain) if mean_too else self.builder.rms_norm(x, gain)

    def _softmax(self, x: Value) -> Value:
        return self.builder.softmax(x, -1)

    def _reduce(self, x: Value) -> Value:
        fn, dim = self.random.choice([ReduceFn.SUM, ReduceFn.MAX]), self._dim(x)
        y = self.builder.reduce(fn, x, (dim,))
        return self.builder.binary(BinaryFn.ADD, x, y) if self.random.random() < 0.6 else y

    def _dim(self, x: Value) -> int:
        return self.random.randrange(len(x.shape))

    def _join(self, x: Value) -> Value:
        dim = self._dim(x)
        size = self.random.choice([1, 4, 16])
        other = self.tensor([*x.shape[:dim], size, *x.shape[dim + 1 :]])
        return self.builder.concat(tuple(self.random.sample([x, other], 2)), dim)

    def _slice(self, x: Value) -> Value:
        dim = self._dim(x)
        offsets, sizes = [0] * len(x.shape), list(x.shape)
        offsets[dim] = self.random.randrange(x.shape[dim])
        sizes[dim] = self.random.randint(1, x.shape[dim] - offsets[dim])
        return self.builder.slice(x, tuple(offsets), tuple(sizes))

    def _share(self, x: Value) -> Value:
        """Multiply the heads of a group by one matrix."""
        if len(x.shape) < 3:
            return self.builder.reshape(x, (1, *x.shape))
        groups = x.shape[:-3]
        w = self.tensor([*groups, 1, x.shape[-1], self.random.choice(SIZES)])
        shared = self.builder.broadcast(w, (*groups, x.shape[-3], *w.shape[-2:]))
        return self.builder.matmul(x, shared)

    def _move(self, x: Value) -> Value:
        """Merge two dimensions, or permute all of them."""
        rank = len(x.shape)
        if rank >= 3 and self.random.random() < 0.5:
            dim = self.random.randrange(rank - 1)
            merged = x.shape[dim] * x.shape[dim + 1]
            return self.builder.reshape(x, (*x.shape[:dim], merged, *x.shape[dim + 2 :]))
        return self.builder.transpose(x, tuple(self.random.sample(range(rank), rank)))
