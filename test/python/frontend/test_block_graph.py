"""The builder of block graphs, against NumPy."""

from __future__ import annotations

from collections.abc import Callable

import mirage as mi
import numpy as np
import pytest
from mirage.frontend.block_graph import BlockGraphBuilder
from mirage.frontend.errors import (
    BlockPhaseError,
    ForeignValueError,
    FrontendError,
    GraphShapeError,
    GraphTypeError,
    InvalidGraphError,
)
from mirage.frontend.handles import Tensor, Tile
from mirage.frontend.kernel_graph import GraphBuilder
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.ugraph import Launch, Load, Loop

RNG = np.random.default_rng(1)


def rms_linear(n: int = 24) -> tuple[GraphBuilder, BlockGraphBuilder]:
    graph = mi.new_kernel_graph()
    x = graph.new_input((4, 32))
    w = graph.new_input((32, n))
    block = mi.new_threadblock_graph({"n": 3}, {"k": 4})
    xt = block.new_input(x, {"k": 1})
    wt = block.new_input(w, {"n": 1, "k": 0})
    total = block.accumulate(xt @ wt)
    squares = block.accumulate(block.sum(block.square(xt), 1))
    block.new_output(total * block.rsqrt(squares * (1 / 32) + 1e-6), {"n": 1}, shape=(4, n))
    graph.mark_output(*graph.customized([x, w], block))
    return graph, block


@pytest.mark.parametrize("n", [24, 23])
def test_rms_linear(n: int) -> None:
    graph, _ = rms_linear(n)
    program = graph.build()
    check_graph(program)
    x, w = RNG.normal(size=(4, 32)), RNG.normal(size=(32, n))
    (y,) = evaluate_floats(program, [x, w])
    np.testing.assert_allclose(y, x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-6) @ w, rtol=1e-12)


def test_ops_find_their_place() -> None:
    graph, _ = rms_linear()
    (launch,) = graph.build().ops
    assert isinstance(launch, Launch)
    loop, *after = launch.body.ops
    assert isinstance(loop, Loop)
    assert sum(isinstance(op, Load) for op in loop.body) == 2
    assert not any(isinstance(op, Load) for op in after)


def test_positional_maps_and_fmap() -> None:
    graph = mi.new_kernel_graph()
    x = graph.new_input((4, 6, 8))
    block = mi.new_threadblock_graph((2, 3), 4)
    tile = block.new_input(x, imap=(0, 1), fmap=2)
    assert tile.shape == (2, 2, 2)
    block.new_output(block.accumulate(block.sum(tile, 2)), omap=(0, 1))
    (y,) = graph.customized([x], block)
    assert y.shape == (4, 6, 1)
    graph.mark_output(y)
    program = graph.build()
    check_graph(program)
    data = RNG.normal(size=(4, 6, 8))
    np.testing.assert_allclose(
        evaluate_floats(program, [data])[0], data.sum(2, keepdims=True), rtol=1e-12
    )


def test_online_softmax_with_a_mask() -> None:
    graph = mi.new_kernel_graph()
    x = graph.new_input((4, 30))
    block = mi.new_threadblock_graph({"m": 2}, {"k": 4})
    t = block.mask(block.new_input(x, {"m": 0, "k": 1}), 1, ["k"], 30, float("-inf"))
    m = block.running_max(block.max(t, 1))
    total = block.accumulate(block.sum(block.exp(t - m), 1), rescale=m)
    block.new_output(block.log(total) + block.accumulate(m, "last"), {"m": 0})
    graph.mark_output(*graph.customized([x], block))
    program = graph.build()
    check_graph(program)
    data = RNG.normal(size=(4, 30)) * 10
    expected = np.log(np.exp(data).sum(1, keepdims=True))
    np.testing.assert_allclose(evaluate_floats(program, [data])[0], expected, rtol=1e-12)


def test_without_a_loop_and_two_outputs() -> None:
    graph = mi.new_kernel_graph()
    x = graph.new_input((4, 8), mi.bfloat16)
    block = mi.new_threadblock_graph([2])
    tile = block.new_input(x, [0])
    block.new_output(block.exp(tile), [0])
    block.new_output(block.sum(tile, 1), [0], dtype=mi.float32)
    a, b = graph.customized([x], block)
    assert (str(a.value.type), str(b.value.type)) == ("4x8xbf16", "4x1xf32")
    graph.mark_output(a, b)
    check_graph(graph.build())


def in_loop(block: BlockGraphBuilder, x: Tensor) -> Tile:
    return block.new_input(x, {"k": 1})


MISTAKES: list[tuple[Callable[[BlockGraphBuilder, Tensor], object], type[FrontendError], str]] = [
    (
        lambda b, x: in_loop(b, x) + b.accumulate(in_loop(b, x)),
        BlockPhaseError,
        "one side of the loop",
    ),
    (lambda b, x: b.new_output(in_loop(b, x), {"m": 0}), BlockPhaseError, "accumulate it"),
    (
        lambda b, x: b.accumulate(b.accumulate(in_loop(b, x))),
        BlockPhaseError,
        "got one after the loop",
    ),
    (
        lambda b, x: b.accumulate(in_loop(b, x), "mean"),
        GraphTypeError,
        "expected fn in ['last', 'max', 'sum']",
    ),
    (
        lambda b, x: b.accumulate(in_loop(b, x), rescale=in_loop(b, x)),
        BlockPhaseError,
        "running_max",
    ),
    (
        lambda b, x: b.new_input(x, {"z": 0}),
        GraphShapeError,
        "expected axes among ['k', 'm'], got 'z'",
    ),
    (
        lambda b, x: b.new_input(x, {"m": 2}),
        GraphShapeError,
        "expected a dimension of (4, 32) for axis 'm', got 2",
    ),
    (lambda b, x: b.new_input(x, [0, 1]), GraphShapeError, "at most 1 entries"),
    (
        lambda b, x: b.new_input(x, {"k": 0}, fmap=1),
        GraphShapeError,
        "expected one dimension for axis 'k'",
    ),
    (
        lambda b, x: b.new_output(b.accumulate(in_loop(b, x)), {}),
        GraphShapeError,
        "got none for ['m']",
    ),
    (
        lambda b, x: b.new_output(b.new_input(x, {"m": 0}), {"m": 0}, shape=(9, 9)),
        GraphShapeError,
        "tiles cover",
    ),
    (lambda b, x: b.new_input(3), GraphTypeError, "expected a tensor of a kernel graph, got int"),  # type: ignore[arg-type]
    (lambda b, x: b.exp(x), GraphTypeError, "expected a tile of this graph, got Tensor"),  # type: ignore[arg-type]
    (
        lambda b, x: b.mask(in_loop(b, x), 2, ["k"], 32),
        GraphShapeError,
        "mask: expected a dimension",
    ),
    (lambda b, x: b.launch([x]), InvalidGraphError, "expected a block graph with outputs"),
    (
        lambda b, x: mi.new_threadblock_graph({"m": 0}),
        GraphShapeError,
        "positive extent for 'm', got 0",
    ),
    (
        lambda b, x: mi.new_threadblock_graph({"m": 2}, {"m": 2}),
        GraphShapeError,
        "not in the grid, got 'm'",
    ),
    (
        lambda b, x: mi.new_threadblock_graph({}, {"k": 2, "l": 2}),
        GraphShapeError,
        "expected one loop, got 2",
    ),
    (lambda b, x: mi.new_threadblock_graph((1, 2, 3, 4)), GraphShapeError, "at most 3"),
]


@pytest.mark.parametrize(
    ("mistake", "kind", "message"), MISTAKES, ids=[m[2][:40] for m in MISTAKES]
)
def test_mistakes(
    mistake: Callable[[BlockGraphBuilder, Tensor], object], kind: type[FrontendError], message: str
) -> None:
    graph = mi.new_kernel_graph()
    x = graph.new_input((4, 32))
    block = mi.new_threadblock_graph({"m": 2}, {"k": 4})
    with pytest.raises(kind) as caught:
        mistake(block, x)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{__file__}:")


def test_the_inputs_of_customized_must_match() -> None:
    graph, block = rms_linear()
    x, w = (Tensor(graph, v, None) for v in graph.build().inputs)
    extra = graph.new_input((2, 2))
    with pytest.raises(ForeignValueError, match="among the inputs"):
        graph.customized([x], block)
    with pytest.raises(InvalidGraphError, match="unused"):
        graph.customized([x, w, extra], block)


def test_a_loop_needs_accumulators() -> None:
    graph = mi.new_kernel_graph()
    x = graph.new_input((4, 32))
    block = mi.new_threadblock_graph({"m": 2}, {"k": 4})
    block.new_output(block.new_input(x, {"m": 0}), {"m": 0})
    with pytest.raises(BlockPhaseError, match="at least one accumulator"):
        graph.customized([x], block)
