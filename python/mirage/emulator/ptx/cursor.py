"""A position in the tokens of one module, through which all parts of the parser read."""

from __future__ import annotations

import struct

from mirage.emulator.errors import PtxSyntaxError, Site
from mirage.emulator.ptx.lexer import Token, tokenise


class Cursor:
    """The tokens, from the current one on, and the source location that `.loc` declared."""

    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()
        self._tokens = tokenise(text)
        self._at = 0
        self.token = self._tokens[0]
        """The current token."""
        self.files = _files(self._tokens)
        self.location: str | None = None

    @property
    def following(self) -> Token:
        """The token after the current one."""
        return self._tokens[self._at + 1]

    def site(self, line: int | None = None) -> Site:
        """Return a line (default: the current one) with its text and location."""
        line = self.token.line if line is None else line
        text = self._lines[line - 1].strip() if 0 < line <= len(self._lines) else ""
        return Site(line, text, self.location)

    def error(self, expected: str) -> PtxSyntaxError:
        """Return the error for the current token."""
        actual = repr(self.token.text) if self.token.kind != "end" else "the end of the text"
        return PtxSyntaxError(f"expected {expected}, got {actual}", site=self.site())

    def next(self) -> Token:
        """Return the current token and continue with the next."""
        token = self.token
        if token.kind != "end":
            self._at += 1
            self.token = self._tokens[self._at]
        return token

    def accept(self, text: str) -> bool:
        """Continue with the next token if the current one is `text`."""
        token = self.token
        if token.text != text or token.kind == "string":
            return False
        self._at += 1
        self.token = self._tokens[self._at]
        return True

    def expect(self, text: str) -> None:
        """Check that the current token is `text`, and continue with the next."""
        if not self.accept(text):
            raise self.error(repr(text))

    def name(self, what: str) -> str:
        """Return a name; in an error, `what` says what it names."""
        if self.token.kind != "name":
            raise self.error(what)
        return self.next().text

    def integer(self) -> int:
        """Return a signed integer."""
        negative = self.accept("-")
        if self.token.kind != "number":
            raise self.error("an integer")
        value = number(self.next().text)
        if isinstance(value, float):
            self.back()
            raise self.error("an integer")
        return -value if negative else value

    def skip_line(self) -> list[Token]:
        """Return the rest of the line."""
        line = self.token.line
        skipped: list[Token] = []
        while self.token.line == line and self.token.kind != "end":
            skipped.append(self.next())
        return skipped

    def back(self) -> None:
        """Go back by one token, so that an error names it."""
        self._at -= 1
        self.token = self._tokens[self._at]

    def skip_pragma(self) -> None:
        """Skip to the end of a .pragma."""
        while not self.accept(";"):
            self.next()


def _files(tokens: list[Token]) -> dict[int, str]:
    """Return the names of the files that `.loc` refers to; LLVM declares them after the kernels."""
    return {
        int(tokens[i + 1].text): tokens[i + 2].text.strip('"')
        for i, token in enumerate(tokens[:-2])
        if token.text == ".file" and tokens[i + 1].text.isdecimal()
    }


def number(text: str) -> int | float:
    """Return an integer or floating-point literal of PTX."""
    if text[:2] in ("0f", "0F"):
        return struct.unpack(">f", bytes.fromhex(text[2:]))[0]
    if text[:2] in ("0d", "0D"):
        return struct.unpack(">d", bytes.fromhex(text[2:]))[0]
    text = text.rstrip("U")
    if text[:2] in ("0x", "0X"):
        return int(text, 16)
    if text[:2] in ("0b", "0B"):
        return int(text, 2)
    if any(c in text for c in ".eE"):
        return float(text)
    if len(text) > 1 and text[0] == "0":
        return int(text, 8)
    return int(text)
