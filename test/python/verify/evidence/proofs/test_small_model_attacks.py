"""Attacks on the small model: programs that it could wrongly find equal, or fail to represent."""

from __future__ import annotations

import random

import pytest
from example_programs import graphs
from example_programs.one_liners import function, kernel
from example_programs.random_graphs import random_graph
from example_programs.small_programs import assert_exact
from mirage.semantics.builder import Builder
from mirage.semantics.check import InvalidGraph, check_graph
from mirage.semantics.decompose import decompose
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Axis,
    BlockGraph,
    KernelGraph,
    Output,
    TensorType,
)
from mirage.verify import Kind, VerifyOptions, verify
from mirage.verify.compression.digits import Structure
from mirage.verify.compression.index_relations import Irregular
from mirage.verify.evidence.proofs.exact import compare_exactly
from mirage.verify.evidence.proofs.proof import prove
from mirage.verify.evidence.proofs.small_model import run_small_model, small_pair
from mirage.verify.normal_form.normalize import normalize

F16, F32, F64 = DType.F16, DType.F32, DType.F64
QUICK = VerifyOptions(seed=1, numerics=False)


def test_small_programs_are_exact_for_random_programs():
    """Slices, joins, reshapes, tails, masks and loops: on inputs constant within cells the small
    program computes the same as the real one.
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


def test_they_are_exact_where_digits_do_not_fit():
    """This also holds for programs, and pairs of them, some of whose digits are not compressed."""
    rng = random.Random(1)
    severed = 0
    while severed < 150:
        case = [random_graph(rng)]
        other = random_graph(rng)
        if [v.shape for v in (*other.inputs, *other.outputs)] == [
            v.shape for v in (*case[0].inputs, *case[0].outputs)
        ]:
            case.append(other)
        try:
            for graph in case:
                check_graph(graph)
            structure = Structure(case, sever=True)
            assert_exact(case, rng.choice((1, 2)), structure)
        except (InvalidGraph, Irregular):
            continue
        severed += structure.severed


def heads(width: int, part: int, offset: int, early: bool) -> KernelGraph:
    """Columns ``offset`` to ``offset + part`` of each of four heads of a product, cut out of it or
    of the weights."""
    x, w = graphs.tensor(8, 32, dtype=F32), graphs.tensor(32, 4 * width, dtype=F32)
    b = Builder()
    if early:
        apart = b.reshape(w, (32, 4, width))
        own = b.reshape(b.slice(apart, (0, 0, offset), (32, 4, part)), (32, 4 * part))
        out = b.matmul(x, own)
    else:
        apart = b.reshape(b.matmul(x, w), (8, 4, width))
        out = b.reshape(b.slice(apart, (0, 0, offset), (8, 4, part)), (8, 4 * part))
    return KernelGraph("heads", (x, w), tuple(b.ops), (out,))


@pytest.mark.parametrize(("width", "part"), [(24, 16), (384, 64), (20, 16), (15, 10)])
def test_first_parts_of_dimensions_that_are_factors_of_others(width, part):
    """Both sizes are factors of another size, so that the top digit of neither may be extended."""
    cut = [heads(width, part, 0, early) for early in (False, True)]
    structure = Structure(cut, sever=True)
    assert structure.severed
    for singles in (1, 2):
        assert_exact(cut, singles, structure)
    assert compare_exactly(*cut, random.Random(0)).proved
    other = heads(width, part, 1, True)
    assert not compare_exactly(cut[0], other, random.Random(0)).shown.holds


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
    """The axis of the first loop has two digits, and repeated steps are not adjacent."""
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
    """With two different elements, both sides are equal, so the small model must have three."""
    first, second = (normalize(decompose(vandermonde(i, wrap))) for i in (0, 1))
    try:
        pair = small_pair(first, second, reciprocals_as_symbols=as_symbols)
    except Irregular:
        return  # more of them than fit
    assert prove(pair, reciprocals_as_symbols=as_symbols).holds is not True
    if not as_symbols:
        assert run_small_model(pair, random.Random(0), -60.0)[0].holds is not True


def test_tiles_of_other_launches_are_no_denominators_in_common():
    """Two launches load and store quotients with the same maps, but with other extents: places of
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


def test_two_names_of_one_running_maximum_are_one():
    """One name has a leading 1 and the other does not: the value carries one of them, and the other
    rescales the sum."""

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
    """The sum of two quotients with different denominators, which are computed elsewhere first."""

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
    """Summing over the dimension along which they vary makes their product the common denominator:
    twice as many indices of ``x`` interact as in one.
    """
    plain = normalize(quotients("none"))
    moved = normalize(quotients(move))
    alone = max(small_pair(plain, plain).needs.singles.values())
    assert alone >= 4
    assert max(small_pair(moved, moved).needs.singles.values()) >= alone


def test_rows_and_keys_may_be_indices_of_one_input():
    """Attention of ``x`` with itself: values that vary along rows do not vary along keys, although
    both are the same indices.
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
