"""The places where functions begin and end in C and C++ sources, found without a compiler: the text
is formatted, and braces in comments and strings are not counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_NOT_CODE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'"""
    r"|^[ \t]*\#(?:\\\n|[^\n])*",
    re.DOTALL | re.MULTILINE,
)
_SCOPE = re.compile(
    r"(template\s*<.*?>\s*)?(namespace|class|struct|union|enum|extern)\b", re.DOTALL
)
_ACCESS = re.compile(r"^(?:\s*(?:public|private|protected)\s*:)+")


@dataclass(frozen=True)
class FunctionOfC:
    """A function with a body."""

    head: str  # the text before the body, on one line
    line: int
    lines: int


def functions_of_c(text: str) -> Iterator[FunctionOfC]:
    """Yield functions of namespaces and classes; definitions within another function count as part
    of it."""
    code = _NOT_CODE.sub(_blank, text)
    inside: list[str] = []  # the owner of each open brace
    start = 0  # where the current statement starts
    opened = (0, "")  # of the function that is open
    for found in re.finditer(r"[{};]", code):
        brace, at = found.group(), found.start()
        if brace == "{":
            head = _ACCESS.sub("", code[start:at])
            kind = "body" if "function" in inside else _kind(head.strip())
            if kind == "function":
                opened = (at - len(head.lstrip()), " ".join(head.split()))
            inside.append(kind)
        elif brace == "}" and inside and inside.pop() == "function":
            begin, head = opened
            first = text.count("\n", 0, begin) + 1
            yield FunctionOfC(head, first, text.count("\n", 0, at) + 2 - first)
        start = at + 1


def _blank(found: re.Match[str]) -> str:
    """Return equally many empty lines."""
    return re.sub(r"[^\n]", " ", found.group())


def _kind(head: str) -> str:
    """Return what a brace outside of functions opens."""
    if _SCOPE.match(head) and not head.endswith(")"):
        return "scope"
    plain = re.sub(r"operator\s*\W+\(", "operator(", head)
    while (shorter := re.sub(r"\([^()]*\)", "@", plain)) != plain:
        plain = shorter
    value = plain.find("=")  # of a variable; lambdas are functions
    return "function" if "@" in plain and (value < 0 or "[" in plain[value:]) else "body"
