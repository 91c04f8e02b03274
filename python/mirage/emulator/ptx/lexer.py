"""Splits PTX text into tokens that know their line."""

from __future__ import annotations

import re
from functools import partial
from typing import NamedTuple

from mirage.emulator.errors import PtxSyntaxError, Site

# What is most frequent first; every character but space is matched by something.
_TOKEN = re.compile(
    r"""
    [ \t\r]*
    (?:
    (?P<name>[A-Za-z_$%.](?:[\w$.%]|::)*)
  | (?P<punct>[{}()\[\]<>,;:=|!@+\-*])
  | (?P<newline>\n)
  | (?P<number>0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?
      |\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+U?)
  | (?P<comment>//[^\n]*|/\*.*?\*/)
  | (?P<string>"[^"\n]*")
  | (?P<stray>[^ \t\r])
    )
    """,
    re.VERBOSE | re.DOTALL,
)


class Token(NamedTuple):
    """kind: string, number, name, punct or end."""

    kind: str
    text: str
    line: int


def tokenise(text: str) -> list[Token]:
    """Return all tokens except space and comments, and one `end`. Raises PtxSyntaxError at a stray
    byte."""
    tokens: list[Token] = []
    token = partial(tuple.__new__, Token)  # in half the time: they are most of what is parsed
    line = 1
    for found in _TOKEN.finditer(text):
        kind = found.lastgroup or ""
        if kind == "newline":
            line += 1
        elif kind == "comment":
            line += found[kind].count("\n")
        elif kind == "stray":
            source = text.splitlines()[line - 1].strip()
            raise PtxSyntaxError(
                f"expected a PTX token, got {found[kind]!r}", site=Site(line, source)
            )
        else:
            tokens.append(token((kind, found[kind], line)))
    tokens.append(Token("end", "", line))
    return tokens
