"""`mirage run --emulate` and `mirage optimize` on programs whose results are not computed by
kernels."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mirage.cli import main
from thorough import some_of

PROGRAMS = """
import torch

def input_and_sum(x, y):
    return x, x + y

def twice(x, y):
    z = x * y
    return z, z, z.t()

def views(x, y):
    return x.t(), y[1:]

def unread(x, y):
    return y * 2

def no_tensor(x, y):
    return x + y, None, 3

def nothing(x, y):
    return x[2:2] * 2, x[2:2].sum(0) + y

def wide(x, y):
    return x.double() * y

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.randn(6, 4))
    def forward(self, x, y):
        return x @ self.w, self.w, y

net = Net()
example_inputs = (torch.randn(4, 6), torch.randn(4, 6))
"""

MLIR = """
kernel.graph @g(%x: tensor<4x8xf32>, %y: tensor<3xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %z = kernel.unary exp %x : (tensor<4x8xf32>) -> tensor<4x8xf32>
  kernel.return %x, %z : tensor<4x8xf32>, tensor<4x8xf32>
}
"""

NAMES = ["input_and_sum", "twice", "views", "unread", "no_tensor", "nothing", "wide", "net"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("programs")
    (folder / "programs.py").write_text(PROGRAMS)
    (folder / "g.mlir").write_text(MLIR)
    return folder


def run_json(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, dict]:
    code = main([*map(str, arguments), "--json"])
    return code, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", some_of(NAMES, 4))
def test_run(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, data = run_json(capsys, "run", f"{folder / 'programs.py'}:{name}", "--emulate")
    assert code == 0
    assert data["outputs"]
    assert all(output["ok"] for output in data["outputs"])


def test_run_mlir(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, data = run_json(capsys, "run", folder / "g.mlir", "--emulate")
    assert code == 0
    assert [output["ok"] for output in data["outputs"]] == [True, True]


@pytest.mark.parametrize("name", ["input_and_sum", "views", "nothing"])
def test_optimize(
    name: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "out.mirage"
    program = f"{folder / 'programs.py'}:{name}"
    code, data = run_json(capsys, "optimize", program, "-o", target, "--candidates", "1")
    assert code == 0
    (artifact,) = data["artifacts"]  # all of it, views and results that are inputs included
    assert artifact["artifact"] == str(target)
    code, data = run_json(capsys, "run", target, "--emulate")
    assert code == 0
    assert data["outputs"]
