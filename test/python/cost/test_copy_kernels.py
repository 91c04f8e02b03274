"""The cost of slices and joins between kernels."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from mirage.cost import H200
from mirage.cost.copy_kernels import OWN_TILES, copies_in, unfused_report
from mirage.cost.predict import features_in, predict
from mirage.search import superoptimize
from mirage.semantics.builder import Builder
from mirage.semantics.positions import gather
from mirage.semantics.scalar import DType, UnaryFn
from mirage.semantics.ugraph import Concat, KernelGraph, Slice, TensorType, Value
from mirage.transforms.lookups import fused


def graph_of(b: Builder, inputs: Sequence[Value], *outputs: Value) -> KernelGraph:
    return KernelGraph("g", tuple(inputs), tuple(b.ops), outputs)


def half(*shape: int) -> Value:
    return Value(TensorType(shape, DType.F16))


def test_a_block_in_one_piece_is_copied_only_to_an_output() -> None:
    b, x = Builder(), half(8, 64)
    rows, columns = b.slice(x, (2, 0), (3, 64)), b.slice(x, (0, 8), (8, 8))
    first, second = b.ops
    assert copies_in(graph_of(b, (x,), rows)) == {first}
    assert copies_in(graph_of(b, (x,), columns)) == {second}


def test_blocks_that_kernels_read_are_addresses() -> None:
    """Columns, every second element, and slices of these, in other shapes."""
    b, x = Builder(), half(8, 64)
    columns = b.slice(x, (0, 3), (8, 8))
    inner = b.reshape(b.slice(columns, (2, 1), (4, 6)), (2, 2, 6))
    odd = b.reshape(b.slice(b.reshape(x, (8, 32, 2)), (0, 0, 1), (8, 32, 1)), (8, 32))
    read = [b.unary(UnaryFn.EXP, v) for v in (columns, inner, odd)]
    assert not copies_in(graph_of(b, (x,), *read))


def test_blocks_without_steps_are_copied() -> None:
    b, x = Builder(), half(8, 64)
    flat = b.reshape(b.slice(x, (0, 8), (8, 8)), (64,))
    (first, _) = b.ops
    assert copies_in(graph_of(b, (x,), b.unary(UnaryFn.EXP, flat))) == {first}


def test_a_join_is_copied_where_a_part_is_there_already() -> None:
    b, x, y = Builder(), half(8, 16), half(8, 48)
    one, other = b.unary(UnaryFn.EXP, x), b.unary(UnaryFn.TANH, y)
    computed = b.concat((one, other), 1)
    given, twice = b.concat((one, y), 1), b.concat((other, other), 1)
    graph = graph_of(b, (x, y), computed)
    assert not copies_in(KernelGraph("g", graph.inputs, graph.ops[:3], graph.outputs))
    for joined in (given, twice):
        ops = tuple(op for op in b.ops if not isinstance(op, Concat) or joined in op.results)
        copies = copies_in(KernelGraph("g", (x, y), ops, (joined,)))
        assert {v for op in copies for v in op.results} == {joined}


def test_parts_are_written_in_the_shape_of_the_join() -> None:
    """Elements that alternate are written with a step of 2; parts in a shape that has no steps are
    copied."""
    b, x, y = Builder(), half(8, 16), half(8, 16)
    one, other = b.unary(UnaryFn.EXP, x), b.unary(UnaryFn.TANH, y)
    pairs = b.concat((b.reshape(one, (8, 16, 1)), b.reshape(other, (8, 16, 1))), 2)
    assert not copies_in(graph_of(b, (x, y), b.reshape(pairs, (8, 32))))
    b = Builder()
    one, other = b.unary(UnaryFn.EXP, x), b.unary(UnaryFn.TANH, y)
    turned = b.concat((b.reshape(one, (16, 8)), b.reshape(other, (16, 8))), 1)
    assert copies_in(graph_of(b, (x, y), turned)) == {b.ops[-1]}


@pytest.mark.parametrize("rows", [1, 100_000])
def test_bytes_decide_where_there_are_many(rows: int) -> None:
    b = Builder()
    b.slice(Value(TensorType((rows, 64), DType.F16)), (0, 0), (rows, 32))
    cost = unfused_report(b.ops[0], H200)
    assert cost.bytes_read == cost.bytes_written == 64 * rows
    assert cost.bound == ("latency" if rows == 1 else "dram")
    assert cost.time > cost.launch + max(cost.dram, cost.chain) - 1e-9


@pytest.mark.parametrize(
    ("dtype", "rate"), [(DType.F16, OWN_TILES * H200.mma_half), (DType.F32, H200.mma_f32)]
)
def test_a_product_takes_as_long_as_its_flops(dtype: DType, rate: float) -> None:
    """A small copy takes as long as any kernel."""
    b = Builder()
    for n in (16, 4096):
        x, y = (Value(TensorType((n, n), dtype)) for _ in range(2))
        b.matmul(x, y)
    small, large = (unfused_report(op, H200) for op in b.ops)
    assert small.bound == "latency"
    assert large.bound == "compute"
    assert large.compute == pytest.approx(2.0 * 4096**3 / (rate * H200.sms))
    assert large.time == pytest.approx(H200.launch + large.compute)


@pytest.mark.parametrize(
    ("columns", "measured"), [(4096, 415.0), (14336, 1140.0), (128256, 12994.0)]
)
def test_every_row_of_a_batch_reads_the_factor_again(columns: int, measured: float) -> None:
    """Measured on an H200, in µs: the kernels of single products."""
    b = Builder()
    x, w = (Value(TensorType(s, DType.BF16)) for s in ((32, 1, 4096), (4096, columns)))
    b.matmul(x, w)
    assert unfused_report(b.ops[0], H200).time == pytest.approx(measured, rel=0.25)


def test_elements_that_are_far_apart_take_longer() -> None:
    """Measured on an H200: a factor that is transposed, and keys whose heads are repeated."""
    b = Builder()
    w, x = (Value(TensorType(s, DType.BF16)) for s in ((128256, 4096), (32, 4096, 32, 128)))
    b.transpose(w, (1, 0))
    b.transpose(x, (0, 2, 1, 3))
    turned, heads = (unfused_report(op, H200) for op in b.ops)
    assert turned.time == pytest.approx(1446.0, rel=0.25)
    assert heads.dram == pytest.approx((heads.bytes_read + heads.bytes_written) / H200.dram_bytes)


def test_the_prediction_of_a_program_counts_them() -> None:
    def predicted(joined: bool) -> float:
        x, y = (Value(TensorType((8, 32), DType.F16)) for _ in range(2))
        b = Builder()
        outputs = [b.unary(UnaryFn.EXP, x), b.unary(UnaryFn.SQRT, y)]
        outputs += [b.concat((x, y), 1)] if joined else []
        program = KernelGraph("p", (x, y), tuple(b.ops), tuple(outputs))
        candidate = superoptimize(program, H200).candidates[0]
        cost = predict(candidate.graph, H200)
        assert cost is not None
        assert cost.time == pytest.approx(candidate.cost.time)
        return cost.time

    assert predicted(joined=True) > predicted(joined=False) + H200.launch


def test_views_of_inputs_are_no_more_in_a_cache_than_these() -> None:
    """The views are the whole tensor in another shape, parts of it, and parts of a tensor that a
    kernel has written."""
    b, x = Builder(), half(512, 1024)
    view = b.slice(b.reshape(x, (512, 2, 512)), (0, 1, 0), (512, 1, 512))
    for value, read in (
        (x, x.type.bytes),
        (b.reshape(x, (1024, 512)), x.type.bytes),
        (view, 2**19),
    ):
        own = Builder()
        own.ops += b.ops
        y = own.unary(UnaryFn.EXP, value)
        best = superoptimize(graph_of(own, (x,), y), H200).candidates[0]
        (features,) = features_in(best.graph, H200)
        assert read <= float(features.dram_read) <= 1.8 * read  # short rows take more


def test_rows_by_index_are_read() -> None:
    table, b = half(4096, 1024), Builder()
    indices = Value(TensorType((512,), DType.I64))
    y = b.unary(UnaryFn.EXP, gather(b, table, indices))
    best = superoptimize(graph_of(b, (table, indices), y), H200).candidates[0]
    (before,) = features_in(best.graph, H200)
    (after,) = features_in(fused(best.graph), H200)
    for features in (before, after):
        assert 512 * 1024 * 2 <= float(features.dram_read) <= 1.8 * 512 * 1024 * 2


def test_a_join_for_another_one_alone_is_copied_by_that_one() -> None:
    """Its bytes are read once and written once; a join that is read twice is copied itself."""
    b = Builder()
    x, side, top = (Value(TensorType(s, DType.F16)) for s in ((8, 16), (8, 1), (2, 17)))
    inner = b.concat((x, side), 1)
    outer = b.concat((inner, top), 0)
    graph = KernelGraph("g", (x, side, top), tuple(b.ops), (outer,))
    assert copies_in(graph) == {b.ops[1]}
    kept = KernelGraph("g", (x, side, top), tuple(b.ops), (outer, inner))
    assert copies_in(kept) == {*b.ops}


def test_what_kernels_compute_for_a_join_in_a_join_is_written_in_place() -> None:
    """Unless something else reads the inner join."""
    b, x = Builder(), half(8, 16)
    parts = [b.unary(fn, x) for fn in (UnaryFn.EXP, UnaryFn.TANH, UnaryFn.ABS)]
    inner = b.concat((parts[0], parts[1]), 0)
    other = b.concat((parts[2], b.unary(UnaryFn.NEG, x)), 0)
    outer = b.concat((inner, other), 1)
    assert not copies_in(graph_of(b, (x,), outer))
    assert {v for op in copies_in(graph_of(b, (x,), outer, inner)) for v in op.results} == {outer}


@pytest.mark.parametrize(
    ("cut", "copied"),
    [
        (((0, 4, 0), (8, 4, 16)), False),
        (((0, 0, 8), (8, 8, 8)), True),  # parts of a row
    ],
)
def test_a_table_is_a_part_of_a_tensor_if_its_rows_are_dense(
    cut: tuple[tuple[int, ...], tuple[int, ...]], copied: bool
) -> None:
    x, index = half(8, 8, 16), Value(TensorType((2,), DType.I64))
    b = Builder()
    part = Value(TensorType(cut[1], DType.F16))
    rows = gather(b, part, index)
    graph = graph_of(b, (part, index), b.unary(UnaryFn.EXP, rows))
    kernels = fused(superoptimize(graph, H200).candidates[0].graph)
    sliced = Slice((x,), (part,), cut[0])
    found = copies_in(KernelGraph("g", (x, index), (sliced, *kernels.ops), kernels.outputs))
    assert (sliced in found) == copied
