"""The command line: all forms of programs, exit codes, JSON, errors without tracebacks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from mirage.cli import main
from mirage.cli.main import COMMANDS
from mirage.runtime import write_artifact
from small_artifacts.small_artifact import small_artifact

PROGRAM = """
import torch
import mirage as mi

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(8, 4, dtype=torch.float16))
    def forward(self, x):
        return x @ self.w

net = Net()

def twice(x):
    return x * 2

def reversed_sum(x):
    return torch.special.i0e(x)

example_inputs = (torch.randn(2, 8, dtype=torch.float16),)

number = 3
"""

GRAPH = """
import mirage as mi

graph = mi.new_kernel_graph("g")
x = graph.new_input(dims=(4, 8), dtype=mi.float16)
graph.mark_output(graph.mul(x, {factor}))
"""

MLIR = """
kernel.graph @g(%x: tensor<4x8xf16>) -> tensor<4x8xf16> {{
  %c = kernel.constant {factor} : tensor<f16>
  %y = kernel.binary mul %x, %c : (tensor<4x8xf16>, tensor<f16>) -> tensor<4x8xf16>
  kernel.return %y : tensor<4x8xf16>
}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text(PROGRAM)
    (tmp_path / "two.py").write_text(GRAPH.format(factor="2.0"))
    (tmp_path / "two.mlir").write_text(MLIR.format(factor="2.000000e+00"))
    (tmp_path / "three.mlir").write_text(MLIR.format(factor="3.000000e+00"))
    return tmp_path


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main([str(a) for a in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def run_json(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict[str, Any]]:
    code, out, _ = run(capsys, *arguments, "--json")
    return code, json.loads(out)


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--help")
    assert code == 0
    for command in COMMANDS:
        assert f"\n    {command}" in out
        code, text, _ = run(capsys, command, "--help")
        assert code == 0
        assert "--json" in text


def test_usage_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys)[0] == 2
    assert run(capsys, "nonsense")[0] == 2
    assert run(capsys, "verify", "one")[0] == 2


def test_workloads(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "workloads", "gqa_bs1_")
    assert code == 0
    assert "gqa_bs1_kv4096" in out
    code, data = run_json(capsys, "workloads", "rms_mm6144_bs8")
    assert code == 0
    assert [w["name"] for w in data["workloads"]] == ["rms_mm6144_bs8"]
    assert run(capsys, "workloads", "nothing_like_that")[0] == 1


def test_doctor(capsys: pytest.CaptureFixture[str]) -> None:
    code, data = run_json(capsys, "doctor")
    parts = {p["part"]: p for p in data["parts"]}
    assert {"bindings", "passes", "torch", "torch-mlir", "ptxas", "driver", "GPU"} <= parts.keys()
    assert parts["bindings"]["ok"]
    assert parts["torch"]["ok"]
    assert code == (0 if data["ok"] else 1)


def test_verify_equivalent(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    code, data = run_json(capsys, "verify", folder / "two.py", folder / "two.mlir", "--seed", 1)
    assert code == 0
    assert data["kind"] in ("proved", "probable")
    code, out, _ = run(capsys, "verify", folder / "two.py:graph", folder / "two.mlir")
    assert code == 0
    assert out.startswith(("proved", "probable"))


def test_verify_refuted_has_a_witness(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    code, data = run_json(capsys, "verify", folder / "two.py", folder / "three.mlir")
    assert code == 1
    assert data["kind"] == "refuted"
    assert data["witness"]["element"]
    _, out, _ = run(capsys, "verify", folder / "two.py", folder / "three.mlir")
    assert "witness:" in out


def test_verify_torch_programs(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    assert run(capsys, "verify", folder / "net.py:net", folder / "net.py:net")[0] == 0
    code, _, err = run(capsys, "verify", folder / "net.py:net", folder / "net.py:twice")
    assert code == 2
    assert "the candidate has no 'w'" in err


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("net.py:nothing", "expected an object called 'nothing', got none; there are net"),
        ("net.py:number", "expected a torch.nn.Module, a function or a mirage graph, got int"),
        ("net.py:Net", "got the class Net"),
        ("net.py:reversed_sum", "special_i0e"),
        ("missing.py:f", "missing.py: cannot be read"),
        ("missing.mlir", "missing.mlir: cannot be read"),
        ("broken.py", "broken.py:3: the file fails: ZeroDivisionError"),
        ("syntax.py", "syntax.py:2: the file fails: SyntaxError"),
        ("broken.mlir", "broken.mlir:2"),
        ("empty.mlir", "expected one kernel.graph, got none"),
        ("none.py", "expected one module or graph in the file, got none"),
        (
            "no_inputs.py",
            "name one as no_inputs.py:NAME, which may be a function (f)",
        ),
        ("classes.py", "classes.py:NAME, which may be an object of a class (Net)"),
        ("no_inputs.py:f", "expected a tuple `example_inputs`"),
        ("binary.mlir", "cannot be read"),
        ("no_such_workload", "expected the name of a built-in workload"),
        (".", "expected a .py or .mlir file or the name of a workload"),
    ],
)
def test_bad_programs(
    capsys: pytest.CaptureFixture[str],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    spec: str,
    message: str,
) -> None:
    (folder / "broken.py").write_text("\nx = 0\ny = 1 / x\n")
    (folder / "syntax.py").write_text("x = 1\ny = = 2\n")
    (folder / "broken.mlir").write_text("kernel.graph @f() {\n  nonsense\n}\n")
    (folder / "empty.mlir").write_text("module {}\n")
    (folder / "none.py").write_text("x = 1\n")
    (folder / "classes.py").write_text(
        "from torch import nn\nclass Net(nn.Module):\n    def forward(self, x):\n        return x\n"
    )
    (folder / "no_inputs.py").write_text("def f(x):\n    return x\n")
    (folder / "binary.mlir").write_bytes(b"\xff\xfe\x00")
    monkeypatch.chdir(folder)
    code, _, err = run(capsys, "verify", spec, "two.mlir")
    assert code == 2
    assert err.startswith("error: ")
    assert message in err
    assert "Traceback" not in err
    code, data = run_json(capsys, "verify", spec, "two.mlir")
    assert code == 2
    assert message in data["error"]["message"]


@pytest.mark.parametrize(
    ("name", "text"), [("nowhere", "`log` gives no finite number"), ("huge", "1e+39")]
)
def test_programs_without_numbers(
    capsys: pytest.CaptureFixture[str],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    text: str,
) -> None:
    """Bad input, and nothing is written."""
    monkeypatch.chdir(folder)
    (folder / "bad.py").write_text(
        "import torch\ndef nowhere(x): return torch.log(-(x * x) - 1)\n"
        "def huge(x): return x * 1e39\nexample_inputs = (torch.randn(4, 8),)\n"
    )
    before = sorted(folder.iterdir())
    spec = f"bad.py:{name}"
    commands = [("optimize", spec), ("verify", spec, spec)]
    commands += [("export", spec)] if name == "nowhere" else []  # calls may stay with PyTorch there
    for arguments in commands:
        assert main([*arguments]) == 2
        error = capsys.readouterr().err
        assert text in error
        assert "bad.py:" in error
    assert [p for p in sorted(folder.iterdir()) if p.name != "__pycache__"] == before


def test_compile_needs_kernels(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    code, _, err = run(capsys, "compile", folder / "two.mlir")
    assert code == 2
    assert "expected kernels only, got the op" in err
    code, _, err = run(capsys, "compile", folder / "two.mlir", "--chip", "sm_10")
    assert code == 2


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    return write_artifact(small_artifact(), tmp_path / "twice.mirage")


TWICE = """
kernel.graph @g(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {{
  %y = kernel.binary {fn} %x, %x : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  kernel.return %y : tensor<8x8xf32>
}}
"""


def test_run_in_the_emulator(
    capsys: pytest.CaptureFixture[str], artifact: Path, tmp_path: Path
) -> None:
    right, wrong = tmp_path / "right.mlir", tmp_path / "wrong.mlir"
    right.write_text(TWICE.format(fn="add"))
    wrong.write_text(TWICE.format(fn="mul"))
    code, data = run_json(capsys, "run", artifact, "--emulate", "--stats", "--program", right)
    assert code == 0
    assert data["ok"]
    assert data["outputs"][0]["relative_error"] < 1e-6
    assert len(data["stats"]) == 2
    assert run(capsys, "run", artifact, "--emulate")[0] == 0
    code, out, _ = run(capsys, "run", artifact, "--emulate", "--program", wrong)
    assert code == 1
    assert "WRONG" in out


def test_run_with_bad_input(
    capsys: pytest.CaptureFixture[str], artifact: Path, folder: Path
) -> None:
    code, _, err = run(capsys, "run", folder / "nowhere")
    assert (code, "no such folder" in err) == (2, True)
    code, _, err = run(capsys, "run", artifact, "--stats")
    assert (code, "--emulate" in err) == (2, True)
    code, _, err = run(capsys, "run", artifact, "--emulate", "--program", folder / "two.mlir")
    assert (code, "as the artifact takes" in err) == (2, True)
    (artifact / "kernels.ptx").write_text("cut")
    code, _, err = run(capsys, "run", artifact, "--emulate")
    assert (code, "truncated or changed" in err) == (2, True)


def test_run_without_a_gpu(capsys: pytest.CaptureFixture[str], artifact: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    code, _, err = run(capsys, "run", artifact)
    assert code == 2
    assert "use --emulate" in err


def test_bugs_are_told_without_a_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise RuntimeError("boom")

    monkeypatch.delenv("MIRAGE_DEBUG", raising=False)
    monkeypatch.setattr("mirage.cli.commands.workloads.run", fail)
    code, _, err = run(capsys, "workloads")
    assert code == 70
    assert "internal error: RuntimeError: boom" in err
    assert "Traceback" not in err


def test_a_search_of_which_nothing_is_left_is_a_negative_result(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, _ = run(capsys, "search", "lora_m1", "--budget", "0.000001")
    assert code == 1
    assert "part 0 keeps its own ops: the budget of 1e-06 s is used up" in out
    assert "exhausted" not in out


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("optimize", "rms_norm", "--bugdet", "5"), "did you mean --budget?"),
        (("export", "model.py", "--dynamc", "x:0"), "did you mean --dynamic?"),
        (("cache", "list", "--jsn"), "did you mean --json?"),
        (("optimize", "rms_norm", "--frobnicate"), "unrecognized arguments: --frobnicate\n"),
    ],
)
def test_misspelled_options(
    words: tuple[str, ...], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 2
    assert hint in capsys.readouterr().err
