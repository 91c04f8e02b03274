"""Programs that are equal because of properties of rows are shown to be equal; their wrong twins
are not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch.nn.functional as F
from mirage.semantics.decompose import decompose
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.verify import Assumptions, Kind, VerifyOptions
from mirage.verify.normal_form.read_by_rows import named_places, read_by_rows
from mirage.verify.shared_inputs.free_positions import free_positions
from mirage.verify.verifier import verify_aligned
from thorough import some_of
from written.pairs import Pair, aligned_of, verdict_of
from written.rows_right import CLASSES, ROWS_RIGHT
from written.rows_wrong import ROWS_WRONG

ALL = ROWS_RIGHT + ROWS_WRONG
LEFT_OUT = Pair(
    "a loss by what is picked",
    CLASSES,
    lambda x, t: F.cross_entropy(x, t, reduction="none"),
    lambda x, t: x.logsumexp(-1) - x.gather(1, t[:, None])[:, 0],
    False,
)


@pytest.mark.parametrize("pair", some_of(ROWS_RIGHT, every=8), ids=lambda pair: pair.name)
def test_the_same_by_rows_is_shown_to_be(pair: Pair) -> None:
    verdict = verdict_of(pair, ALL)
    assert verdict.kind is Kind.PROVED, verdict
    assert verdict.defined, verdict
    assert verdict.accepted or not pair.rounding, verdict


@pytest.mark.parametrize("pair", some_of(ROWS_WRONG, every=8), ids=lambda pair: pair.name)
def test_what_does_not_hold_of_rows_is_not_accepted(pair: Pair) -> None:
    verdict = verdict_of(pair, ALL)
    assert not verdict.accepted, verdict
    assert not verdict.equivalent or verdict.defined is False, verdict


@pytest.mark.parametrize("pair", some_of(ALL), ids=lambda pair: pair.name)
def test_a_program_that_is_read_by_rows_computes_the_same(pair: Pair) -> None:
    aligned = aligned_of(pair, ALL)
    freed = free_positions(aligned.reference, aligned.candidate)
    contents = {**aligned.contents, **freed.positions}
    first, second = decompose(freed.reference), decompose(freed.candidate)
    places = named_places(first, contents).counts
    again = free_positions(*read_by_rows(first, second, contents, places))
    rng = np.random.default_rng(0)
    inputs = [
        contents[i]
        if i in contents
        else rng.integers(0, 12, v.shape)
        if v.dtype.is_integer
        else rng.standard_normal(v.shape)
        for i, v in enumerate(first.inputs)
    ]
    further = [*inputs, *(again.positions[i] for i in sorted(again.positions))]
    pairs = ((first, again.reference), (second, again.candidate))
    for given, read in pairs:
        for x, y in zip(
            evaluate_floats(given, inputs), evaluate_floats(read, further), strict=True
        ):
            np.testing.assert_allclose(y, x, rtol=1e-12, atol=1e-12)


def test_a_class_may_be_left_out_unless_indices_are_in_range() -> None:
    """PyTorch's loss leaves out targets of -100, where a lookup has no meaning."""
    verdict = verdict_of(LEFT_OUT, [LEFT_OUT])
    assert verdict.kind is Kind.PROVED
    assert verdict.defined is False, verdict
    assert "input 1 below 12" in str(verdict)
    options = VerifyOptions(seed=7, numerics=False, assume=Assumptions(indices_in_range=True))
    assert verify_aligned(aligned_of(LEFT_OUT, [LEFT_OUT]), options).accepted


def test_no_class_is_found_in_another_table() -> None:
    """Assumptions about indices do not make other programs equal."""
    wrong = replace(
        LEFT_OUT, second=lambda x, t: x.logsumexp(-1) - x.gather(1, t[:, None])[:, 0] / 2
    )
    options = VerifyOptions(seed=7, numerics=False, assume=Assumptions(indices_in_range=True))
    assert not verify_aligned(aligned_of(wrong, [wrong]), options).equivalent
