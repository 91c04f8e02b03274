"""Tensors of exact arithmetic on integers, and tiles of them: meaning, rules, text, calls."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from mirage.mlir_io import graph_from_text, graph_to_text
from mirage.semantics.check import InvalidGraph, check_graph
from mirage.semantics.domain import Float64, TypedFloat
from mirage.semantics.evaluation.evaluate import Sampled, evaluate, evaluate_sampled
from mirage.semantics.evaluation.tile_lookups import loaded
from mirage.semantics.integer_formula import Formula, read_step
from mirage.semantics.integer_ops import ops_of
from mirage.semantics.integers import Integers, TileIntegers
from mirage.semantics.ops.op import UnknownOp
from mirage.semantics.region import demand
from mirage.semantics.scalar import DType, UnaryFn
from mirage.semantics.signature import signature
from mirage.semantics.ugraph import (
    Axis,
    BlockGraph,
    External,
    KernelGraph,
    Launch,
    Output,
    TensorType,
    TileMap,
    Unary,
    Value,
)
from mirage.transforms.partition.calls import as_calls
from mirage.verify.shared_inputs.cut_calls import cut_calls
from torch_programs.external_calls import call_external

I1, I64 = DType.I1, DType.I64
LARGE = np.array([2**62 + 1, -(2**63), 2**63 - 1, -5, 7], np.int64)
FEW = np.array([1, 2, 2**60])


def value(*shape: int, dtype: DType = I64) -> Value:
    return Value(TensorType(shape, dtype))


def formula(*lines: str) -> Formula:
    return Formula(tuple(map(read_step, lines)))


PAIRS = formula("load 0", "load 1", "le 1 0 : i1")
TURNED = formula("load 1 0", "load 1", "constant 2 : i64", "mul 0 2 : i64", "sub 3 1 : i64")


def integers(made: Formula, result: Value, *operands: Value) -> KernelGraph:
    graph = KernelGraph("g", operands, (Integers(operands, (result,), made),), (result,))
    check_graph(graph)
    return graph


def tiles(
    made: Formula, result: Value, tile: Value, tile_map: TileMap, *operands: Value
) -> KernelGraph:
    """A kernel that computes a formula tile by tile."""
    params = tuple(Value(v.type) for v in operands)
    inner = TileIntegers(params, (tile,), tile_map, result.shape, made)
    body = BlockGraph(params, (inner,), (Output(tile, tile_map),))
    cut = zip(tile_map, result.shape, tile.shape, strict=True)
    grid = tuple(Axis(axes[0], -(-n // t)) for axes, n, t in cut if axes)
    graph = KernelGraph("g", operands, (Launch(operands, (result,), grid, body),), (result,))
    check_graph(graph)
    return graph


@pytest.mark.parametrize("domain", [Float64(), TypedFloat()])
def test_meaning(domain: Float64 | TypedFloat) -> None:
    x = np.stack([LARGE, LARGE[::-1], LARGE // 3])
    turned = integers(TURNED, value(5, 3), value(3, 5), value(3))
    ((found,),) = evaluate(turned, domain, [(x,), (FEW,)])
    np.testing.assert_array_equal(found, x.T * 2 - FEW)
    pairs = integers(PAIRS, value(5, 3, dtype=I1), value(5), value(3))
    ((found,),) = evaluate(pairs, domain, [(LARGE,), (FEW,)])
    assert found.dtype.kind == "f"
    np.testing.assert_array_equal(found, LARGE[:, None] >= FEW)
    floats = integers(formula("load 0", "cast 0 : f16"), value(5, dtype=DType.F16), value(5))
    ((found,),) = evaluate(floats, domain, [(np.arange(5) + 2047,)])
    exact = isinstance(domain, Float64)
    assert found.tolist() == (
        [2047, 2048, 2049, 2050, 2051] if exact else [2047, 2048, 2048, 2050, 2052]
    )


def test_parts_are_computed_of_parts() -> None:
    graph = integers(TURNED, value(5, 3), value(3, 5), value(3))
    wanted = demand(graph, [(np.array([1, 4]), np.array([2]))])
    x = np.stack([LARGE, LARGE[::-1], LARGE // 3])
    x_region, few_region = (wanted.regions[v] for v in graph.inputs)
    given = [
        Sampled((x[np.ix_(*x_region)],), x_region),  # type: ignore[arg-type]
        Sampled((FEW[few_region[0]],), few_region),
    ]
    (found,) = evaluate_sampled(graph, Float64(), given, wanted)
    np.testing.assert_array_equal(found.planes[0], (x.T * 2 - FEW)[[1, 4]][:, [2]])


def test_residues_are_not_integers() -> None:
    graph = integers(PAIRS, value(5, 3, dtype=I1), value(5), value(3))
    with pytest.raises(UnknownOp, match="got residues"):
        evaluate(graph, Float64(), [(LARGE, LARGE), (FEW, FEW)])


def test_a_tile_is_what_a_load_would_read() -> None:
    cuts: TileMap = (("n",), ("k",))
    tile = value(2, 2, dtype=DType.F32)
    graph = tiles(PAIRS, value(5, 3, dtype=I1), tile, cuts, value(5), value(3))
    counted = formula("load 0", "position 1 : i64", "add 0 1 : i64")
    exact = tiles(counted, value(5, 3), value(2, 3), (("n",), ()), value(5))
    for g, inputs, expected in (
        (graph, [LARGE, FEW], LARGE[:, None] >= FEW),
        (exact, [LARGE], LARGE[:, None] + np.arange(3)),
    ):
        ((found,),) = evaluate(g, Float64(), [(x,) for x in inputs])
        np.testing.assert_array_equal(found, expected)
        check_graph(loaded(g))
        assert not any(isinstance(op, TileIntegers) for op in loaded(g).ops)


def test_text() -> None:
    counted = formula("load 0", "position 1 : i64", "add 0 1 : i64")
    for graph in (
        integers(TURNED, value(5, 3), value(3, 5), value(3)),
        tiles(counted, value(5, 3), value(2, 3), (("n",), ()), value(5)),
    ):
        again = graph_from_text(graph_to_text(graph))
        check_graph(again.graph)
        assert signature(again.graph) == signature(graph)


def test_other_formulas_are_other_programs() -> None:
    pairs = integers(PAIRS, value(5, 3, dtype=I1), value(5), value(3))
    others = formula("load 0", "load 1", "lt 1 0 : i1")
    different = integers(others, value(5, 3, dtype=I1), value(5), value(3))
    assert signature(pairs) != signature(different)
    assert cut_calls(pairs).calls != cut_calls(different).calls
    assert cut_calls(pairs, rows=False).calls == cut_calls(pairs).calls
    turned = formula("load 1", "load 0", "le 1 0 : i1")
    other = integers(turned, value(5, 5, dtype=I1), value(5), value(5))
    straight = integers(PAIRS, value(5, 5, dtype=I1), value(5), value(5))
    assert cut_calls(other).calls != cut_calls(straight).calls
    assert signature(other) != signature(straight)
    assert len(cut_calls(pairs).graph.inputs) == 3  # the result is an input of any elements


def test_rules() -> None:
    with pytest.raises(InvalidGraph):
        integers(PAIRS, value(4, 3, dtype=I1), value(5), value(3))
    with pytest.raises(InvalidGraph, match="expected element type f32, got i64"):
        tiles(PAIRS, value(5, 3, dtype=I1), value(5, 3), ((), ()), value(5), value(3))
    with pytest.raises(InvalidGraph, match="step 0"):
        tiles(PAIRS, value(4, 3, dtype=I1), value(4, 3), ((), ()), value(5), value(3))
    with pytest.raises(InvalidGraph, match="C7"):
        tiles(TURNED, value(5, 3), value(4, 3), ((), ()), value(3, 5), value(3))
    with pytest.raises(InvalidGraph, match="stored as integers"):
        tiles(TURNED, value(5, 3, dtype=DType.F32), value(5, 3), ((), ()), value(3, 5), value(3))


def test_only_stores_read_integers() -> None:
    made = tiles(TURNED, value(5, 3), value(5, 3), ((), ()), value(3, 5), value(3))
    (launch,) = made.ops
    assert isinstance(launch, Launch)
    (inner,) = launch.body.ops
    more = Unary((inner.result,), (value(5, 3, dtype=DType.F32),), UnaryFn.EXP)
    body = BlockGraph(launch.body.params, (inner, more), (Output(more.result, ((), ())),))
    result = value(5, 3, dtype=DType.F32)
    graph = KernelGraph("g", made.inputs, (Launch(made.inputs, (result,), (), body),), (result,))
    with pytest.raises(InvalidGraph, match="only totals and formulas"):
        check_graph(graph)


@pytest.mark.parametrize(
    "made",
    [
        TURNED,
        formula("load 1 0", "load 1", "bit_and 0 1 : i64", "shift_left 2 1 : i64"),
        formula("load 1 0", "load 1", "constant 6364136223846793005 : i64", "mul 0 2 : i64",
                "add 3 1 : i64", "constant 5 : i64", "remainder 4 5 : i64", "cast 6 : i64"),
    ],
)  # fmt: skip
def test_calls_of_pytorch_compute_the_same(made: Formula) -> None:
    graph = integers(made, value(5, 3), value(3, 5), value(3))
    (op,) = graph.ops
    assert isinstance(op, Integers)
    assert ops_of(op)[-1].results == op.results
    x = np.stack([LARGE, LARGE[::-1], LARGE // 3])
    values = {v: torch.from_numpy(a) for v, a in zip(graph.inputs, (x, FEW), strict=True)}
    for call in as_calls(graph).ops:
        assert isinstance(call, External)
        values.update(zip(call.results, call_external(call, values), strict=True))
    ((expected,),) = evaluate(graph, Float64(), [(x,), (FEW,)])
    np.testing.assert_array_equal(values[op.result].numpy(), expected)
