"""Options of passes: from the text of a pipeline element to a dataclass.

The text is what MLIR prints: `seed=1 values=1,2 name="two words"`, where quotes or braces keep
blanks together.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from mirage.cost.target import DEFAULT_CHIP
from mirage.errors import MirageError

Options = TypeVar("Options")

_OPENING = {'"': '"', "'": "'", "{": "}"}


class PassOptionError(MirageError):
    """A pass does not have an option, or the option does not accept a value."""


@dataclass(frozen=True)
class NoOptions:
    """The options of a pass that has none."""


def split_options(text: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the value of each option in `text`, unquoted.

    >>> list(split_options('seed=1 name="two words" flag'))
    [('seed', '1'), ('name', 'two words'), ('flag', 'true')]
    """
    position = 0
    while position < len(text):
        if text[position].isspace():
            position += 1
            continue
        end = _end_of_word(text, position)
        name, equals, value = text[position:end].partition("=")
        position = end
        if len(value) >= 2 and _OPENING.get(value[0]) == value[-1]:
            value = value[1:-1]
        yield name, value if equals else "true"


def _end_of_word(text: str, start: int) -> int:
    closing: list[str] = []
    for position in range(start, len(text)):
        character = text[position]
        if closing and character == closing[-1]:
            closing.pop()
        elif character in _OPENING and not (closing and closing[-1] in "\"'"):
            closing.append(_OPENING[character])
        elif character.isspace() and not closing:
            return position
    return len(text)


def make_options(owner: str, kind: type[Options], text: str) -> Options:
    """Return an instance of the dataclass `kind` with the options in `text` and defaults for the
    others.

    Fields are int, float, bool, str, a tuple of one of those (`tuple[int, ...]`), or such a type
    `| None` (the empty text is None). Raises PassOptionError, naming the pass `owner`.
    """
    known = {option_name(field): field for field in fields(kind)}  # type: ignore[arg-type]
    hints = get_type_hints(kind)
    values: dict[str, object] = {}
    for name, value in split_options(text):
        field = known.get(name)
        if field is None:
            there = ", ".join(known) or "none"
            raise PassOptionError(f"pass '{owner}' has no option '{name}'; it has {there}")
        try:
            values[field.name] = _convert(value, hints[field.name])
        except ValueError:
            raise PassOptionError(
                f"option '{name}' of pass '{owner}' must be {_describe(hints[field.name])}, "
                f"but it is '{value}'"
            ) from None
    return kind(**values)


def option_name(field: Field[Any]) -> str:
    """Return the option's name in a pipeline: `max_blocks` is `max-blocks`."""
    return field.name.replace("_", "-")


def copied(kind: type, names: Mapping[str, str]) -> list[tuple[str, Any, Any]]:
    """Return fields for :func:`dataclasses.make_dataclass`: those of the dataclass ``kind`` that
    are in ``names``, under the given names, with their types, defaults and help.
    """
    known = {f.name: f for f in fields(kind)}
    hints = get_type_hints(kind)
    return [
        (new, hints[old], field(default=known[old].default, metadata=known[old].metadata))
        for old, new in names.items()
    ]


def chip_field(what: str) -> tuple[str, Any, Any]:
    """Return the option `chip`; ``what`` says what it is for."""
    return ("chip", str, field(default=DEFAULT_CHIP, metadata={"help": what}))


def _convert(text: str, kind: Any) -> object:
    if get_origin(kind) in (Union, types.UnionType):
        (inner,) = (part for part in get_args(kind) if part is not type(None))
        return None if text == "" else _convert(text, inner)
    if get_origin(kind) is tuple:
        return tuple(_convert(part, get_args(kind)[0]) for part in text.split(",") if part)
    if kind is bool:
        if text.lower() not in ("true", "false", "1", "0"):
            raise ValueError(text)
        return text.lower() in ("true", "1")
    return kind(text)


def _describe(kind: Any) -> str:
    if get_origin(kind) is tuple:
        return f"a list of values that are {_describe(get_args(kind)[0])}"
    words = {int: "an integer", float: "a number", bool: "true or false", str: "a string"}
    return words.get(kind, str(kind))
