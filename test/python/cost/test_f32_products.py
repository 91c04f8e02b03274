"""The cost of products of f32 operands."""

from __future__ import annotations

import pytest
from mirage.cost.accountant import Accountant, Operands


def features(operands: Operands) -> tuple[float, float, float]:
    account = Accountant()
    account.matmul(16.0, 128.0, 64.0, operands, in_loop=False)
    found = account.features
    return float(found.mma32_once), float(found.alu_once), float(found.move_once)


def test_a_cast_of_16_bits_needs_neither_splitting_nor_a_third_product() -> None:
    flop, split, moved = features(Operands(False))
    right, fewer, less = features(Operands(False, (False, True)))
    assert right == pytest.approx(2 / 3 * flop)
    assert 0 < fewer < split
    assert less < moved


def test_half_operands_are_not_split() -> None:
    account = Accountant()
    account.matmul(16.0, 128.0, 64.0, Operands(True), in_loop=False)
    assert account.features.mma32_once == 0
    assert account.features.alu_once == 0
