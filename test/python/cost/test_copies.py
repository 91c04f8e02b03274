"""What slices and joins between kernels cost."""

from __future__ import annotations

import pytest
from mirage.cost import H200
from mirage.cost.copies import is_copy, unfused_report
from mirage.cost.predict import predict
from mirage.search import superoptimize
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import DType, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value


def test_a_block_in_one_piece_is_copied_only_to_an_output() -> None:
    b = Builder()
    x = Value(TensorType((8, 64), DType.F16))
    rows, columns = b.slice(x, (2, 0), (3, 64)), b.slice(x, (0, 8), (8, 8))
    odd = b.slice(b.reshape(x, (512,)), (4,), (64,))
    first, second, _, third = b.ops
    assert [is_copy(op, ()) for op in (first, second, third)] == [False, True, True]
    assert is_copy(first, (rows,))
    assert not is_copy(first, (columns, odd))


@pytest.mark.parametrize("rows", [1, 100_000])
def test_bytes_decide_where_there_are_many(rows: int) -> None:
    b = Builder()
    b.slice(Value(TensorType((rows, 64), DType.F16)), (0, 0), (rows, 32))
    cost = unfused_report(b.ops[0], H200)
    assert cost.bytes_read == cost.bytes_written == 64 * rows
    assert cost.bound == ("latency" if rows == 1 else "dram")
    assert cost.time > cost.launch + max(cost.dram, cost.chain) - 1e-9


@pytest.mark.parametrize(
    ("dtype", "rate"), [(DType.F16, H200.mma_group), (DType.F32, H200.mma_f32)]
)
def test_a_product_takes_as_long_as_its_flops(dtype: DType, rate: float) -> None:
    """A small one as long as any kernel does."""
    b = Builder()
    for n in (16, 4096):
        x, y = (Value(TensorType((n, n), dtype)) for _ in range(2))
        b.matmul(x, y)
    small, large = (unfused_report(op, H200) for op in b.ops)
    assert small.bound == "latency"
    assert large.bound == "compute"
    assert large.compute == pytest.approx(2.0 * 4096**3 / (rate * H200.sms))
    assert large.time == pytest.approx(H200.launch + large.compute)


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
