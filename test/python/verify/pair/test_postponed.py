"""The verdicts that result from postponed tests."""

from __future__ import annotations

from mirage.semantics.builder import Builder
from mirage.semantics.scalar import DType, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.verify.pair.postponed import Open, with_tests
from mirage.verify.pair.postponed import Tested as Outcome
from mirage.verify.pieces.kernel_by_kernel import Piece
from mirage.verify.verdict import Evidence, Kind, Verdict


def left(*fns: UnaryFn) -> Open:
    """A candidate of one op for each function, and a piece for each."""
    x = Value(TensorType((4,), DType.F32), "x")
    b = Builder()
    for fn in fns:
        b.unary(fn, b.ops[-1].results[0] if b.ops else x)
    candidate = KernelGraph("candidate", (x,), tuple(b.ops), b.ops[-1].results)
    graphs = [KernelGraph("piece", op.operands, (op,), op.results) for op in candidate.ops]
    pieces = tuple(Piece(g, g, g.outputs, g.ops) for g in graphs)
    return Open(Verdict(Kind.PROVED, None, (), 0), candidate, pieces)


FINE = Outcome(True, True, (Evidence("test", True, "fine"),))


def test_no_time_is_no_fault() -> None:
    """Nothing is known about a piece that was not tested: no kernel is refused because of that."""
    some = left(UnaryFn.EXP, UnaryFn.TANH)
    verdict = with_tests(some, {some.pieces[0].key: FINE})
    assert (verdict.kind, verdict.late) == (Kind.UNKNOWN, True)
    assert not verdict.unshown
    assert "before 1 of 2 pieces were tested" in verdict.evidence[-1].text
    every = with_tests(some, {p.key: FINE for p in some.pieces})
    assert (every.kind, every.late, every.accepted) == (Kind.PROVED, False, True)


def test_a_piece_that_is_wrong_is_named_whatever_was_not_tested() -> None:
    some = left(UnaryFn.EXP, UnaryFn.TANH)
    wrong = Outcome(False, None, (Evidence("test", False, "differs"),))
    verdict = with_tests(some, {some.pieces[1].key: wrong})
    assert (verdict.kind, verdict.late, verdict.unshown) == (Kind.UNKNOWN, False, (1,))
    rough = Outcome(True, False, (Evidence("rounding errors", False, "large"),))
    verdict = with_tests(some, {some.pieces[1].key: rough})
    assert (verdict.kind, verdict.late, verdict.rough) == (Kind.UNKNOWN, False, (1,))
