"""The passes in one PassManager together with C++ passes: forms, errors at their op, declared
options."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mirage import ir
from mirage.passes.registry import add_to, load
from mirage.passmanager import PassManager

ROOT = Path(__file__).parents[3]

REFERENCE = """
kernel.graph @f(%x: tensor<16x256xf16> {kernel.name = "x"}, %w: tensor<256x128xf16>)
    -> tensor<16x128xf16> attributes {form = #kernel.form<reference>} {
  %0 = kernel.rms_norm %x eps 1.0e-06 dims 1 : (tensor<16x256xf16>) -> tensor<16x256xf16>
  %1 = kernel.matmul %0, %w : (tensor<16x256xf16>, tensor<256x128xf16>) -> tensor<16x128xf16>
  kernel.return %1 : tensor<16x128xf16>
}
"""

WRONG = """
kernel.graph @f(%x: tensor<8xf32>) -> tensor<8xf32> attributes {form = #kernel.form<candidates>} {
  %y = kernel.alternatives(%x) : (tensor<8xf32>) -> tensor<8xf32> {
  ^bb0(%a: tensor<8xf32>):
    %0 = kernel.binary mul %a, %a : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    kernel.yield %0 : tensor<8xf32>
  }, {
  ^bb0(%a: tensor<8xf32>):
    %0 = kernel.unary square %a : (tensor<8xf32>) -> tensor<8xf32>
    kernel.yield %0 : tensor<8xf32>
  }, {
  ^bb0(%a: tensor<8xf32>):
    %0 = kernel.unary abs %a : (tensor<8xf32>) -> tensor<8xf32>
    kernel.yield %0 : tensor<8xf32>
  }
  kernel.return %y : tensor<8xf32>
}
"""


def run(text: str, *passes: tuple[str, dict[str, object]]) -> tuple[str, list[str]]:
    """Return the module after the passes, and the diagnostics."""
    said: list[str] = []
    with ir.Context() as context:

        def listen(diagnostic: ir.Diagnostic) -> bool:
            said.append(f"{diagnostic.severity.name.lower()}: {diagnostic.message}")
            return True

        context.attach_diagnostic_handler(listen)
        module = ir.Module.parse(text)
        manager = PassManager("builtin.module")
        for name, options in passes:
            if name.startswith("mirage-") and name != "mirage-decompose":
                add_to(manager, name, **options)
            else:
                manager.add(name)
        manager.run(module.operation)
        return str(module), said


SEARCH = ("mirage-search", {"max_candidates": 2})
VERIFY = ("mirage-verify", {"seed": 1})


def test_all_of_them_with_a_pass_of_cpp_between() -> None:
    text, said = run(
        REFERENCE,
        SEARCH,
        ("mirage-stabilize", {}),
        VERIFY,
        ("canonicalize", {}),
        ("mirage-select", {}),
    )
    assert "form = #kernel.form<selected>" in text
    assert "kernel.launch" in text
    assert "kernel.alternatives" not in text
    assert 'kernel.name = "x"' in text
    assert any(s.startswith("remark: search: 2 candidates, best ") for s in said)


def test_verified_alternatives_carry_verdicts() -> None:
    text, _ = run(REFERENCE, SEARCH, VERIFY)
    assert len(re.findall(r"#kernel.verdict<(?:proved|probable)", text)) == 2
    assert "form = #kernel.form<verified>" in text


def test_wrong_candidates_are_dropped_with_a_witness() -> None:
    text, said = run(WRONG, VERIFY)
    assert text.count("^bb0") == 2
    assert "kernel.unary square" in text
    assert "kernel.unary abs" not in text
    (warning,) = [s for s in said if s.startswith("warning")]
    assert "candidate 1 was dropped: refuted" in warning
    assert "witness: output 0, element" in warning


def test_where_no_candidate_is_left_the_pass_says_what_to_do() -> None:
    assert not [s for s in run(WRONG, VERIFY)[1] if "got none" in s]  # one is correct
    text, said = run(WRONG.replace("kernel.unary square", "kernel.unary neg"), VERIFY)
    assert text.count("^bb0") == 1
    (remedy,) = [s for s in said if "got none" in s]
    assert "`mirage optimize`" in remedy
    assert "mirage-shortlist candidates" in remedy


OUT_OF_ORDER = [
    ("mirage-verify", REFERENCE, "expected form 'candidates', got 'reference'"),
    ("mirage-select", WRONG, "expected form 'verified', got 'candidates'"),
    ("mirage-search", WRONG, "expected form none or 'reference', got 'candidates'"),
    ("mirage-stabilize", REFERENCE, "expected form none or 'candidates', got 'reference'"),
    ("mirage-skip-steps", REFERENCE, "expected form none or 'candidates', got 'reference'"),
]


@pytest.mark.parametrize(
    ("name", "text", "message"), OUT_OF_ORDER, ids=[c[0] for c in OUT_OF_ORDER]
)
def test_a_pass_that_is_run_too_early_says_which_form_is_missing(
    name: str, text: str, message: str
) -> None:
    with pytest.raises(ir.MLIRError) as caught:
        run(text, (name, {}))
    assert message in str(caught.value)


def test_unknown_chip_is_an_error() -> None:
    with pytest.raises(ir.MLIRError, match="expected a known chip"):
        run(REFERENCE, ("mirage-search", {"chip": "sm_1"}))


def test_bad_options_are_errors() -> None:
    for name, options in (
        ("mirage-search", {"max_candidates": 0}),
        ("mirage-verify", {"draws": 0}),
    ):
        with pytest.raises(ir.MLIRError, match="at least"):
            run(REFERENCE if name == "mirage-search" else WRONG, (name, options))


@pytest.mark.parametrize(
    "name",
    ["mirage-search", "mirage-verify", "mirage-select", "mirage-stabilize", "mirage-skip-steps"],
)
def test_summaries_are_those_of_the_declaration(name: str) -> None:
    declared = (ROOT / "include/mirage/PythonPasses/Passes.td").read_text()
    match = re.search(rf'Mirage_PythonPass<"{name}"> {{\s*let summary = "([^"]*)"', declared)
    assert match is not None
    assert load(name).summary == match[1]
