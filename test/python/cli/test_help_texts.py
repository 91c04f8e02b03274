"""A help text is written in one place: an option of two commands or two dataclasses copies it."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[3] / "python/mirage"


def help_texts(tree: ast.Module) -> Iterator[str]:
    """The texts that are given to ``help``, to the key ``"help"``, or to a field's ``_option``."""
    for node in ast.walk(tree):
        given: list[ast.expr] = []
        if isinstance(node, ast.Call):
            given += [k.value for k in node.keywords if k.arg == "help"]
            if isinstance(node.func, ast.Name) and node.func.id == "_option":
                given += node.args[1:2]
        elif isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            given += [v for k, v in pairs if isinstance(k, ast.Constant) and k.value == "help"]
        for each in given:
            if isinstance(each, ast.Constant) and isinstance(each.value, str):
                yield each.value


def test_help_texts_occur_once() -> None:
    texts = (path.read_text() for path in PACKAGE.rglob("*.py"))
    trees = (ast.parse(text) for text in texts if "help" in text or "_option(" in text)
    counts = Counter(text for tree in trees for text in help_texts(tree))
    assert len(counts) > 50
    assert [text for text, count in counts.items() if count > 1] == []


def test_all_forms_are_seen() -> None:
    text = """
parser.add_argument("--a", help="a")
x: int = field(default=1, metadata={"help": "b", "unset": "c"})
y: int = _option(1, "d", Matters.SEARCH)
z: int = _taken_over(Limits, "z")
"""
    assert sorted(help_texts(ast.parse(text))) == ["a", "b", "d"]
