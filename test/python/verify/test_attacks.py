"""Ways in which a wrong program could get past the verifier, one by one."""

from __future__ import annotations

import random
from math import inf

import graphs
import numpy as np
import pytest
from mirage.semantics.check import InvalidGraph, check_graph
from mirage.semantics.decompose import decompose
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Axis,
    BlockGraph,
    Builder,
    External,
    KernelGraph,
    Launch,
    Output,
    TensorType,
    Value,
)
from mirage.verify import Kind, VerifyOptions, verify
from mirage.verify.normalize import normalize
from mirage.verify.proof import prove
from mirage.verify.slots import Irregular
from mirage.verify.smallmodel import run_small_model, small_pair
from random_graphs import random_graph
from small_programs import assert_exact

F16, F32, F64 = DType.F16, DType.F32, DType.F64
QUICK = VerifyOptions(seed=1, numerics=False)


def function(build, *inputs: Value) -> KernelGraph:
    """A program of kernel-level ops."""
    b = Builder()
    y = build(b, *inputs)
    return KernelGraph("f", inputs, tuple(b.ops), y if isinstance(y, tuple) else (y,))


def kernel(inputs, grid, body, stores, shapes) -> KernelGraph:
    """A program of one launch; ``body(builder, *params)`` gives the tiles to store."""
    params = graphs.params_of(inputs)
    b = Builder(in_block=True)
    tiles = body(b, *params)
    outputs = tuple(Output(t, m) for t, m in zip(tiles, stores))
    types = tuple(TensorType(s, F32) for s in shapes)
    op = graphs.launch(inputs, grid, BlockGraph(params, tuple(b.ops), outputs), types)
    return KernelGraph("k", inputs, (op,), op.results)


# ---- constants -----------------------------------------------------------------------------------


def scaled(factor: float, dtype: DType) -> KernelGraph:
    x = graphs.tensor(8, 8, dtype=dtype)
    return function(lambda b, x: b.binary(BinaryFn.MUL, x, b.constant(factor, dtype)), x)


def test_constants_of_type_f64_are_read_to_f64s_precision():
    assert verify(scaled(1.0, F64), scaled(1.0 + 1e-8, F64), QUICK).kind is Kind.REFUTED
    assert verify(scaled(1.0, F64), scaled(1.0 + 1e-14, F64), QUICK).kind is not Kind.PROVED
    third = verify(scaled(1.0 / 3.0, F64), scaled(float(np.float64(1) / 3), F64), QUICK)
    assert third.kind is Kind.PROVED
    # In f32 the two are one number.
    assert verify(scaled(1.0, F32), scaled(1.0 + 1e-8, F32), QUICK).kind is Kind.PROVED
    assert verify(scaled(1.0, F32), scaled(1.0 + 2.0**-22, F32), QUICK).kind is not Kind.PROVED


def test_masks_may_fill_with_roots():
    """The field must have a root of 2 although no constant needs it."""
    x = graphs.tensor(6, 10, dtype=F32)

    def filled(extent):
        def body(b, p):
            return (b.mask(b.load(p, (("i",), ()), (3, 10)), 1, (), extent, 2.0**-0.5),)

        return kernel((x,), (Axis("i", 2),), body, [(("i",), ())], [(6, 10)])

    for seed in range(4):
        options = VerifyOptions(seed=seed, numerics=False)
        assert verify(filled(7), filled(7), options).kind is Kind.PROVED
        assert verify(filled(7), filled(8), options).kind is Kind.REFUTED


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
    """The sum of squares in f16: right for inputs of magnitude 1, infinite for 64."""

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


# ---- the small model -----------------------------------------------------------------------------


def test_small_programs_are_exact_for_random_programs():
    """Slices, joins, reshapes, tails, masks and loops: on inputs constant within cells the small
    program computes what the real one does.
    """
    rng = random.Random(0)
    compressed = 0
    while compressed < 250:
        graph = random_graph(rng)
        try:
            check_graph(graph)
            assert_exact([graph], rng.choice((1, 2)))
        except (InvalidGraph, Irregular):
            continue
        compressed += 1


def running(n: int, steps: int, use: str) -> KernelGraph:
    """A sum over steps that involves the running maximum of ``x``."""
    x = graphs.tensor(n, dtype=F32)

    def body(b, p):
        i = Builder(in_block=True)
        t = i.load(p, (("k",),), (n // steps,))
        m = i.running_max(i.reduce(ReduceFn.MAX, t, (0,)))
        value = m
        if use != "maximum":
            e = i.unary(UnaryFn.EXP, i.binary(BinaryFn.SUB, t, m))
            value = i.reduce(ReduceFn.SUM, e, (0,))
        rescale = m if use == "rescaled" else None
        accumulator = Accumulator(AccumulateFn.SUM, value, rescale)
        return b.loop(Axis("k", steps), tuple(i.ops), (accumulator,))

    return kernel((x,), (), body, [((),)], [(1,)])


@pytest.mark.parametrize("use", ["maximum", "exponentials", "rescaled"])
@pytest.mark.parametrize(("n", "first", "second"), [(24, 12, 4), (60, 30, 6), (64, 16, 4)])
def test_the_order_of_steps_counts_for_running_maxima(use, n, first, second):
    """The axis of the first loop has two digits, and repeated steps are no neighbours."""
    for singles in (1, 2):
        assert_exact([running(n, first, use), running(n, second, "rescaled")], singles)


def test_too_many_groups_of_ordered_steps_are_irregular():
    with pytest.raises(Irregular, match="depend on the order of 32 groups"):
        small_pair(running(128, 64, "maximum"), running(128, 32, "maximum"))
    small_pair(running(128, 64, "rescaled"), running(128, 32, "rescaled"))


def vandermonde(side: int, wrap: str, n: int = 64) -> KernelGraph:
    """One side of a statement that holds exactly if ``x`` has at most two different elements: three
    terms of a determinant of power sums, against the other three.
    """

    def build(b, x, y):
        powers = [b.reduce(ReduceFn.SUM, b.unary(UnaryFn.TANH, x), (0,))]
        power, p = x, [b.constant(float(n))]
        for _ in range(4):
            p.append(b.reduce(ReduceFn.SUM, power, (0,)))
            power = b.binary(BinaryFn.MUL, power, x)
        terms = {0: [(0, 2, 4), (1, 2, 3), (1, 2, 3)], 1: [(2, 2, 2), (0, 3, 3), (1, 1, 4)]}[side]
        total = None
        for i, j, k in terms:
            t = b.binary(BinaryFn.MUL, b.binary(BinaryFn.MUL, p[j], p[k]), p[i])
            total = t if total is None else b.binary(BinaryFn.ADD, total, t)
        if wrap == "exp":
            return b.unary(UnaryFn.EXP, total)
        if wrap == "function":
            return b.binary(BinaryFn.MUL, b.unary(UnaryFn.SIGMOID, total), powers[0])
        if wrap == "maximum":
            return b.binary(BinaryFn.MAX, total, y)
        if wrap == "divisor":
            return b.reduce(ReduceFn.SUM, b.binary(BinaryFn.DIV, y, total), (0,))
        if wrap == "softmax":
            return b.softmax(b.binary(BinaryFn.MUL, y, total), 0)
        if wrap == "sum of quotients":
            return b.reduce(
                ReduceFn.SUM, b.binary(BinaryFn.DIV, y, b.binary(BinaryFn.ADD, y, total)), (0,)
            )
        return total

    return function(build, graphs.tensor(n, dtype=F32), graphs.tensor(5, dtype=F32))


@pytest.mark.parametrize(
    "wrap",
    ["plain", "exp", "function", "maximum", "divisor", "softmax", "sum of quotients"],
)
@pytest.mark.parametrize("as_symbols", [False, True])
def test_interacting_indices_are_found_wherever_they_hide(wrap, as_symbols):
    """With two different elements both sides are equal; the small model must have three."""
    first, second = (normalize(decompose(vandermonde(i, wrap))) for i in (0, 1))
    try:
        pair = small_pair(first, second, reciprocals_as_symbols=as_symbols)
    except Irregular:
        return  # more of them than fit
    assert prove(pair, reciprocals_as_symbols=as_symbols).holds is not True
    if not as_symbols:
        assert run_small_model(pair, random.Random(0), -60.0)[0].holds is not True


def test_tiles_of_other_launches_are_no_denominators_in_common():
    """Two launches load and store quotients with the same maps, but of other extents: places of
    equal name hold different denominators.
    """
    x = graphs.tensor(16, dtype=F32)

    def moved(b, source, outer, inner):
        (p,) = params = graphs.params_of((source,))
        block = Builder(in_block=True)
        y = block.unary(UnaryFn.NEG, block.load(p, (("i", "j"),), (16 // (outer * inner),)))
        body = BlockGraph(params, tuple(block.ops), (Output(y, (("j", "i"),)),))
        grid = (Axis("i", outer), Axis("j", inner))
        b.ops.append(graphs.launch((source,), grid, body, (source.type,)))
        return b.ops[-1].result

    def build(b, x):
        inverse = b.unary(UnaryFn.RECIPROCAL, x)
        pair = (moved(b, inverse, 2, 8), moved(b, inverse, 4, 4))
        return b.reduce(ReduceFn.SUM, b.binary(BinaryFn.ADD, *pair), (0,))

    def straight(b, x):
        inverse = b.unary(UnaryFn.RECIPROCAL, x)
        return b.reduce(ReduceFn.SUM, b.binary(BinaryFn.MUL, inverse, b.constant(-2.0)), (0,))

    first, second = function(build, x), function(straight, x)
    assert verify(first, second, QUICK).kind in (Kind.PROVED, Kind.PROBABLE)
    doubled = function(lambda b, x: b.binary(BinaryFn.MUL, straight(b, x), b.constant(1.5)), x)
    assert not verify(first, doubled, QUICK).equivalent


def test_one_axis_on_two_dimensions_walks_along_the_diagonal():
    x = graphs.tensor(12, 12, dtype=F32)

    def trace(maps):
        def body(b, p):
            i = Builder(in_block=True)
            t = i.load(p, maps, (1, 1) if maps[0] else (12, 1))
            t = i.reduce(ReduceFn.SUM, t, (0, 1))
            return b.loop(Axis("k", 12), tuple(i.ops), (Accumulator(AccumulateFn.SUM, t),))

        return kernel((x,), (), body, [((), ())], [(1, 1)])

    diagonal, everything = trace((("k",), ("k",))), trace(((), ("k",)))
    total = function(lambda b, x: b.reduce(ReduceFn.SUM, x, (0, 1)), x)
    assert verify(everything, total, QUICK).kind is Kind.PROVED
    assert verify(diagonal, diagonal, QUICK).kind is Kind.PROVED
    assert verify(diagonal, total, QUICK).kind is Kind.REFUTED


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
    """More blocks than the tensor has: they load zeros and store nothing."""
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
    """An inner loop inside an outer one: its sum must not go on from the last time."""
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
    """``0 * (1/0)`` must not pass for zero, nor ``x/x`` hide what it multiplies."""
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
    for seed in range(8):  # one element and few draws: a maximum is one of two by chance
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


def test_two_names_of_one_running_maximum_are_one():
    """With and without a leading 1: the value carries one of them, the sum is rescaled by the
    other.
    """

    def twice(steps: int, shift: float) -> KernelGraph:
        x = graphs.tensor(120, dtype=F32)

        def body(b, p):
            i = Builder(in_block=True)
            t = i.load(p, (("k",),), (120 // steps,))
            largest = i.reduce(ReduceFn.MAX, t, (0,))
            first = i.running_max(largest)
            second = i.running_max(i.binary(BinaryFn.ADD, largest, i.constant(shift)))
            if shift == 0.0:
                second = i.running_max(i.reshape(largest, (1, 1)))
            e = i.unary(UnaryFn.EXP, i.binary(BinaryFn.SUB, t, first))
            e = i.reshape(i.reduce(ReduceFn.SUM, e, (0,)), (1, 1))
            return b.loop(
                Axis("k", steps), tuple(i.ops), (Accumulator(AccumulateFn.SUM, e, second),)
            )

        return kernel((x,), (), body, [((), ())], [(1, 1)])

    small_pair(twice(60, 0.0), twice(20, 0.0))
    with pytest.raises(Irregular, match="depend on the order"):
        small_pair(twice(60, 1.0), twice(20, 1.0))


def quotients(move: str) -> KernelGraph:
    """The sum of two quotients with different denominators, which are taken elsewhere before."""

    def build(b, x, y):
        total = b.reduce(ReduceFn.SUM, x, (0,))
        q = b.unary(UnaryFn.RECIPROCAL, b.binary(BinaryFn.ADD, y, b.unary(UnaryFn.SQUARE, total)))
        dim = 0
        if move == "reshape":
            q, dim = b.reshape(b.reshape(q, (2, 1)), (1, 2)), 1
        elif move == "transpose":
            q = b.transpose(b.reshape(q, (1, 2)), (1, 0))
        elif move == "broadcast":
            q, dim = b.reduce(ReduceFn.SUM, b.broadcast(q, (3, 2)), (0,)), 1
        elif move == "left of a product":
            return b.reshape(b.matmul(b.reshape(q, (1, 2)), b.reshape(y, (2, 1))), (1,))
        elif move == "right of a product":
            return b.reshape(b.matmul(b.reshape(y, (1, 2)), b.reshape(q, (2, 1))), (1,))
        elif move in ("grid", "loop"):
            (p,) = params = graphs.params_of((q,))
            block = Builder(in_block=True)
            inner = Builder(in_block=True)
            tile = inner.unary(UnaryFn.NEG, inner.load(p, (("i",),), (1,)))
            if move == "grid":
                block.ops.extend(inner.ops)
                output, size, axes = Output(tile, (("i",),)), 2, (Axis("i", 2),)
            else:
                sums = (Accumulator(AccumulateFn.SUM, tile),)
                (result,) = block.loop(Axis("i", 2), tuple(inner.ops), sums)
                output, size, axes = Output(result, ((),)), 1, ()
            body = BlockGraph(params, tuple(block.ops), (output,))
            b.ops.append(graphs.launch((q,), axes, body, (TensorType((size,), F32),)))
            q = b.ops[-1].result
        return b.reduce(ReduceFn.SUM, q, (dim,))

    return function(build, graphs.tensor(64, dtype=F32), graphs.tensor(2, dtype=F32))


@pytest.mark.parametrize(
    "move",
    [
        "reshape",
        "transpose",
        "broadcast",
        "left of a product",
        "right of a product",
        "grid",
        "loop",
    ],
)
def test_denominators_are_followed_wherever_they_go(move):
    """Summing over what they vary along makes their product the common denominator: twice as many
    indices of ``x`` interact as in one.
    """
    plain = normalize(quotients("none"))
    moved = normalize(quotients(move))
    alone = max(small_pair(plain, plain).needs.singles.values())
    assert alone >= 4
    assert max(small_pair(moved, moved).needs.singles.values()) >= alone


def test_rows_and_keys_may_be_indices_of_one_input():
    """Attention of ``x`` with itself: what varies along rows does not vary along keys, though both
    are the same indices.
    """

    def build(after, wrong=False):
        def attention(b, x):
            e = b.unary(UnaryFn.EXP, b.matmul(x, b.transpose(x, (1, 0))))
            total = b.reduce(ReduceFn.SUM, e, (1,))
            if wrong:  # those of other rows
                total = b.concat(tuple(b.slice(total, (i, 0), (128, 1)) for i in (128, 0)), 0)
            if after:
                return b.binary(BinaryFn.DIV, b.matmul(e, x), total)
            return b.matmul(b.binary(BinaryFn.DIV, e, total), x)

        return function(attention, graphs.tensor(256, 32, dtype=F32))

    assert verify(build(False), build(True), QUICK).kind is Kind.PROVED
    assert verify(build(False), build(True, wrong=True), QUICK).kind is Kind.REFUTED
