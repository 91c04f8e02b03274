"""Options of passes: the text of a pipeline element and the dataclass."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mirage.passes.option_text import NoOptions, PassOptionError, make_options, split_options


@dataclass(frozen=True)
class Options:
    seed: int = 0
    time_limit: float = 1.5
    check_float: bool = True
    chip: str = "sm_90a"
    values: tuple[int, ...] = ()
    bound: int | None = None


def test_defaults_are_kept() -> None:
    assert make_options("p", Options, "") == Options()


def test_every_type_is_read() -> None:
    text = 'seed=-3 time-limit=2e1 check-float=false chip="two words" values=1,2,3 bound=7'
    expected = Options(-3, 20.0, False, "two words", (1, 2, 3), 7)
    assert make_options("p", Options, text) == expected


def test_empty_values_are_empty_lists_and_none() -> None:
    assert make_options("p", Options, "values= bound= chip=") == Options(chip="")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sed=1", "pass 'p' has no option 'sed'; it has seed, time-limit, check-float, chip"),
        ("seed=x", "option 'seed' of pass 'p' must be an integer, but it is 'x'"),
        ("time-limit=x", "must be a number, but it is 'x'"),
        ("check-float=maybe", "must be true or false, but it is 'maybe'"),
        ("values=1,x", "must be a list of values that are an integer, but it is '1,x'"),
    ],
)
def test_bad_options_are_named(text: str, message: str) -> None:
    with pytest.raises(PassOptionError, match=message):
        make_options("p", Options, text)


def test_a_pass_without_options_says_so() -> None:
    with pytest.raises(PassOptionError, match="has no option 'x'; it has none"):
        make_options("p", NoOptions, "x=1")


WORD = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1)
VALUE = st.text(
    st.characters(codec="ascii", categories=["L", "N", "P", "Zs"], exclude_characters="\"'{}")
)


@given(st.dictionaries(WORD, VALUE))
def test_quoting_keeps_any_value(options: dict[str, str]) -> None:
    for opening, closing in ('""', "''", "{}"):
        text = " ".join(f"{name}={opening}{value}{closing}" for name, value in options.items())
        assert dict(split_options(text)) == options
