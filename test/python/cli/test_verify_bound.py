"""``mirage verify`` compares the tensors that programs hold, and results by their keys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mirage.cli import main
from thorough import some_of

FILE = """
import torch
from torch import nn

w1, w2 = torch.randn(8, 8), torch.randn(8, 8)
copy = w1.clone()
zeros, twos = torch.zeros(8), torch.full((8,), 2.0)
fixed = nn.Parameter(torch.randn(8, 8))


def times_w1(x): return x @ w1
def times_copy(x): return x @ copy
def times_w2(x): return x @ w2
def twice_w1(x): return (x + x) @ w1
def same(x): return x
def plus_zeros(x): return x + zeros
def times_twos(x): return x * twos
def doubled(x): return x * 2
def literal(x): return x * torch.tensor([1., 2., 3., 4., 5., 6., 7., 8.])
def literal_other(x): return x * torch.tensor([1., 2., 3., 4., 5., 6., 7., 9.])
def named(x): return {"a": x.exp(), "b": -x}
def named_back(x): return {"b": -x, "a": x.exp()}
def named_exchanged(x): return {"b": x.exp(), "a": -x}
def named_other(x): return {"a": x.exp(), "c": -x}
def with_none(x): return {"a": x.exp(), "b": None}
def with_three(x): return {"a": x.exp(), "b": 3}
def first_of_two(x, y): return x + x
def first_of_two_again(x, y): return x * 2
def second_of_two(x, y): return y + y


class Gated(nn.Module):
    def __init__(self, order, exchanged=False):
        super().__init__()
        for name in order:
            self.register_parameter(name, nn.Parameter(torch.randn(8, 8)))
        self.exchanged = exchanged

    def forward(self, x):
        gate, up = (self.up, self.gate) if self.exchanged else (self.gate, self.up)
        return (x @ gate).relu() * (x @ up)


gated, gated_back = Gated(("gate", "up")), Gated(("up", "gate"))
gated_exchanged = Gated(("gate", "up"), True)


class Masked(nn.Module):
    def __init__(self, shift=0, value=float("-inf"), name="mask"):
        super().__init__()
        self.name = name
        self.register_buffer(name, torch.full((8, 8), value).triu(1 + shift))

    def forward(self, x):
        return (x + getattr(self, self.name)).softmax(-1)


masked, masked_again, masked_renamed = Masked(), Masked(), Masked(name="causal")
masked_shifted, masked_finite, masked_finite_shifted = Masked(1), Masked(0, -3.0), Masked(1, -3.0)


class Rope(nn.Module):
    def __init__(self, base):
        super().__init__()
        angles = torch.outer(torch.arange(8.0), base ** -(torch.arange(8.0) / 8))
        self.register_buffer("table", angles.cos(), persistent=False)

    def forward(self, x):
        return x * self.table


rope, rope_again, rope_other = Rope(10000.0), Rope(10000.0), Rope(10001.0)


class One(nn.Module):
    def __init__(self, name, buffer=False, unread=()):
        super().__init__()
        self.name = name
        data = torch.randn(8, 8)
        if buffer:
            self.register_buffer(name, data)
        else:
            self.register_parameter(name, nn.Parameter(data))
        for other in unread:
            self.register_parameter(other, nn.Parameter(torch.randn(8, 8)))

    def forward(self, x):
        return x @ getattr(self, self.name)


class Tied(nn.Module):
    def __init__(self, names, tied=True):
        super().__init__()
        data = torch.randn(8, 8)
        weight = nn.Parameter(data)
        for name in names:
            self.register_parameter(name, weight if tied else nn.Parameter(data.clone()))
        self.names = names

    def forward(self, x):
        return (x @ getattr(self, self.names[0])).tanh() @ getattr(self, self.names[-1])


tied, tied_a, tied_b = Tied(("a", "b")), Tied(("a",)), Tied(("b",))
tied_back, untied = Tied(("b", "a")), Tied(("a", "b"), tied=False)
one_a, one_b, buffer_a = One("a"), One("b"), One("a", buffer=True)
a_of_both, b_of_both = One("a", unread=("b",)), One("b", unread=("a",))
_two = (torch.randn(8, 8), torch.randn(8, 8))
_one = (torch.randn(8, 8),)
example_inputs = {
    name: _two if "of_two" in name else _one
    for name, item in list(globals().items()) if callable(item)
}
"""

PAIRS = [
    ("times_w1", "times_w1", 0),
    ("times_w1", "times_copy", 0),
    ("times_w1", "times_w2", 1),
    ("times_w1", "twice_w1", 1),
    ("same", "same", 0),
    ("same", "plus_zeros", 0),
    ("plus_zeros", "same", 0),
    ("doubled", "times_twos", 0),
    ("same", "times_twos", 1),
    ("literal", "literal", 0),
    ("literal", "literal_other", 1),
    ("named", "named_back", 0),
    ("named", "named_exchanged", 1),
    ("with_none", "with_none", 0),
    ("with_none", "with_three", 1),
    ("with_none", "named", 1),
    ("first_of_two", "first_of_two_again", 0),
    ("first_of_two", "second_of_two", 1),
    ("gated", "gated_back", 0),
    ("gated", "gated_exchanged", 1),
    ("masked", "masked_again", 0),
    ("masked", "masked_renamed", 0),
    ("masked", "masked_shifted", 1),
    ("masked_finite", "masked_finite_shifted", 1),
    ("rope", "rope_again", 0),
    ("rope", "rope_other", 1),
    ("a_of_both", "b_of_both", 1),
    ("tied", "tied_a", 0),
    ("tied", "tied_b", 0),
    ("tied_a", "tied", 0),
    ("tied", "tied_back", 0),
    ("tied", "untied", 1),
    ("untied", "tied", 1),
    ("tied", "a_of_both", 1),
]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bound") / "programs.py"
    path.write_text(FILE)
    return path


def run(
    capsys: pytest.CaptureFixture[str], file: Path, first: str, second: str, *more: str
) -> tuple[int, dict[str, Any]]:
    code = main(["verify", f"{file}:{first}", f"{file}:{second}", "--json", *more])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(("first", "second", "expected"), some_of(PAIRS))
def test_what_programs_hold_is_part_of_them(
    capsys: pytest.CaptureFixture[str], file: Path, first: str, second: str, expected: int
) -> None:
    code, data = run(capsys, file, first, second)
    assert code == expected, data
    assert data["accepted"] is (expected == 0)
    assert data["kind"] == ("refuted" if expected else "proved")


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ("one_a", "one_b", "the candidate has no 'a'; the reference has no 'b'"),
        ("one_a", "buffer_a", "'a' is a parameter of the reference and a buffer or constant"),
        ("named", "named_other", "outputs: expected ['a'], ['b'], got ['a'], ['c']"),
        ("one_a", "times_w1", "the candidate has no 'a'"),
        ("tied_a", "untied", "the reference has no 'b'"),
        ("same", "first_of_two", "inputs: expected 1 that a caller passes, got 2"),
    ],
)
def test_what_cannot_be_matched_is_an_error(
    capsys: pytest.CaptureFixture[str], file: Path, first: str, second: str, message: str
) -> None:
    code, data = run(capsys, file, first, second)
    assert code == 2
    assert message in data["error"]["message"]


@pytest.mark.parametrize(
    ("first", "second", "pair"),
    [("one_a", "one_b", "a=b"), ("one_a", "buffer_a", "a=a"), ("one_a", "times_w1", "a=w1")],
)
def test_names_are_given(
    capsys: pytest.CaptureFixture[str], file: Path, first: str, second: str, pair: str
) -> None:
    assert run(capsys, file, first, second, "--match", pair)[0] == 0


@pytest.mark.parametrize("pair", ["a", "=b", "a=", "x=b", "a=x"])
def test_wrong_names_are_an_error(
    capsys: pytest.CaptureFixture[str], file: Path, pair: str
) -> None:
    assert run(capsys, file, "one_a", "one_b", "--match", pair)[0] == 2
