"""A rounding of a candidate that the reference does not have is detected with every seed, even if
the reference rounds another value to equally few digits.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.verify import VerifyOptions
from mirage.verify.evidence.roundings import situations
from mirage.verify.evidence.roundings.activations import Activations
from mirage.verify.evidence.roundings.hidden_roundings import hidden_roundings
from mirage.verify.evidence.samples.sampled_outputs import choose_sample
from mirage.verify.pair.verification import Verification
from thorough import some_of

F16, BF16, F32 = DType.F16, DType.BF16, DType.F32
ROWS, WIDTH, COLUMNS = 32, 17, 70
Change = Callable[[Builder, Value], Value]


def as_it_is(b: Builder, x: Value) -> Value:
    return x


def kept_in(dtype: DType) -> Change:
    return lambda b, x: b.cast(b.cast(x, dtype), F32)


class Table:
    """Rows of a table, weighted by products of rows that are rounded to 16 bits."""

    def __init__(self, dtype: DType, rows: int = ROWS) -> None:
        self.b = Builder()
        self.x = Value(TensorType((rows, WIDTH), dtype), "x")
        self.table = Value(TensorType((rows, COLUMNS), F32), "table")

    def graph(self, y: Value) -> KernelGraph:
        return KernelGraph("table", (self.x, self.table), tuple(self.b.ops), (y,))

    @property
    def other(self) -> Value:
        return self.b.transpose(self.x, (1, 0))

    def product(self, of_table: Change = as_it_is, wide: bool = False) -> KernelGraph:
        b, x, other = self.b, self.x, self.other
        if wide:
            x, other = b.cast(x, F32), b.cast(other, F32)
        return self.graph(b.matmul(b.matmul(x, other), of_table(b, self.table)))

    def turned(self) -> KernelGraph:
        b = self.b
        weights = b.matmul(self.x, self.other)
        y = b.matmul(b.transpose(self.table, (1, 0)), b.transpose(weights, (1, 0)))
        return self.graph(b.transpose(y, (1, 0)))

    def exponentials(self, of_table: Change = as_it_is) -> KernelGraph:
        b = self.b
        weights = b.cast(b.matmul(self.x, self.other), F32)
        y = b.matmul(weights, of_table(b, b.unary(UnaryFn.EXP, self.table)))
        return self.graph(b.binary(BinaryFn.MUL, y, b.constant(0.25)))


def accepted(reference: KernelGraph, candidate: KernelGraph, seed: int) -> bool:
    options = VerifyOptions(seed=seed, work=5e5)
    test = Verification(reference, candidate, 0, options, seed, None, {})
    exact, rounding = test.tests(rounding=True)
    assert exact, test.evidence
    return bool(rounding)


@pytest.mark.parametrize("rows", [ROWS, 2])
@pytest.mark.parametrize(
    ("dtype", "kept"), some_of([(F16, F16), (F16, BF16), (BF16, BF16), (BF16, F16)], every=6)
)
def test_an_operand_that_is_rounded_is_seen_at_every_seed(
    dtype: DType, kept: DType, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if there is time for few of the common situations."""
    monkeypatch.setattr(situations, "_FEWEST", 1)
    monkeypatch.setattr(situations, "_ALL", 1.0)
    reference, candidate = (Table(dtype, rows).product(c) for c in (as_it_is, kept_in(kept)))
    assert not any(accepted(reference, candidate, seed) for seed in range(12))


def test_so_is_one_that_is_computed() -> None:
    reference, candidate = (Table(F16).exponentials(c) for c in (as_it_is, kept_in(F16)))
    assert not any(accepted(reference, candidate, seed) for seed in range(12))


@pytest.mark.parametrize("dtype", [F16, BF16])
def test_what_rounds_no_more_is_accepted(dtype: DType) -> None:
    reference = Table(dtype).product()
    candidates = {
        "the same": Table(dtype).product(),
        "in another order": Table(dtype).turned(),
        "in f32": Table(dtype).product(wide=True),
    }
    for name, candidate in candidates.items():
        assert all(accepted(reference, candidate, seed) for seed in range(4)), name


def test_a_cast_of_the_reference_may_be_left_out() -> None:
    """It is one of its roundings, and not the purpose of the program, although nothing else is
    rounded if the other inputs have few digits."""
    reference = Table(F16).product(kept_in(F16))
    assert all(accepted(reference, Table(F16).product(), seed) for seed in range(4))


def test_each_input_has_its_digits_where_the_others_have_few() -> None:
    graph = Table(F16).product()
    sample = choose_sample([graph, graph], 1e6, np.random.default_rng(0), {}, 8)
    draw = Activations(graph, sample, 0)
    found = list(hidden_roundings(draw, graph))
    assert len(found) == 4
    for situation in found:
        assert situation is not None
        assert situation.again is not None
        for inputs in (situation.inputs, situation.again(1)):
            sizes = [np.unique(np.abs(x.planes[0])) for x in inputs]
            few = [s for s in sizes if len(s) <= 2]
            assert len(few) == 1
            assert np.log2(few[0].max()) % 1.0 == 0.0
        first, other = situation.inputs[0].planes[0], situation.again(1)[0].planes[0]
        assert not np.array_equal(first, other)
    assert not list(hidden_roundings(draw, Table(F32).product()))
