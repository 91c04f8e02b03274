"""MLIR to data and back."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import mirage as mi
import pytest
from graph_equality import assert_same
from hypothesis import given, settings
from hypothesis import strategies as st
from mirage import ir
from mirage.errors import SourceLocation
from mirage.mlir_io import (
    GraphIOError,
    InputNote,
    graph_from_text,
    graph_to_text,
    graphs_of,
    read_graph,
    write_graph,
)
from mirage.mlir_io.attributes import FORMS
from mirage.mlir_io.plain_ops import rows
from mirage.mlir_io.text import MalformedTextError
from mirage.semantics.alternatives import Alternatives, Holds, VerdictNote
from mirage.semantics.argsort import argsort
from mirage.semantics.builder import Builder
from mirage.semantics.decompose import decompose
from mirage.semantics.integer_formula import Formula, read_step
from mirage.semantics.integer_totals import IntegerCumulate, IntegerReduce
from mirage.semantics.integers import Integers
from mirage.semantics.numbers import read
from mirage.semantics.positions import gather, iota
from mirage.semantics.row_updates import IndexCopy
from mirage.semantics.scalar import BinaryFn, CumulateFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import (
    BlockGraph,
    Constant,
    External,
    KernelGraph,
    Launch,
    Loop,
    Op,
    Output,
    Slice,
    TensorType,
    Value,
)
from mirage.workloads import all_workloads, get
from thorough import some_of

WORKLOADS = [w.name for w in all_workloads() if "bs8" not in w.name and "bs16" not in w.name]


def round_trip(graph: KernelGraph, form: str | None = None) -> KernelGraph:
    text = graph_to_text(graph, form=form)
    read = graph_from_text(text)
    assert read.form == form
    assert_same(graph, read.graph)
    assert graph_to_text(read.graph, form=form) == text
    return read.graph


@pytest.mark.parametrize("name", some_of(WORKLOADS, 8))
def test_workloads(name: str) -> None:
    graph = get(name).graph()
    round_trip(graph, "reference")
    round_trip(decompose(graph, stable=True), "reference")


def every_op() -> KernelGraph:
    b = Builder()
    x = Value(TensorType((4, 8), DType.BF16), "x")
    y = Value(TensorType((4, 8), DType.F32))
    for fn in UnaryFn:
        b.unary(fn, x)
    for fn in BinaryFn:
        b.binary(fn, x, y)
    for fn in ReduceFn:
        b.reduce(fn, x, (0, 1))
    gain = Value(TensorType((8,), DType.F32))
    b.layer_norm(b.rms_norm(b.layer_norm(x, gain, gain, eps=1e-7), gain), dims=2)
    b.softmax(b.cast(x, DType.F64), 0)
    b.concat((b.slice(x, (1, 2), (2, 3)), b.slice(x, (0, 0), (2, 5))), 1)
    b.broadcast(b.reshape(b.transpose(x, (1, 0)), (2, 1, 16)), (3, 2, 5, 16))
    for number in (0.0, -0.0, 1e-300, math.inf, -math.inf, 0.1):
        b.constant(number, DType.F16)
    gather(b, x, iota(b, (4, 2), 0, DType.I32))
    index = Value(TensorType((1,), DType.I64), "index")
    steps = ("load -1", "constant -3 : i64", "mul 0 1 : i64", "cast 2 : bf16")
    thrice = Integers((index,), (Value(x.type),), Formula(tuple(map(read_step, steps))))
    b.ops.append(thrice)
    total = IntegerReduce((index,), (Value(index.type),), ReduceFn.MAX, (0,))
    so_far = (CumulateFn.SUM, 0, True, True)
    b.ops.extend([total, IntegerCumulate((index,), (Value(index.type),), *so_far)])
    argsort(b, x, 1, 3, descending=True)
    b.cumulate(CumulateFn.SUM, x, 1, exclusive=True)
    b.cumulate(CumulateFn.MAX, x, 0, reversed=True)
    b.cumulate(CumulateFn.PROD, x, 1)
    row = b.slice(x, (0, 0), (1, 8))
    b.ops.append(IndexCopy((x, index, row), (Value(x.type),), 0))
    out = b.matmul(x, b.transpose(x, (1, 0)))
    b.ops.append(
        External(
            (x, y),
            (Value(TensorType((4,), DType.F32)), Value(TensorType((), DType.F16))),
            "aten.thing.Tensor",
            (
                ("dims", (1, 2)),
                ("flag", True),
                ("kind", "tanh"),
                ("nothing", None),
                ("scale", 0.5),
                ("size", 3),
            ),
        )
    )
    return KernelGraph("every_op", (x, y, gain, index), tuple(b.ops), (out, x))


def test_every_tensor_op() -> None:
    graph = every_op()
    round_trip(graph)
    tested = {type(op) for op in graph.ops}
    with ir.Context() as context:
        there = context.is_registered_operation
        assert {r.kind for r in rows(in_block=False) if there(f"kernel.{r.mnemonic}")} <= tested


NUMBERS = st.one_of(
    st.fractions(),
    st.just(Fraction(10**600, 3)),
    st.floats(allow_nan=False),
    st.builds(lambda a, b: read(a) * read(b), *[st.floats(1e-6, 1e6)] * 2),
)


@given(NUMBERS, st.booleans())
def test_constants_stay_exact(number: Fraction | float, in_block: bool) -> None:
    b = Builder(in_block=in_block)
    constant = b.constant(number)
    if in_block:
        x = Value(TensorType((4,), DType.F32))
        tile = b.binary(BinaryFn.MUL, b.load(x, ((),), (4,)), constant)
        body = BlockGraph((x,), tuple(b.ops), (Output(tile, ((),)),))
        op = Launch((x,), (Value(x.type),), (), body)
        graph = KernelGraph("g", (x,), (op,), op.results)
    else:
        graph = KernelGraph("g", (), tuple(b.ops), (constant,))
    round_trip(graph)


def test_exact_must_round_to_the_double() -> None:
    text = graph_to_text(KernelGraph("g", (), (op := constant_op(0.1),), (op.result,)))
    assert "exact" not in text
    for wrong in ("1/3", "0.1", "x", "1/0"):
        bad = text.replace(" : tensor<f32>\n", f' {{exact = "{wrong}"}} : tensor<f32>\n', 1)
        with pytest.raises(GraphIOError, match=r"expected a fraction whose nearest double is 0\.1"):
            graph_from_text(bad)


def constant_op(value: float) -> Constant:
    return Constant((), (Value(TensorType((), DType.F32)),), value)


def attention_kernel() -> KernelGraph:
    """A loop, accumulators of every kind, masks, several outputs."""
    graph = mi.new_kernel_graph("kernels")
    x, w = graph.new_input((4, 30), name="x"), graph.new_input((30, 6), name="w")
    block = mi.new_threadblock_graph({"m": 2}, {"k": 4}, warps=8, stages=3)
    xt = block.mask(block.new_input(x, {"m": 0, "k": 1}), 1, ["k"], 30, -math.inf)
    wt = block.new_input(w, {"k": 0})
    m = block.running_max(block.max(xt, 1))
    e = block.cast(block.exp(xt - m), mi.float16)
    out = block.accumulate(e @ wt, rescale=m)
    total = block.accumulate(block.sum(e, 1), rescale=m)
    largest = block.accumulate(block.max(xt, 1), "max")
    block.new_output(out / total, {"m": 0})
    block.new_output(
        block.transpose(largest + block.accumulate(m, "last")), {"m": 1}, dtype=mi.float32
    )
    graph.mark_output(*graph.customized([x, w], block))
    return graph.build()


def test_kernels() -> None:
    graph = round_trip(attention_kernel(), "selected")
    (launch,) = graph.ops
    assert isinstance(launch, Launch)
    assert (launch.schedule.warps, launch.schedule.stages) == (8, 3)


NESTED = """
kernel.graph @nested(%x: tensor<32x32xf32>) -> tensor<32x1xf32> {
  %o = kernel.launch(%x) grid [] : (tensor<32x32xf32>) -> tensor<32x1xf32> {
  ^bb0(%gx: tensor<32x32xf32>):
    %a = block.loop [i = 2] {
      %b = block.loop [j = 4] {
        %t = block.load %gx [[i, j], []] : tensor<32x32xf32> -> !block.tile<4x32xf32>
        %u = block.transpose %t [1, 0] : (!block.tile<4x32xf32>) -> !block.tile<32x4xf32>
        %m = block.reduce max %u dims [1] : (!block.tile<32x4xf32>) -> !block.tile<32x1xf32>
        block.accumulate max %m : !block.tile<32x1xf32>
      } : !block.tile<32x1xf32>
      block.accumulate max %b : !block.tile<32x1xf32>
    } : !block.tile<32x1xf32>
    block.store %a [[], []] : !block.tile<32x1xf32>
  }
  kernel.return %o : tensor<32x1xf32>
}
"""


def test_nested_loops() -> None:
    (launch,) = round_trip(graph_from_text(NESTED).graph).ops
    assert isinstance(launch, Launch)
    (outer,) = launch.body.ops
    assert isinstance(outer, Loop)
    assert isinstance(outer.body[0], Loop)


def test_what_tensors_hold() -> None:
    x = Value(TensorType((8,), DType.F32))
    out = Value(TensorType((8,), DType.F32))
    b = Builder()
    y = Value(x.type)
    z = b.unary(UnaryFn.SQUARE, y)
    program = KernelGraph("p", (y,), tuple(b.ops), (z,))
    holds = (Holds(False, ((0, 1, 2), (3, 4, 5))), Holds(True, ()))
    op = Alternatives((x,), (out,), (program,) * 3, None, None, holds)
    (found,) = round_trip(KernelGraph("g", (x,), (op,), (out,)), "candidates").ops
    assert isinstance(found, Alternatives)
    assert found.holds == holds


def test_alternatives_verdicts_costs() -> None:
    reference, candidate = get("softmax_n256").graph(), decompose(get("softmax_n256").graph())
    x = reference.inputs[0]
    out = Value(reference.outputs[0].type)
    verdicts = (VerdictNote("probable", -67, 'three "draws"\nover two primes'),)
    programs = tuple(unnamed(g, i) for i, g in enumerate((reference, candidate)))
    op = Alternatives((x,), (out,), programs, verdicts, (None, 0.25))
    graph = KernelGraph("f", (x,), (op,), (out,))
    back = round_trip(graph, "verified")
    (found,) = back.ops
    assert isinstance(found, Alternatives)
    assert found.verdicts == verdicts
    assert found.costs == (None, 0.25)
    bare = Alternatives((x,), (out,), programs)
    round_trip(KernelGraph("f", (x,), (bare,), (out,)), "candidates")


def unnamed(graph: KernelGraph, number: int) -> KernelGraph:
    """Return ``graph`` as it is in a region: without names."""
    text = graph_to_text(graph).replace(' {kernel.name = "x"}', "")
    read = graph_from_text(text).graph
    return KernelGraph(f"alternative{number}", read.inputs, read.ops, read.outputs)


@pytest.mark.parametrize("kind", ["unknown", "refuted", "probable", "proved"])
def test_every_verdict(kind: str) -> None:
    reference = unnamed(get("softmax_n256").graph(), 0)
    x, out = Value(reference.inputs[0].type), Value(reference.outputs[0].type)
    op = Alternatives(
        (x,), (out,), (reference, unnamed(get("softmax_n256").graph(), 1)), (VerdictNote(kind),)
    )
    round_trip(KernelGraph("f", (x,), (op,), (out,)))


@pytest.mark.parametrize("form", FORMS[:5])
def test_forms(form: str) -> None:
    text = graph_to_text(get("mm_1024").graph(), form=form)
    assert f"form = #kernel.form<{form}>" in text
    assert graph_from_text(text).form == form


def test_names_of_inner_values() -> None:
    b = Builder()
    x = Value(TensorType((4,), DType.F32), "x")
    y = b.unary(UnaryFn.EXP, x)
    op = type(b.ops[0])((x,), (Value(y.type, "weights"),), UnaryFn.EXP)
    graph = KernelGraph("f", (x,), (op,), op.results)
    text = graph_to_text(graph, debug_info=True)
    assert graph_from_text(text).graph.outputs[0].name == "weights"


def test_places_in_the_users_program() -> None:
    graph = mi.new_kernel_graph()
    x = graph.new_input((4, 8))
    graph.mark_output(graph.softmax(x))
    program = graph.program()
    with ir.Context():
        module = ir.Module.create(ir.Location.unknown())
        with ir.InsertionPoint(module.body):
            write_graph(program.graph, locations=program.locations)
        (op,) = graphs_of(module.operation)
        read = read_graph(op)
        place = read.source(read.graph.ops[0])
        assert isinstance(place, SourceLocation)
        assert place.file == __file__
        with ir.InsertionPoint(module.body):  # and back, in the same context
            again = KernelGraph("again", read.graph.inputs, read.graph.ops, read.graph.outputs)
            write_graph(again, locations=read.locations)
        assert module.operation.get_asm(enable_debug_info=True).count(Path(__file__).name) >= 1
        second = read_graph(list(graphs_of(module.operation))[1])
        assert second.source(second.graph.ops[0]) == place


def test_weights_are_marked() -> None:
    text = graph_to_text(get("mm_1024").graph(), notes={1: InputNote("proj.weight")})
    assert 'kernel.parameter = "proj.weight"' in text
    read = graph_from_text(text)
    assert read.notes == {1: InputNote("proj.weight")}
    assert [v.name for v in read.graph.inputs] == ["a", "b"]


def test_the_enums_agree_with_the_dialect() -> None:
    """Attributes contain indices: the Python table must have the dialect's order."""
    from mirage.dialects import scalar

    for ours, theirs in (
        (UnaryFn, scalar.UnaryFn),
        (BinaryFn, scalar.BinaryFn),
        (ReduceFn, scalar.ReduceFn),
        (CumulateFn, scalar.CumulateFn),
    ):
        assert [f.value for f in ours] == [str(f) for f in theirs]
        assert [int(f) for f in theirs] == list(range(len(theirs)))


def test_form_names_agree_with_the_dialect() -> None:
    from mirage.dialects import kernel

    assert [str(f) for f in kernel.Form] == list(FORMS)


REFUSED = [
    (
        "kernel.graph @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
        "  %y = kernel.invoke @k::@f(%x) grid [1, 1, 1] block [32, 1, 1] shared 0 : "
        "(tensor<4xf32>) -> tensor<4xf32>\n"
        "  kernel.return %y : tensor<4xf32>\n}",
        "expected an op that µGraph data has, got kernel.invoke",
    ),
    (
        NESTED.replace(
            "block.loop [i = 2] {", "block.loop [i = 2] attributes {stages = 2 : i64} {"
        ),
        "a loop before scheduling",
    ),
]


@pytest.mark.parametrize(("text", "message"), REFUSED, ids=[r[1] for r in REFUSED])
def test_refused(text: str, message: str) -> None:
    with pytest.raises(GraphIOError) as caught:
        graph_from_text(text)
    assert message in str(caught.value)
    assert caught.value.op is not None


MALFORMED = [
    (
        "kernel.graph @f(%x: tensor<4xf32>) -> tensor<4xf32> {\n  kernel.return %y : "
        "tensor<4xf32>\n}",
        "in.mlir:2:17: ",
    ),
    ("module {}", "in.mlir: expected one kernel.graph, got none"),
    ("kernel.graph", "in.mlir:1:"),
    ("\x00\xff", "in.mlir"),
]


@pytest.mark.parametrize(
    ("text", "message"), MALFORMED, ids=["undefined", "none", "truncated", "binary"]
)
def test_malformed_text(text: str, message: str) -> None:
    with pytest.raises(MalformedTextError) as caught:
        graph_from_text(text, where="in.mlir")
    assert str(caught.value).startswith(message)


def test_data_without_a_counterpart_leaves_nothing_behind() -> None:
    class Strange(Op):
        pass

    x = Value(TensorType((4,), DType.F32))
    out = Value(x.type)
    with ir.Context():
        module = ir.Module.create(ir.Location.unknown())
        with ir.InsertionPoint(module.body):
            with pytest.raises(GraphIOError, match="got Strange"):
                write_graph(KernelGraph("f", (x,), (Strange((x,), (out,)),), (out,)))
            with pytest.raises(GraphIOError, match="defined before it is used"):
                write_graph(KernelGraph("f", (x,), (), (out,)))
            with pytest.raises(ir.MLIRError):
                write_graph(KernelGraph("f", (x,), (Slice((x,), (out,), (1,)),), (out,)))
        assert list(module.body.operations) == []


def test_truncated_text_is_malformed_or_refused() -> None:
    text = graph_to_text(attention_kernel(), form="selected")
    for end in range(8, len(text) - 3, len(text) // 40):
        with pytest.raises((MalformedTextError, GraphIOError)):
            graph_from_text(text[:end])


SHAPES = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)


@st.composite
def programs(draw: st.DrawFn) -> KernelGraph:
    """A chain of random tensor ops."""
    b = Builder()
    shape = draw(SHAPES)
    dtypes = st.sampled_from([d for d in DType if not d.is_integer and not d.is_eight_bits])
    inputs = [Value(TensorType(shape, draw(dtypes)), f"x{i}") for i in range(2)]
    values = list(inputs)
    for _ in range(draw(st.integers(1, 8))):
        x = draw(st.sampled_from(values))
        rank = len(x.shape)
        dims = draw(st.sets(st.integers(0, rank - 1), min_size=1).map(sorted))
        number = draw(st.floats(allow_nan=False, width=32))
        choices = [
            lambda x=x: b.unary(draw(st.sampled_from(list(UnaryFn))), x),
            lambda x=x, n=number: b.binary(draw(st.sampled_from(list(BinaryFn))), x, b.constant(n)),
            lambda x=x, d=dims: b.reduce(draw(st.sampled_from(list(ReduceFn))), x, tuple(d)),
            lambda x=x: b.cast(x, draw(dtypes)),
            lambda x=x, r=rank: b.transpose(x, tuple(draw(st.permutations(range(r))))),
            lambda x=x: b.reshape(x, (1, *x.shape)),
            lambda x=x, d=dims: b.concat((x, x), d[0]),
            lambda x=x, d=dims: b.softmax(x, d[0]),
            lambda x=x, r=rank, n=number: b.layer_norm(x, eps=abs(n), dims=draw(st.integers(1, r))),
            lambda x=x: b.broadcast(x, (3, *x.shape)),
        ]
        values.append(draw(st.sampled_from(choices))())
    return KernelGraph(
        "random", tuple(inputs), tuple(b.ops), (values[-1], draw(st.sampled_from(values)))
    )


@settings(max_examples=60, deadline=None)
@given(programs())
def test_random_programs(graph: KernelGraph) -> None:
    round_trip(graph)
