"""Rounding errors that are measured in several situations at once equal those that are measured one
after the other."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import pytest
from example_programs.hand_attention import products
from hypothesis import given, settings
from hypothesis import strategies as st
from mirage.semantics.builder import Builder
from mirage.semantics.decompose import decompose
from mirage.semantics.evaluation.evaluate import Sampled
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.verify import Kind, VerifyOptions, verify
from mirage.verify.candidates import shared_rounding
from mirage.verify.candidates.shared_rounding import Entry, in_order, rounding_of
from mirage.verify.candidates.together import Claim, Terms, verify_all
from mirage.verify.evidence.roundings import side_by_side
from mirage.verify.evidence.roundings.rounding import Measured, measure_together
from mirage.verify.evidence.roundings.side_by_side import alike, stacked
from mirage.verify.evidence.roundings.situations import Turn
from mirage.verify.evidence.samples.instance import TooMuchWork, make_joint
from mirage.verify.evidence.samples.sampled_outputs import choose_sample
from mirage.verify.pieces.ledger import Ledger
from thorough import some_of

KINDS = ("sums", "squares in half", "norm", "norm in half", "maximum at least 0")


def program(kind: str) -> KernelGraph:
    """In each pair of kinds, the first is fine and the second is rough."""
    x, g = Value(TensorType((64, 256), DType.F16)), Value(TensorType((256,), DType.F16))
    b = Builder()
    wide = b.cast(x, DType.F32)
    if kind in ("sums", "maximum at least 0"):
        most = b.reduce(ReduceFn.MAX, wide, (1,))
        if kind != "sums":
            most = b.binary(BinaryFn.MAX, most, b.constant(0.0))
        y = b.unary(UnaryFn.EXP, b.binary(BinaryFn.SUB, wide, most))
        y = b.binary(BinaryFn.DIV, y, b.reduce(ReduceFn.SUM, y, (1,)))
    else:
        square = b.unary(UnaryFn.SQUARE, x if "half" in kind else wide)
        mean = b.reduce(ReduceFn.SUM, b.cast(square, DType.F32), (1,))
        inner = b.binary(BinaryFn.MUL, mean, b.constant(1.0 / 256.0))
        scale = b.unary(UnaryFn.RSQRT, b.binary(BinaryFn.ADD, inner, b.constant(1e-6)))
        y = b.binary(BinaryFn.MUL, wide, scale)
    y = b.cast(b.binary(BinaryFn.MUL, y, b.cast(g, DType.F32)), DType.F16)
    return KernelGraph(kind, (x, g), tuple(b.ops), (y,))


def measured(kinds: Sequence[str], seed: int, at_once: float) -> list[Measured]:
    graphs = [program(kind) for kind in kinds]
    sample = choose_sample(graphs, 1e5, np.random.default_rng(seed))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(side_by_side, "_AT_ONCE", at_once)
        return measure_together(graphs, sample, seed, [(0,)] * (len(graphs) - 1))


@pytest.mark.parametrize("first", some_of(["sums", "norm"], every=2))
@pytest.mark.parametrize("seed", [0, 5])
def test_what_is_measured_does_not_depend_on_how_many_there_are_at_once(
    first: str, seed: int
) -> None:
    """The errors are the same to the last bit, up to the same first situation in which they are
    large."""
    rough = {"sums": "maximum at least 0", "norm": "norm in half"}[first]
    one, some, all_ = (measured([first, first, rough], seed, n) for n in (0.0, 3e5, 1e9))
    for other in (some, all_):
        for m, n in zip(one, other, strict=True):
            assert m.errors == n.errors
            assert (m.failed is None) == (n.failed is None)
            if m.failed is not None and n.failed is not None:
                assert m.failed[0].name == n.failed[0].name
                for x, y in zip(m.failed[0].inputs, n.failed[0].inputs, strict=True):
                    np.testing.assert_array_equal(x.planes[0], y.planes[0])
    fine, wrong = one
    assert fine.failed is None
    assert len(fine.errors) > 20
    assert wrong.failed is not None


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 1 << 32))
def test_sets_are_put_together_by_what_they_have_in_common(seed: int) -> None:
    """Every set once; none is copied that is large and the same for some."""
    rng = np.random.default_rng(seed)
    usual = [Sampled((np.zeros(n),), (None,)) for n in (10, 60_000, 70_000)]
    sets = [
        [
            x if rng.random() < 0.6 else Sampled((rng.standard_normal(x.planes[0].shape),), (None,))
            for x in usual
        ]
        for _ in range(6)
    ]
    groups = alike(sets)
    assert sorted(k for group in groups for k in group) == list(range(6))
    for group in groups:
        together = stacked([sets[k] for k in group])
        for i, x in enumerate(together):
            planes = [sets[k][i].planes[0] for k in group]
            some = [p for p in planes if p is usual[i].planes[0]]
            if i and len(some) > 1:
                assert len(x.planes[0]) == 1
            for k, p in enumerate(planes):
                np.testing.assert_array_equal(x.planes[0][min(k, len(x.planes[0]) - 1)], p)


# ---- candidates over cells

FEW = VerifyOptions(seed=3, work=2e4)
KEYS = {"keys": 1 << 15, "batch": 64, "rows": 1}


def test_candidates_over_cells_are_measured_together() -> None:
    """They get the same results as alone, for any number of workers."""
    reference = products(False, **KEYS)
    graphs = [products(False, **KEYS), products(False, **KEYS, scaled=True)]
    entries = [Entry(g, (0,), None, True) for g in graphs]
    end = time.time() + 1e3
    fine, wrong = rounding_of(reference, entries, FEW, Turn(), end)
    assert not fine.failed
    assert len(fine.errors) > 20
    assert wrong.failed
    assert [verify(reference, g, FEW).accepted for g in graphs] == [True, False]
    parts = [rounding_of(reference, entries, FEW, Turn(k, 2), end) for k in range(2)]
    for number, alone in enumerate((fine, wrong)):
        assert in_order([p[number] for p in parts]) == alone


def test_programs_over_cells_have_the_same_inputs() -> None:
    graphs = [decompose(products(False, **KEYS, scaled=s), stable=True) for s in (False, True)]
    programs, sample = make_joint([*graphs, graphs[0]], FEW.work, np.random.default_rng(0))
    assert len(programs) == len(sample.demands) == 3
    assert sample.fixed
    assert all(len(g.inputs) == len(programs[0].inputs) for g in programs)


def test_candidates_without_common_cells_are_measured_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []

    def joint(graphs: Sequence[KernelGraph], *rest: object) -> object:
        asked.append(len(graphs))
        if len(graphs) > 2:
            raise TooMuchWork("no common cells")
        return make_joint(graphs, *rest)  # pyright: ignore

    monkeypatch.setattr(shared_rounding, "make_joint", joint)
    reference = products(False, **KEYS)
    scaled = (False, True, False)
    entries = [Entry(products(False, **KEYS, scaled=s), (0,), None, True) for s in scaled]
    found = rounding_of(reference, entries, FEW, Turn(), time.time() + 1e3)
    assert asked == [4, 2, 3, 2, 2]
    assert [r.failed for r in found] == [*scaled]


def test_what_cannot_be_run_over_cells_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*rest: object) -> object:
        raise TooMuchWork("too many elements")

    monkeypatch.setattr(shared_rounding, "make_joint", never)
    reference = products(False, **KEYS)
    (verdict,) = verify_all(reference, [Claim(reference)], Terms(FEW, Ledger()))
    assert verdict.kind is Kind.UNKNOWN
    assert not verdict.late
    assert verdict.evidence[-1].text == "too many elements"
    monkeypatch.undo()
    (verdict,) = verify_all(reference, [Claim(reference)], Terms(FEW, Ledger()))
    assert verdict.accepted
