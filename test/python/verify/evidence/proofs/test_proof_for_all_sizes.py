"""Proofs for other sizes: the sizes for which they claim to hold, tried at examples."""

from __future__ import annotations

import json
import random

import pytest
from example_programs import graphs
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn
from mirage.semantics.ugraph import KernelGraph
from mirage.verify import HoldsFor, Kind, Verdict, VerifyOptions, verify
from thorough import some_of

F32 = DType.F32
QUICK = VerifyOptions(seed=1, numerics=False)
FAMILIES = {
    "rms": (graphs.rms_linear, (16, 4096, 6144), {"blocks": 96, "steps": 64}, "one_kernel"),
    "rms_tails": (graphs.rms_linear, (5, 100, 61), {"blocks": 4, "steps": 7}, "one_kernel"),
    "swiglu": (graphs.swiglu, (8, 96, 60), {"blocks": 4, "steps": 8}, "one_kernel"),
    "lora": (graphs.lora, (8, 96, 60, 7), {"blocks": 4, "steps": 8}, "one_kernel"),
    "softmax": (graphs.softmax, (40, 1000), {"row_blocks": 8, "steps": 9}, "online"),
    "moments": (graphs.layer_norm, (40, 1024), {"row_blocks": 8, "steps": 16}, "moments"),
    "flash": (
        graphs.attention,
        (4, 12, 250, 8),
        {"splits": 5, "steps": 6, "row_blocks": 3},
        "flash",
    ),
}


def proved(name: str) -> tuple[Verdict, HoldsFor]:
    make, sizes, parts, candidate = FAMILIES[name]
    pair = make(*sizes, **parts)
    verdict = verify(pair.reference, pair.candidates[candidate], QUICK)
    assert verdict.kind is Kind.PROVED
    assert verdict.holds_for is not None
    return verdict, verdict.holds_for


def at(text: str, lengths: dict[str, int]) -> int:
    return eval(text, {}, lengths)  # sums and products of names


@pytest.mark.parametrize("name", FAMILIES)
def test_the_statement_gives_the_sizes_at_hand(name):
    make, sizes, parts, _ = FAMILIES[name]
    verdict, holds_for = proved(name)
    given = {f.name: f.given for f in holds_for.free}
    shapes = [tuple(at(n, given) for n in shape) for shape in holds_for.inputs]
    assert shapes == [v.shape for v in make(*sizes, **parts).reference.inputs]
    assert all(f.given >= f.at_least for f in holds_for.free)
    assert (
        json.loads(json.dumps(verdict.to_json()))["holds_for"]["constants"] == holds_for.constants
    )
    # The evidence goes into the IR.
    assert any(str(holds_for) in e.text for e in verdict.evidence)


def rebuilt(name: str, holds_for: HoldsFor, lengths: dict[str, int]) -> graphs.Pair:
    """The family at the sizes that follow from the lengths."""
    make, _, parts, _ = FAMILIES[name]
    shapes = [[at(n, lengths) for n in shape] for shape in holds_for.inputs]
    axes = {key.split(".")[1]: at(n, lengths) for key, n in holds_for.axes}
    if make is graphs.attention:
        (h, s, d), (_, _, t) = shapes[0], shapes[1]
        # The flash kernel has one loop of all steps.
        parts = {"splits": 1, "steps": axes["t"], "row_blocks": axes["s"]}
        return make(h, s, t, d, **parts)
    steps = axes.get("k", axes.get("n"))
    if "row_blocks" in parts:
        return make(*shapes[0], row_blocks=axes["m"], steps=axes["n"])
    last = [shapes[2][0]] if make is graphs.lora else []
    if make is graphs.lora:
        return make(*shapes[0], shapes[1][1], shapes[3][0], blocks=axes["n"], steps=steps)
    return make(*shapes[0], shapes[-1][1], *last, blocks=axes["n"], steps=steps)


@pytest.mark.parametrize("name", some_of(FAMILIES, every=2))
def test_other_sizes_of_that_kind_are_equal_too(name):
    """Random lengths, from the smallest ones on, are proved again separately."""
    _, holds_for = proved(name)
    rng = random.Random(name)
    for draw in range(4):
        more = (0, 1, 3, 6)[draw]
        lengths = {f.name: f.at_least + rng.randint(0, more) for f in holds_for.free}
        pair = rebuilt(name, holds_for, lengths)
        candidate = pair.candidates[FAMILIES[name][3]]
        verdict = verify(pair.reference, candidate, QUICK)
        assert verdict.kind is Kind.PROVED, (lengths, str(verdict))


def reduced(build, *shape: int) -> KernelGraph:
    x = graphs.tensor(*shape, dtype=F32)
    b = Builder()
    y = build(b, x)
    return KernelGraph("f", (x,), tuple(b.ops), (y,))


def plus(b, x, value):
    return b.binary(BinaryFn.ADD, x, b.constant(value))


def test_a_constant_that_is_a_size_is_said_to_be():
    """``sum(x) + n`` is ``sum(x + 1)`` only if ``n`` is the length of the sum."""
    first = reduced(lambda b, x: plus(b, b.reduce(ReduceFn.SUM, x, (1,)), 100.0), 7, 100)
    second = reduced(lambda b, x: b.reduce(ReduceFn.SUM, plus(b, x, 1.0), (1,)), 7, 100)
    verdict = verify(first, second, QUICK)
    assert verdict.kind is Kind.PROVED
    assert verdict.holds_for is not None
    assert verdict.holds_for.sizes == (("100", "b"),)
    assert "100 standing for the size b" in str(verdict.holds_for)
    wrong = reduced(lambda b, x: plus(b, b.reduce(ReduceFn.SUM, x, (1,)), 101.0), 7, 100)
    assert not verify(wrong, second, QUICK).equivalent


def test_what_holds_at_one_size_only_is_proved_for_that_size():
    """Two sums over 64 elements: a constant 64 may stand for the size of either."""

    def rows(b, x):
        total = b.reduce(ReduceFn.SUM, b.reduce(ReduceFn.SUM, x, (1,)), (0,))
        return plus(b, plus(b, total, 64.0), -64.0 * 64.0)

    def columns(b, x):
        y = b.reduce(ReduceFn.SUM, plus(b, x, -1.0), (1,))
        ones = b.binary(BinaryFn.SUB, plus(b, y, 1.0), y)
        total = b.reduce(ReduceFn.SUM, y, (0,))
        return b.binary(BinaryFn.ADD, total, b.reduce(ReduceFn.SUM, ones, (0,)))

    first, second = reduced(rows, 64, 64), reduced(columns, 64, 64)
    verdict = verify(first, second, QUICK)
    assert verdict.kind is Kind.PROVED
    assert verdict.holds_for is None
    assert "proved (for these sizes)" in str(verdict)


def test_constants_are_any_numbers_only_if_the_proof_needs_none():
    x = graphs.tensor(6, 50, dtype=F32)

    def scaled(*factors):
        b = Builder()
        y = x
        for f in factors:
            y = b.binary(BinaryFn.MUL, y, b.constant(f))
        return KernelGraph("s", (x,), tuple(b.ops), (y,))

    def constants(first, second):
        verdict = verify(first, second, QUICK)
        assert verdict.kind is Kind.PROVED
        assert verdict.holds_for is not None
        return verdict.holds_for.constants

    assert constants(scaled(0.3, 0.7), scaled(0.7, 0.3)) == "any"
    assert constants(scaled(3.0, 5.0), scaled(15.0)) == "given"
    assert constants(scaled(-3.0), scaled(3.0, -1.0)) == "any"
