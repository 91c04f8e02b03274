"""A docstring begins with its subject. One that begins in the middle of a sentence ("Of ...", "That
...", "The same ...") can only be understood after its neighbours, but tools show it alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[3] / "python/mirage"
FRAGMENT = re.compile(r"\s*(Of|That|Those|The same|All of them)\b")
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def texts(node: ast.AST) -> Iterator[ast.Constant]:
    """The docstrings in a body: its own, those of what it defines, and those below constants and
    fields."""
    body: list[ast.stmt] = getattr(node, "body", [])
    for before, each in zip((None, *body), body, strict=False):
        if isinstance(each, Documented):
            yield from texts(each)
        described = isinstance(before, ast.Assign | ast.AnnAssign | None)
        if described and isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant):
            yield each.value


def fragments(tree: ast.Module) -> list[tuple[int, str]]:
    """The lines on which docstrings begin in the middle of a sentence, and how they begin."""
    return [
        (text.lineno, text.value.split("\n")[0])
        for text in texts(tree)
        if isinstance(text.value, str) and FRAGMENT.match(text.value)
    ]


def test_docstrings_begin_with_what_they_are_about() -> None:
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {text}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, text in fragments(ast.parse(path.read_text()))
    ]
    assert not found, "name what the docstring is about"


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ('"""Of rows."""', [1]),
        ('def f():\n    """That of columns."""', [2]),
        ('class C:\n    """Rows."""\n\n    x: int\n    """The same in bytes."""', [5]),
        ('X = 1\n"""All of them."""\n', [2]),
        ('def f():\n    """Offsets. Those of rows come first."""', []),
        ('def f():\n    """Rows."""\n    return "Of rows"', []),
    ],
)
def test_what_begins_in_the_middle(code: str, lines: list[int]) -> None:
    assert [line for line, _ in fragments(ast.parse(code))] == lines
