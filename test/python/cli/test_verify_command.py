"""``mirage verify``: its five exit codes, the witness, and messages on bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from example_programs import graphs
from mirage.cli import main
from mirage.mlir_io import graph_to_text

SCALED = """
kernel.graph @{name}(%x: tensor<{type}>) -> tensor<{type}> {{
  %c = kernel.constant {factor} : tensor<f32>
  %y = kernel.binary mul %x, %c : (tensor<{type}>, tensor<f32>) -> tensor<{type}>
  kernel.return %y : tensor<{type}>
}}
"""
AS_IT_IS = """
kernel.graph @g(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = kernel.unary neg %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %z = kernel.unary neg %y : (tensor<4x8xf32>) -> tensor<4x8xf32>
  kernel.return %z : tensor<4x8xf32>
}
"""
BOTH_HALVES = """
kernel.graph @g(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %n = kernel.unary neg %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %a = kernel.unary gelu %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %b = kernel.unary gelu %n : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = kernel.binary sub %a, %b : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  kernel.return %y : tensor<4x8xf32>
}
"""
ALTERNATIVES = """
kernel.graph @g(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = kernel.alternatives(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32> {
  ^bb0(%a: tensor<4x8xf32>):
    %z = kernel.unary abs %a : (tensor<4x8xf32>) -> tensor<4x8xf32>
    kernel.yield %z : tensor<4x8xf32>
  }
  kernel.return %y : tensor<4x8xf32>
}
"""
TWO_OUTPUTS = """
kernel.graph @g(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {{
  %a = kernel.unary exp %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %b = kernel.unary neg %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  kernel.return %{first}, %{second} : tensor<4x8xf32>, tensor<4x8xf32>
}}
"""


def scaled(factor: str = "2.0", type: str = "4x8xf32", name: str = "g") -> str:
    return SCALED.format(factor=factor, type=type, name=name)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "two": scaled(),
        "other": scaled(factor="2.001"),
        "both": scaled() + scaled(name="h"),
        "as_it_is": AS_IT_IS,
        "both_halves": BOTH_HALVES,
        "ab": TWO_OUTPUTS.format(first="a", second="b"),
        "ba": TWO_OUTPUTS.format(first="b", second="a"),
        "wide": scaled(type="4x9xf32"),
        "half": scaled(type="4x8xf16"),
        "zero": scaled(type="0x8xf32"),
        "dynamic": scaled(type="?x8xf32"),
        "integers": scaled(type="4x8xi32"),
        "nan": scaled(factor="0x7FF8000000000000"),
        "cyclic": scaled().replace("mul %x, %c", "mul %y, %c"),
        "cut": scaled()[:-40],
        "alternatives": ALTERNATIVES,
        "empty": "",
        "module": "module {}\n",
    }.items():
        (tmp_path / f"{name}.mlir").write_text(text)
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main(["verify", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def run_json(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict[str, Any]]:
    code, out, _ = run(capsys, *arguments, "--json")
    return code, json.loads(out)


def test_equivalent_is_0(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    (folder / "twice.mlir").write_text(
        scaled().replace("mul %x, %c", "add %x, %x").replace("tensor<f32>)", "tensor<4x8xf32>)")
    )
    code, data = run_json(capsys, "two.mlir", "twice.mlir", "--seed", 1)
    assert code == 0
    assert data["kind"] == "proved"
    assert data["witness"] is None
    assert data["seed"] == "1"
    assert data["holds_for"]["inputs"] == [["a", "b"]]
    assert data["holds_for"]["free"]["a"] == {"given": 4, "at_least": 1}
    code, out, _ = run(capsys, "two.mlir", "twice.mlir")
    assert code == 0
    assert out.startswith("proved (for other sizes too)\n")
    assert "for all inputs of [a, b]" in out


def test_refuted_is_1_and_the_witness_can_be_run_again(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    code, data = run_json(capsys, "two.mlir", "other.mlir")
    assert code == 1
    assert data["kind"] == "refuted"
    witness = data["witness"]
    assert witness["output"] == 0
    assert len(witness["element"]) == 2
    assert witness["actual"] == pytest.approx(witness["expected"] * 2.001 / 2.0)
    again = run_json(capsys, "two.mlir", "other.mlir", "--seed", witness["seed"])
    assert again == (1, data)
    _, out, _ = run(capsys, "two.mlir", "other.mlir", "--seed", witness["seed"])
    assert f"seed {witness['seed']}" in out
    assert f"element {witness['element']}" in out


def test_unknown_is_3(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    """gelu(x) - gelu(-x) = x holds, but the verifier does not know it."""
    code, data = run_json(capsys, "as_it_is.mlir", "both_halves.mlir")
    assert any("identity" in want for want in data["needed"])
    assert "this would be needed" in run(capsys, "as_it_is.mlir", "both_halves.mlir")[1]
    assert code == 3
    assert data["kind"] == "unknown"
    assert run(capsys, "as_it_is.mlir", "both_halves.mlir")[1].startswith("unknown\n")


def test_one_graph_of_several_is_named(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    assert run(capsys, "two.mlir", "both.mlir:h")[0] == 0
    code, _, err = run(capsys, "two.mlir", "both.mlir:k")
    assert code == 2
    assert "expected one kernel.graph called 'k', got 'g', 'h'" in err


def test_outputs_in_another_order(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    assert run(capsys, "ab.mlir", "ba.mlir")[0] == 1
    code, data = run_json(capsys, "ab.mlir", "ba.mlir", "--permute")
    assert code == 0
    assert data["permutation"] == [1, 0]


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("missing.mlir", "missing.mlir: cannot be read"),
        ("cut.mlir", "cut.mlir:"),
        ("cyclic.mlir", "does not dominate this use"),
        ("empty.mlir", "expected one kernel.graph, got none"),
        ("module.mlir", "expected one kernel.graph, got none"),
        ("both.mlir", "expected one kernel.graph, got 'g', 'h'"),
        ("wide.mlir", "inputs: expected types ['4x8xf32'], got ['4x9xf32']"),
        ("half.mlir", "inputs: expected types ['4x8xf32'], got ['4x8xf16']"),
        ("ab.mlir", "outputs: expected types ['4x8xf32'], got ['4x8xf32', '4x8xf32']"),
        ("zero.mlir", "expected sizes of at least 1, got 0x8xf32"),
        ("dynamic.mlir", "static shape"),
        ("integers.mlir", "inputs: expected types ['4x8xf32'], got ['4x8xi32']"),
        ("nan.mlir", "expected a number, got NaN"),
        ("alternatives.mlir", "expected one program, got kernel.alternatives"),
    ],
)
def test_bad_input_is_2(
    capsys: pytest.CaptureFixture[str], folder: Path, file: str, message: str
) -> None:
    code, out, err = run(capsys, "two.mlir", file)
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert message in err
    assert "Traceback" not in err
    code, data = run_json(capsys, "two.mlir", file)
    assert code == 2
    assert message in data["error"]["message"]


def test_bad_options_are_2(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    code, _, err = run(capsys, "two.mlir", "two.mlir", "--draws", 0)
    assert code == 2
    assert "expected at least one draw, got 0" in err
    assert run(capsys, "two.mlir", "two.mlir", "--seed", "x")[0] == 2
    assert run(capsys, "two.mlir")[0] == 2


def test_kernels_written_by_hand(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    """Any two graphs with the same signature: tensor ops against a launch, a launch against
    another.
    """
    pair = graphs.rms_linear(4, 24, 10, blocks=2, steps=3)
    other = graphs.rms_linear(4, 24, 10, blocks=2, steps=3, eps=1e-3)
    texts = (pair.reference, pair.candidates["one_kernel"], other.candidates["one_kernel"])
    for name, graph in zip(("tensors", "kernel", "wrong"), texts, strict=True):
        Path(f"{name}.mlir").write_text(graph_to_text(graph))
    # x times its gain leaves f16 where the norm of it does not: equal, and not accepted
    code, out, _ = run(capsys, "tensors.mlir", "kernel.mlir")
    assert code == 4
    assert "not accepted: its rounding errors are too large" in out.splitlines()[0]
    code, data = run_json(capsys, "tensors.mlir", "kernel.mlir")
    assert (code, data["kind"], data["accepted"]) == (4, "proved", False)
    assert run(capsys, "tensors.mlir", "kernel.mlir", "--no-numerics")[0] == 0
    assert run(capsys, "kernel.mlir", "tensors.mlir")[0] == 0
    assert run(capsys, "tensors.mlir", "wrong.mlir")[0] == 1
    assert run(capsys, "kernel.mlir", "wrong.mlir")[0] == 1
