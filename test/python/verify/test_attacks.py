"""Ways in which a wrong program could get past the verifier, one by one."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from example_programs import graphs
from example_programs.one_liners import function, kernel
from mirage.semantics.builder import Builder
from mirage.semantics.check import InvalidGraph
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Axis,
    BlockGraph,
    External,
    KernelGraph,
    Launch,
    Output,
    TensorType,
    Value,
)
from mirage.verify import Kind, VerifyOptions, verify

F16, F32, F64 = DType.F16, DType.F32, DType.F64
QUICK = VerifyOptions(seed=1, numerics=False)


# ---- constants -----------------------------------------------------------------------------------


def scaled(factor: float, dtype: DType) -> KernelGraph:
    x = graphs.tensor(8, 8, dtype=dtype)
    return function(lambda b, x: b.binary(BinaryFn.MUL, x, b.constant(factor, dtype)), x)


def test_constants_of_type_f64_are_compared_to_f64s_precision():
    assert verify(scaled(1.0, F64), scaled(1.0 + 1e-8, F64), QUICK).kind is Kind.REFUTED
    assert verify(scaled(1.0, F64), scaled(1.0 + 1e-14, F64), QUICK).kind is not Kind.PROVED
    third = verify(scaled(1.0 / 3.0, F64), scaled(float(np.float64(1) / 3), F64), QUICK)
    assert third.kind is Kind.PROVED
    # In f32 kernels the two are the same number.
    assert verify(scaled(1.0, F32), scaled(1.0 + 1e-8, F32), QUICK).kind is Kind.PROVED
    assert verify(scaled(1.0, F32), scaled(1.0 + 2.0**-22, F32), QUICK).kind is not Kind.PROVED


def test_masks_may_fill_with_any_number():
    x = graphs.tensor(6, 10, dtype=F32)

    def filled(extent):
        def body(b, p):
            return (b.mask(b.load(p, (("i",), ()), (3, 10)), 1, (), extent, 2.0**-0.5),)

        return kernel((x,), (Axis("i", 2),), body, [(("i",), ())], [(6, 10)])

    for seed in range(4):
        options = VerifyOptions(seed=seed, numerics=False)
        assert verify(filled(7), filled(7), options).kind is Kind.PROVED
        assert verify(filled(7), filled(8), options).kind is Kind.REFUTED


# ---- blocks that store nothing -------------------------------------------------------------------


def test_blocks_that_store_nothing_count_where_tiles_are_numbered():
    """A third block along ``h`` stores past the end, so it is never requested; still, it counts for
    the numbers of tiles that the others read."""
    pair = graphs.attention(2, 5, 8, 4, splits=2, steps=2, row_blocks=2, scale=0.5)
    right = pair.candidates["split"]
    first, second = right.ops
    assert isinstance(second, Launch)
    grid = tuple(Axis("h", 3) if a.name == "h" else a for a in second.grid)
    wrong = replace(right, ops=(first, replace(second, grid=grid)))
    assert verify(pair.reference, right, QUICK).kind is Kind.PROVED
    verdict = verify(pair.reference, wrong, QUICK)
    assert verdict.kind is Kind.REFUTED, verdict


# ---- faults that tests at the real sizes hardly ever see -----------------------------------------


def test_a_fault_in_one_row_of_many_is_not_accepted():
    """Joined at row 1001 instead of 1000: no common digits, and a sample of rows misses it."""

    def joined(at):
        x, z = graphs.tensor(4096, 4096), graphs.tensor(4096, 4096)
        upper, lower = (at, 4096), (4096 - at, 4096)
        return function(
            lambda b, x, z: b.concat((b.slice(x, (0, 0), upper), b.slice(z, (at, 0), lower)), 0),
            x,
            z,
        )

    assert not verify(joined(1000), joined(1001), QUICK).equivalent


@pytest.mark.parametrize("tilings", [((96, 200), (64, 300)), ((96, 200), (96, 200))])
def test_a_maximum_over_one_element_less_is_not_accepted(tilings):
    """In a random order the element is the largest once in 19200 times."""

    def largest(tile, parts, extent):
        x = graphs.tensor(8, 19200, dtype=F32)

        def body(b, p):
            i = Builder(in_block=True)
            t = i.mask(i.load(p, ((), ("k",)), (8, tile)), 1, ("k",), extent, -inf)
            m = Accumulator(AccumulateFn.MAX, i.reduce(ReduceFn.MAX, t, (1,)))
            return b.loop(Axis("k", parts), tuple(i.ops), (m,))

        return kernel((x,), (), body, [((), ())], [(8, 1)])

    first, second = largest(*tilings[0], 19200), largest(*tilings[1], 19199)
    assert not verify(first, second, QUICK).equivalent


def test_intermediates_that_overflow_are_not_accepted():
    """The sum of squares in f16: correct for inputs of magnitude 1, infinite for 64."""

    def norm(stored):
        def build(b, x):
            if stored is None:
                return b.rms_norm(x)
            wide = b.cast(x, F32)
            total = b.cast(b.reduce(ReduceFn.SUM, b.unary(UnaryFn.SQUARE, wide), (1,)), stored)
            mean = b.binary(BinaryFn.MUL, b.cast(total, F32), b.constant(1.0 / 4096.0))
            root = b.unary(UnaryFn.RSQRT, b.binary(BinaryFn.ADD, mean, b.constant(1e-6)))
            return b.cast(b.binary(BinaryFn.MUL, wide, root), F16)

        return function(build, graphs.tensor(16, 4096))

    assert verify(norm(None), norm(F32), VerifyOptions(seed=1)).accepted
    verdict = verify(norm(None), norm(F16), VerifyOptions(seed=1))
    assert verdict.kind is Kind.PROVED
    assert not verdict.accepted


# ---- loads and stores ----------------------------------------------------------------------------


def copied(load, store, grid, tile, shape=(12, 10)) -> KernelGraph:
    x = graphs.tensor(*shape, dtype=F32)
    return kernel((x,), grid, lambda b, p: (b.load(p, load, tile),), [store], [shape])


def test_stores_that_overlap_or_leave_gaps_are_errors():
    straight = (("i",), ("j",))
    grid = (Axis("i", 3), Axis("j", 2))
    fine = copied(straight, straight, grid, (4, 5))
    assert verify(fine, fine, QUICK).kind is Kind.PROVED
    for store, tile, message in (
        ((("i",), ()), (4, 5), "tile \\* parts >= 10"),
        ((("i", "j"), ("j",)), (4, 5), "at most once"),
        (straight, (3, 5), "tile \\* parts >= 12"),
    ):
        with pytest.raises(InvalidGraph, match=message):
            verify(fine, copied(straight, store, grid, tile), QUICK)
    with pytest.raises(InvalidGraph, match="gives them the same elements"):
        verify(fine, copied((("i",), ("j",)), (("i",), ()), grid, (4, 10)), QUICK)


@pytest.mark.parametrize("parts", [1, 2, 3, 5])
def test_blocks_outside_the_tensor_change_nothing(parts):
    """More blocks than the tensor has parts: they load zeros and store nothing."""
    maps = (("i",), ("j",))
    first = copied(maps, maps, (Axis("i", 3), Axis("j", parts)), (5, 10))
    plain = function(
        lambda b, x: b.binary(BinaryFn.MUL, x, b.constant(1.0)), graphs.tensor(12, 10, dtype=F32)
    )
    assert verify(plain, first, QUICK).kind is Kind.PROVED


def total(tile: int, parts: int, fill: float | None, extent: int = 37) -> KernelGraph:
    x = graphs.tensor(4, 37, dtype=F32)

    def body(b, p):
        i = Builder(in_block=True)
        t = i.unary(UnaryFn.EXP, i.load(p, ((), ("k",)), (4, tile)))
        if fill is not None:
            t = i.mask(t, 1, ("k",), extent, fill)
        s = i.reduce(ReduceFn.SUM, t, (1,))
        return b.loop(Axis("k", parts), tuple(i.ops), (Accumulator(AccumulateFn.SUM, s),))

    return kernel((x,), (), body, [((), ())], [(4, 1)])


@pytest.mark.parametrize(
    ("candidate", "right"),
    [
        (total(10, 4, 0.0), True),
        (total(10, 4, None), False),  # exp(0) = 1 outside
        (total(10, 5, None), False),
        (total(10, 4, 1.0), False),
        (total(10, 4, 0.0, 36), False),
        (total(10, 4, 0.0, 38), False),
        (total(37, 1, None), True),
        (total(1, 37, None), True),
    ],
)
def test_tails(candidate, right):
    reference = function(
        lambda b, x: b.reduce(ReduceFn.SUM, b.unary(UnaryFn.EXP, x), (1,)),
        graphs.tensor(4, 37, dtype=F32),
    )
    verdict = verify(reference, candidate, QUICK)
    assert verdict.kind is (Kind.PROVED if right else Kind.REFUTED), verdict


def test_accumulators_start_anew_with_each_loop():
    """An inner loop inside an outer one: its sum must not continue from the previous outer step."""
    x = graphs.tensor(12, dtype=F32)

    def nested(b, p):
        inner = Builder(in_block=True)
        t = inner.reduce(ReduceFn.SUM, inner.load(p, (("o", "i"),), (2,)), (0,))
        outer = Builder(in_block=True)
        (s,) = outer.loop(Axis("i", 2), tuple(inner.ops), (Accumulator(AccumulateFn.SUM, t),))
        square = outer.unary(UnaryFn.SQUARE, s)
        return b.loop(Axis("o", 3), tuple(outer.ops), (Accumulator(AccumulateFn.SUM, square),))

    def carried(b, x):
        parts = b.reduce(ReduceFn.SUM, b.reshape(x, (3, 4)), (1,))
        first, second, third = (b.slice(parts, (i, 0), (1, 1)) for i in range(3))
        second = b.binary(BinaryFn.ADD, first, second)
        third = b.binary(BinaryFn.ADD, second, third)
        squares = [b.unary(UnaryFn.SQUARE, v) for v in (first, second, third)]
        y = b.binary(BinaryFn.ADD, b.binary(BinaryFn.ADD, squares[0], squares[1]), squares[2])
        return b.reshape(y, (1,))

    def fresh(b, x):
        parts = b.reduce(ReduceFn.SUM, b.reshape(x, (3, 4)), (1,))
        return b.reshape(b.reduce(ReduceFn.SUM, b.unary(UnaryFn.SQUARE, parts), (0,)), (1,))

    candidate = kernel((x,), (), nested, [((),)], [(1,)])
    assert verify(function(fresh, x), candidate, QUICK).kind is Kind.PROVED
    assert verify(function(carried, x), candidate, QUICK).kind is Kind.REFUTED


# ---- several outputs -----------------------------------------------------------------------------


def test_outputs_of_equal_type_in_another_order():
    x = graphs.tensor(6, 6, dtype=F32)

    def build(order):
        def results(b, x):
            y = (x, b.transpose(x, (1, 0)), b.unary(UnaryFn.EXP, x))
            return tuple(y[i] for i in order)

        return function(results, x)

    reference = build((0, 1, 2))
    assert verify(reference, build((1, 0, 2)), QUICK).kind is Kind.REFUTED
    free = VerifyOptions(seed=1, numerics=False, permute=True)
    for order in ((1, 0, 2), (2, 0, 1), (1, 2, 0)):
        verdict = verify(reference, build(order), free)
        assert verdict.kind is Kind.PROVED
        assert verdict.permutation == tuple(order.index(i) for i in range(3))
    for order in ((0, 0, 2), (1, 1, 1), (0, 2, 2)):
        assert verify(reference, build(order), free).kind is Kind.REFUTED


def calls(order: tuple[int, int], swap: bool = False) -> KernelGraph:
    """Two calls to the framework whose results are subtracted."""
    x, y = graphs.tensor(4, 6, dtype=F32), graphs.tensor(4, 6, dtype=F32)
    b = Builder()
    operands = (x, y)
    results = {i: Value(x.type) for i in order}
    for i in order:
        b.ops.append(External((operands[i],), (results[i],), "aten.cumsum", (("dim", 1),)))
    first, second = (results[1], results[0]) if swap else (results[0], results[1])
    z = b.binary(BinaryFn.SUB, first, second)
    return KernelGraph("calls", (x, y), tuple(b.ops), (z,))


def test_calls_are_told_apart():
    assert verify(calls((0, 1)), calls((0, 1)), QUICK).kind is Kind.PROVED
    assert not verify(calls((0, 1)), calls((0, 1), swap=True), QUICK).equivalent
    assert not verify(calls((0, 1)), calls((1, 0)), QUICK).equivalent
    # Operands of calls are outputs of the cut programs, but never exchanged with others.
    free = VerifyOptions(seed=1, numerics=False, permute=True)
    assert not verify(calls((0, 1)), calls((1, 0), swap=True), free).equivalent


# ---- undefined and degenerate --------------------------------------------------------------------


def test_zero_divisors_are_redrawn_not_patched():
    """``0 * (1/0)`` must not pass for zero, nor ``x/x`` hide a factor."""
    x = graphs.tensor(4, 4, dtype=F32)

    def zero(b, x):
        return b.binary(BinaryFn.SUB, x, x)

    def undefined(b, x):
        inverse = b.unary(UnaryFn.RECIPROCAL, zero(b, x))
        return b.binary(BinaryFn.MUL, zero(b, x), inverse)

    assert not verify(function(zero, x), function(undefined, x), QUICK).equivalent
    assert not verify(function(undefined, x), function(undefined, x), QUICK).equivalent
    infinite = function(lambda b, x: b.binary(BinaryFn.ADD, x, b.constant(inf)), x)
    assert not verify(infinite, infinite, QUICK).equivalent


def test_axes_of_extent_one_and_scalars():
    x = graphs.tensor(1, 1, dtype=F32)

    def body(b, p):
        return (b.unary(UnaryFn.EXP, b.load(p, (("i",), ("j",)), (1, 1))),)

    grid = (Axis("i", 1), Axis("j", 1))
    candidate = kernel((x,), grid, body, [(("i",), ("j",))], [(1, 1)])
    exp = function(lambda b, x: b.unary(UnaryFn.EXP, x), x)
    relu = function(lambda b, x: b.unary(UnaryFn.RELU, x), x)
    same = function(lambda b, x: b.binary(BinaryFn.MUL, x, b.constant(1.0)), x)
    assert verify(exp, candidate, QUICK).kind is Kind.PROVED
    # one element and few draws: a maximum may be the same one of two by chance
    for seed in range(8):
        verdict = verify(same, relu, VerifyOptions(seed=seed, numerics=False))
        assert not verdict.equivalent, verdict


def test_launches_may_read_one_tensor_twice():
    """Aliasing operands: the launch's params stay apart."""
    x, y = graphs.tensor(6, 6, dtype=F32), graphs.tensor(6, 6, dtype=F32)

    def difference(operands):
        params = graphs.params_of((x, y))
        b = Builder(in_block=True)
        tiles = [b.load(p, (("i",), ()), (2, 6)) for p in params]
        z = b.binary(BinaryFn.SUB, *tiles)
        body = BlockGraph(params, tuple(b.ops), (Output(z, (("i",), ())),))
        op = Launch(operands, (Value(TensorType((6, 6), F32)),), (Axis("i", 3),), body)
        return KernelGraph("d", (x, y), (op,), op.results)

    reference = function(lambda b, x, y: b.binary(BinaryFn.SUB, x, y), x, y)
    assert verify(reference, difference((x, y)), QUICK).kind is Kind.PROVED
    for operands in ((y, x), (x, x), (y, y)):
        assert verify(reference, difference(operands), QUICK).kind is Kind.REFUTED
