"""Splits PTX text into tokens that know their line."""

from __future__ import annotations

import re
import string
from functools import partial
from typing import NamedTuple

from mirage.emulator.errors import PtxSyntaxError, Site

# The most frequent kinds come first; every character except space is matched.
_WORD = re.compile(
    r"""
    [ \t\r]*
    (
    [A-Za-z_$%.](?:[\w$.%]|::)*
  | [{}()\[\]<>,;:=|!@+\-*]
  | \n
  | 0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?
      |[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|[0-9]+U?
  | //[^\n]*|/\*.*?\*/
  | "[^"\n]*"
  | [^ \t\r]
    )
    """,
    re.VERBOSE | re.DOTALL,
)
_KINDS = {
    **dict.fromkeys(string.ascii_letters + "_$%.", "name"),
    **dict.fromkeys("{}()[]<>,;:=|!@+-*", "punct"),
    **dict.fromkeys(string.digits, "number"),
}
"""The kind of a word by its first character."""


class Token(NamedTuple):
    """kind: string, number, name, punct or end."""

    kind: str
    text: str
    line: int


def tokenise(text: str) -> list[Token]:
    """Return all tokens except space and comments, and one `end`. Raises PtxSyntaxError at a stray
    byte."""
    tokens: list[Token] = []
    token = partial(tuple.__new__, Token)  # in half the time: they are most of the text
    line = 1
    for word in _WORD.findall(text):
        kind = _KINDS.get(word[0])
        if kind is not None:
            tokens.append(token((kind, word, line)))
        elif word == "\n":
            line += 1
        elif word.startswith(("//", "/*")):
            line += word.count("\n")
        elif word[0] == '"' and len(word) > 1:
            tokens.append(token(("string", word, line)))
        else:
            source = text.splitlines()[line - 1].strip()
            raise PtxSyntaxError(f"expected a PTX token, got {word!r}", site=Site(line, source))
    tokens.append(Token("end", "", line))
    return tokens
