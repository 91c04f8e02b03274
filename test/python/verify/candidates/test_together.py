"""Candidates of one program verified together: common work is done once, and each gets the same
verdict as alone."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.verify import Kind, VerifyOptions, verify
from mirage.verify.candidates import together as together_module
from mirage.verify.candidates.shared_rounding import Entry, Result, in_order, rounding_of
from mirage.verify.candidates.together import PIECE_SHARE, Claim, Terms, verify_all
from mirage.verify.evidence.roundings import rounding
from mirage.verify.evidence.roundings.rounding import measure_together
from mirage.verify.evidence.roundings.situations import Turn
from mirage.verify.evidence.samples.sampled_outputs import choose_sample
from mirage.verify.pieces.kernel_by_kernel import Hint, Piece, Shown
from mirage.verify.pieces.ledger import Ledger
from thorough import some_of

OPTIONS = VerifyOptions(seed=3)


def squares(kind: str) -> tuple[KernelGraph, list[Value]]:
    """Sums of the squares of ``x + y``, and the stored values. ``half`` rounds squares to f16."""
    b = Builder()
    x, y = (Value(TensorType((8, 512), DType.F16)) for _ in range(2))
    a = b.binary(BinaryFn.ADD, x, y)
    if kind == "half":
        wide = b.cast(b.unary(UnaryFn.SQUARE, a), DType.F32)
    elif kind == "product":
        wide = b.binary(BinaryFn.MUL, b.cast(a, DType.F32), b.cast(a, DType.F32))
    elif kind == "wrong":
        wide = b.unary(UnaryFn.ABS, b.cast(a, DType.F32))
    else:
        wide = b.unary(UnaryFn.SQUARE, b.cast(a, DType.F32))
    total = b.reduce(ReduceFn.SUM, wide, (1,))
    return KernelGraph("squares", (x, y), tuple(b.ops), (total,)), [a, total]


def claims(reference: KernelGraph, values: list[Value], kinds: tuple[str, ...]) -> list[Claim]:
    found: list[Claim] = []
    for kind in kinds:
        graph, stored = squares(kind)
        pairs = tuple(zip(values, stored, strict=True))
        found.append(Claim(graph, Hint(reference, reference, pairs)))
    return found


def test_verdicts_are_those_that_each_gets_alone() -> None:
    kinds = ("plain", "half", "product", "wrong", "half")
    reference, values = squares("plain")
    verdicts = list(
        verify_all(reference, claims(reference, values, kinds), Terms(OPTIONS, Ledger()))
    )
    for kind, verdict in zip(kinds, verdicts, strict=True):
        alone = verify(reference, squares(kind)[0], OPTIONS)
        assert verdict.accepted == alone.accepted, kind
        assert verdict.numerics_hold == alone.numerics_hold, kind
        assert verdict.accepted == (kind in ("plain", "product")), kind
    assert verdicts[3].kind is Kind.REFUTED


def test_the_first_op_with_large_errors_is_named() -> None:
    reference, values = squares("plain")
    (claim,) = claims(reference, values, ("half",))
    (verdict,) = verify_all(reference, [claim], Terms(OPTIONS, Ledger()))
    assert verdict.equivalent
    assert not verdict.accepted
    (place,) = verdict.rough
    assert claim.candidate.ops[place].results == claim.candidate.outputs  # and not `x + y`


def test_who_lies_about_what_is_stored_is_refused_all_the_same() -> None:
    """Statements about stored values only help to find the faulty kernel."""
    reference, values = squares("plain")
    graph, stored = squares("half")
    lies = ((values[0], stored[0]), (values[1], stored[0]), (values[0], stored[1]))
    hint = Hint(reference, reference, lies)
    (verdict,) = verify_all(reference, [Claim(graph, hint)], Terms(OPTIONS, Ledger()))
    assert not verdict.accepted


# ---- situations


def measured(turn: Turn, count: int = 1, **more: object) -> list[rounding.Measured]:
    graphs = [squares("plain")[0]] + [squares("product")[0] for _ in range(count)]
    sample = choose_sample(graphs, 1e6, np.random.default_rng(5))
    return measure_together(graphs, sample, 5, [(0,)] * count, turn=turn, **more)  # pyright: ignore


@pytest.mark.parametrize("of", [2, 3])
def test_every_situation_has_its_turn(of: int) -> None:
    (every,) = measured(Turn())
    parts = [measured(Turn(number, of))[0] for number in range(of)]
    assert all(len(p.errors) > 2 for p in parts)
    together = in_order([Result(tuple(p.errors)) for p in parts])
    assert list(together.errors) == every.errors


@pytest.mark.parametrize("of", [2, 5])
def test_what_is_refused_does_not_depend_on_the_number_of_turns(of: int) -> None:
    reference, values = squares("plain")
    entries = [Entry(c.candidate, (0,), c.hint) for c in claims(reference, values, ("half",))]
    end = time.time() + 1e3
    (alone,) = rounding_of(reference, entries, OPTIONS, Turn(), end)
    assert alone.failed
    parts = [rounding_of(reference, entries, OPTIONS, Turn(k, of), end)[0] for k in range(of)]
    assert in_order(parts) == alone
    assert in_order(parts[::-1]) == alone


def test_the_reference_is_run_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: Counter[int] = Counter()
    real = rounding.outputs_of_each

    def counted(
        graph: KernelGraph, number: int, domain: object, sets: Sequence[object], *rest: object
    ) -> object:
        runs[number] += len(sets)
        return real(graph, number, domain, sets, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(rounding, "outputs_of_each", counted)
    (one,) = measured(Turn())
    alone = runs[0]
    runs.clear()
    three = measured(Turn(), 3)
    assert [len(m.errors) for m in three] == [len(one.errors)] * 3
    assert runs[0] == alone


def test_where_the_time_will_not_do_the_first_go_on() -> None:
    assert not any(m.cut for m in measured(Turn(), 3, left=lambda: 1e9))
    first, *others = measured(Turn(), 3, left=lambda: 1e-9)
    assert not first.cut
    assert first.errors
    assert all(m.cut for m in others)
    assert all(m.cut for m in measured(Turn(), 3, left=lambda: 0.0))


def test_what_is_not_measured_is_not_accepted() -> None:
    """Neither at the deadline, nor because another candidate passes its situations."""
    reference, values = squares("plain")
    entries = [Entry(c.candidate, (0,), c.hint) for c in claims(reference, values, ("product",))]
    (result,) = rounding_of(reference, entries, OPTIONS, Turn(), time.time() - 1.0)
    assert result.cut
    (verdict,) = verify_all(
        reference, claims(reference, values, ("product",)), Terms(OPTIONS, Ledger(), time.time())
    )
    assert verdict.late
    assert not verdict.equivalent


def test_a_piece_gets_a_share_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A candidate that cannot be shown leaves time for the others."""
    given: list[tuple[float, float]] = []

    def show(piece: Piece, seed: int, seconds: float, processor: float) -> Shown:
        given.append((seconds, processor))
        return Shown(0.0)

    monkeypatch.setattr(together_module, "show", show)
    reference, values = squares("plain")
    terms = Terms(OPTIONS, Ledger(), time.time() + 4.0)
    list(verify_all(reference, claims(reference, values, ("product",)), terms))
    assert given
    assert all(processor <= PIECE_SHARE * 4.0 < seconds for seconds, processor in given[:1])
    assert all(processor <= PIECE_SHARE * 4.0 for _, processor in given)


# ---- piece by piece


def chain() -> tuple[KernelGraph, list[Value]]:
    """Four products in a row."""
    b = Builder()
    x, *weights = (Value(TensorType((64, 96), DType.F16)), *_weights(4))
    values: list[Value] = []
    y = x
    for w in weights:
        y = b.unary(UnaryFn.SILU, b.matmul(y, w))
        values.append(y)
    return KernelGraph("chain", (x, *weights), tuple(b.ops), (y,)), values


def _weights(count: int) -> list[Value]:
    return [Value(TensorType((96, 96), DType.F16)) for _ in range(count)]


def other_chain(fault: int | None = None) -> tuple[KernelGraph, list[Value]]:
    """Return the chain with its activations written out; product ``fault`` is negated."""
    b = Builder()
    x, *weights = (Value(TensorType((64, 96), DType.F16)), *_weights(4))
    values: list[Value] = []
    y = x
    for number, w in enumerate(weights):
        z = b.matmul(y, w)
        if number == fault:
            z = b.unary(UnaryFn.NEG, z)
        y = b.binary(BinaryFn.MUL, b.unary(UnaryFn.SIGMOID, z), z)
        values.append(y)
    return KernelGraph("other", (x, *weights), tuple(b.ops), (y,)), values


LITTLE = VerifyOptions(seed=1, work=120.0)
"""Too little work for one element of the whole, enough for one of each product."""


def chain_claim(fault: int | None = None) -> tuple[KernelGraph, Claim]:
    reference, values = chain()
    graph, stored = other_chain(fault)
    return reference, Claim(
        graph, Hint(reference, reference, tuple(zip(values, stored, strict=True)))
    )


def in_pieces(verdict: object) -> bool:
    return any("each on its own" in e.text for e in verdict.evidence)  # type: ignore[attr-defined]


def test_what_is_too_large_is_tested_piece_by_piece() -> None:
    reference, claim = chain_claim()
    alone = verify(reference, claim.candidate, LITTLE, claim.hint)
    (shared,) = verify_all(reference, [claim], Terms(LITTLE, Ledger()))
    for verdict in (alone, shared):
        assert verdict.kind is Kind.PROVED
        assert in_pieces(verdict)
    assert not in_pieces(verify(reference, claim.candidate, LITTLE))  # no hint, no pieces


@pytest.mark.parametrize("fault", some_of(range(4), every=2))
def test_a_wrong_kernel_is_not_accepted_piece_by_piece(fault: int) -> None:
    reference, claim = chain_claim(fault)
    alone = verify(reference, claim.candidate, LITTLE, claim.hint)
    (shared,) = verify_all(reference, [claim], Terms(LITTLE, Ledger()))
    for verdict in (alone, shared):
        assert not verdict.equivalent
        assert verdict.unshown


def test_a_piece_that_fails_its_tests_is_fatal(monkeypatch: pytest.MonkeyPatch) -> None:
    """If all pieces are wrongly believed to be shown, the tests of a wrong one still fail."""
    monkeypatch.setattr(together_module, "show", lambda *rest: Shown(float("-inf")))
    reference, claim = chain_claim(2)
    right = chain_claim()[1]
    verdicts = list(verify_all(reference, [claim, Claim(right.candidate)], Terms(LITTLE, Ledger())))
    assert not verdicts[0].equivalent
    assert verdicts[0].unshown


def test_equal_pieces_are_tested_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []
    real = together_module.try_piece

    def counted(piece: Piece, *rest: Any) -> object:
        tried.append(piece.key)
        return real(piece, *rest)

    monkeypatch.setattr(together_module, "try_piece", counted)
    reference, values = chain()
    both: list[Claim] = []
    for _ in range(2):
        graph, stored = other_chain()
        pairs = tuple(zip(values, stored, strict=True))
        both.append(Claim(graph, Hint(reference, reference, pairs)))
    verdicts = list(verify_all(reference, both, Terms(LITTLE, Ledger())))
    assert [v.kind for v in verdicts] == [Kind.PROVED] * 2
    assert len(tried) == len(set(tried))


def exponentials(form: str) -> tuple[KernelGraph, Value]:
    """``exp(exp(x) + y)``: the finite field does not know the product for this sum."""
    b = Builder()
    x, y = (Value(TensorType((16, 32), DType.F32)) for _ in range(2))
    inner = b.unary(UnaryFn.EXP, x)
    if form == "sum":
        out = b.unary(UnaryFn.EXP, b.binary(BinaryFn.ADD, inner, y))
    else:
        right = b.unary(UnaryFn.EXP, b.unary(UnaryFn.NEG, y) if form == "wrong" else y)
        out = b.binary(BinaryFn.MUL, b.unary(UnaryFn.EXP, inner), right)
    return KernelGraph("exponentials", (x, y), tuple(b.ops), (out,)), inner


@pytest.mark.parametrize("form", ["product", "wrong"])
def test_where_the_field_knows_no_identity_pieces_are_tested(form: str) -> None:
    reference, inner = exponentials("sum")
    graph, stored = exponentials(form)
    options = VerifyOptions(seed=2, numerics=False)
    hint = Hint(reference, reference, ((inner, stored), (reference.outputs[0], graph.outputs[0])))
    alone = verify(reference, graph, options, hint)
    (shared,) = verify_all(reference, [Claim(graph, hint)], Terms(options, Ledger()))
    for verdict in (alone, shared):
        assert verdict.equivalent == (form == "product"), verdict
        if form == "product":
            assert in_pieces(verdict)
