"""The explanations of an unknown verdict."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import mirage.verify
import pytest
from mirage.semantics.builder import Builder
from mirage.semantics.ops.op import TensorType, Value
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import KernelGraph
from mirage.verify.needed import is_known, needed
from mirage.verify.verdict import Evidence, Kind, Verdict

SAID = {
    "more than 2400000 products of terms": "within 2400000 products",
    "products of sums of 700 and 90 terms": "sums of 700 and 90 terms",
    "a product of sums of 70 and 9 exponentials": "sums of 70 and 9 exponentials",
    "3e+09 elements to compute, limit 4e+06; sizes 240 and 7 meet": "raise VerifyOptions.work",
    "63884 elements of work, limit 60000": "at most 60000 elements of work",
    "the small programs have 812345 elements, limit 400000": "at most 400000 elements",
    "12 indices of one axis interact, limit 8": "at most 8 indices",
    "sizes 48 and 32 meet": "48 and 32 cut one dimension",
    "digits of radix 5 and 16 meet": "5 and 16 cut one dimension",
    "a slice of a dimension of 96 starts at a multiple of 3": "dimension of 96",
    "900 tiles, limit 512": "at most 512 tiles",
    "no result within 2 s": "more time than 2 s",
    "the time was up before anything was decided": "more time: it was up",
    "the normal forms differ": "an identity that the normal forms do not know",
    "an output is undefined": "a divisor is 0",
    "expected the calls ['aten.sort'], got []": "['aten.sort'], not []",
    "compared with any numbers in place of conjunctions of bits": "masks that are constants",
    "proofs: no rule for Sort": "programs without Sort",
    "something that has no row": "another way than the a test",
}
EQUIVALENT = (
    "in order by their signs", "the reference has none of that argument", "all proved",
    "each on its own", "proved, error of the others",
)  # fmt: skip
"""The message about equivalent programs."""
REASONS = ("Irregular", "NoProof", "TooLarge", "TooMuchWork")


def verdict(*evidence: Evidence, kind: Kind = Kind.UNKNOWN) -> Verdict:
    return Verdict(kind, None, evidence, 0)


@pytest.mark.parametrize("text", SAID)
def test_each_reason_says_what_to_try(text: str) -> None:
    wants = needed(verdict(Evidence("a test", None, text)))
    assert any(SAID[text] in want for want in wants), wants
    assert needed(verdict(Evidence("a test", None, text), kind=Kind.PROVED)) == ()


@cache
def texts() -> tuple[tuple[str, str], ...]:
    """The places where the verifier says why an attempt does not apply, and its messages, with 7 in
    place of their parameters."""
    found: list[tuple[str, str]] = []
    for path in sorted(Path(mirage.verify.__file__).parent.rglob("*.py")):
        functions = [n for n in ast.walk(ast.parse(path.read_text())) if _is_function(n)]
        for node in (n for f in functions for n in _said_in(f)):
            parts = getattr(node, "values", [node])
            text = "".join(
                str(part.value) if isinstance(part, ast.Constant) else "7" for part in parts
            )
            found.append((f"{path.name}:{node.lineno}", text))
    return tuple(found)


def _is_function(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef)


def _said_in(function: ast.AST) -> Iterator[ast.Constant | ast.JoinedStr]:
    named: dict[str, list[ast.expr]] = {}
    nodes = list(ast.walk(function))
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            named.setdefault(node.targets[0].id, []).append(node.value)
    for node in nodes:
        if not isinstance(node, ast.Call):
            continue
        name, args = getattr(node.func, "id", ""), node.args
        fails = len(args) > 2 and getattr(args[1], "value", True) in (None, False)
        said = args[:1] if name in REASONS else args[2:3] if name == "Evidence" and fails else []
        for arg in said:
            for x in named.get(arg.id, []) if isinstance(arg, ast.Name) else [arg]:
                if isinstance(x, ast.JoinedStr) or isinstance(getattr(x, "value", None), str):
                    assert isinstance(x, ast.Constant | ast.JoinedStr)
                    yield x


def test_all_that_the_verifier_says_has_a_sentence_or_a_reason_to_have_none() -> None:
    assert len(texts()) > 40
    assert not [
        entry
        for entry in texts()
        if not is_known(entry[1]) and not any(text in entry[1] for text in EQUIVALENT)
    ]


def test_no_sentence_is_the_evidence_once_more() -> None:
    for place, text in texts():
        for want in needed(verdict(Evidence("a test", None, text))):
            assert not want.endswith(text), place
            options = set(re.findall(r"--\w+", want))
            assert options <= {"--seconds"}, place  # the options of the command


def test_pieces_are_named() -> None:
    why = [{"name": "proof", "holds": None, "text": "the normal forms differ"}]
    pieces = [
        {"computes": ["q"], "verdict": "proved", "rests_on": []},
        {"computes": ["scores"], "verdict": "unknown", "rests_on": why},
    ]
    text = "1 of 2 pieces are not shown"
    (want,) = needed(verdict(Evidence("kernel by kernel", None, text, {"pieces": pieces})))
    assert want.startswith("for what computes scores: an identity")


def test_there_is_always_something() -> None:
    assert needed(verdict())
    assert needed(verdict(Evidence("finite field at the real sizes", False, "1 draws")))


def program(*functions: UnaryFn | BinaryFn) -> KernelGraph:
    x, b = Value(TensorType((4, 8), DType.F32)), Builder()
    y = x
    for fn in functions:
        y = b.unary(fn, y) if isinstance(fn, UnaryFn) else b.binary(fn, y, x)
    return KernelGraph("f", (x,), tuple(b.ops), (y,))


def test_what_finite_fields_do_not_know_is_what_is_there() -> None:
    apart = Evidence("finite field at the real sizes", False, "1 draws, 0 redrawn, 100 %")
    (want,) = needed(verdict(apart), (program(UnaryFn.EXP, BinaryFn.MUL, UnaryFn.EXP),))
    assert "an identity of exponentials of what an exponential went into" in want
    (want,) = needed(verdict(apart), (program(UnaryFn.ABS), program(UnaryFn.SQRT)))
    assert "an identity of magnitudes and roots," in want
    (want,) = needed(verdict(apart), (program(UnaryFn.EXP), program(BinaryFn.ADD)))
    assert want.startswith("the same constants")
    positions = Evidence(
        "float64 with the positions as they are", None, "no difference on 2 random inputs"
    )
    (want,) = needed(verdict(apart, positions), (program(BinaryFn.ADD),))
    assert "what positions" in want
