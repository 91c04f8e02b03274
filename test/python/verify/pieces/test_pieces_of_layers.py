"""Layers as people write them, searched kernel by kernel: every kernel of the search is proved."""

from __future__ import annotations

import pytest
from example_programs import graphs
from mirage.cost import TARGETS
from mirage.search import SearchLimits
from mirage.search.superoptimize import Planner
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, Value
from mirage.transforms import stabilize
from mirage.verify.evidence.proofs.exact import accounts_of, show
from mirage.verify.pieces.kernel_by_kernel import Hint, Piece, Shown
from thorough import some_of

ADD, SUB, MUL, DIV = BinaryFn.ADD, BinaryFn.SUB, BinaryFn.MUL, BinaryFn.DIV
LIMITS = SearchLimits(budget=600.0, candidates=3, choices=2, plans=12)
WIDTH = 64


class Layers(Builder):
    """A program written op by op; inputs are made where they are needed."""

    def __init__(self, dtype: DType = DType.F16) -> None:
        super().__init__()
        self.inputs: list[Value] = []
        self.dtype = dtype

    def tensor(self, *shape: int) -> Value:
        """A further input."""
        self.inputs.append(graphs.tensor(*shape, dtype=self.dtype))
        return self.inputs[-1]

    def graph(self, y: Value) -> KernelGraph:
        """The program that computes ``y``."""
        return KernelGraph("layers", tuple(self.inputs), tuple(self.ops), (y,))

    def mean(self, x: Value) -> Value:
        """Over the last dimension."""
        total = self.reduce(ReduceFn.SUM, x, (len(x.shape) - 1,))
        return self.binary(MUL, total, self.constant(1.0 / x.shape[-1]))

    def norm(self, x: Value, form: str) -> Value:
        """Layer norm with gain and bias, written in one of three ways."""
        gain, bias = self.tensor(x.shape[-1]), self.tensor(x.shape[-1])
        if form == "composite":
            return self.layer_norm(x, gain, bias)
        mean = self.mean(x)
        centred = self.binary(SUB, x, mean)
        if form == "by hand":
            variance = self.mean(self.unary(UnaryFn.SQUARE, centred))
        else:
            squares = self.mean(self.unary(UnaryFn.SQUARE, x))
            variance = self.binary(SUB, squares, self.unary(UnaryFn.SQUARE, mean))
        variance = self.binary(ADD, variance, self.constant(1e-5))
        scaled = self.binary(MUL, centred, self.unary(UnaryFn.RSQRT, variance))
        return self.binary(ADD, self.binary(MUL, scaled, gain), bias)

    def linear(self, x: Value, width: int) -> Value:
        """A linear layer with a bias, with the weight stored as in PyTorch."""
        weight = self.transpose(self.tensor(width, x.shape[-1]), (1, 0))
        return self.binary(ADD, self.matmul(x, weight), self.tensor(width))


def norm(form: str, dtype: DType = DType.F16) -> KernelGraph:
    b = Layers(dtype)
    return b.graph(b.norm(b.tensor(2, 48, WIDTH), form))


def group_norm(groups: int, *shape: int) -> KernelGraph:
    """After a ReLU, affine."""
    b = Layers()
    x = b.unary(UnaryFn.RELU, b.tensor(*shape))
    batch, channels = shape[:2]
    y = b.layer_norm(b.reshape(x, (batch, groups, x.type.size // (batch * groups))))
    gain, bias = (b.reshape(b.tensor(channels), (channels, 1, 1)) for _ in range(2))
    return b.graph(b.binary(ADD, b.binary(MUL, b.reshape(y, shape), gain), bias))


def block(tokens: int, activation: UnaryFn) -> KernelGraph:
    """Norm, linear layer, activation, linear layer, residual."""
    b = Layers()
    x = b.tensor(2, tokens, WIDTH)
    hidden = b.unary(activation, b.linear(b.norm(x, "composite"), 4 * WIDTH))
    return b.graph(b.binary(ADD, x, b.linear(hidden, WIDTH)))


def post_norm(tokens: int) -> KernelGraph:
    b = Layers()
    x, y = b.tensor(2, tokens, WIDTH), b.tensor(2, tokens, WIDTH)
    return b.graph(b.norm(b.binary(ADD, x, b.linear(y, WIDTH)), "by hand"))


def with_class_token(tokens: int) -> KernelGraph:
    """An additional leading token, positions added, then a norm and a linear layer."""
    b = Layers()
    x, first = b.tensor(2, tokens, WIDTH), b.tensor(1, 1, WIDTH)
    joined = b.concat((b.broadcast(first, (2, 1, WIDTH)), x), 1)
    placed = b.binary(ADD, joined, b.tensor(1, tokens + 1, WIDTH))
    return b.graph(b.linear(b.norm(placed, "composite"), 3 * WIDTH))


def attention(tokens: int, keys: int, bias: bool) -> KernelGraph:
    b = Layers()
    q, k, v = (b.tensor(2, 4, n, 32) for n in (tokens, keys, keys))
    scores = b.matmul(q, b.transpose(k, (0, 1, 3, 2)))
    scores = b.binary(MUL, scores, b.constant(32**-0.5))
    if bias:
        scores = b.binary(ADD, scores, b.tensor(4, tokens, keys))
    return b.graph(b.matmul(b.softmax(scores, -1), v))


PROGRAMS = {
    "layer norm, composite": norm("composite"),
    "layer norm by hand": norm("by hand"),
    "layer norm by hand, f32": norm("by hand", DType.F32),
    "layer norm of E[x^2] - E[x]^2": norm("of squares"),
    "group norm of 25 pixels": group_norm(4, 2, 16, 5, 5),
    "group norm in one group": group_norm(1, 2, 32, 8, 8),
    "group norm of a large image": group_norm(32, 2, 320, 64, 64),
    "pre-norm block, 48 tokens": block(48, UnaryFn.GELU),
    "pre-norm block, 17 tokens": block(17, UnaryFn.SILU),
    "post-norm": post_norm(48),
    "class token, 17": with_class_token(16),
    "class token, 197": with_class_token(196),
    "attention with bias": attention(48, 48, True),
    "attention, 16 and 17 tokens": attention(16, 17, False),
}


def pieces_of(graph: KernelGraph) -> list[Piece]:
    """The requests of verification kernel by kernel, and each kernel that was solved by itself."""
    planner = Planner(graph, TARGETS["sm_90a"], LIMITS)
    regions = {}
    solve = planner._solve

    def keep(region):
        regions.setdefault(region.key, region)
        return solve(region)

    planner._solve = keep
    result = planner.run()
    found: dict[str, Piece] = {}

    def look(piece: Piece) -> Shown:
        if not piece.trivial:
            found.setdefault(piece.key, piece)
        return Shown(float("-inf"))

    for candidate in result.candidates:
        hint = Hint(planner.source, planner.graph, candidate.stored)
        accounts_of(hint, stabilize(candidate.graph).graph, look)
    for key, region in regions.items():
        for pick in planner.memo[key][:2]:
            solution = planner.solver.write(pick)
            if solution is not None:
                inputs, outputs = region.graph.inputs, region.graph.outputs
                kernel = KernelGraph("kernel", inputs, tuple(solution.ops), outputs)
                look(Piece(region.graph, stabilize(kernel).graph, (), ()))
    return list(found.values())


@pytest.mark.parametrize("name", some_of(PROGRAMS, 8))
def test_every_kernel_is_shown(name):
    pieces = pieces_of(PROGRAMS[name])
    assert pieces
    for piece in pieces:
        shown = show(piece, 1)
        assert shown.bound_log2 <= -60.0, [e.text for e in shown.evidence]
