"""Dataclasses as plain data: conversion in both directions, and data that does not fit."""

from __future__ import annotations

import enum
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from mirage.cache import PlainError, as_plain, from_plain


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Inner:
    number: float
    name: str = "x"


@dataclass(frozen=True)
class Outer:
    count: int
    color: Color
    inner: Inner | None
    parts: tuple[Inner, ...]
    pair: tuple[int, str]
    table: dict[str, float]
    mapping: Mapping[str, int]
    anything: dict[str, Any]
    flag: bool | None
    names: list[str] = field(default_factory=list[str])


VALUE = Outer(
    3, Color.BLUE, Inner(math.inf), (Inner(1.0), Inner(0.1, "y")), (1, "a"),
    {"s": 0.5}, {"n": 2}, {"list": [1, None], "text": "µ"}, None, ["a", "b"],
)  # fmt: skip


def test_there_and_back() -> None:
    data = json.loads(json.dumps(as_plain(VALUE)))
    assert from_plain(Outer, data) == VALUE


def test_numbers_of_numpy_and_fractions() -> None:
    assert as_plain({"a": np.float32(0.5), "b": np.int64(3), "c": Fraction(1, 3)}) == {
        "a": 0.5, "b": 3, "c": "1/3",
    }  # fmt: skip
    assert as_plain(frozenset(("b", "a"))) == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("count", 1.5), ("count", True), ("count", "3"), ("color", "green"), ("inner", 3),
        ("inner", {"number": 1.0, "other": 2}), ("inner", {}), ("parts", {}), ("pair", [1]),
        ("pair", [1, 2]), ("table", {"s": "fast"}), ("mapping", []), ("flag", 1), ("names", [1]),
        ("new", 1),
    ],
)  # fmt: skip
def test_what_does_not_fit(name: str, value: Any) -> None:
    with pytest.raises(PlainError):
        from_plain(Outer, {**as_plain(VALUE), name: value})


def test_what_is_missing() -> None:
    data = as_plain(VALUE)
    del data["pair"]
    with pytest.raises(PlainError, match="missing ones"):
        from_plain(Outer, data)
    with pytest.raises(PlainError, match="expected an object"):
        from_plain(Outer, [])


def test_what_is_no_data() -> None:
    with pytest.raises(PlainError, match="got object"):
        as_plain({"x": object()})
