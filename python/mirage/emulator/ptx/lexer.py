"""Splits PTX text into tokens that know their line."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mirage.emulator.errors import PtxSyntaxError, Site

_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r]+)
  | (?P<newline>\n)
  | (?P<comment>//[^\n]*|/\*.*?\*/)
  | (?P<string>"[^"\n]*")
  | (?P<number>0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?
      |\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+U?)
  | (?P<name>[A-Za-z_$%.](?:[\w$.%]|::)*)
  | (?P<punct>[{}()\[\]<>,;:=|!@+\-*])
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Token:
    """kind: string, number, name, punct or end."""

    kind: str
    text: str
    line: int


def tokenise(text: str) -> list[Token]:
    """All tokens but space and comments, and one `end`. Raises PtxSyntaxError at a stray byte."""
    tokens: list[Token] = []
    position, line = 0, 1
    match = _TOKEN.match
    end = len(text)
    while position < end:
        found = match(text, position)
        if found is None:
            source = text.splitlines()[line - 1].strip()
            raise PtxSyntaxError(
                f"expected a PTX token, got {text[position]!r}", site=Site(line, source)
            )
        kind = found.lastgroup or ""
        if kind == "newline":
            line += 1
        elif kind == "comment":
            line += found.group().count("\n")
        elif kind != "space":
            tokens.append(Token(kind, found.group(), line))
        position = found.end()
    tokens.append(Token("end", "", line))
    return tokens
