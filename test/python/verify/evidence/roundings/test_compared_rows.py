"""The rows of errors, and the inputs that reach them: rows of one kind if their elements are
compared with each other, inputs that are near each other, and sums in another order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from mirage.semantics.builder import Builder
from mirage.semantics.domain import TypedFloat
from mirage.semantics.scalar import Array, BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.verify import VerifyOptions, verify
from mirage.verify.evidence.roundings.activations import Activations
from mirage.verify.evidence.roundings.compared_rows import joined_dims, row_length
from mirage.verify.evidence.roundings.input_roles import rows_compared, rows_meet
from mirage.verify.evidence.roundings.kinds_of_situations import alike
from mirage.verify.evidence.roundings.near_each_other import (
    about_one_mean,
    expected,
    near_each_other,
)
from mirage.verify.evidence.roundings.rows_of_activations import ABOUT_A_MEAN
from mirage.verify.evidence.roundings.summed_otherwise import SummedOtherwise
from mirage.verify.evidence.samples.sampled_outputs import choose_sample
from thorough import some_of

F32 = DType.F32
WIDTH = 64


def tensor(*shape: int, dtype: DType = F32) -> Value:
    return Value(TensorType(shape, dtype))


def mean(b: Builder, x: Value) -> Value:
    return b.binary(BinaryFn.MUL, b.reduce(ReduceFn.SUM, x, (-1,)), b.constant(1.0 / WIDTH))


def two_passes(b: Builder, x: Value) -> Value:
    return mean(b, b.unary(UnaryFn.SQUARE, b.binary(BinaryFn.SUB, x, mean(b, x))))


def one_pass(b: Builder, x: Value) -> Value:
    squares = mean(b, b.unary(UnaryFn.SQUARE, x))
    return b.binary(BinaryFn.SUB, squares, b.unary(UnaryFn.SQUARE, mean(b, x)))


def program(
    inputs: Sequence[Value], result: Callable[[Builder, Sequence[Value]], Value]
) -> KernelGraph:
    b = Builder()
    out = result(b, inputs)
    return KernelGraph("p", tuple(inputs), tuple(b.ops), (out,))


def variances(how: Callable[[Builder, Value], Value], dtype: DType = F32) -> KernelGraph:
    return program([tensor(40, WIDTH, dtype=dtype)], lambda b, xs: how(b, b.cast(xs[0], F32)))


def drawn(graph: KernelGraph) -> Activations:
    sample = choose_sample([graph], 1e6, np.random.default_rng(0))
    return Activations(graph, sample, 0)


@pytest.mark.parametrize(
    ("shape", "dims", "length"),
    [((), 0, 1), ((5,), 1, 5), ((9, 16), 1, 16), ((9, 15), 2, 135), ((7, 3, 2), 3, 42),
     ((4, 40, 1), 2, 40)],
)  # fmt: skip
def test_short_rows_are_joined(shape: tuple[int, ...], dims: int, length: int) -> None:
    assert joined_dims(shape) == dims
    assert row_length(shape) == length


def test_one_number_of_each_row_is_compared_with_the_others() -> None:
    graph = variances(two_passes)
    assert not rows_meet(graph)
    assert rows_compared(graph, [2]) == {0}  # numbers of all rows are joined
    assert rows_compared(graph, [1]) == set()  # only one of them


def test_rows_that_a_transpose_puts_beside_each_other_are_compared_together() -> None:
    x, w = tensor(40, WIDTH), tensor(WIDTH, 40)
    turned = program([x], lambda b, xs: b.transpose(xs[0], (1, 0)))
    assert rows_compared(turned, [1]) == {0}
    scores = program([x, x], lambda b, xs: b.matmul(xs[0], b.transpose(xs[1], (1, 0))))
    assert rows_compared(scores, [1]) == {1}
    assert rows_compared(program([x, w], lambda b, xs: b.matmul(*xs)), [1]) == set()


@pytest.mark.parametrize(
    "dtype", some_of([F32, DType.F16, DType.BF16], every=3), ids=lambda d: d.value
)
def test_a_variance_in_one_pass_is_refused_at_every_seed(dtype: DType) -> None:
    """In 16 bits a few more roundings turn rows about -1000 into rows of another kind."""
    reference, candidate = variances(two_passes, dtype), variances(one_pass, dtype)
    for seed in range(8):
        options = VerifyOptions(seed=seed, work=1e5)
        assert verify(reference, reference, options).accepted
        verdict = verify(reference, candidate, options)
        assert verdict.equivalent
        assert not verdict.accepted, seed


def test_rows_about_a_mean_stay_that_where_they_are_drawn_again() -> None:
    draw = drawn(variances(two_passes, DType.BF16))
    for situation in alike(draw):
        assert situation is not None
        assert situation.again is not None
        name = situation.name.rpartition(": ")[2]
        if name not in dict(ABOUT_A_MEAN):
            continue
        first, second = (x[0].planes[0] for x in (situation.inputs, situation.again(1)))
        assert (first != second).any()
        assert first.std(-1).max() < 2.0 * max(second.std(-1).max(), 1e-9), name
        assert second.std(-1).max() < 2.0 * max(first.std(-1).max(), 1e-9), name


def test_inputs_are_near_each_other_whatever_their_numbers_of_rows() -> None:
    a, b, w = tensor(12, 20), tensor(9, 20), tensor(20, 8)

    def difference(to: Builder, xs: Sequence[Value]) -> Value:
        first = to.reduce(ReduceFn.SUM, xs[0], (-1,))
        second = to.transpose(to.reduce(ReduceFn.SUM, xs[1], (-1,)), (1, 0))
        scaled = to.reduce(ReduceFn.MAX, to.matmul(xs[0], xs[2]), (-1,))
        return to.binary(BinaryFn.MUL, to.binary(BinaryFn.SUB, first, second), scaled)

    draw = drawn(program([a, b, w], difference))
    assert draw.weights == {2}
    near = [s for s in near_each_other(draw) if s is not None]
    far = [s for s in about_one_mean(draw) if s is not None]
    assert len(near) + len(far) == expected(draw) == 4
    for situation in near:
        rows = np.concatenate([x.planes[0] for x in situation.inputs[:2]])
        assert np.abs(rows - rows.mean(0)).max() < 0.1 * np.abs(rows).mean() + 0.1
    for situation in far:
        assert all(abs(x.planes[0].mean()) > 200.0 for x in situation.inputs[:2])
        assert abs(situation.inputs[2].planes[0].mean()) < 1.0
    alone = drawn(program([a], lambda to, xs: to.unary(UnaryFn.SQUARE, xs[0])))
    assert not [*near_each_other(alone), *about_one_mean(alone)]
    assert expected(alone) == 0


def errors_of(domain: TypedFloat, x: Array) -> tuple[float, float]:
    """Return the errors of a row's sum, and of its variance in two passes."""
    factor = domain.constant(1.0 / x.shape[-1], F32)

    def average(v: tuple[Array, ...]) -> tuple[Array, ...]:
        return domain.binary(BinaryFn.MUL, domain.reduce(ReduceFn.SUM, v, (1,), F32), factor, F32)

    own = (x.astype(np.float32),)
    wide = own[0].astype(np.float64)
    centred = domain.binary(BinaryFn.SUB, own, average(own), F32)
    found = average(domain.unary(UnaryFn.SQUARE, centred, F32))[0][:, 0]
    total = domain.reduce(ReduceFn.SUM, own, (1,), F32)[0][:, 0]
    return (
        float(np.abs(total / wide.sum(1) - 1.0).max()),
        float(np.abs(found / wide.var(1) - 1.0).max()),
    )


def test_sums_in_another_order_have_errors_of_their_own() -> None:
    """These errors are of the first order, whereas those of a difference of squares are of the
    second."""
    x = 300.0 + np.random.default_rng(1).standard_normal((50, 1000))
    as_it_is, otherwise = errors_of(TypedFloat(), x), errors_of(SummedOtherwise(), x)
    assert as_it_is[1] < 1e-6
    assert 2.0 * as_it_is[0] < otherwise[0] < 1e-5
    assert 10.0 * as_it_is[1] < otherwise[1] < 1e-4
    assert errors_of(SummedOtherwise(), x) == otherwise


def test_what_is_no_sum_is_not_off() -> None:
    domain, x = SummedOtherwise(), np.full((4, 5), 3.0, np.float32)
    row = domain.binary(BinaryFn.ADD, (x[:, :1],), (x,), F32)[0]
    assert (row == 6.0).all()
    largest = domain.reduce(ReduceFn.MAX, (x,), (1,), F32)
    assert (domain.binary(BinaryFn.SUB, (x,), largest, F32)[0] == 0.0).all()
    total = domain.reduce(ReduceFn.SUM, (x,), (1,), F32)
    assert (total[0] == 15.0).all()
    assert (domain.binary(BinaryFn.ADD, total, total, F32)[0] == 30.0).all()  # one element each
    used = domain.binary(BinaryFn.SUB, (x,), total, F32)[0]
    assert len(np.unique(used)) > 1
    assert (used == used[:, :1]).all()  # one rounding for each sum
    assert np.abs(used + 12.0).max() < 4e-6
    squares = domain.unary(UnaryFn.SQUARE, (used,), F32)[0]
    assert (squares != squares[:, :1]).any()
    products = domain.binary(BinaryFn.MUL, (used,), (used,), F32)[0]
    assert (products != products[:, :1]).any()


@pytest.mark.parametrize("width", some_of([512, 1024], every=2))
def test_a_mean_that_is_subtracted_behind_a_product_loses_digits(width: int) -> None:
    def normed(b: Builder, x: Value) -> tuple[Value, Value, Value]:
        factor = b.constant(1.0 / width)
        average = b.binary(BinaryFn.MUL, b.reduce(ReduceFn.SUM, x, (1,)), factor)
        centred = b.binary(BinaryFn.SUB, x, average)
        squares = b.reduce(ReduceFn.SUM, b.unary(UnaryFn.SQUARE, centred), (1,))
        variance = b.binary(BinaryFn.MUL, squares, factor)
        root = b.unary(UnaryFn.RSQRT, b.binary(BinaryFn.ADD, variance, b.constant(1e-5)))
        return centred, average, root

    def before(b: Builder, xs: Sequence[Value]) -> Value:
        centred, _, root = normed(b, xs[0])
        return b.matmul(b.binary(BinaryFn.MUL, centred, root), xs[1])

    def behind(b: Builder, xs: Sequence[Value]) -> Value:
        _, average, root = normed(b, xs[0])
        taken = b.binary(BinaryFn.MUL, average, b.reduce(ReduceFn.SUM, xs[1], (0,)))
        return b.binary(BinaryFn.MUL, b.binary(BinaryFn.SUB, b.matmul(*xs), taken), root)

    inputs = tensor(16, width), tensor(width, 32)
    verdict = verify(program(inputs, before), program(inputs, behind), VerifyOptions(seed=0))
    assert verdict.kind.value == "proved"
    assert not verdict.accepted
