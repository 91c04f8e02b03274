"""The graphs of the literature are found at their sizes, as the cheapest candidate."""

from __future__ import annotations

from example_programs.search_programs import (
    attention,
    layer_norm_linear_gelu,
    lora,
    merged_heads_linear,
    n_transformer,
    qk_norm_attention,
    residual_rms_linear,
    rms_linear,
    rms_swiglu_down,
    softmax,
    swiglu,
)
from mirage.cost import H200
from mirage.search import superoptimize
from mirage.semantics.scalar import UnaryFn
from mirage.semantics.ugraph import (
    KernelGraph,
    Launch,
    Load,
    Loop,
    Matmul,
    Op,
    Reduce,
    Reshape,
    Unary,
    all_ops,
)
from mirage.transforms import stabilize
from mirage.workloads import get
from mirage.workloads.served import rms_silu_linear


def launches(graph: KernelGraph) -> list[Launch]:
    best = superoptimize(graph, H200).candidates[0].graph
    assert all(isinstance(op, Launch) for op in best.ops)
    return [op for op in best.ops if isinstance(op, Launch)]


def loops(launch: Launch) -> list[Loop]:
    return [op for op in launch.body.ops if isinstance(op, Loop)]


def count(ops: tuple[Op, ...], kind: type[Op]) -> int:
    return sum(isinstance(op, kind) for op in all_ops(ops))


def functions(ops: tuple[Op, ...]) -> list[UnaryFn]:
    return [op.fn for op in all_ops(ops) if isinstance(op, Unary)]


def test_rms_linear_scales_after_the_loop() -> None:
    (launch,) = launches(rms_linear(8, 4096, 6144))
    (loop,) = loops(launch)
    assert len(loop.accumulators) == 2  # the product and the sum of squares
    assert count(loop.body, Matmul) == 1
    assert UnaryFn.RSQRT not in functions(loop.body)
    assert UnaryFn.RSQRT in functions(launch.body.ops)


def test_swiglu_shares_its_input() -> None:
    (launch,) = launches(swiglu(8, 4096, 4096))
    (loop,) = loops(launch)
    assert count(loop.body, Matmul) == 2
    assert count(loop.body, Load) == 3  # x once


def test_lora_is_one_kernel() -> None:
    (launch,) = launches(lora(16, 256, 16, 4096))
    assert len(launch.operands) == 4
    assert count(launch.body.ops, Matmul) in (2, 3)  # x (W + A B), or x W + (x A) B


def test_decode_attention_splits_the_keys() -> None:
    first, combine = launches(attention(2, 256, 4096, 64))
    assert any(axis.name.endswith("_part") for axis in first.grid)
    assert len(first.results) == 2  # partial numerator and denominator
    assert count(combine.body.ops, Matmul) == 0
    assert UnaryFn.RECIPROCAL in functions(combine.body.ops)


def test_prefill_attention_is_one_kernel_with_a_loop() -> None:
    found = superoptimize(attention(64, 2048, 2048, 128), H200).candidates
    alone = [c.graph.ops[0] for c in found if len(c.graph.ops) == 1]  # split keys are a near tie
    assert alone
    launch = alone[0]
    assert isinstance(launch, Launch)
    (loop,) = loops(launch)
    assert count(loop.body, Matmul) == 2
    assert UnaryFn.EXP in functions(loop.body)


def test_qk_norm_is_fused_into_attention() -> None:
    found = superoptimize(qk_norm_attention(2, 64, 4096, 64), H200).candidates
    pairs = [c.graph.ops for c in found if c.cost.launches == 2]  # keys normed first: a near tie
    first = pairs[0][0]
    assert isinstance(first, Launch)
    assert count(first.body.ops, Matmul) == 2
    assert functions(first.body.ops).count(UnaryFn.RSQRT) == 2


def test_qk_norm_gains_can_be_folded_onto_one_side() -> None:
    found = superoptimize(qk_norm_attention(2, 64, 4096, 64), H200).candidates
    texts = [
        list(all_ops(c.graph.ops[0].body.ops)) for c in found if isinstance(c.graph.ops[0], Launch)
    ]
    assert (
        texts
    )  # the gains are two one-dimensional loads; some candidate combines them before q or k

    def folded(ops: list[Op]) -> bool:
        gains = {op.result for op in ops if isinstance(op, Load) and len(op.result.shape) == 1}
        views = {op.result for op in ops if op.operands and op.operands[0] in gains}
        return any(len(op.operands) == 2 and set(op.operands) <= gains | views for op in ops)

    assert any(folded(ops) for ops in texts)


def test_n_transformer_is_one_kernel() -> None:
    (launch,) = launches(n_transformer(8, 4096))
    assert count(launch.body.ops, Reduce) == 2


def test_softmax_is_one_kernel() -> None:
    for n in (256, 4096, 32768):
        assert len(launches(softmax(4096, n))) == 1


def test_rows_that_are_loaded_at_once_go_to_small_blocks() -> None:
    """An SM runs more small blocks at a time than large ones, and each waits for its first data."""
    (launch,) = launches(softmax(4096, 4096))
    assert launch.schedule.warps == 2
    *_, product = launches(layer_norm_linear_gelu(8, 1024, 4096))
    assert product.schedule.warps >= 4


def test_layer_norm_is_stored_once_for_all_columns_of_a_product() -> None:
    # 6.05 µs on an H200, 6.73 in one kernel: each of its blocks normalizes all rows, which nothing
    # overlaps, and the second of two kernels starts early.
    norm, product = launches(layer_norm_linear_gelu(8, 1024, 4096))
    assert count(norm.body.ops, Matmul) == 0
    assert count(product.body.ops, Matmul) == 1


def test_residual_rms_linear_is_one_kernel() -> None:
    (launch,) = launches(residual_rms_linear(4, 4096, 4096))
    assert len(loops(launch)) == 1


def test_rms_swiglu_down_is_two_kernels_with_a_deferred_scale() -> None:
    first, second, *combine = launches(rms_swiglu_down(1, 4096, 8192))
    (loop,) = loops(first)
    assert len(loop.accumulators) == 3
    assert UnaryFn.RSQRT not in functions(loop.body)
    assert count(second.body.ops, Matmul) == 1
    assert all(count(launch.body.ops, Matmul) == 0 for launch in combine)


def test_a_function_of_a_norm_is_summed_in_a_second_loop() -> None:
    # Rows of 4096 take 10.3 us in one kernel on an H200, 7.7 in three.
    program = rms_silu_linear("wide_product", 8, 3072, 8192).graph()
    found = superoptimize(program, H200).candidates
    alone = [c.graph.ops[0] for c in found if len(c.graph.ops) == 1]
    assert alone
    assert isinstance(alone[0], Launch)
    first, second = loops(alone[0])
    assert count(first.body, Matmul) == 0
    assert count(second.body, Matmul) == 1
    assert UnaryFn.SILU in functions(second.body)


def test_query_heads_share_their_keys() -> None:
    for name in ("decode_heads_b1", "decode_masked_b8", "decode_rows4_b1"):
        graph = superoptimize(get(name).graph(), H200).candidates[0].graph
        launch = next(op for op in graph.ops if isinstance(op, Launch))
        products = [op for op in all_ops(launch.body.ops) if isinstance(op, Matmul)]
        rows = get(name).inputs[0].shape[2]
        assert len(products) == 2
        assert all(op.result.shape[-2] == 8 * rows for op in products)


def test_heads_are_summed_together() -> None:
    graph = superoptimize(merged_heads_linear(16, 32, 128, 4096), H200).candidates[0].graph
    first, *combine = [op for op in graph.ops if isinstance(op, Launch)]
    assert count(first.body.ops, Matmul) == 1
    assert UnaryFn.SILU in functions(first.body.ops)
    assert all(count(launch.body.ops, Matmul) == 0 for launch in combine)


def test_kernels_that_share_a_view_need_no_reshape_between_them() -> None:
    found = superoptimize(get("decode_rows4_b8").graph(), H200).candidates
    several = [c.graph for c in found if sum(isinstance(op, Launch) for op in c.graph.ops) > 1]
    assert several
    for graph in several:
        written = {v for op in graph.ops if isinstance(op, Launch) for v in op.results}
        between = [op for op in graph.ops if isinstance(op, Reshape) and op.operands[0] in written]
        assert all(op.result in graph.outputs for op in between)
        assert not stabilize(graph).unstable
