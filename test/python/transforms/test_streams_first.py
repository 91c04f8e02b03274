"""If kernels may run at once, those that stream inputs go before small ones."""

from __future__ import annotations

import pytest
from mirage.semantics.check import check_graph
from mirage.semantics.copy_launch import copy_launch
from mirage.semantics.ops.op import Op, Value
from mirage.semantics.row_updates import IndexCopy
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import Concat, KernelGraph, Launch, Reshape, TensorType
from mirage.transforms.streams_first import with_streams_first


def value(*shape: int, dtype: DType = DType.F16) -> Value:
    return Value(TensorType(shape, dtype))


def copies(*pairs: tuple[Value, Value]) -> Launch:
    """A kernel that copies the first of each pair to the second."""
    return copy_launch(pairs, (1, 1), [v.shape for v, _ in pairs], warps=4)


class Layer:
    """``x -> a``, and then in turns: ``a -> b -> c`` (small), ``weights and a -> p -> q``."""

    x, a, b, c = (value(1, 16) for _ in range(4))
    weights, p, q = (value(1024, 512) for _ in range(3))
    own = value(1, 16)
    first = copies((x, a))
    small = copies((a, b))
    after_small = copies((b, c))
    large = copies((weights, p), (a, own))
    after_large = copies((p, q))


def ordered(*ops: Op, outputs: tuple[Value, ...]) -> list[Op]:
    made = {v for op in ops for v in op.results}
    inputs = dict.fromkeys(v for op in ops for v in op.operands if v not in made)
    graph = KernelGraph("layer", tuple(inputs), ops, outputs)
    found = with_streams_first(graph)
    check_graph(found)
    assert with_streams_first(found) is found
    return list(found.ops)


def test_weights_are_loaded_before_a_small_kernel_works_beside() -> None:
    one = Layer
    ops = one.first, one.small, one.large, one.after_large
    expected = [one.first, one.large, one.small, one.after_large]
    assert ordered(*ops, outputs=(one.b, one.q)) == expected


def test_streams_stay_together() -> None:
    """The second one loads while the first one runs."""
    one = Layer
    other = copies((value(1024, 512), value(1024, 512)), (one.own, value(1, 16)))
    ops = one.first, one.small, one.large, one.after_small, other
    expected = [one.first, one.large, other, one.small, one.after_small]
    assert ordered(*ops, outputs=(one.c, *other.results)) == expected


def test_rows_that_a_small_kernel_stores_stay_behind_it() -> None:
    one = Layer
    cache, index, new = value(9, 1, 16), value(1, dtype=DType.I64), value(9, 1, 16)
    row = value(1, 1, 16)
    stored = Reshape((one.b,), (row,)), IndexCopy((cache, index, row), (new,), 0)
    expected = [one.first, one.large, one.small, *stored]
    ops = one.first, one.small, *stored, one.large
    assert ordered(*ops, outputs=(new, one.p)) == expected
    seen = value(9, 16)
    reads = copies((one.weights, one.p), (seen, value(9, 16)))
    ops = one.first, one.small, *stored, Reshape((new,), (seen,)), reads
    assert ordered(*ops, outputs=(one.p, reads.results[1])) == list(ops)


def test_joins_stay_behind_their_parts() -> None:
    one = Layer
    join = Concat((one.b, one.c), (value(1, 32),), 1)
    two = copies((one.a, one.b), (one.a, one.c))
    ops = one.first, two, join, one.large
    expected = [one.first, one.large, two, join]
    assert ordered(*ops, outputs=(*join.results, one.p)) == expected


def test_kernels_between_small_and_large_stay() -> None:
    one = Layer
    middle = copies((value(256, 512), value(256, 512)))
    ops = one.first, middle, one.large
    assert ordered(*ops, outputs=(*middle.results, one.p)) == list(ops)


def test_a_kernel_stays_behind_what_it_reads() -> None:
    one = Layer
    view = value(16, 1)
    reads = copies((one.weights, one.p), (view, value(16, 1)))
    ops = one.first, one.small, Reshape((one.b,), (view,)), reads
    assert ordered(*ops, outputs=(one.p,)) == list(ops)


def test_views_go_with_what_reads_them() -> None:
    one = Layer
    seen = value(512, 1024)
    view = Reshape((one.weights,), (seen,))
    large = copies((seen, value(512, 1024)), (one.a, value(1, 16)))
    ops = one.first, one.small, view, large
    assert ordered(*ops, outputs=(one.b, *large.results)) == [one.first, view, large, one.small]


@pytest.mark.parametrize("updates", [False, True])
def test_rows_are_not_stored_before_others_are_read(updates: bool) -> None:
    one = Layer
    cache, index, new = value(9, 1, 16), value(1, dtype=DType.I64), value(9, 1, 16)
    row = value(1, 1, 16)
    stored = Reshape((one.own,), (row,))
    update = IndexCopy((cache, index, row), (new,), 0)
    ops = (one.first, one.small, one.large, *([stored, update] if updates else []))
    found = ordered(*ops, outputs=(one.b, new if updates else one.p))
    assert (found == list(ops)) == updates
