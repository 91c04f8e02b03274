"""The builder of kernel graphs: its results, and its messages about mistakes."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import mirage as mi
import numpy as np
import pytest
from mirage.frontend.errors import (
    ForeignValueError,
    FrontendError,
    GraphShapeError,
    GraphTypeError,
    InvalidGraphError,
)
from mirage.frontend.handles import Tensor
from mirage.frontend.kernel_graph import GraphBuilder
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import KernelGraph, Matmul, Softmax, Unary

Array = np.ndarray


def attention() -> GraphBuilder:
    graph = mi.new_kernel_graph()
    q = graph.new_input(dims=(4, 1, 8), dtype=mi.float16)
    k = graph.new_input(dims=(4, 8, 32), dtype=mi.float16)
    v = graph.new_input(dims=(4, 32, 8), dtype=mi.float16)
    graph.matmul(graph.softmax(graph.matmul(q, k)), v)
    return graph


def run(build: Callable[[GraphBuilder, Tensor], Tensor], x: Array) -> Array:
    graph = mi.new_kernel_graph()
    graph.mark_output(build(graph, graph.new_input(x.shape, mi.float64)))
    program = graph.build()
    check_graph(program)
    (y,) = evaluate_floats(program, [x])
    return y


def test_attention_as_in_the_documentation() -> None:
    program = attention().build()
    assert [type(op) for op in program.ops] == [Matmul, Softmax, Matmul]
    assert [v.name for v in program.inputs] == ["x0", "x1", "x2"]
    assert program.outputs[0].shape == (4, 1, 8)
    assert program.outputs[0].dtype is DType.F16
    check_graph(program)


X = np.random.default_rng(0).normal(size=(3, 4)) + 3.0

CASES: list[tuple[str, Callable[[GraphBuilder, Tensor], Tensor], Callable[[Array], Array]]] = [
    ("add", lambda g, x: x + 2, lambda x: x + 2),
    ("radd", lambda g, x: 2 + x, lambda x: x + 2),
    ("sub", lambda g, x: x - 2.5, lambda x: x - 2.5),
    ("rsub", lambda g, x: 2.5 - x, lambda x: 2.5 - x),
    ("mul", lambda g, x: 3 * x * x, lambda x: 3 * x * x),
    ("div", lambda g, x: x / 4, lambda x: x / 4),
    ("rdiv", lambda g, x: 1 / x, lambda x: 1 / x),
    ("neg", lambda g, x: -x, lambda x: -x),
    ("square", lambda g, x: x**2, lambda x: x**2),
    ("sqrt", lambda g, x: x**0.5, np.sqrt),
    ("cube", lambda g, x: x**3, lambda x: x**3),
    ("matmul", lambda g, x: x @ g.transpose(x), lambda x: x @ x.T),
    ("transpose", lambda g, x: g.transpose(x, 1, 0), lambda x: x.T),
    ("reshape", lambda g, x: g.reshape(x, (2, -1)), lambda x: x.reshape(2, 6)),
    ("broadcast", lambda g, x: g.broadcast(x, (2, 3, 4)), lambda x: np.broadcast_to(x, (2, 3, 4))),
    ("concat", lambda g, x: g.concat([x, x + 1], dim=-1), lambda x: np.concatenate([x, x + 1], -1)),
    ("slice", lambda g, x: g.slice(x, (1, 0), (2, 3)), lambda x: x[1:3, 0:3]),
    ("sum", lambda g, x: g.reduction(x, dim=1), lambda x: x.sum(1, keepdims=True)),
    ("max", lambda g, x: g.max(x, -1), lambda x: x.max(1, keepdims=True)),
    ("mean", lambda g, x: g.mean(x, (0, 1)), lambda x: x.mean(keepdims=True)),
    ("clamp", lambda g, x: g.clamp(x, 2.5, 3), lambda x: np.clip(x, 2.5, 3)),
    ("exp log", lambda g, x: g.log(g.exp(x)), lambda x: x),
    ("softmax", lambda g, x: g.softmax(x, dim=0), lambda x: np.exp(x) / np.exp(x).sum(0)),
    (
        "rms_norm",
        lambda g, x: g.rms_norm(x, eps=0.5, normalized_shape=(3, 4)),
        lambda x: x / np.sqrt((x**2).mean() + 0.5),
    ),
    (
        "layer_norm",
        lambda g, x: g.layer_norm(x, eps=0.5),
        lambda x: (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 0.5),
    ),
]


@pytest.mark.parametrize(("name", "build", "expected"), CASES, ids=[c[0] for c in CASES])
def test_meaning(
    name: str, build: Callable[[GraphBuilder, Tensor], Tensor], expected: Callable[[Array], Array]
) -> None:
    np.testing.assert_allclose(run(build, X), expected(X), rtol=1e-12)


@pytest.mark.parametrize("fn", list(UnaryFn), ids=lambda fn: fn.value)
def test_every_unary_function_has_a_method(fn: UnaryFn) -> None:
    graph = mi.new_kernel_graph()
    x = graph.new_input((4,), mi.float32)
    name = {"not": "not_"}.get(fn.value, fn.value)
    y = graph.gelu(x, "tanh") if fn is UnaryFn.GELU_TANH else getattr(graph, name)(x)
    graph.mark_output(y)
    (op,) = graph.build().ops
    assert isinstance(op, Unary)
    assert op.fn is fn


def test_lookups() -> None:
    graph = mi.new_kernel_graph()
    table, ids = graph.new_input((9, 4), mi.float32), graph.new_input((6,), "int64")
    rows = graph.gather(table, ids)
    near = graph.binary(BinaryFn.LT, graph.iota(6), 4)
    graph.mark_output(graph.keep(graph.reshape(near, (6, 1)), rows))
    built = graph.build()
    x, index = np.arange(36.0).reshape(9, 4), np.array([8, 0, 3, 3, 1, 2])
    (got,) = evaluate_floats(built, [x, index])
    np.testing.assert_array_equal(got, np.where(np.arange(6)[:, None] < 4, x[index], 0))
    with pytest.raises(GraphShapeError, match="indices of type i32 or i64"):
        graph.gather(table, table)


def test_norm_weights() -> None:
    graph = mi.new_kernel_graph()
    x = graph.new_input((3, 4), mi.float64)
    g = graph.new_input((4,), mi.float64)
    b = graph.new_input((4,), mi.float64)
    graph.mark_output(graph.layer_norm(x, g, b, eps=0.0))
    gain, bias = np.array([1.0, 2, 3, 4]), np.array([0.0, 1, 0, 1])
    (y,) = evaluate_floats(graph.build(), [X, gain, bias])
    expected = (X - X.mean(1, keepdims=True)) / X.std(1, keepdims=True) * gain + bias
    np.testing.assert_allclose(y, expected, rtol=1e-12)


def _matmul_shapes(g: GraphBuilder, x: Tensor) -> object:
    return g.matmul(x, x)


def _foreign(g: GraphBuilder, x: Tensor) -> object:
    return x + mi.new_kernel_graph().new_input((4, 8))


MISTAKES: list[tuple[Callable[[GraphBuilder, Tensor], object], type[FrontendError], str]] = [
    (
        _matmul_shapes,
        GraphShapeError,
        "matmul: expected [..., m, k] x [..., k, n], got (4, 8) x (4, 8)",
    ),
    (_foreign, ForeignValueError, "add: expected a value of this graph"),
    (lambda g, x: g.add(x, "1"), GraphTypeError, "add: expected a number, got str"),  # type: ignore[arg-type]
    (lambda g, x: g.add(1, 2), GraphTypeError, "expected at least one tensor"),
    (lambda g, x: g.exp(3), GraphTypeError, "exp: expected a tensor of this graph, got int"),  # type: ignore[arg-type]
    (
        lambda g, x: x + g.new_input((4, 8), mi.float32),
        GraphTypeError,
        "one element type, got 4x8xf16 and 4x8xf32",
    ),
    (
        lambda g, x: x + g.new_input((3, 8)),
        GraphShapeError,
        "expected shapes that broadcast, got (4, 8) and (3, 8)",
    ),
    (lambda g, x: g.reduction(x, 2), GraphShapeError, "expected dimensions in [-2, 2), got 2"),
    (lambda g, x: g.reduction(x, ()), GraphShapeError, "at least one dimension"),
    (
        lambda g, x: g.reduction(x, 0, "prod"),
        GraphTypeError,
        "expected fn in ['max', 'sum'], got 'prod'",
    ),
    (lambda g, x: g.reduction(x, 1.5), GraphTypeError, "expected integers, got 1.5"),  # type: ignore[arg-type]
    (lambda g, x: g.softmax(x, 5), GraphShapeError, "softmax: expected dimensions"),
    (
        lambda g, x: g.reshape(x, (5, 7)),
        GraphShapeError,
        "expected a shape of 32 elements, got (5, 7)",
    ),
    (lambda g, x: g.transpose(x, 0, 0), GraphShapeError, "expected a permutation of 2 dimensions"),
    (
        lambda g, x: g.concat([x, g.new_input((8,))], 0),
        GraphShapeError,
        "expected tensors of one rank, got ranks 2, 1",
    ),
    (lambda g, x: g.concat([], 0), GraphTypeError, "at least one tensor"),
    (lambda g, x: g.slice(x, (0, 4), (4, 8)), GraphShapeError, "expected a block inside (4, 8)"),
    (
        lambda g, x: g.slice(x, (0,), (4,)),
        GraphShapeError,
        "expected 2 offsets and 2 sizes, got 1 and 1",
    ),
    (lambda g, x: g.clamp(x), GraphTypeError, "expected min, max or both"),
    (lambda g, x: g.clamp(x, 2, 1), GraphShapeError, "expected min <= max, got 2 and 1"),
    (
        lambda g, x: g.rms_norm(x, g.new_input((4,))),
        GraphShapeError,
        "expected a weight of shape (8,), got (4,)",
    ),
    (
        lambda g, x: g.rms_norm(x, normalized_shape=(4,)),
        GraphShapeError,
        "expected trailing dimensions of (4, 8)",
    ),
    (
        lambda g, x: g.layer_norm(x, bias=x),
        GraphTypeError,
        "expected a gain together with the bias",
    ),
    (
        lambda g, x: g.gelu(x, "fast"),
        GraphTypeError,
        "expected approximate 'none' or 'tanh', got 'fast'",
    ),
    (
        lambda g, x: g.cast(x, "complex64"),
        GraphTypeError,
        "float64, float8_e4m3fn, float8_e5m2, int8 to int64 or bool, got 'complex64'",
    ),
    (lambda g, x: g.new_input((0, 2)), GraphShapeError, "expected positive dimensions, got (0, 2)"),
    (
        lambda g, x: g.new_input((4, 2), strides=(1, 4)),
        GraphShapeError,
        "expected row-major strides (2, 1), got (1, 4)",
    ),
    (
        lambda g, x: g.new_input((4,), name="x0"),
        InvalidGraphError,
        "expected a new identifier as name, got 'x0'",
    ),
    (
        lambda g, x: (x + g.new_input((8,)), g.build()),
        InvalidGraphError,
        "mark_output or exactly one value",
    ),
    (
        lambda g, x: g.build(),
        InvalidGraphError,
        "expected at least one op, got a graph of inputs only",
    ),
    (lambda g, x: mi.new_kernel_graph().build(), InvalidGraphError, "got an empty graph"),
]


@pytest.mark.parametrize(
    ("mistake", "kind", "message"), MISTAKES, ids=[m[2][:40] for m in MISTAKES]
)
def test_mistakes(
    mistake: Callable[[GraphBuilder, Tensor], object], kind: type[FrontendError], message: str
) -> None:
    graph = mi.new_kernel_graph()
    x = graph.new_input((4, 8))
    if "mark_output" in message:
        graph.exp(x)
    with pytest.raises(kind) as caught:
        mistake(graph, x)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{__file__}:"), "the message leads to the user's line"


def test_the_location_is_the_callers_line() -> None:
    graph = mi.new_kernel_graph()
    x = graph.new_input((4, 8))
    frame = inspect.currentframe()
    assert frame is not None
    line = frame.f_lineno + 2
    with pytest.raises(GraphShapeError) as caught:
        graph.matmul(x, x)
    assert caught.value.location is not None
    assert caught.value.location.line == line


def test_an_error_leaves_the_graph_as_it_was() -> None:
    graph = attention()
    before = graph.build()
    with pytest.raises(GraphShapeError):
        graph.add(
            graph.mean(Tensor(graph, before.inputs[0], None), 0),
            Tensor(graph, before.inputs[1], None),
        )
    graph.mark_output(Tensor(graph, before.outputs[0], None))
    assert graph.build().ops == before.ops


def test_unused_input_is_named() -> None:
    graph = attention()
    graph.new_input((3, 3), mi.float32, name="mask")
    with pytest.raises(InvalidGraphError, match=r"unused input 3 'mask' \(3x3xf32\)"):
        graph.build()


def test_values_that_no_output_needs_are_dropped() -> None:
    graph = mi.new_kernel_graph()
    x = graph.new_input((4, 8))
    y = graph.exp(x)
    graph.log(x)
    graph.mark_output(y)
    program: KernelGraph = graph.build()
    assert len(program.ops) == 1


def test_locations_are_kept() -> None:
    program = attention().program()
    assert {location.file for location in program.locations.values()} == {__file__}
    assert set(program.locations) == set(program.graph.ops)
